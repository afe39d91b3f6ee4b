//! What is in force: of several layers the strongest that says something, and whether the values fit each other.
//!
//! Flags over the file, an upstream's own over the file's `defaults`, and those of the table below all. Every value keeps
//! where it came from, for who asks, and so that a pair that does not fit is shown where it was written.

use std::path::PathBuf;

use sopan_core::policy::{Allowed, Limit, PolicyError};
use sopan_engine::{ClientCertificate, Roots, Target, TlsError};

use super::draft::{Program, Treatment};
use super::layer::{Layer, Origin, Value};
use super::problem::{Place, Problem};
use super::setting::{Section, Setting};
use super::table;

/// Values in force, and where each came from.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    /// In the order of the table; what nobody says is not there.
    pub(crate) values: Vec<(Origin, Value)>,
    /// What is above the keys in the file: `upstreams.shop`.
    pub(crate) path: String,
}

impl Resolved {
    /// The strongest of what the layers say. `layers`: the strongest first.
    pub(crate) fn of(layers: &[&Layer], is_wanted: impl Fn(&Setting) -> bool) -> Self {
        let strongest = |setting: &Setting| {
            layers.iter().find_map(|layer| layer.get(setting).map(|value| (layer.origin, value.clone())))
        };
        let values = table::settings().filter(|setting| is_wanted(setting)).filter_map(strongest).collect();
        let path = layers.iter().map(|layer| layer.path.as_str()).find(|path| !path.is_empty()).unwrap_or_default();
        Self { values, path: path.to_owned() }
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

    /// What a setting is called by whoever said it, or by whoever could.
    pub(crate) fn name(&self, key: &str) -> String {
        let Some(setting) = table::of_upstream(key) else { return key.to_owned() };
        let is_typed = matches!(self.said(key), Some(Place::Flag(_))) || self.path.is_empty();
        match setting.typed().filter(|_| is_typed) {
            Some(flag) => flag,
            // `--breaker failures`
            None if is_typed => format!("--{} {}", setting.section.key().unwrap_or_default(), setting.key),
            None => format!("{}.{}", self.path, setting.path()),
        }
    }

    /// Where to point for something that is wrong with one of several settings: the first that somebody said.
    fn place(&self, keys: &[&str]) -> (Place, String) {
        let said = keys.iter().find_map(|key| self.said(key).map(|place| (place, self.name(key))));
        said.unwrap_or_else(|| (Place::Default, keys.first().map_or_else(String::new, |key| self.name(key))))
    }

    /// Where a setting of the program was said, and what it is called there.
    pub(crate) fn at_top(&self, key: &str) -> (Place, String) {
        let found = self.values.iter().find(|(_, value)| value.setting.key == key);
        let named = |value: &Value| value.setting.typed().unwrap_or_else(|| key.to_owned());
        match found {
            Some((Origin::File, value)) => (value.place.clone(), key.to_owned()),
            Some((_, value)) => (Place::Flag(named(value)), named(value)),
            None => (Place::Default, format!("--{key}")),
        }
    }

    fn error(&self, keys: &[&str], why: impl std::fmt::Display) -> Problem {
        let (place, name) = self.place(keys);
        Problem::error(told_at(place, &name), name, why)
    }

    fn warning(&self, keys: &[&str], why: impl std::fmt::Display) -> Problem {
        let (place, name) = self.place(keys);
        Problem::warning(told_at(place, &name), name, why)
    }

    /// What all of it comes to, for the program.
    pub(crate) fn program(&self) -> Program {
        let mut program = Program::new();
        self.values.iter().for_each(|(_, value)| Layer::put(value, &mut program, &mut Treatment::new()));
        program
    }

    /// What all of it comes to, for an upstream, and whether it can be kept to.
    /// `target`: where it is, if that is said elsewhere.
    pub(crate) fn upstream(&self, target: Option<Target>, problems: &mut Vec<Problem>) -> Treatment {
        let mut upstream = Treatment::new();
        self.values.iter().for_each(|(_, value)| Layer::put(value, &mut Program::new(), &mut upstream));
        upstream.target = upstream.target.or(target);
        if let Some(target) = &upstream.target {
            upstream.settings.target = target.clone();
        }
        if !upstream.retries {
            upstream.settings.retry.max_retries = 0;
        }
        self.limits(&mut upstream, problems);
        let settings = &upstream.settings;
        for verdict in [settings.lane.validate(), settings.retry.validate(), settings.breaker.validate()] {
            problems.extend(verdict.err().unwrap_or_default().iter().map(|error| self.told(error)));
        }
        self.fit(&upstream, problems);
        self.certificates(&mut upstream, problems);
        upstream
    }

    /// A policy's complaint, by the names that people know.
    fn told(&self, error: &PolicyError) -> Problem {
        let name = self.name(error.key);
        let told = error.told(|key| self.name(key));
        let why = told.strip_prefix(&format!("{name}: ")).unwrap_or(&told).to_owned();
        let keys = match &error.allowed {
            Allowed::AtLeast(other, _) => vec![error.key, *other],
            // `window` is held against `min_span`.
            Allowed::Words(_) if error.key == "window" => vec![error.key, "min_span"],
            Allowed::Words(_) => vec![error.key],
        };
        let (place, _) = self.place(&keys);
        Problem::error(told_at(place, &name), name, why)
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
        if let Some((at, twice)) = written.iter().enumerate().find(|(at, limit)| written[..*at].contains(limit)) {
            let why = format!("`{twice}` is given twice; once is enough");
            problems.push(self.at_limit(at, self.error(&["limits"], why)));
        }
        self.burst_and_quota(&limits, problems);
        upstream.settings.lane.limits = limits;
    }

    /// The problem, at the place of one limit of several.
    fn at_limit(&self, at: usize, problem: Problem) -> Problem {
        let item = self.value("limits").and_then(|(_, value)| value.items.get(at));
        match (item, &problem.place) {
            (Some(item), Place::File(_)) => Problem { place: item.place.clone(), ..problem },
            _ => problem,
        }
    }

    fn burst_and_quota(&self, limits: &[Limit], problems: &mut Vec<Problem>) {
        let quotas =
            || limits.iter().filter_map(|limit| if let Limit::Quota(quota) = limit { Some(quota) } else { None });
        for (at, limit) in limits.iter().enumerate() {
            let Limit::Rate(rate) = limit else { continue };
            if let Some(quota) = quotas().find(|quota| u64::from(rate.burst()) > quota.count()) {
                let why = format!(
                    "a burst of {} can never leave under the quota `{quota}`; write a burst of {} or less",
                    rate.burst(),
                    quota.count()
                );
                problems.push(self.at_limit(at, self.error(&["limits", "burst"], why)));
            }
        }
    }

    /// Settings that are right by themselves and make no sense together.
    fn fit(&self, upstream: &Treatment, problems: &mut Vec<Problem>) {
        let (lane, retry) = (&upstream.settings.lane, &upstream.settings.retry);
        let show = sopan_core::policy::show_duration;
        if let (Some(wait), Some(total), Some(_)) = (lane.wait_max, retry.total_timeout, self.said("wait_max"))
            && wait > total
        {
            let total_name = self.name("total_timeout");
            let why = format!(
                "{} is longer than {total_name} ({}), which ends the wait before; raise {total_name}, or shorten this",
                show(wait),
                show(total)
            );
            let problem = self.error(&["wait_max"], why);
            let other = self.said("total_timeout").unwrap_or(Place::Default);
            problems.push(problem.also(&other, "it ends here"));
        }
        if let (Some(total), Some(_)) = (retry.total_timeout, self.said("attempt_timeout"))
            && retry.attempt_timeout > total
        {
            let why = format!(
                "{} is never used up, since {} ({}) ends the request before; shorten it",
                show(retry.attempt_timeout),
                self.name("total_timeout"),
                show(total)
            );
            problems.push(self.warning(&["attempt_timeout"], why));
        }
        if self.said("limits").is_some() || self.said("burst").is_some() {
            self.margins(&lane.limits, lane.headroom, lane.rate_margin.millionths(), problems);
        }
    }

    /// What an upstream may count in another way than it is written.
    fn margins(&self, limits: &[Limit], headroom: u32, margin: u32, problems: &mut Vec<Problem>) {
        /// From here on a rate has room for the jitter of the way.
        const MARGIN: u32 = 10_000;
        for (at, limit) in limits.iter().enumerate() {
            let Limit::Rate(rate) = limit else { continue };
            let why = match rate.burst() {
                1 if margin < MARGIN => format!(
                    "`{limit}` has no margin for jitter on the way, and an API that is as strict may answer some with \
                     429; state the API's burst if it allows one, or add rate_margin: 10%"
                ),
                1 => continue,
                burst if headroom >= burst => format!(
                    "`{limit}` is used with a burst of 1, since headroom {headroom} leaves no more of it; write a smaller \
                     headroom, or no burst"
                ),
                burst => {
                    let Some((count, unit)) = in_a_unit(rate) else { continue };
                    format!(
                        "`{limit}` lets up to {} leave within one {unit}, and an API that counts {count} in every fixed \
                         {unit} answers some of them with 429; write `{count} per {unit}` if yours counts so, and leave \
                         it if it has a bucket",
                        u64::from(burst) + count
                    )
                }
            };
            problems.push(self.at_limit(at, self.warning(&["limits", "burst"], why)));
        }
    }

    /// Both files of a client certificate or neither, and what is in them.
    fn certificates(&self, upstream: &mut Treatment, problems: &mut Vec<Problem>) {
        if let Some(file) = &upstream.ca_file {
            let roots = Roots { ca_file: Some(file.clone()) };
            // Checked here, since an upstream without TLS would never look at it.
            match roots.check() {
                Ok(()) => upstream.settings.roots = roots,
                Err(error) => problems.push(self.error(&["ca_file"], error)),
            }
        }
        match (upstream.client_cert.clone(), upstream.client_key.clone()) {
            (None, None) => {}
            (Some(certificate), Some(key)) => self.client(certificate, key, upstream, problems),
            (Some(_), None) => {
                let other = self.name("client_key");
                problems.push(self.error(&["client_cert"], format!("it needs the private key too; add {other} FILE")));
            }
            (None, Some(_)) => {
                let other = self.name("client_cert");
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
            Err(error @ TlsError::ClientKey { .. }) => problems.push(self.error(&["client_key"], error)),
            Err(error) => problems.push(self.error(&["client_cert"], error)),
        }
    }
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
    setting.section != Section::Program
}
