//! Which sopan is this?
//!
//! The build script knows from which commit, where there is one; what is said to whom is decided here: `-V` and the log say it
//! in a few words, `--version` all of it, for a bug report.

use std::sync::LazyLock;

/// As in Cargo.toml.
pub(crate) const NUMBER: &str = env!("CARGO_PKG_VERSION");

/// The commit that it was built from, abbreviated, where that was known.
pub(crate) const COMMIT: Option<&str> = option_env!("SOPAN_COMMIT");

/// The day of that commit.
pub(crate) const DATE: Option<&str> = option_env!("SOPAN_COMMIT_DATE");

/// `0.1.0 (abc1234 2026-11-30)`, or the number alone.
pub(crate) fn short() -> &'static str {
    static SHORT: LazyLock<String> = LazyLock::new(|| in_short(COMMIT, DATE));
    &SHORT
}

/// The same, and with what it was built, a line each.
pub(crate) fn long() -> &'static str {
    static LONG: LazyLock<String> = LazyLock::new(|| {
        let features = match env!("SOPAN_FEATURES") {
            "" => "none",
            features => features,
        };
        let (target, profile) = (env!("SOPAN_TARGET"), env!("SOPAN_PROFILE"));
        let short = short();
        format!("{short}\nfeatures: {features}\nTLS: rustls with aws-lc-rs\ntarget: {target}, {profile}")
    });
    &LONG
}

fn in_short(commit: Option<&str>, date: Option<&str>) -> String {
    let built_from: Vec<_> = commit.into_iter().chain(date).collect();
    if built_from.is_empty() { NUMBER.to_owned() } else { format!("{NUMBER} ({})", built_from.join(" ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_told_where_it_is_known() {
        assert_eq!(in_short(None, None), NUMBER);
        assert_eq!(in_short(Some("abc1234"), Some("2026-11-30")), format!("{NUMBER} (abc1234 2026-11-30)"));
        assert_eq!(in_short(Some("abc1234"), None), format!("{NUMBER} (abc1234)"));
    }

    #[test]
    fn the_long_form_begins_as_the_short_one_and_leaves_nothing_blank() {
        let (first, rest) = long().split_once('\n').unwrap();
        assert_eq!(first, short());
        for (line, name) in rest.lines().zip(["features", "TLS", "target"]) {
            let (said, value) = line.split_once(": ").unwrap();
            assert!(said == name && !value.is_empty() && !value.starts_with(','), "{line}");
        }
        assert_eq!(rest.lines().count(), 3);
    }
}
