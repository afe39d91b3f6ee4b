//! Connections to the API.

use super::{ROW, set};
use crate::config::read::{file, positive, switch};
use crate::config::setting::{Group, Kind, Put, Setting};

const CONNECTION: Setting = Setting { fetch: true, ..ROW };

pub(super) const GROUP: Group = Group {
    heading: Some("Connections"),
    settings: &[
        Setting {
            key: "connect_timeout",
            flag: Some("connect-timeout"),
            kind: Kind::Duration,
            default: Some("5s"),
            help: "The longest that connecting to the API may take, TLS included",
            why: "who has not answered by then is not there",
            put: Put::Upstream(|u, text| set(&mut u.settings.connect_timeout, positive(text))),
            ..CONNECTION
        },
        Setting {
            key: "idle_timeout",
            flag: Some("idle-timeout"),
            kind: Kind::Duration,
            default: Some("60s"),
            help: "How long a connection is kept without a request, and how long either body may be silent",
            why: "as long as most servers keep theirs",
            put: Put::Upstream(|u, text| set(&mut u.settings.idle_timeout, positive(text))),
            ..CONNECTION
        },
        Setting {
            key: "http2",
            flag: Some("http2"),
            kind: Kind::Switch,
            default: Some("on"),
            help: "Whether HTTP/2 is spoken with an API that offers it over TLS",
            why: "one connection then does for all requests",
            put: Put::Upstream(|u, text| set(&mut u.settings.http2, switch(text))),
            ..CONNECTION
        },
        Setting {
            key: "ca_file",
            flag: Some("ca-file"),
            kind: Kind::File,
            help: "A PEM file of certificate authorities that are trusted beside the system's",
            put: Put::Upstream(|u, text| {
                u.ca_file = Some(file(text)?);
                Ok(())
            }),
            ..CONNECTION
        },
        Setting {
            key: "client_cert",
            flag: Some("client-cert"),
            kind: Kind::File,
            help: "A PEM file with the certificate that sopan shows to an API which wants to know its clients (mutual \
                   TLS)\n\n\
                   The certificates that lead to its authority may follow in the same file. Needs `client_key`.",
            put: Put::Upstream(|u, text| {
                u.client_cert = Some(file(text)?);
                Ok(())
            }),
            ..CONNECTION
        },
        Setting {
            key: "client_key",
            flag: Some("client-key"),
            kind: Kind::File,
            help: "A PEM file with the private key of `client_cert`, without a passphrase; it is never shown",
            put: Put::Upstream(|u, text| {
                u.client_key = Some(file(text)?);
                Ok(())
            }),
            ..CONNECTION
        },
    ],
};
