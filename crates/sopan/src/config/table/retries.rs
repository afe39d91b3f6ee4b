//! What is tried again, and how long it may take.

use sopan_core::policy::parse_duration;

use super::{ROW, set};
use crate::config::draft::{JITTER_KINDS, ON_LONG, READERS};
use crate::config::read::{count, decimal, one_of, or_word, size, switch};
use crate::config::setting::{Group, Kind, Put, Rank, Section, Setting};

const RETRY: Setting = Setting { section: Section::Retry, fetch: true, ..ROW };

pub(super) const GROUP: Group = Group {
    heading: Some("Retries"),
    settings: &[
        Setting {
            key: "retry",
            kind: Kind::Section,
            default: Some("on"),
            help: "Whether anything is tried again; off means `max_retries` 0",
            why: "a 429 that was waited for is no failure",
            put: Put::Upstream(|u, text| set(&mut u.retries, switch(text))),
            ..ROW
        },
        Setting {
            key: "max_retries",
            flag: Some("max-retries"),
            kind: Kind::Count,
            default: Some("3"),
            help: "Retries after the first attempt",
            why: "what fails four times in 3 to 4 s is no hiccup",
            rank: Rank::Common,
            put: Put::Upstream(|u, text| set(&mut u.settings.retry.max_retries, count(text))),
            ..RETRY
        },
        Setting {
            key: "backoff_base",
            flag: Some("backoff-base"),
            kind: Kind::Duration,
            default: Some("500ms"),
            help: "The first wait, doubled for every retry",
            why: "sooner than that most failures last still",
            put: Put::Upstream(|u, text| set(&mut u.settings.retry.backoff_base, parse_duration(text))),
            ..RETRY
        },
        Setting {
            key: "backoff_cap",
            flag: Some("backoff-cap"),
            kind: Kind::Duration,
            default: Some("30s"),
            help: "The upper bound of that wait, before its jitter",
            why: "a longer one outlasts the patience of clients",
            put: Put::Upstream(|u, text| set(&mut u.settings.retry.backoff_cap, parse_duration(text))),
            ..RETRY
        },
        Setting {
            key: "jitter",
            flag: Some("jitter"),
            kind: Kind::Number,
            default: Some("0.25"),
            help: "The fraction of the wait that chance adds or takes off at most, 0 to 1",
            why: "many clients that failed together should not come back together",
            put: Put::Upstream(|u, text| set(&mut u.settings.retry.jitter, decimal(text))),
            ..RETRY
        },
        Setting {
            key: "jitter_kind",
            flag: Some("jitter-kind"),
            kind: Kind::OneOf(&["fraction", "full", "decorrelated"]),
            default: Some("fraction"),
            help: "How chance enters the wait: around it, anywhere below it, or growing from wait to wait",
            why: "a wait near the one that was meant can be foretold",
            put: Put::Upstream(|u, text| set(&mut u.settings.retry.jitter_kind, one_of(JITTER_KINDS)(text))),
            ..RETRY
        },
        Setting {
            key: "max_retry_after",
            flag: Some("max-retry-after"),
            kind: Kind::Duration,
            default: Some("60s"),
            help: "The longest Retry-After that a request waits for\n\n\
                   Others wait as long as it says all the same, up to `max_hold`.",
            why: "whoever waits longer had better be told",
            rank: Rank::Common,
            put: Put::Upstream(|u, text| set(&mut u.settings.retry.max_retry_after, parse_duration(text))),
            ..RETRY
        },
        Setting {
            key: "on_long_retry_after",
            flag: Some("on-long-retry-after"),
            kind: Kind::OneOf(&["give-up", "cap"]),
            default: Some("give-up"),
            help: "What a longer one means: the answer goes to the caller at once, or wait `max_retry_after` and ask again",
            why: "asking earlier than told is impolite",
            put: Put::Upstream(|u, text| set(&mut u.settings.retry.on_long_retry_after, one_of(ON_LONG)(text))),
            ..RETRY
        },
        Setting {
            key: "min_wait",
            flag: Some("min-wait"),
            kind: Kind::Duration,
            default: Some("1s"),
            help: "The floor under a Retry-After of exactly zero",
            why: "\"at once\" must not become a loop",
            put: Put::Upstream(|u, text| set(&mut u.settings.retry.min_wait, parse_duration(text))),
            ..RETRY
        },
        Setting {
            key: "default_wait",
            flag: Some("default-wait"),
            kind: Kind::DurationOr("none"),
            default: Some("none"),
            help: "The wait after a 429 or 503 without a usable Retry-After; `none` means the backoff",
            why: "nobody knows how long an API means that does not say",
            put: Put::Upstream(|u, text| {
                set(&mut u.settings.retry.default_wait, or_word("none", parse_duration)(text))
            }),
            ..RETRY
        },
        Setting {
            key: "retry_after_jitter",
            flag: Some("retry-after-jitter"),
            kind: Kind::Duration,
            default: Some("0s"),
            help: "The upper bound of a random addition to the wait of a Retry-After",
            why: "behind one sopan all wait in one line anyway; several machines may want some",
            put: Put::Upstream(|u, text| set(&mut u.settings.retry.retry_after_jitter, parse_duration(text))),
            ..RETRY
        },
        Setting {
            key: "retry_after_reader",
            flag: Some("retry-after-reader"),
            kind: Kind::OneOf(&["lenient", "strict"]),
            default: Some("lenient"),
            help: "How Retry-After is read: as senders write it, or as RFC 9110 does, to the letter\n\n\
                   Lenient also takes decimals and dates that end in UTC or +0000, and measures a date by the sender's \
                   own clock.",
            why: "a wait that is understood is better than one that is guessed",
            put: Put::Upstream(|u, text| set(&mut u.settings.retry.reader, one_of(READERS)(text))),
            ..RETRY
        },
        Setting {
            key: "total_timeout",
            flag: Some("total-timeout"),
            fetch: true,
            kind: Kind::DurationOr("unlimited"),
            default: Some("120s"),
            help: "From the arrival to the head of the answer, all waits included",
            why: "room for a wait of 60 s and two attempts",
            rank: Rank::Common,
            put: Put::Upstream(|u, text| {
                set(&mut u.settings.retry.total_timeout, or_word("unlimited", parse_duration)(text))
            }),
            ..ROW
        },
        Setting {
            key: "attempt_timeout",
            flag: Some("attempt-timeout"),
            fetch: true,
            kind: Kind::Duration,
            default: Some("60s"),
            help: "From the start of one attempt to its response head",
            why: "slow answers of APIs that think take as long; bodies may take longer",
            put: Put::Upstream(|u, text| set(&mut u.settings.retry.attempt_timeout, parse_duration(text))),
            ..ROW
        },
        Setting {
            key: "retry_budget",
            flag: Some("retry-budget"),
            kind: Kind::Switch,
            default: Some("on"),
            help: "Whether retries after failures are bounded: in 10 s at most 100 and 20 % of the requests",
            why: "retries of everybody at once keep an API down",
            put: Put::Upstream(|u, text| set(&mut u.settings.retry.retry_budget, switch(text))),
            ..RETRY
        },
        Setting {
            key: "retry_on",
            flag: Some("retry-on"),
            kind: Kind::Statuses,
            help: "Statuses (400 to 599) to retry beside 408, 429, 500, 502, 503 and 504",
            put: Put::Upstream(|u, text| u.put_status(text)),
            ..RETRY
        },
        Setting {
            key: "replay_bytes_max",
            flag: Some("replay-bytes-max"),
            fetch: false,
            kind: Kind::Size,
            default: Some("1MiB"),
            help: "The longest request body that is kept for sending it again; a longer one streams",
            why: "what programs post is rarely larger",
            put: Put::Upstream(|u, text| set(&mut u.settings.retry.replay_bytes_max, size(text))),
            ..RETRY
        },
        Setting {
            key: "replay_bytes_total",
            flag: Some("replay-bytes-total"),
            fetch: false,
            kind: Kind::Size,
            default: Some("256MiB"),
            help: "What is kept of all request bodies together",
            why: "a bound that a small machine bears",
            put: Put::Upstream(|u, text| set(&mut u.settings.retry.replay_bytes_total, size(text))),
            ..RETRY
        },
    ],
};
