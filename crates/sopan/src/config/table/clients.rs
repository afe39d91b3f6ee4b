//! Who may ask.

use sopan_core::policy::Limit;
use sopan_core::queue::WEIGHT_MAX;

use super::{ROW, set};
use crate::config::read::{digest, end, key_field, method, prefix, upstream_name, whole};
use crate::config::setting::{Group, Kind, Put, Section, Setting};

const CLIENT: Setting = Setting { section: Section::Client, ..ROW };

pub(super) const GROUP: Group = Group {
    heading: Some("Clients"),
    settings: &[
        Setting {
            key: "key_fields",
            section: Section::Program,
            kind: Kind::KeyFields,
            default: Some("authorization, proxy-authorization, x-api-key"),
            help: "Where the keys of clients are looked for, if there are any\n\n\
                   In the first two as Bearer. A field that carries a key is taken off before the request goes on; one that \
                   carries something else is the client's own, and goes to the API.",
            why: "one of them suits every program",
            put: Put::Program(|p, text| key_field(text, &mut p.key_fields)),
            ..ROW
        },
        Setting {
            key: "key_sha256",
            kind: Kind::Digests,
            help: "What the client's key is known by, its SHA-256; `sopan keys new` makes a key and prints this\n\n\
                   While a new key takes the place of an old one there may be two.",
            put: Put::Client(|c, text| {
                c.keys.push(digest(text)?);
                Ok(())
            }),
            ..CLIENT
        },
        Setting {
            key: "weight",
            kind: Kind::Count,
            default: Some("1"),
            help: "Its share of the turns against other clients that wait",
            why: "all are alike, unless somebody says otherwise",
            put: Put::Client(|c, text| {
                let weight = whole(1..=WEIGHT_MAX.into())(text)?;
                set(&mut c.weight, u32::try_from(weight))
            }),
            ..CLIENT
        },
        Setting {
            key: "limits",
            kind: Kind::Limits,
            help: "What it may use at most of each upstream, within the limits of that",
            put: Put::Client(|c, text| {
                if text != "unlimited" {
                    c.limits.push(text.parse::<Limit>().map_err(|error| error.to_string())?);
                }
                Ok(())
            }),
            ..CLIENT
        },
        Setting {
            key: "upstreams",
            kind: Kind::Upstreams,
            help: "Which upstreams it may ask; without it all of them",
            put: Put::Client(|c, text| {
                c.upstreams.get_or_insert_default().push(upstream_name(text)?);
                Ok(())
            }),
            ..CLIENT
        },
        Setting {
            key: "methods",
            kind: Kind::Methods,
            help: "Which methods it may use; without it all of them\n\n\
                   HEAD is one of its own. A request that names another method in a field (X-HTTP-Method-Override) is refused.",
            put: Put::Client(|c, text| {
                c.methods.get_or_insert_default().push(method(text)?);
                Ok(())
            }),
            ..CLIENT
        },
        Setting {
            key: "paths",
            kind: Kind::Prefixes,
            help: "Which paths it may ask for, as it sends them, each with all below it; without it all of them\n\n\
                   In whole segments: /shop/orders is not for /shop/orders2. A path that could be read in two ways, by dots or \
                   encoded slashes, is refused then.",
            put: Put::Client(|c, text| {
                c.paths.get_or_insert_default().push(prefix(text)?);
                Ok(())
            }),
            ..CLIENT
        },
        Setting {
            key: "expires",
            kind: Kind::End,
            help: "The last day, in UTC, or the time, until which its keys are good; without it for ever",
            put: Put::Client(|c, text| {
                c.expires = Some(end(text)?);
                Ok(())
            }),
            ..CLIENT
        },
    ],
};
