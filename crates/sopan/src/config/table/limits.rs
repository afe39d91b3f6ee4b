//! What the API is, and what it allows.

use sopan_core::policy::{BURST_MAX, parse_duration};

use super::{ROW, set};
use crate::config::read::{count, decimal, switch, whole};
use crate::config::setting::{Group, Kind, Put, Rank, Section, Setting};

const BREAKER: Setting = Setting { section: Section::Breaker, ..ROW };

pub(super) const GROUP: Group = Group {
    heading: Some("What the API allows"),
    settings: &[
        Setting {
            key: "limits",
            flag: Some("rate"),
            fetch: true,
            kind: Kind::Limits,
            default: Some("10/s burst 20"),
            help: "A rate (10/s burst 20), a quota (5000 per 1h), or `unlimited`\n\n\
                   There may be several, and all are kept to. A rate without a burst, 10/s or 500/min or 0.5/s, is evenly \
                   spaced. Where the API states a burst, state it too; against one that allows none, add a `rate_margin` \
                   of 10%, since requests bunch up a little on the way.",
            why: "few APIs mind it, and whoever knows theirs writes it down",
            rank: Rank::Common,
            put: Put::Upstream(|u, text| u.put_limit(text)),
            ..ROW
        },
        Setting {
            key: "burst",
            flag: Some("burst"),
            in_file: false,
            fetch: true,
            kind: Kind::Count,
            help: "The burst of the one rate that does not say its own; alone it means 10/s\n\n\
                   So many may leave at once after a quiet time, less `headroom`.",
            rank: Rank::Common,
            put: Put::Upstream(|u, text| {
                u.burst = Some(whole(1..=u64::from(BURST_MAX))(text)?);
                Ok(())
            }),
            ..ROW
        },
        Setting {
            key: "headroom",
            flag: Some("headroom"),
            fetch: true,
            kind: Kind::Count,
            default: Some("1"),
            help: "How much of a burst of 2 or more is left unused, so that requests which bunch up on the way still fit",
            why: "one takes in as much jitter as a token lasts: 100 ms at 10/s",
            put: Put::Upstream(|u, text| set(&mut u.settings.lane.headroom, count(text))),
            ..ROW
        },
        Setting {
            key: "rate_margin",
            flag: Some("rate-margin"),
            fetch: true,
            kind: Kind::Percent,
            default: Some("0.1%"),
            help: "The share of every rate that is left unused, since two clocks never run alike\n\n\
                   Write 10% for an API that enforces its rate strictly and allows no burst.",
            why: "clocks differ by a twentieth of that at most, and nobody notices the rest",
            put: Put::Upstream(|u, text| set(&mut u.settings.lane.rate_margin, text.parse())),
            ..ROW
        },
        Setting {
            key: "max_hold",
            flag: Some("max-hold"),
            fetch: true,
            kind: Kind::Duration,
            default: Some("1h"),
            help: "The longest pause for which an answer of the API can stop everything; more than zero",
            why: "an epoch sent by mistake must not close the door for decades",
            put: Put::Upstream(|u, text| set(&mut u.settings.lane.max_hold, parse_duration(text))),
            ..ROW
        },
        Setting {
            key: "breaker",
            flag: Some("breaker"),
            fetch: true,
            kind: Kind::InlineSection,
            default: Some("on"),
            help: "Whether an API that is down is left alone for a while\n\n\
                   on, off, or on with settings such as failures=10,min_span=5s,open_for=10s; there are also share=0.5, \
                   attempts_min=20, window=10s and probes=1, and these are the defaults.",
            why: "asking an API that is down keeps it down, and clients waiting",
            put: Put::Upstream(|u, text| set(&mut u.settings.breaker.on, switch(text))),
            ..ROW
        },
        Setting {
            key: "failures",
            kind: Kind::Count,
            default: Some("10"),
            help: "It opens after so many failures in a row",
            why: "the retries of one request are four",
            put: Put::Upstream(|u, text| set(&mut u.settings.breaker.failures, count(text))),
            ..BREAKER
        },
        Setting {
            key: "min_span",
            kind: Kind::Duration,
            default: Some("5s"),
            help: "It never opens before its failures span as much",
            why: "the waits of one request's retries sum to 3.5 s, and must not be cut off",
            put: Put::Upstream(|u, text| set(&mut u.settings.breaker.min_span, parse_duration(text))),
            ..BREAKER
        },
        Setting {
            key: "share",
            kind: Kind::Number,
            default: Some("0.5"),
            help: "It also opens when that share of the attempts in `window` failed",
            why: "an API that fails every other time helps nobody",
            put: Put::Upstream(|u, text| set(&mut u.settings.breaker.share, decimal(text))),
            ..BREAKER
        },
        Setting {
            key: "attempts_min",
            kind: Kind::Count,
            default: Some("20"),
            help: "The fewest attempts in `window` of which a share is taken",
            why: "half of two says nothing",
            put: Put::Upstream(|u, text| set(&mut u.settings.breaker.attempts_min, count(text))),
            ..BREAKER
        },
        Setting {
            key: "window",
            kind: Kind::Duration,
            default: Some("10s"),
            help: "How far back the share looks; longer than `min_span`",
            why: "long enough for 20 attempts at 2/s",
            put: Put::Upstream(|u, text| set(&mut u.settings.breaker.window, parse_duration(text))),
            ..BREAKER
        },
        Setting {
            key: "open_for",
            kind: Kind::Duration,
            default: Some("10s"),
            help: "How long it stays open before it lets a probe out",
            why: "a restart takes about that long",
            put: Put::Upstream(|u, text| set(&mut u.settings.breaker.open_for, parse_duration(text))),
            ..BREAKER
        },
        Setting {
            key: "probes",
            kind: Kind::Count,
            default: Some("1"),
            help: "Requests that may try at once whether the API is back",
            why: "one is enough to know",
            put: Put::Upstream(|u, text| set(&mut u.settings.breaker.probes, count(text))),
            ..BREAKER
        },
    ],
};
