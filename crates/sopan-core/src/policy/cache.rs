//! What of an upstream's answers is stored, and how long it is used.

use std::time::Duration;

use http::HeaderName;

use super::PolicyError;
use super::duration::show_duration;
use super::error::{Allowed, Checks};

mod rule;

pub use rule::{PathRule, PathRuleError, PathTreatment};

/// More fields of a cache's own than this are a mistake.
const TARGETED_MAX: usize = 10;
/// More rules for paths than this belong into upstreams of their own.
pub const PATHS_MAX: usize = 100;

/// The settings of a cache in front of one upstream: RFC 9111 as it stands, and where that leaves a choice, the careful one.
///
/// [`CachePolicy::validate`] says what is wrong with settings from outside; [`lookup`](crate::cache::lookup) and
/// [`after_response`](crate::cache::after_response) trust them.
#[derive(Clone, Debug, PartialEq)]
pub struct CachePolicy {
    /// Whether answers are stored at all; default on.
    pub on: bool,
    /// How long a successful answer to a GET is fresh that says nothing about it itself, neither a lifetime nor
    /// `no-store` and its like; default none. Where it is set it takes the place of the guess from `Last-Modified`
    /// (RFC 9111 §4.2.2).
    pub default_ttl: Option<Duration>,
    /// Whether an answer with `Set-Cookie` is stored, and the cookie given to whoever asks later; default off. RFC 9111 §7.3
    /// allows it, and one client's session is no business of another's.
    pub store_set_cookie: bool,
    /// Fields that speak to this cache and take the place of `Cache-Control`, the first one that is there and can be read
    /// (RFC 9213); default `sopan-cache-control`, then `cdn-cache-control`.
    pub targeted: Vec<HeaderName>,
    /// When a stored answer is asked about again although it could be used.
    pub revalidate: Revalidate,
    /// For how long after its lifetime an answer without a `stale-if-error` of its own is used when the upstream fails, is
    /// held to be down, or no token is there before the deadline; default zero, since RFC 5861 leaves it to the sender.
    pub stale_if_error: Duration,
    /// The longest that any answer is used after its lifetime, whatever allows that; also for how long one is used when
    /// the upstream cannot be reached, which needs no permission (RFC 9111 §4.2.4). Default 1 day; zero never.
    pub stale_max: Duration,
    /// The largest body that is stored; default 8 MiB.
    pub entry_bytes_max: u64,
    /// What holds for single paths, the longest that fits counts.
    pub paths: Vec<PathRule>,
}

/// When a stored answer is asked about again although it is fresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Revalidate {
    /// When it is not fresh any more, as RFC 9111 has it.
    #[default]
    Stale,
    /// Each time it is used, if it has a validator to ask about it with: for upstreams that do not count a 304. Without one a
    /// request would cost as much as the first, so that such an answer is used while it is fresh, as ever.
    Always,
}

impl Default for CachePolicy {
    fn default() -> Self {
        Self {
            on: true,
            default_ttl: None,
            store_set_cookie: false,
            targeted: vec![
                HeaderName::from_static("sopan-cache-control"),
                HeaderName::from_static("cdn-cache-control"),
            ],
            revalidate: Revalidate::Stale,
            stale_if_error: Duration::ZERO,
            stale_max: Duration::from_secs(86_400),
            entry_bytes_max: 8 << 20,
            paths: Vec::new(),
        }
    }
}

impl CachePolicy {
    /// Whether these settings can be kept to.
    ///
    /// # Errors
    /// Everything that is outside of what is allowed, each with its key, its value and what is allowed.
    pub fn validate(&self) -> Result<(), Vec<PolicyError>> {
        let mut checks = Checks::default();
        if let Some(ttl) = self.default_ttl {
            checks.require(!ttl.is_zero(), "default_ttl", "0s", "more than zero, or none");
        }
        checks.require(
            self.targeted.len() <= TARGETED_MAX,
            "targeted",
            format!("{} of them", self.targeted.len()),
            format!("up to {TARGETED_MAX}"),
        );
        checks.require(
            self.stale_max >= self.stale_if_error,
            "stale_max",
            show_duration(self.stale_max),
            Allowed::AtLeast("stale_if_error", show_duration(self.stale_if_error)),
        );
        checks.require(self.entry_bytes_max >= 1, "entry_bytes_max", self.entry_bytes_max, "1 or more");
        checks.require(
            self.paths.len() <= PATHS_MAX,
            "paths",
            format!("{} of them", self.paths.len()),
            format!("up to {PATHS_MAX}"),
        );
        checks.finish()
    }

    /// The rule for a target's path, if there is one: that of the longest beginning in whole segments.
    pub fn rule(&self, target: &str) -> Option<PathTreatment> {
        if self.paths.is_empty() {
            return None;
        }
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        self.paths.iter().filter(|rule| rule.is_for(path)).max_by_key(|rule| rule.path.len()).map(|rule| rule.treatment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(change: impl FnOnce(&mut CachePolicy), expected: &[&str]) {
        let mut policy = CachePolicy::default();
        change(&mut policy);
        let told: Vec<_> = policy.validate().err().unwrap_or_default().iter().map(ToString::to_string).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn what_is_outside_of_what_is_allowed_is_told() {
        let day = Duration::from_secs(86_400);
        let rule = || "/x bypass".parse::<PathRule>().unwrap();
        check(|_| {}, &[]);
        check(
            |policy| policy.default_ttl = Some(Duration::ZERO),
            &["default_ttl is 0s; allowed is more than zero, or none"],
        );
        check(|policy| policy.targeted = vec![HeaderName::from_static("x-cache"); 10], &[]);
        check(
            |policy| policy.targeted = vec![HeaderName::from_static("x-cache"); 11],
            &["targeted is 11 of them; allowed is up to 10"],
        );
        check(|policy| policy.stale_if_error = day, &[]);
        check(|policy| policy.stale_if_error = 2 * day, &["stale_max is 1d; allowed is stale_if_error (2d) or more"]);
        check(|policy| policy.entry_bytes_max = 0, &["entry_bytes_max is 0; allowed is 1 or more"]);
        check(|policy| policy.paths = vec![rule(); 101], &["paths is 101 of them; allowed is up to 100"]);
    }

    #[test]
    fn of_several_rules_the_longest_counts() {
        let rules = ["/v2 revalidate always", "/v2/live bypass", "/v2/live/archive default-ttl 1d"];
        let paths = rules.map(|rule| rule.parse().unwrap()).to_vec();
        let policy = CachePolicy { paths, ..CachePolicy::default() };
        for (path, expected) in [
            ("/v2", Some("revalidate always")),
            ("/v2/lives", Some("revalidate always")),
            ("/v2/live", Some("bypass")),
            ("/v2/live/", Some("bypass")),
            ("/v2/live/archive/2025", Some("default-ttl 1d")),
            ("/v22", None),
            ("/", None),
            ("/V2", None),
        ] {
            assert_eq!(policy.rule(path).map(|rule| rule.to_string()).as_deref(), expected, "{path}");
        }
    }
}
