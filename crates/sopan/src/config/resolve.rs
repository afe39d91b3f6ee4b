//! What is in force: of several layers the strongest that says something, and whether the values fit each other.
//!
//! Flags over the file, an upstream's own over the file's `defaults`, and those of the table below all. Every value keeps
//! where it came from, for who asks, and so that a pair that does not fit is shown where it was written.

mod cache;
mod clients;
mod credential;
mod jobs;
mod shared;

use std::path::PathBuf;

use sopan_core::policy::{Allowed, Limit, PolicyError};
use sopan_engine::{ClientCertificate, Roots, Target, TlsError};

pub(crate) use clients::Taken;

use super::draft::{Drafts, Program, Treatment};
use super::layer::{Item, Layer, Origin, Value};
use super::problem::{Place, Problem};
use super::setting::{Kind, Setting};
use super::table;

/// Values in force, and where each came from.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    /// In the order of the table; what nobody says is not there.
    pub(crate) values: Vec<(Origin, Value)>,
    /// What is above the keys in the file: `upstreams.shop`.
    pub(crate) path: String,
    /// Whether people know settings by their keys, or by their flags.
    has_file: bool,
    /// Keys of which something was said that nobody understands: what stands for them instead is not what was meant.
    unread: Vec<&'static str>,
}

impl Resolved {
    /// The strongest of what the layers say. `layers`: the strongest first.
    pub(crate) fn of(layers: &[&Layer], is_wanted: impl Fn(&Setting) -> bool) -> Self {
        let strongest = |setting: &Setting| {
            layers.iter().find_map(|layer| layer.get(setting).map(|value| (layer.origin, value.clone())))
        };
        let values = table::settings().filter(|setting| is_wanted(setting)).filter_map(strongest).collect();
        let path = layers.iter().map(|layer| layer.path.as_str()).find(|path| !path.is_empty()).unwrap_or_default();
        let has_file = layers.iter().any(|layer| layer.origin == Origin::File);
        let unread = layers.iter().flat_map(|layer| layer.unread.iter().copied()).collect();
        Self { values, path: path.to_owned(), has_file, unread }
    }

    fn value(&self, key: &str) -> Option<&(Origin, Value)> {
        let setting = table::of_upstream(key)?;
        self.values.iter().find(|(_, value)| std::ptr::eq(value.setting, setting))
    }

    /// Whether somebody said it, and where.
    pub(crate) fn said(&self, key: &str) -> Option<Place> {
        let (origin, value) = self.value(key)?;
        (*origin != Origin::Table).then(|| value.place.clone())
    }

    /// Whether it is known what is meant by it.
    pub(crate) fn is_read(&self, key: &str) -> bool {
        !self.unread.contains(&key)
    }

    /// What a setting is called in a sentence, by whoever said it or could.
    fn name(&self, key: &str) -> String {
        let Some(setting) = table::of_upstream(key) else { return key.to_owned() };
        let is_typed = !self.has_file || matches!(self.said(key), Some(Place::Flag(_)));
        match setting.typed().filter(|_| is_typed) {
            Some(flag) => flag,
            // `--breaker failures`
            None if is_typed => format!("--{} {}", setting.section.key().unwrap_or_default(), setting.key),
            None => setting.path(),
        }
    }

    /// The same with all that is above it in the file, where it was said there.
    pub(crate) fn title(&self, key: &str) -> String {
        let name = self.name(key);
        match self.value(key) {
            _ if name.starts_with("--") => name,
            Some((Origin::Defaults, _)) => format!("defaults.{name}"),
            _ => format!("{}.{name}", self.path),
        }
    }

    /// Its value as it was written.
    fn written(&self, key: &str) -> String {
        self.value(key).map_or_else(String::new, |(_, value)| value.shown())
    }

    /// The same in brackets behind its name: `total_timeout (2m, the default)`.
    fn with_value(&self, key: &str) -> String {
        let default = if self.said(key).is_none() { ", the default" } else { "" };
        format!("{} ({}{default})", self.name(key), self.written(key))
    }

    /// One text of a list.
    fn item(&self, key: &str, at: usize) -> Option<&Item> {
        self.value(key).and_then(|(_, value)| value.items.get(at))
    }

