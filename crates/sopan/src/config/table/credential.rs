//! By what the API knows who asks.

use super::{ROW, set};
use crate::config::read::{credential_field, file, parameter, scheme, variable};
use crate::config::setting::{Group, Kind, Put, Section, Setting};

const CREDENTIAL: Setting = Setting { section: Section::Credential, fetch: true, ..ROW };

pub(super) const GROUP: Group = Group {
    heading: Some("The API's key"),
    settings: &[
        Setting {
            key: "env",
            flag: Some("credential-env"),
            kind: Kind::Variable,
            help: "The variable of the environment with the key that sopan puts into every request for the API\n\n\
                   In place of what clients send there, so that they need none. It is never shown, and sent nowhere else.",
            put: Put::Upstream(|u, text| set(&mut u.credential.env, variable(text).map(Some))),
            ..CREDENTIAL
        },
        Setting {
            key: "file",
            flag: Some("credential-file"),
            kind: Kind::File,
            help: "The file with that key, which is read again when it changes\n\n\
                   A line break at its end is no part of it. One that has gone, or is empty, changes nothing.",
            put: Put::Upstream(|u, text| set(&mut u.credential.file, file(text).map(Some))),
            ..CREDENTIAL
        },
        Setting {
            key: "header",
            flag: Some("credential-header"),
            kind: Kind::Field,
            help: "The field that the key goes into; without it, and without `query`, Authorization",
            put: Put::Upstream(|u, text| set(&mut u.credential.header, credential_field(text).map(Some))),
            ..CREDENTIAL
        },
        Setting {
            key: "scheme",
            flag: Some("credential-scheme"),
            kind: Kind::SchemeOr("none"),
            help: "What stands before the key there; without it Bearer in Authorization, and nothing elsewhere\n\n\
                   For Basic the key is user:password, which is encoded. One that has its scheme already gets no second.",
            put: Put::Upstream(|u, text| set(&mut u.credential.scheme, scheme(text))),
            ..CREDENTIAL
        },
        Setting {
            key: "query",
            flag: Some("credential-query"),
            kind: Kind::Parameter,
            help: "The parameter of the query that the key goes into, in place of a field\n\n\
                   For an API that takes it nowhere else: URLs are written into many a log on the other side.",
            put: Put::Upstream(|u, text| set(&mut u.credential.query, parameter(text).map(Some))),
            ..CREDENTIAL
        },
    ],
};
