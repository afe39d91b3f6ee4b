//! What is in force, for the first lines of the log: where clients connect, and for each upstream what it takes, where it
//! is and what is kept to.

use std::fmt;

use sopan_core::policy::{Limit, show_duration};

use crate::config::{Route, Served};

/// What an upstream is kept to.
#[derive(Debug)]
pub(super) struct InForce<'a> {
    name: &'a str,
    route: &'a Route,
    is_only_one: bool,
    observe: bool,
    url: String,
    limits: String,
    max_in_flight: Option<u32>,
    waiting_max: u32,
    wait_max: String,
    max_retries: u32,
    breaker: &'static str,
    cache: &'static str,
    default_ttl: Option<String>,
    /// Where in a request it stands.
    credential: Option<String>,
}

/// Its limits, rates before quotas: the order in which a lane tells how full they are.
pub(super) fn in_order(served: &Served) -> impl Iterator<Item = &Limit> {
    let limits = &served.settings.lane.limits;
    let (rates, quotas): (Vec<_>, Vec<_>) = limits.iter().partition(|limit| matches!(limit, Limit::Rate(_)));
    rates.into_iter().chain(quotas)
}

impl<'a> InForce<'a> {
    /// `at_once` says for each of its limits how many it lets go after a quiet time.
    pub(super) fn new(served: &'a Served, at_once: impl IntoIterator<Item = u64>, is_only_one: bool) -> Self {
        let Served { name, route, settings, .. } = served;
        let shown: Vec<_> = in_order(served).zip(at_once).map(|(limit, n)| left_of(limit, n)).collect();
        Self {
            name,
            route,
            is_only_one,
            observe: settings.observe,
            url: settings.target.to_string(),
            limits: if shown.is_empty() { "unlimited".to_owned() } else { shown.join(", ") },
            max_in_flight: settings.lane.max_in_flight,
            waiting_max: settings.lane.waiting_max,
            wait_max: settings.lane.wait_max.map_or_else(|| "unlimited".to_owned(), show_duration),
            max_retries: settings.retry.max_retries,
            breaker: if settings.breaker.on { "on" } else { "off" },
            cache: if settings.cache.is_some() { "on" } else { "off" },
            credential: settings.credential.as_ref().map(|credential| credential.place().to_string()),
            default_ttl: settings.cache.as_ref().and_then(|cache| cache.default_ttl).map(show_duration),
        }
    }

    /// A line of the log. That an upstream is only observed must not be overlooked.
    pub(super) fn tell(&self) {
        let Self { name, route, url, limits, max_in_flight, waiting_max, wait_max, .. } = self;
        let Self { max_retries, breaker, cache, default_ttl, credential, .. } = self;
        let observe = self.observe;
        // The level of a line must be known when it is compiled.
        macro_rules! tell_at {
            ($level:expr) => {
                tracing::event!(
                    $level,
                    upstream = name,
                    %route,
                    url,
                    observe,
                    limits,
                    max_in_flight,
                    waiting_max,
                    wait_max,
                    max_retries,
                    breaker,
                    cache,
                    default_ttl,
                    credential,
                    "{self}"
                )
            };
        }
        if observe { tell_at!(tracing::Level::WARN) } else { tell_at!(tracing::Level::INFO) }
    }
}

/// A limit with what the headroom leaves of its burst: `10/s burst 20 (19 at once)`.
fn left_of(limit: &Limit, at_once: u64) -> String {
    match limit {
        Limit::Rate(rate) if rate.burst() > 1 => format!("{limit} ({at_once} at once)"),
        Limit::Rate(_) | Limit::Quota(_) | Limit::Calendar(_) => limit.to_string(),
    }
}

impl fmt::Display for InForce<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { route, url, limits, waiting_max, wait_max, max_retries, breaker, cache, .. } = self;
        if self.observe {
            write!(f, "ONLY OBSERVING: limits, holds, retries, breaker and cache change nothing (observe); ")?;
        }
        match route {
            Route::Any if self.is_only_one => write!(f, "requests go to {url}")?,
            Route::Any => write!(f, "all other requests go to {url}")?,
            Route::Path(_) | Route::Host(_) => write!(f, "requests for {route} go to {url}")?,
        }
        write!(f, "; limits {limits}")?;
        if let Some(max) = self.max_in_flight {
            write!(f, "; max_in_flight {max}")?;
        }
        write!(f, "; waiting_max {waiting_max}; wait_max {wait_max}; max_retries {max_retries}; breaker {breaker}")?;
        write!(f, "; cache {cache}")?;
        if let Some(ttl) = &self.default_ttl {
            write!(f, "; default_ttl {ttl}")?;
        }
        match &self.credential {
            Some(place) => write!(f, "; credential in {place}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use sopan_core::policy::CachePolicy;
    use sopan_core::safety::HostName;
    use sopan_engine::{Credential, CredentialPlace, Settings, Target};

    use super::*;
    use crate::config::ClientBy;

    fn served(route: Route, limits: &[&str], change: impl FnOnce(&mut Settings)) -> Served {
        let mut settings = Settings::new(Target::parse("https://api.test/v2").unwrap());
        settings.lane.limits = limits.iter().map(|limit| limit.parse().unwrap()).collect();
        change(&mut settings);
        Served { name: "shop".to_owned(), route, settings, client_by: ClientBy::Ip }
    }

    #[test]
    fn it_says_what_goes_where_and_what_is_kept_to() {
        let host = || Route::Host(HostName::parse("shop.test").unwrap());
        for (route, is_only_one, what) in [
            (Route::Any, true, "requests go to"),
            (Route::Any, false, "all other requests go to"),
            (Route::Path("/shop".to_owned()), true, "requests for /shop go to"),
            (host(), false, "requests for shop.test go to"),
        ] {
            let served = served(route, &["10/s burst 20"], |_| {});
            let line = InForce::new(&served, [19], is_only_one).to_string();
            let expected = "https://api.test/v2; limits 10/s burst 20 (19 at once); waiting_max 1000; wait_max 30s; \
                            max_retries 3; breaker on; cache off";
            assert_eq!(line, format!("{what} {expected}"));
        }
        let served = served(Route::Any, &["5000 per 1h", "10/s"], |settings| {
            settings.lane.max_in_flight = Some(50);
            settings.lane.wait_max = None;
            settings.breaker.on = false;
            settings.retry.max_retries = 0;
            let ttl = Some(std::time::Duration::from_secs(300));
            settings.cache = Some(CachePolicy { default_ttl: ttl, ..CachePolicy::default() });
            settings.credential = Some(Credential::new(CredentialPlace::query("key"), b"s3cret").unwrap());
        });
        assert_eq!(
            InForce::new(&served, [1, 5000], true).to_string(),
            "requests go to https://api.test/v2; limits 10/s, 5000 per 1h; max_in_flight 50; waiting_max 1000; \
             wait_max unlimited; max_retries 0; breaker off; cache on; default_ttl 5m; credential in ?key"
        );
        assert_eq!(in_order(&served).map(ToString::to_string).collect::<Vec<_>>(), ["10/s", "5000 per 1h"]);
    }

    #[test]
    fn no_limit_is_told_too() {
        let served = served(Route::Any, &[], |_| {});
        let line = InForce::new(&served, [], true).to_string();
        assert!(line.contains("limits unlimited;"), "{line}");
    }
}
