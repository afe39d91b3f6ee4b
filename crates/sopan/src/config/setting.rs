//! What a setting is: its name in a file and on the command line, what it takes, its default, and what becomes of it.
//!
//! One row of a table is all that there is of a setting ([`super::table`]). Flags and their help, the settings file and
//! what is said of a wrong one, the JSON Schema, the example and the reference are all made from it, so that they agree.

use std::fmt;

use super::draft::{Caller, JobDraft, Program, Treatment};

/// One setting.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Its key in a settings file, and where it stands there.
    pub(crate) key: &'static str,
    pub(crate) section: Section,
    /// Its flag, without dashes; none if only a file can say it.
    pub(crate) flag: Option<&'static str>,
    /// Whether a settings file can say it.
    pub(crate) in_file: bool,
    /// Whether `fetch` has it too.
    pub(crate) fetch: bool,
    pub(crate) kind: Kind,
    /// As it would be written; none where nothing stands for it.
    pub(crate) default: Option<&'static str>,
    /// What it does: a sentence for the short help, then perhaps a blank line and more. Other settings are named by their
    /// key, as `` `wait_max` ``.
    pub(crate) help: &'static str,
    /// Why the default is what it is.
    pub(crate) why: &'static str,
    /// Whether the short help has it.
    pub(crate) rank: Rank,
    pub(crate) put: Put,
}

/// Settings that stand together in the help.
#[derive(Debug)]
pub(crate) struct Group {
    /// None for those that come first.
    pub(crate) heading: Option<&'static str>,
    pub(crate) settings: &'static [Setting],
}

/// Whether a newcomer must see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rank {
    Common,
    Rare,
}

/// The part of a settings file in which a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Section {
    /// At the top.
    Program,
    /// In `traces` there.
    Traces,
    /// In `redis` there.
    Redis,
    /// In an upstream, or in `defaults`.
    Upstream,
    /// In the `queue` of either.
    Queue,
    /// In its `retry`.
    Retry,
    /// In its `breaker`.
    Breaker,
    /// In its `cache`.
    Cache,
    /// In the `credential` of an upstream, which no defaults have.
    Credential,
    /// In a client.
    Client,
    /// In a job; its flags are those of `fetch`.
    Job,
}

impl Section {
    /// The sections within an upstream.
    pub(crate) const INNER: [Self; 5] = [Self::Queue, Self::Retry, Self::Breaker, Self::Cache, Self::Credential];

    /// Whether each upstream has its own.
    pub(crate) fn is_of_upstream(self) -> bool {
        !matches!(self, Self::Program | Self::Client | Self::Job | Self::Traces | Self::Redis)
    }

    /// The key under which it stands in an upstream, or at the top, if it stands under one.
    pub(crate) fn key(self) -> Option<&'static str> {
        match self {
            Self::Program | Self::Upstream | Self::Client | Self::Job => None,
            Self::Traces => Some("traces"),
            Self::Redis => Some("redis"),
            Self::Queue => Some("queue"),
            Self::Retry => Some("retry"),
            Self::Breaker => Some("breaker"),
            Self::Cache => Some("cache"),
            Self::Credential => Some("credential"),
        }
    }
}

