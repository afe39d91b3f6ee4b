//! Waiting for a turn.

use sopan_core::policy::parse_duration;

use super::{ROW, set};
use crate::config::read::{client_by, count, or_word, size};
use crate::config::setting::{Group, Kind, Put, Rank, Section, Setting};

const QUEUE: Setting = Setting { section: Section::Queue, ..ROW };

pub(super) const GROUP: Group = Group {
    heading: Some("Waiting"),
    settings: &[
        Setting {
            key: "max_in_flight",
            flag: Some("max-in-flight"),
            kind: Kind::CountOr("unlimited"),
            default: Some("unlimited"),
            help: "Requests under way at once, or `unlimited`",
            why: "most APIs count requests, and not how many are open",
            put: Put::Upstream(|u, text| set(&mut u.settings.lane.max_in_flight, or_word("unlimited", count)(text))),
            ..ROW
        },
        Setting {
            key: "waiting_max",
            flag: Some("waiting-max"),
            kind: Kind::Count,
            default: Some("1000"),
            help: "Requests that wait for their turn at once; more are refused with 503",
            why: "at 10/s the last of them would wait 100 s, and `wait_max` refuses it before",
            put: Put::Upstream(|u, text| set(&mut u.settings.lane.waiting_max, count(text))),
            ..QUEUE
        },
        Setting {
            key: "queue_bytes_max",
            flag: Some("queue-bytes-max"),
            kind: Kind::Size,
            default: Some("64MiB"),
            help: "What waiting requests hold together, heads and bodies",
            why: "64 KiB for each of a thousand",
            put: Put::Upstream(|u, text| set(&mut u.settings.lane.queue_bytes_max, size(text))),
            ..QUEUE
        },
        Setting {
            key: "wait_max",
            flag: Some("wait-max"),
            kind: Kind::DurationOr("unlimited"),
            default: Some("30s"),
            help: "The longest wait for a turn; longer ones are refused at once, with 503",
            why: "most clients give up after 30 to 60 s",
            rank: Rank::Common,
            put: Put::Upstream(|u, text| {
                set(&mut u.settings.lane.wait_max, or_word("unlimited", parse_duration)(text))
            }),
            ..QUEUE
        },
        Setting {
            key: "client_by",
            flag: Some("client-by"),
            kind: Kind::ClientBy,
            default: Some("ip"),
            help: "Between whom turns are shared fairly\n\n\
                   By address, by connection, or by the value of a field; requests without that field are told apart by \
                   address.",
            why: "a program that opens a hundred connections gets no more than one that opens two",
            rank: Rank::Common,
            put: Put::Upstream(|u, text| set(&mut u.client_by, client_by(text))),
            ..QUEUE
        },
    ],
};