    /// A value as it is told where it does not fit another: what stands for something else is not shown.
    fn told_value(&self, key: &str, value: impl std::fmt::Display) -> String {
        let item = self.value(key).and_then(|(_, value)| value.items.first());
        match item {
            Some(item) => stands_for(item, value),
            None => value.to_string(),
        }
    }

    /// A limit as it is told.
    fn told_limit(&self, at: usize, limit: &Limit) -> String {
        self.item("limits", at).map_or_else(|| format!("`{limit}`"), |item| stands_for(item, format!("`{limit}`")))
    }

    /// Whether a limit stands for something else, which is not shown.
    fn is_hidden(&self, at: usize) -> bool {
        self.item("limits", at).is_some_and(|item| item.written.is_some())
    }

    /// Where to point for something that is wrong with one of several settings: the first that somebody said.
    fn place(&self, keys: &[&str]) -> (Place, String) {
        let said = keys.iter().find_map(|key| self.said(key).map(|place| (place, self.title(key))));
        said.unwrap_or_else(|| (Place::Default, keys.first().map_or_else(String::new, |key| self.title(key))))
    }

    /// Where a setting of the program was said, and what it is called there.
    pub(crate) fn at_top(&self, key: &str) -> (Place, String) {
        let value = self.values.iter().map(|(_, value)| value).find(|value| value.setting.key == key);
        let place = value.map_or(Place::Default, |value| value.place.clone());
        let is_typed = !self.has_file || matches!(place, Place::Flag(_));
        let flag = value.and_then(|value| value.setting.typed()).filter(|_| is_typed);
        (place, flag.unwrap_or_else(|| key.to_owned()))
    }

    fn error(&self, keys: &[&str], why: impl std::fmt::Display) -> Problem {
        let (place, name) = self.place(keys);
        Problem::error(told_at(place, &name), name, why)
    }

    fn warning(&self, keys: &[&str], why: impl std::fmt::Display) -> Problem {
        let (place, name) = self.place(keys);
        Problem::warning(told_at(place, &name), name, why)
    }

    fn drafts(&self) -> Drafts {
        let mut drafts = Drafts::default();
        self.values.iter().for_each(|(_, value)| Layer::put(value, &mut drafts));
        drafts
    }

    /// What all of it comes to, for the program.
    pub(crate) fn program(&self) -> Program {
        self.drafts().program
    }

    /// What all of it comes to, for an upstream, and whether it can be kept to.
    /// `target`: where it is, if that is said elsewhere.
    pub(crate) fn upstream(&self, target: Option<Target>, problems: &mut Vec<Problem>) -> Treatment {
        let mut upstream = self.drafts().upstream;
        upstream.target = upstream.target.or(target);
        if let Some(target) = &upstream.target {
            upstream.settings.target = target.clone();
        }
        if !upstream.retries {
            upstream.settings.retry.max_retries = 0;
        }
        upstream.settings.cache = upstream.cache.on.then(|| upstream.cache.clone());
        self.limits(&mut upstream, problems);
        let settings = &upstream.settings;
        let verdicts = [settings.lane.validate(), settings.retry.validate(), settings.breaker.validate()];
        for verdict in verdicts.into_iter().chain([upstream.cache.validate()]) {
            problems.extend(verdict.err().unwrap_or_default().iter().filter_map(|error| self.told(error)));
        }
        self.fit(&upstream, problems);
        self.rules_for_paths(&upstream, problems);
        self.certificates(&mut upstream, problems);
        self.credential(&mut upstream, problems);
        upstream
    }