/// What a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Duration,
    /// A duration, or this word.
    DurationOr(&'static str),
    /// A whole number.
    Count,
    CountOr(&'static str),
    /// A number with decimals.
    Number,
    Size,
    Percent,
    /// `on` or `off`.
    Switch,
    /// The same; as a flag it stands alone and means `on`.
    Flag,
    OneOf(&'static [&'static str]),
    Address,
    AddressOr(&'static str),
    Url,
    /// Where Redis is, which may hold a password.
    RedisUrl,
    Route,
    ClientBy,
    File,
    Directory,
    /// Rates and quotas, all of which are kept to.
    Limits,
    /// Hosts.
    Names,
    Statuses,
    /// Names of fields.
    Fields,
    /// The name of one.
    Field,
    /// The name of a variable of the environment, and not what it holds.
    Variable,
    /// A scheme of a field, or this word.
    SchemeOr(&'static str),
    /// The name of a parameter of the query.
    Parameter,
    /// What holds for single paths.
    PathRules,
    /// What keys are known by.
    Digests,
    /// Fields in which keys are looked for.
    KeyFields,
    /// Names of upstreams.
    Upstreams,
    Methods,
    /// Paths, each with all below it.
    Prefixes,
    /// A date, or a date and time.
    End,
    /// A few letters.
    Word,
    /// What is like this example.
    Like {
        placeholder: &'static str,
        example: &'static str,
    },
    /// Where something stands in JSON.
    Pointers,
    /// Fields with their values, which are never shown. In a file they stand by their names.
    SecretFields,
    /// `on` or `off`, and in a file the settings of the section.
    Section,
    /// The same; its settings have no flags of their own, and stand in one line.
    InlineSection,
}

impl Kind {
    /// Whether there may be several.
    pub(crate) fn is_list(self) -> bool {
        matches!(
            self,
            Self::Limits
                | Self::Names
                | Self::Statuses
                | Self::Fields
                | Self::PathRules
                | Self::Digests
                | Self::KeyFields
                | Self::Upstreams
                | Self::Methods
                | Self::Prefixes
                | Self::SecretFields
                | Self::Pointers
        )
    }

    /// Whether what is wrong may be a secret that was put where it does not belong.
    pub(crate) fn may_be_secret(self) -> bool {
        matches!(self, Self::Digests | Self::SchemeOr(_) | Self::RedisUrl)
    }

    /// Whether it switches a section.
    pub(crate) fn is_section(self) -> bool {
        matches!(self, Self::Section | Self::InlineSection)
    }

    /// What takes its place in the help.
    pub(crate) fn placeholder(self) -> String {
        match self {
            Self::Duration => "DURATION".to_owned(),
            Self::DurationOr(word) => format!("DURATION|{word}"),
            Self::Count => "N".to_owned(),
            Self::CountOr(word) => format!("N|{word}"),
            Self::Number => "FRACTION".to_owned(),
            Self::Size => "SIZE".to_owned(),
            Self::Percent => "PERCENT".to_owned(),
            Self::Switch | Self::Flag | Self::Section => "on|off".to_owned(),
            Self::OneOf(words) => words.join("|"),
            Self::Address => "ADDRESS".to_owned(),
            Self::AddressOr(word) => format!("ADDRESS|{word}"),
            Self::Url | Self::RedisUrl => "URL".to_owned(),
            Self::Route => "/PATH|HOST".to_owned(),
            Self::ClientBy => "ip|connection|header:NAME".to_owned(),
            Self::File => "FILE".to_owned(),
            Self::Directory => "DIR".to_owned(),
            Self::Limits => "LIMIT".to_owned(),
            Self::Names => "NAME".to_owned(),
            Self::Statuses => "STATUS,…".to_owned(),
            Self::Fields => "NAME,…".to_owned(),
            Self::Field | Self::Variable | Self::Parameter => "NAME".to_owned(),
            Self::SchemeOr(word) => format!("SCHEME|{word}"),
            Self::PathRules => "'/PATH RULE'".to_owned(),
            Self::Word => "WORD".to_owned(),
            Self::Like { placeholder, .. } => placeholder.to_owned(),
            Self::Pointers => "/POINTER".to_owned(),
            Self::SecretFields => "'NAME: VALUE'".to_owned(),
            Self::InlineSection => "on|off|SETTINGS".to_owned(),
            Self::Digests => "SHA256".to_owned(),
            Self::KeyFields => "FIELD".to_owned(),
            Self::Upstreams => "UPSTREAM".to_owned(),
            Self::Methods => "METHOD".to_owned(),
            Self::Prefixes => "/PATH".to_owned(),
            Self::End => "DATE".to_owned(),
        }
    }

    /// What is allowed, for a value that must not be shown.
    pub(crate) fn allowed(self) -> String {
        match self {
            Self::Duration => "a duration such as 500ms, 2s, 5m or 1h30m".to_owned(),
            Self::DurationOr(word) => format!("a duration such as 500ms, 2s or 5m, or {word}"),
            Self::Count => "a whole number".to_owned(),
            Self::CountOr(word) => format!("a whole number, or {word}"),
            Self::Number => "a number such as 0.25".to_owned(),
            Self::Size => "a size such as 64KiB, 1MiB or 10MB".to_owned(),
            Self::Percent => "a percentage such as 0.1%".to_owned(),
            Self::Switch | Self::Flag | Self::Section | Self::InlineSection => "on or off".to_owned(),
            Self::OneOf(words) => format!("one of {}", words.join(", ")),
            Self::Address => "an address with a port, such as 127.0.0.1:8000".to_owned(),
            Self::AddressOr(word) => format!("an address with a port, such as 127.0.0.1:8001, or {word}"),
            Self::Url => "a URL such as https://api.example.com/v2".to_owned(),
            Self::RedisUrl => "a URL such as redis://127.0.0.1:6379, redis-sentinel://a:26379,b:26379/MASTER or \
                               redis-cluster://a:6379,b:6379"
                .to_owned(),
            Self::Route => "a path such as /shop, or a host such as shop.example.com".to_owned(),
            Self::ClientBy => "ip, connection, or header:NAME".to_owned(),
            Self::File => "the path of a file".to_owned(),
            Self::Directory => "the path of a directory".to_owned(),
            Self::Limits => "rates such as 10/s burst 20, quotas such as 5000 per 1h, or unlimited".to_owned(),
            Self::Names => "names of hosts, such as proxy.example.com".to_owned(),
            Self::Statuses => "statuses such as 425 or 520".to_owned(),
            Self::Fields => "names of fields, such as cdn-cache-control, or none".to_owned(),
            Self::Field => "the name of a field, such as X-Api-Key".to_owned(),
            Self::Variable => "the name of a variable, such as API_KEY".to_owned(),
            Self::SchemeOr(word) => format!("a scheme such as Bearer or Basic, or {word}"),
            Self::Parameter => "the name of a parameter, such as key".to_owned(),
            Self::PathRules => "rules such as /v2/live bypass or /v2/catalog default-ttl 1d".to_owned(),
            Self::Digests => "the SHA-256 of a key in 64 hexadecimal digits, as `sopan keys new` prints it".to_owned(),
            Self::KeyFields => format!("fields: {}", KEY_FIELDS.join(", ")),
            Self::Upstreams => "names of upstreams of this file".to_owned(),
            Self::Methods => "methods such as GET or POST, in capitals".to_owned(),
            Self::Prefixes => "paths such as /shop/orders, each with all below it".to_owned(),
            Self::End => "a date such as 2026-12-31, or a time such as 2026-12-31T18:00:00+01:00".to_owned(),
            Self::Word => "a word".to_owned(),
            Self::Like { example, .. } => format!("what is like {example}"),
            Self::Pointers => "JSON pointers such as /id".to_owned(),
            Self::SecretFields => {
                "names of fields with their values, such as Authorization: Bearer ${TOKEN}".to_owned()
            }
        }
    }
}

/// What becomes of a value. A list is put item by item.
pub(crate) enum Put {
    Program(fn(&mut Program, &str) -> Result<(), String>),
    Upstream(fn(&mut Treatment, &str) -> Result<(), String>),
    Client(fn(&mut Caller, &str) -> Result<(), String>),
    Job(fn(&mut JobDraft, &str) -> Result<(), String>),
}

/// The fields in which keys may be looked for.
pub(crate) const KEY_FIELDS: [&str; 3] = ["authorization", "proxy-authorization", "x-api-key"];

impl fmt::Debug for Put {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Program(_) => "Program",
            Self::Upstream(_) => "Upstream",
            Self::Client(_) => "Client",
            Self::Job(_) => "Job",
        })
    }
}

