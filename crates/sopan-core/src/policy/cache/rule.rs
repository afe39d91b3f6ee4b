//! What holds for single paths: `/v2/live bypass`.
//!
//! A rule is one line, a path and what becomes of requests for it, as people type it. Which of several rules counts is for
//! the policy.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::Revalidate;
use crate::policy::{parse_duration, show_duration};

/// What holds for the paths below one, in place of what holds for the upstream.
///
/// ```
/// use sopan_core::policy::{PathRule, PathTreatment};
///
/// let rule: PathRule = "/v2/live bypass".parse()?;
/// assert_eq!(rule.treatment, PathTreatment::Bypass);
/// assert!(rule.is_for("/v2/live/scores") && !rule.is_for("/v2/lives"));
/// # Ok::<(), sopan_core::policy::PathRuleError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRule {
    /// As clients ask for it, whole segments, such as `/v2/live`.
    pub path: String,
    /// What becomes of requests for it.
    pub treatment: PathTreatment,
}

/// What becomes of requests for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathTreatment {
    /// The cache has no part in them.
    Bypass,
    /// A `default_ttl` of its own.
    DefaultTtl(Duration),
    /// A `revalidate` of its own.
    Revalidate(Revalidate),
}

/// A text that is not a rule for a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a rule for a path: {why}; {EXAMPLES}")]
pub struct PathRuleError {
    text: String,
    why: String,
}

const EXAMPLES: &str = "write for example /v2/live bypass, /v2/catalog default-ttl 1d, or /v2/feed revalidate always";

impl PathRule {
    /// Whether it is for requests for this path: for its own, and for all below it.
    pub fn is_for(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.path.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl FromStr for PathRule {
    type Err = PathRuleError;

    /// Reads `PATH bypass`, `PATH default-ttl DURATION` and `PATH revalidate stale|always`.
    fn from_str(text: &str) -> Result<Self, PathRuleError> {
        let read = || {
            let mut words = text.split_whitespace();
            let path = path(words.next().unwrap_or_default())?;
            Ok(Self { path, treatment: treatment(&words.collect::<Vec<_>>())? })
        };
        read().map_err(|why| PathRuleError { text: text.to_owned(), why })
    }
}

fn path(text: &str) -> Result<String, String> {
    match text {
        "" => Err("it is empty".to_owned()),
        _ if !text.starts_with('/') => Err("it does not begin with a path, and so with /".to_owned()),
        _ if text.contains(['?', '#']) => Err("its path has a query, which rules do not look at".to_owned()),
        _ if !text.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err("its path holds a character that must be percent-encoded".to_owned())
        }
        _ => Ok(text.to_owned()),
    }
}

fn treatment(words: &[&str]) -> Result<PathTreatment, String> {
    match words {
        [] => Err("it does not say what becomes of requests for the path".to_owned()),
        ["bypass"] => Ok(PathTreatment::Bypass),
        ["default-ttl", ttl] => match parse_duration(ttl) {
            Ok(ttl) if ttl.is_zero() => Err("its default-ttl is zero".to_owned()),
            Ok(ttl) => Ok(PathTreatment::DefaultTtl(ttl)),
            Err(_) => Err(format!("`{ttl}` is not a duration")),
        },
        ["revalidate", "stale"] => Ok(PathTreatment::Revalidate(Revalidate::Stale)),
        ["revalidate", "always"] => Ok(PathTreatment::Revalidate(Revalidate::Always)),
        _ => Err(format!("`{}` is none of bypass, default-ttl DURATION and revalidate stale|always", words.join(" "))),
    }
}

impl fmt::Display for PathRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path, self.treatment)
    }
}

impl fmt::Display for PathTreatment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bypass => f.write_str("bypass"),
            Self::DefaultTtl(ttl) => write!(f, "default-ttl {}", show_duration(*ttl)),
            Self::Revalidate(Revalidate::Stale) => f.write_str("revalidate stale"),
            Self::Revalidate(Revalidate::Always) => f.write_str("revalidate always"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_shown_as_it_can_be_read() {
        for (text, path, treatment) in [
            ("/v2/live bypass", "/v2/live", PathTreatment::Bypass),
            ("/ bypass", "/", PathTreatment::Bypass),
            ("/a%20b/ default-ttl 1d", "/a%20b/", PathTreatment::DefaultTtl(Duration::from_secs(86_400))),
            ("/x default-ttl 90s", "/x", PathTreatment::DefaultTtl(Duration::from_secs(90))),
            ("/feed revalidate always", "/feed", PathTreatment::Revalidate(Revalidate::Always)),
            ("/feed revalidate stale", "/feed", PathTreatment::Revalidate(Revalidate::Stale)),
        ] {
            let rule = PathRule { path: path.to_owned(), treatment };
            assert_eq!((text.parse(), rule.to_string()), (Ok(rule), text.to_owned()));
        }
        let wide: PathRule = " /x \t default-ttl  60 ".parse().unwrap();
        assert_eq!(wide.to_string(), "/x default-ttl 1m");
    }

    #[test]
    fn what_is_no_rule_is_told() {
        for (text, why) in [
            ("", "it is empty"),
            ("bypass", "it does not begin with a path, and so with /"),
            ("https://u/x bypass", "it does not begin with a path, and so with /"),
            ("/x?y bypass", "its path has a query, which rules do not look at"),
            ("/\u{e9} bypass", "its path holds a character that must be percent-encoded"),
            ("/x", "it does not say what becomes of requests for the path"),
            ("/x off", "`off` is none of bypass, default-ttl DURATION and revalidate stale|always"),
            ("/x bypass bypass", "`bypass bypass` is none of bypass, default-ttl DURATION and revalidate stale|always"),
            ("/x default-ttl", "`default-ttl` is none of bypass, default-ttl DURATION and revalidate stale|always"),
            ("/x default-ttl soon", "`soon` is not a duration"),
            ("/x default-ttl 0s", "its default-ttl is zero"),
            (
                "/x revalidate never",
                "`revalidate never` is none of bypass, default-ttl DURATION and revalidate stale|always",
            ),
        ] {
            let told = text.parse::<PathRule>().unwrap_err().to_string();
            assert_eq!(told, format!("`{text}` is not a rule for a path: {why}; {EXAMPLES}"));
        }
    }
}