    /// A policy's complaint, by the names that people know.
    fn told(&self, error: &PolicyError) -> Option<Problem> {
        let (other, allowed, against) = match &error.allowed {
            Allowed::Words(words) => (None, words.clone(), ""),
            Allowed::AtLeast(other, _) => (Some(*other), format!("{} or more", self.with_value(other)), "more than"),
            Allowed::MoreThan(other, _) => {
                (Some(*other), format!("more than {}", self.with_value(other)), "not less than")
            }
        };
        if !self.is_read(error.key) || other.is_some_and(|other| !self.is_read(other)) {
            return None;
        }
        // Whoever said only the other one has that before his eyes.
        if let (None, Some(other)) = (self.said(error.key), other) {
            let (this, value) = (self.name(error.key), self.written(other));
            let default = self.written(error.key);
            let why =
                format!("{value} is {against} {this}, which is {default} by default; raise {this}, or lower this");
            return Some(self.error(&[other], why));
        }
        let items = self.value(error.key).map_or(&[][..], |(_, value)| &value.items);
        let item = items.iter().find(|item| items.len() == 1 || item.text.trim() == error.value);
        let value = match item {
            Some(item) if item.written.is_some() => format!("what `{}` stands for", item.shown()),
            Some(item) if table::of_upstream(error.key).is_some_and(|s| s.kind == Kind::Size) => item.text.clone(),
            _ => error.value.clone(),
        };
        let is = if value.ends_with(" of them") { "are" } else { "is" };
        let problem = self.error(&[error.key], format!("{value} {is} not allowed; allowed is {allowed}"));
        let problem = match item.map(|item| &item.place) {
            Some(place @ Place::File(_)) => Problem { place: place.clone(), ..problem },
            _ => problem,
        };
        let other = other.and_then(|other| self.said(other)).unwrap_or(Place::Default);
        Some(problem.also(&other, "held against this"))
    }

    /// Limits and the burst beside them, as they are kept to.
    fn limits(&self, upstream: &mut Treatment, problems: &mut Vec<Problem>) {
        let given = self.said("limits").is_some();
        if upstream.is_unlimited {
            if !upstream.limits.is_empty() || upstream.burst.is_some() {
                let why = "`unlimited` stands alone; take away the other limits, or `unlimited`";
                problems.push(self.error(&["limits"], why));
            }
            upstream.settings.lane.limits = Vec::new();
            return;
        }
        let mut limits = std::mem::take(&mut upstream.limits);
        if let Some(burst) = upstream.burst {
            if !given {
                limits = "10/s".parse().into_iter().collect();
            }
            if let Err(why) = apply_burst(&mut limits, burst) {
                problems.push(self.error(&["burst"], why));
            }
        }
        // Limits are told apart by how they are written, also in the metrics.
        let written: Vec<_> = limits.iter().map(ToString::to_string).collect();
        if let Some((at, _)) = written.iter().enumerate().find(|(at, limit)| written[..*at].contains(limit)) {
            let twice = self.told_limit(at, &limits[at]);
            let why = format!("{twice} is given twice; once is enough");
            problems.push(self.at_limit(at, self.error(&["limits"], why)));
        }
        self.burst_and_quota(&limits, problems);
        upstream.settings.lane.limits = limits;
    }

    /// The problem, at the place of one limit of several.
    fn at_limit(&self, at: usize, problem: Problem) -> Problem {
        match (self.item("limits", at), &problem.place) {
            (Some(item), Place::File(_)) => Problem { place: item.place.clone(), ..problem },
            _ => problem,
        }
    }

    fn burst_and_quota(&self, limits: &[Limit], problems: &mut Vec<Problem>) {
        let quotas =
            || limits.iter().enumerate().filter_map(|(at, limit)| limit.count().map(|count| (at, limit, count)));
        for (at, limit) in limits.iter().enumerate() {
            let Limit::Rate(rate) = limit else { continue };
            if let Some((of, limit, count)) = quotas().find(|(_, _, count)| u64::from(rate.burst()) > *count) {
                let named = self.told_limit(of, limit);
                let why = if self.is_hidden(at) || self.is_hidden(of) {
                    format!("its burst can never leave under the quota, which is {named}; write a smaller burst")
                } else {
                    format!(
                        "a burst of {} can never leave under the quota {named}; write a burst of {count} or less",
                        rate.burst()
                    )
                };
                problems.push(self.at_limit(at, self.error(&["limits", "burst"], why)));
            }
        }
    }

