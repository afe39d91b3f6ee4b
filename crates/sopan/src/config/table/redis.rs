//! What instances of sopan in front of one API share, and what each does when it cannot.

use std::time::Duration;

use sopan_core::share::GRACE_MIN;

use super::{ROW, set};
use crate::config::read::{file, one_of, switch, whole};
use crate::config::setting::{Group, Kind, Put, Section, Setting};
use crate::config::shared::{ON_STORE_FAILURE, answer_size, prefix, within};

const REDIS: Setting = Setting { section: Section::Redis, ..ROW };

/// An answer that takes longer than this is not waited for, and one that must be there sooner hardly ever is.
const TIMEOUT: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));
/// Longer than it takes to notice that one is gone, and not so long that its share is lost for ever.
const GRACE: (Duration, Duration) = (GRACE_MIN, Duration::from_secs(3600));
/// More than one Redis can serve.
const INSTANCES_MAX: u64 = 100_000;

pub(super) const GROUP: Group = Group {
    heading: Some("Several instances"),
    settings: &[
        Setting {
            key: "url",
            flag: Some("redis"),
            kind: Kind::RedisUrl,
            help: "The Redis or Valkey through which instances share their limits: redis://127.0.0.1:6379\n\n\
                   With a user and a password as redis://USER:PASSWORD@HOST, over TLS as rediss://HOST. Sentinels are named \
                   as redis-sentinel://HOST,HOST/MASTER, nodes of a Cluster as redis-cluster://HOST,HOST. What is secret in \
                   it is never shown. Without it each instance keeps the whole limit.",
            put: Put::Program(|p, text| set(&mut p.shared.url, text.parse().map(Some))),
            ..REDIS
        },
        Setting {
            key: "ca_file",
            flag: None,
            kind: Kind::File,
            help: "A PEM file of the authorities that vouch for it over TLS, in place of the system's",
            put: Put::Program(|p, text| set(&mut p.shared.ca_file, file(text).map(Some))),
            ..REDIS
        },
        Setting {
            key: "prefix",
            flag: None,
            kind: Kind::Word,
            default: Some("sopan"),
            help: "How all its keys and channels begin\n\n\
                   Instances that share a limit have the same, and the same name and URL for the upstream.",
            why: "one group of instances is enough for most",
            put: Put::Program(|p, text| set(&mut p.shared.prefix, prefix(text))),
            ..REDIS
        },
        Setting {
            key: "timeout",
            flag: None,
            kind: Kind::Duration,
            default: Some("100ms"),
            help: "The longest that it may take to answer; then the instance goes on without it\n\n\
                   5ms to 500ms.",
            why: "no request waits for it, and a network of its own answers within a few milliseconds",
            put: Put::Program(|p, text| set(&mut p.shared.timeout, within(TIMEOUT.0, TIMEOUT.1)(text))),
            ..REDIS
        },
        Setting {
            key: "instances",
            flag: Some("instances"),
            kind: Kind::Count,
            help: "How many instances there are at most: what each keeps to without Redis is its part of that\n\n\
                   Without it, the number that was there last counts, and one that has never reached Redis takes itself for \
                   the only one.",
            put: Put::Program(|p, text| {
                let instances = whole(1..=INSTANCES_MAX)(text)?;
                p.shared.instances = u32::try_from(instances).ok();
                Ok(())
            }),
            ..REDIS
        },
        Setting {
            key: "grace",
            flag: None,
            kind: Kind::Duration,
            default: Some("10s"),
            help: "How long an instance that is not heard of keeps its share, and one that does not hear of the others keeps \
                   to it\n\n\
                   2s to 1h. Then `on_store_failure` says what it does.",
            why: "a restart of Redis, or a failover, takes less",
            put: Put::Program(|p, text| set(&mut p.shared.grace, within(GRACE.0, GRACE.1)(text))),
            ..REDIS
        },
        Setting {
            key: "on_store_failure",
            flag: None,
            kind: Kind::OneOf(&["share", "refuse", "ignore"]),
            default: Some("share"),
            help: "What an instance does that has not reached Redis for `grace`: keep to its share, refuse requests, or ignore \
                   the others and take the whole limit",
            why: "the limit is kept, and no request fails because of Redis",
            put: Put::Program(|p, text| set(&mut p.shared.on_store_failure, one_of(ON_STORE_FAILURE)(text))),
            ..REDIS
        },
        Setting {
            key: "cache",
            flag: None,
            kind: Kind::Switch,
            default: Some("on"),
            help: "Whether stored answers are shared, too: what one instance has stored is given by all, and what is made untrue \
                   at one is dropped by all\n\n\
                   Whoever may write to that Redis can change what is answered. Upstreams whose `cache` is off take no part.",
            why: "an answer that another instance has is one request less",
            put: Put::Program(|p, text| set(&mut p.shared.cache, switch(text))),
            ..REDIS
        },
        Setting {
            key: "cache_entry_max",
            flag: None,
            kind: Kind::Size,
            default: Some("1MiB"),
            help: "The largest body of a stored answer that is shared\n\n1KiB to 16MiB.",
            why: "what is larger takes too long to be fetched within `timeout`",
            put: Put::Program(|p, text| set(&mut p.shared.cache_entry_max, answer_size(text))),
            ..REDIS
        },
    ],
};
