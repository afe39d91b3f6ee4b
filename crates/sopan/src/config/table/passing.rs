//! What is changed on the way.

use super::{ROW, set};
use crate::config::draft::FORWARDED;
use crate::config::read::{one_of, switch};
use crate::config::setting::{Group, Kind, Put, Setting};

pub(super) const GROUP: Group = Group {
    heading: Some("Passing on"),
    settings: &[
        Setting {
            key: "observe",
            flag: Some("observe"),
            kind: Kind::Switch,
            default: Some("off"),
            help: "Whether sopan only tells what it would do, and lets everything through as it comes\n\n\
                   With on, limits, holds, retries, breaker and cache are reckoned, counted (sopan_observed_… and the usual \
                   gauges) and logged (observe: …), and change nothing; the access log says of each request how long it \
                   would have waited. Only `max_in_flight`, the queue for it, and all time-outs act. The first thing to \
                   try in front of production.",
            why: "a proxy that does nothing is not what it was started for",
            put: Put::Upstream(|u, text| set(&mut u.settings.observe, switch(text))),
            ..ROW
        },
        Setting {
            key: "forwarded",
            flag: Some("forwarded"),
            kind: Kind::OneOf(&["off", "pass", "rfc7239", "x-forwarded"]),
            default: Some("off"),
            help: "What the API learns of who asked\n\n\
                   off: nothing; Forwarded, X-Forwarded-* and X-Real-IP are taken off, since they would tell a stranger \
                   of your inner network. pass: what the client sent goes on as it is. rfc7239, x-forwarded: the client's \
                   address and the host it asked for are added to what it sent, which is not checked: X-Forwarded-Host \
                   and -Proto are replaced, the rest stays.",
            why: "your inner network is nobody else's business",
            put: Put::Upstream(|u, text| set(&mut u.settings.forwarded, one_of(FORWARDED)(text))),
            ..ROW
        },
        Setting {
            key: "rewrite_links",
            flag: Some("rewrite-links"),
            kind: Kind::Switch,
            default: Some("on"),
            help: "Whether links and redirects to the API's own address lead back through sopan\n\n\
                   In Location, Content-Location and Link; links within bodies stay as they are.",
            why: "else page 2 would go past all limits",
            put: Put::Upstream(|u, text| set(&mut u.settings.rewrite_links, switch(text))),
            ..ROW
        },
    ],
};