    /// Settings that are right by themselves and make no sense together.
    fn fit(&self, upstream: &Treatment, problems: &mut Vec<Problem>) {
        let (lane, retry) = (&upstream.settings.lane, &upstream.settings.retry);
        let show = sopan_core::policy::show_duration;
        let is_read = self.is_read("total_timeout");
        let other = self.said("total_timeout").unwrap_or(Place::Default);
        if let (Some(wait), Some(total), Some(_)) = (lane.wait_max, retry.total_timeout, self.said("wait_max"))
            && wait > total
            && is_read
        {
            let (name, total) = (self.name("total_timeout"), self.with_value("total_timeout"));
            let why = format!(
                "{} is longer than {total}, which ends the wait; raise {name}, or shorten this",
                self.told_value("wait_max", show(wait))
            );
            problems.push(self.error(&["wait_max"], why).also(&other, "it ends here"));
        }
        if let (Some(total), Some(_)) = (retry.total_timeout, self.said("attempt_timeout"))
            && retry.attempt_timeout > total
            && is_read
        {
            let (name, total) = (self.name("total_timeout"), self.with_value("total_timeout"));
            let why = format!(
                "{} is never used up, since {total} ends the request before; raise {name}, or shorten this",
                self.told_value("attempt_timeout", show(retry.attempt_timeout))
            );
            problems.push(self.warning(&["attempt_timeout"], why).also(&other, "it ends here"));
        }
        if self.said("limits").is_some() || self.said("burst").is_some() {
            self.margins(&lane.limits, lane.headroom, lane.rate_margin.millionths(), problems);
        }
    }

    /// What an upstream may count in another way than it is written.
    fn margins(&self, limits: &[Limit], headroom: u32, margin: u32, problems: &mut Vec<Problem>) {
        /// From here on a rate has room for the jitter of the way.
        const MARGIN: u32 = 10_000;
        let rates = || {
            limits.iter().enumerate().filter_map(|(at, limit)| match limit {
                Limit::Rate(rate) => Some((at, limit, rate)),
                Limit::Quota(_) | Limit::Calendar(_) => None,
            })
        };
        let strict = || rates().filter(|(_, _, rate)| rate.burst() == 1 && margin < MARGIN);
        if let Some((at, limit, _)) = strict().next() {
            let (others, have) = match strict().count() {
                1 => (String::new(), "has"),
                2 => (" and another rate".to_owned(), "have"),
                n => (format!(" and {} other rates", n - 1), "have"),
            };
            let limit = self.told_limit(at, limit);
            let why = format!(
                "{limit}{others} {have} no margin for jitter on the way, and an API that is as strict may answer some \
                 with 429; state the API's burst if it allows one, or set {} 10%",
                self.set("rate_margin")
            );
            problems.push(self.at_limit(at, self.warning(&["limits", "burst"], why)));
        }
        for (at, limit, rate) in rates().filter(|(_, _, rate)| rate.burst() > 1) {
            let burst = rate.burst();
            let (is_hidden, limit) = (self.is_hidden(at), self.told_limit(at, limit));
            let why = if headroom >= burst {
                format!(
                    "{limit} is used with a burst of 1, since {} leaves no more of it; lower that, or write no burst",
                    self.with_value("headroom")
                )
            } else {
                let Some((count, unit)) = in_a_unit(rate).filter(|_| !is_hidden) else { continue };
                format!(
                    "{limit} lets up to {} leave within one {unit}, and an API that counts {count} in every fixed \
                     {unit} answers some of them with 429; write `{count} per {unit}` if yours counts so, and leave \
                     it if it has a bucket",
                    u64::from(burst) + count
                )
            };
            problems.push(self.at_limit(at, self.warning(&["limits", "burst"], why)));
        }
    }

    /// How a setting is set: `--client-key`, or `client_key:`.
    fn set(&self, key: &str) -> String {
        let name = self.name(key);
        if name.starts_with("--") { name } else { format!("{name}:") }
    }

    /// What is wrong with a file, of which the name may stand for something else.
    fn of_file(&self, key: &str, error: &TlsError) -> Problem {
        self.error(&[key], self.as_written(&["ca_file", "client_cert", "client_key"], error.to_string()))
    }

