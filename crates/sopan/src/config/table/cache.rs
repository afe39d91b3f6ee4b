//! What is answered without asking the API.

use sopan_core::policy::parse_duration;

use super::{ROW, set};
use crate::config::draft::REVALIDATE;
use crate::config::read::{directory, one_of, or_word, room, room_on_disk, size, switch};
use crate::config::setting::{Group, Kind, Put, Rank, Section, Setting};

const CACHE: Setting = Setting { section: Section::Cache, ..ROW };
const STORE: Setting = Setting { section: Section::Program, ..ROW };

pub(super) const GROUP: Group = Group {
    heading: Some("Cache"),
    settings: &[
        Setting {
            key: "cache",
            flag: Some("cache"),
            kind: Kind::Section,
            default: Some("on"),
            help: "Whether answers that the API lets be stored are given again\n\n\
                   By RFC 9111. What comes from the store takes no token and does not wait. An answer to a request with a \
                   secret, such as Authorization or a cookie, is only for requests with the same one, unless the API says \
                   that it is for all.",
            why: "it keeps to what the API says of its answers, and each that is given again is one request less",
            put: Put::Upstream(|u, text| set(&mut u.cache.on, switch(text))),
            ..ROW
        },
        Setting {
            key: "default_ttl",
            flag: Some("default-ttl"),
            kind: Kind::DurationOr("none"),
            default: Some("none"),
            help: "How long answers are fresh that do not say so\n\n\
                   It counts for successful answers to a GET that give neither a lifetime nor no-store and its like. Until \
                   it is over, what has changed there is not seen here, unless it was changed through sopan and under the \
                   same URL; and what differs by a field such as Accept, without a Vary that says so, is not told apart. \
                   With `none`, what has a Last-Modified is fresh for a tenth of the time since, and the rest is asked for \
                   again.",
            why: "only you know how old an answer of yours may be",
            rank: Rank::Common,
            put: Put::Upstream(|u, text| set(&mut u.cache.default_ttl, or_word("none", parse_duration)(text))),
            ..CACHE
        },
        Setting {
            key: "store_set_cookie",
            flag: Some("store-set-cookie"),
            kind: Kind::Switch,
            default: Some("off"),
            help: "Whether an answer with Set-Cookie is stored, and the cookie given to whoever asks later",
            why: "one client's session is no business of another's",
            put: Put::Upstream(|u, text| set(&mut u.cache.store_set_cookie, switch(text))),
            ..CACHE
        },
        Setting {
            key: "targeted",
            flag: Some("cache-targeted"),
            kind: Kind::Fields,
            default: Some("sopan-cache-control, cdn-cache-control"),
            help: "Fields of answers that take the place of Cache-Control and Expires here, or `none`\n\n\
                   The first one that is there and can be read counts (RFC 9213). They are passed on unchanged.",
            why: "the first is for nobody but sopan, the second for every cache that a server has in front of it",
            put: Put::Upstream(|u, text| u.put_targeted(text)),
            ..CACHE
        },
        Setting {
            key: "revalidate",
            flag: Some("revalidate"),
            kind: Kind::OneOf(&["stale", "always"]),
            default: Some("stale"),
            help: "When the API is asked whether a stored answer is still good: when it is stale, or each time\n\n\
                   With always every request for an answer that has an ETag or a Last-Modified goes to the API, and takes \
                   a token; such an answer is never out of date, and 304 is short. One that has neither is given for as \
                   long as it is fresh, since to ask for it costs as much as it did first; so is one that is immutable. \
                   For APIs that do not count a 304.",
            why: "a fresh answer is what the API said may be used",
            put: Put::Upstream(|u, text| set(&mut u.cache.revalidate, one_of(REVALIDATE)(text))),
            ..CACHE
        },
        Setting {
            key: "stale_if_error",
            flag: Some("stale-if-error"),
            kind: Kind::Duration,
            default: Some("0s"),
            help: "How long after its lifetime an answer is given when the API fails, or no token is there in time\n\n\
                   To fail is to answer 500, 502, 503 or 504. What an answer says of this itself is heeded.",
            why: "RFC 5861 leaves it to who made the answer",
            put: Put::Upstream(|u, text| set(&mut u.cache.stale_if_error, parse_duration(text))),
            ..CACHE
        },
        Setting {
            key: "stale_max",
            flag: Some("stale-max"),
            kind: Kind::Duration,
            default: Some("1d"),
            help: "The longest that any answer is given after its lifetime; 0s never\n\n\
                   Also how long one is given while the API cannot be reached or the breaker is open, unless the answer \
                   forbids it.",
            why: "yesterday's answer is better than none, and last week's may not be",
            put: Put::Upstream(|u, text| set(&mut u.cache.stale_max, parse_duration(text))),
            ..CACHE
        },
        Setting {
            key: "entry_bytes_max",
            flag: Some("cache-entry-bytes-max"),
            kind: Kind::Size,
            default: Some("8MiB"),
            help: "The largest body that is stored",
            why: "few answers are larger, and one takes a sixteenth of the memory at most",
            put: Put::Upstream(|u, text| set(&mut u.cache.entry_bytes_max, size(text))),
            ..CACHE
        },
        Setting {
            key: "paths",
            flag: Some("cache-path"),
            kind: Kind::PathRules,
            help: "What holds for a path and all below it: '/live bypass', '/list default-ttl 1d', '/feed revalidate always'\n\n\
                   May be given several times; the longest path counts. Paths are as clients ask for them, with their \
                   route. bypass: the cache has no part in those requests.",
            put: Put::Upstream(|u, text| u.put_path(text)),
            ..CACHE
        },
        Setting {
            key: "cache_size",
            flag: Some("cache-size"),
            kind: Kind::Size,
            default: Some("256MiB"),
            help: "Memory for stored answers, of all APIs together",
            why: "a bound that a small machine bears",
            put: Put::Program(|p, text| set(&mut p.cache_size, room(text))),
            ..STORE
        },
        Setting {
            key: "cache_dir",
            fetch: true,
            flag: Some("cache-dir"),
            kind: Kind::Directory,
            help: "Where answers are stored too, so that they outlive the program, and large ones find room\n\n\
                   It belongs to one process, and others of this machine cannot read it. Without it all is forgotten when \
                   the program ends.",
            put: Put::Program(|p, text| {
                p.cache_dir = Some(directory(text)?);
                Ok(())
            }),
            ..STORE
        },
        Setting {
            key: "cache_disk_size",
            flag: Some("cache-disk-size"),
            kind: Kind::Size,
            default: Some("1GiB"),
            help: "The most that is kept in `cache_dir`",
            why: "four times what is in memory",
            put: Put::Program(|p, text| set(&mut p.cache_disk_size, room_on_disk(text))),
            ..STORE
        },
    ],
};