impl Setting {
    /// Its name in a settings file within an upstream or at the top: `queue.wait_max`.
    pub(crate) fn path(&self) -> String {
        self.section.key().map_or_else(|| self.key.to_owned(), |section| format!("{section}.{}", self.key))
    }

    /// Its flag as it is typed.
    pub(crate) fn typed(&self) -> Option<String> {
        self.flag.map(|flag| format!("--{flag}"))
    }

    /// A value for who wants one, where there is no default.
    pub(crate) fn example(&self) -> &'static str {
        match self.kind {
            Kind::Url if self.section == Section::Traces => "http://127.0.0.1:4318/v1/traces",
            Kind::Url => "https://api.example.com/v2",
            Kind::RedisUrl => "redis://127.0.0.1:6379",
            Kind::SecretFields => "{ X-Team: shop }",
            Kind::Route => "/shop",
            Kind::Names if self.section == Section::Job => "[api.example.org]",
            Kind::Names => "[proxy.example.com]",
            Kind::Statuses => "[425]",
            Kind::PathRules => "[/v2/live bypass, /v2/catalog default-ttl 1d]",
            Kind::Directory => "/var/cache/sopan",
            // Of `sopan_` and 43 times `A`, which is no good key.
            Kind::Digests => "d1f3bb57ccc1a6250e172a78a6e1e67f8cb17d1185b85a4a885ab0c9556c3e57",
            Kind::Upstreams => "[shop]",
            Kind::Methods => "[GET, HEAD]",
            Kind::Prefixes => "[/shop/orders]",
            Kind::End => "2026-12-31",
            Kind::Limits => "[5/s burst 10]",
            Kind::Count if self.section == Section::Job => "1000",
            Kind::Count => "2",
            Kind::Variable => "API_KEY",
            Kind::Field => "X-Api-Key",
            Kind::SchemeOr(_) => "Bearer",
            Kind::Parameter => "key",
            Kind::File if self.section == Section::Credential => "/run/secrets/api_key",
            Kind::File if self.section == Section::Redis => "/etc/sopan/redis-ca.pem",
            Kind::File if self.key == "state" => "/var/lib/sopan/state",
            Kind::File if self.key == "admin_token_file" => "/etc/sopan/admin-token",
            Kind::File if self.key == "out" => "orders.jsonl",
            Kind::File if self.section == Section::Job => "order.schema.json",
            Kind::File => "/etc/sopan/file.pem",
            Kind::Like { example, .. } => example,
            Kind::Pointers => "[/id]",
            _ => self.default.unwrap_or_default(),
        }
    }

    /// Its help as one paragraph: the summary has no full stop of its own.
    pub(crate) fn paragraph(&self) -> String {
        let parts: Vec<_> = self.help.split("\n\n").map(|part| part.trim_end_matches('.')).collect();
        parts.join(". ")
    }

    /// The first sentence of its help.
    pub(crate) fn summary(&self) -> &'static str {
        self.help.split_once("\n\n").map_or(self.help, |(summary, _)| summary)
    }
}