    /// A text in which the values of these settings are as they were written, where they stand for something else.
    fn as_written(&self, keys: &[&str], mut text: String) -> String {
        for key in keys {
            let item = self.value(key).and_then(|(_, value)| value.items.first());
            if let Some(item) = item.filter(|item| item.written.is_some() && !item.text.is_empty()) {
                text = text.replace(&item.text, item.shown());
            }
        }
        text
    }

    /// Both files of a client certificate or neither, and what is in them.
    fn certificates(&self, upstream: &mut Treatment, problems: &mut Vec<Problem>) {
        if let Some(file) = &upstream.ca_file {
            let roots = Roots { ca_file: Some(file.clone()) };
            // Checked here, since an upstream without TLS would never look at it.
            match roots.check() {
                Ok(()) => upstream.settings.roots = roots,
                Err(error) => problems.push(self.of_file("ca_file", &error)),
            }
        }
        match (upstream.client_cert.clone(), upstream.client_key.clone()) {
            (None, None) => {}
            (Some(certificate), Some(key)) => self.client(certificate, key, upstream, problems),
            (Some(_), None) if !self.is_read("client_key") => {}
            (None, Some(_)) if !self.is_read("client_cert") => {}
            (Some(_), None) => {
                let other = self.set("client_key");
                problems.push(self.error(&["client_cert"], format!("it needs the private key too; add {other} FILE")));
            }
            (None, Some(_)) => {
                let other = self.set("client_cert");
                problems.push(self.error(&["client_key"], format!("it needs the certificate too; add {other} FILE")));
            }
        }
    }

    fn client(&self, certificate: PathBuf, key: PathBuf, upstream: &mut Treatment, problems: &mut Vec<Problem>) {
        if upstream.target.as_ref().is_some_and(|target| !target.is_tls()) {
            let why = "the upstream is asked over plain http, which knows no certificates; write https://…";
            return problems.push(self.error(&["client_cert"], why));
        }
        let client = ClientCertificate { certificate, key };
        match client.check() {
            Ok(()) => upstream.settings.client_certificate = Some(client),
            Err(error @ TlsError::ClientKey { .. }) => problems.push(self.of_file("client_key", &error)),
            Err(error) => problems.push(self.of_file("client_cert", &error)),
        }
    }
}

fn stands_for(item: &Item, value: impl std::fmt::Display) -> String {
    if item.written.is_some() { format!("what `{}` stands for", item.shown()) } else { value.to_string() }
}

/// Where a problem of flags is told: by the flag's name, also of one that was not typed.
fn told_at(place: Place, name: &str) -> Place {
    match place {
        Place::File(_) => place,
        Place::Flag(_) | Place::Default => Place::Flag(name.to_owned()),
    }
}

/// Gives the burst to the one rate that has none of its own.
fn apply_burst(limits: &mut [Limit], burst: u64) -> Result<(), String> {
    let mut without: Vec<_> =
        limits.iter_mut().filter(|limit| matches!(limit, Limit::Rate(rate) if !rate.has_burst())).collect();
    let [Limit::Rate(rate)] = &mut without[..] else {
        return Err(format!(
            "`{burst}` must belong to exactly one --rate without a burst of its own, but there are {}; \
             write bursts into the rates, such as --rate '10/s burst 20'",
            without.len()
        ));
    };
    *rate = rate.clone().with_burst(burst).map_err(|error| error.to_string())?;
    Ok(())
}

/// A rate as so many in a unit, where it is a whole number of them.
fn in_a_unit(rate: &sopan_core::policy::Rate) -> Option<(u64, &'static str)> {
    let unit = match rate.unit() {
        1_000_000_000 => "second",
        60_000_000_000 => "minute",
        3_600_000_000_000 => "hour",
        86_400_000_000_000 => "day",
        _ => return None,
    };
    let (tokens, period) = rate.fraction();
    let count = u128::from(tokens) * rate.unit();
    count.is_multiple_of(period).then(|| u64::try_from(count / period).ok()).flatten().map(|count| (count, unit))
}

/// The settings of an upstream, and not of the program.
pub(crate) fn is_of_upstream(setting: &Setting) -> bool {
    setting.section.is_of_upstream()
}
