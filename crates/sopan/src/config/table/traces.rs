//! Where the story of single requests is told, for whoever draws traces.

use super::{ROW, set};
use crate::config::read::{decimal, field, word};
use crate::config::setting::{Group, Kind, Put, Section, Setting};
use crate::config::traces::Collector;

const TRACES: Setting = Setting { section: Section::Traces, ..ROW };

pub(super) const GROUP: Group = Group {
    heading: Some("Traces"),
    settings: &[
        Setting {
            key: "otlp",
            flag: Some("otlp"),
            kind: Kind::Url,
            help: "Where traces are sent, by OTLP over HTTP: http://127.0.0.1:4318/v1/traces\n\n\
                   Of each request one span, and within it one for each wait, each attempt, and what the cache did. Without \
                   it nothing is recorded, and what requests say of the trace that they belong to (traceparent, tracestate) \
                   is passed on as it comes.",
            put: Put::Program(|p, text| set(&mut p.traces.otlp, Collector::parse(text).map(Some))),
            ..TRACES
        },
        Setting {
            key: "sample",
            flag: Some("trace-sample"),
            kind: Kind::Number,
            default: Some("1"),
            help: "Which share of the requests that belong to no trace yet is recorded: 1 all, 0.1 one in ten\n\n\
                   One that belongs to a trace is recorded if that is, and else not.",
            why: "whoever begins wants to see the first one",
            put: Put::Program(|p, text| {
                p.traces.sampler = decimal(text).and_then(|share| {
                    let sampler = sopan_core::trace::Sampler::new(share);
                    sampler.ok_or_else(|| format!("{share} is not allowed; allowed is 0 to 1"))
                })?;
                Ok(())
            }),
            ..TRACES
        },
        Setting {
            key: "service_name",
            flag: None,
            kind: Kind::Word,
            default: Some("sopan"),
            help: "What sopan is called in traces",
            why: "one of them is enough for most",
            put: Put::Program(|p, text| set(&mut p.traces.service_name, word(text))),
            ..TRACES
        },
        Setting {
            key: "headers",
            flag: None,
            kind: Kind::SecretFields,
            help: "Fields that go with what is sent there, such as Authorization: Bearer ${TOKEN}; they are never shown",
            put: Put::Program(|p, text| {
                let (name, value) = field(text)?;
                p.traces.fields.append(name, value);
                Ok(())
            }),
            ..TRACES
        },
    ],
};
