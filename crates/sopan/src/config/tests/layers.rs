//! Who counts more: flags, an upstream's own settings, the defaults of the file, those of the table.

use super::super::file::File;
use super::super::problem::Source;
use super::super::serve::loaded;
use super::super::{Loaded, Origin, Wrong};
use super::*;

/// What comes of a file and flags on top of it.
fn with(file: &str, flags: &[&str]) -> Loaded {
    let cli::Command::Serve(typed) = read("serve", &["--config", "s.yaml"], flags) else { unreachable!() };
    let source = Source { path: "s.yaml".to_owned(), text: file.to_owned() };
    loaded(Some(File::of(source)), &typed.settings)
}

const FILE: &str = "\
listen: 127.0.0.1:9000
defaults:
  limits: 5/s burst 5
  total_timeout: 50s
  retry:
    max_retries: 2
    jitter: 0.5
upstreams:
  shop:
    url: https://shop.test
    route: /shop
    limits: 7/s burst 7
    retry:
      max_retries: 1
  mail:
    url: https://mail.test
";

#[track_caller]
fn check(flags: &[&str], key: &str, expected: [(Origin, &str); 2]) {
    let loaded = with(FILE, flags);
    let found = loaded.upstreams.iter().map(|(_, resolved)| {
        let (origin, value) = resolved.values.iter().find(|(_, value)| value.setting.path() == key).unwrap();
        (*origin, value.shown())
    });
    let found: Vec<_> = found.collect();
    let expected = expected.map(|(origin, text)| (origin, text.to_owned()));
    assert_eq!(found, expected, "{key} {flags:?}: {}", loaded.wrong);
}

#[test]
fn the_strongest_that_says_something_counts() {
    use Origin::{Defaults, File, Flags, Table};
    check(&[], "limits", [(File, "7/s burst 7"), (Defaults, "5/s burst 5")]);
    check(&["--rate", "9/s", "--rate", "50 per 1h"], "limits", [(Flags, "9/s, 50 per 1h"); 2]);
    check(&[], "retry.max_retries", [(File, "1"), (Defaults, "2")]);
    check(&["--max-retries", "0"], "retry.max_retries", [(Flags, "0"); 2]);
    // A section is no whole: what one layer leaves open the next one says.
    check(&[], "retry.jitter", [(Defaults, "0.5"); 2]);
    check(&[], "retry.min_wait", [(Table, "1s"); 2]);
    check(&["--breaker", "failures=3"], "breaker.failures", [(Flags, "3"); 2]);
    check(&["--breaker", "failures=3"], "breaker.probes", [(Table, "1"); 2]);
    check(&["--total-timeout", "unlimited"], "total_timeout", [(Flags, "unlimited"); 2]);
}

#[test]
fn what_counts_is_what_is_served() {
    let served =
        with(FILE, &["--listen", "127.0.0.1:9009", "--idle-timeout", "7s", "--max-retries", "4"]).serve.unwrap();
    assert_eq!((served.listen.port(), served.admin.unwrap().port(), served.idle_timeout), (9009, 8001, s(7)));
    let of = |at: usize| &served.upstreams[at].settings;
    assert_eq!((of(0).retry.max_retries, of(1).idle_timeout, of(1).retry.jitter), (4, s(7), 0.5));
    assert_eq!(
        (&of(0).lane.limits[..], &of(1).lane.limits[..]),
        (&[limit("7/s burst 7")][..], &[limit("5/s burst 5")][..])
    );
    assert_eq!(
        (&served.upstreams[0].route, &served.upstreams[1].route),
        (&Route::Path("/shop".to_owned()), &Route::Any)
    );
    // An own section switches on what the defaults have switched off.
    let off = FILE.replace("  retry:\n    max_retries: 2", "  breaker: off\n  retry:\n    max_retries: 2");
    let own = off.replace("    route: /shop\n", "    route: /shop\n    breaker: {failures: 3}\n");
    let breakers: Vec<_> = with(&own, &[]).serve.unwrap().upstreams.iter().map(|u| u.settings.breaker.on).collect();
    assert_eq!(breakers, [true, false]);
}

#[track_caller]
fn first(wrong: &Wrong) -> (&str, String) {
    let problem = wrong.problems.iter().find(|p| p.severity == super::super::problem::Severity::Error).unwrap();
    let place = match &problem.place {
        Place::File(span) => wrong.source.text[span.clone()].to_owned(),
        Place::Flag(flag) => flag.clone(),
        Place::Default => String::new(),
    };
    (&problem.what, place)
}

#[test]
fn what_does_not_fit_is_told_where_it_was_said() {
    for (flags, what, place) in [
        (
            &["--backoff-base", "60s"][..],
            "60s is more than retry.backoff_cap, which is 30s by default",
            "--backoff-base",
        ),
        (&["--jitter", "3"], "3 is not allowed", "--jitter"),
        (&["--wait-max", "55s"], "55s is longer than total_timeout (50s), which ends the wait", "--wait-max"),
        (
            &["--burst", "3"],
            "`3` must belong to exactly one --rate without a burst of its own, but there are 0",
            "--burst",
        ),
        (
            &["--listen", "0.0.0.0:1"],
            "`0.0.0.0:1` can be reached from other machines, and whoever reaches it uses the API as you do",
            "--listen",
        ),
    ] {
        let loaded = with(FILE, flags);
        assert_eq!(first(&loaded.wrong), (what, place.to_owned()));
        let errors =
            loaded.wrong.problems.iter().filter(|p| p.severity == super::super::problem::Severity::Error).count();
        assert_eq!(errors, 1, "{}", loaded.wrong);
    }
    let loaded = with(&FILE.replace("total_timeout: 50s", "queue: {wait_max: 20s}"), &["--total-timeout", "10s"]);
    assert_eq!(
        first(&loaded.wrong),
        ("20s is longer than --total-timeout (10s), which ends the wait", "20s".to_owned())
    );
}

#[test]
fn what_may_not_be_meant_so_is_a_line_for_the_log() {
    let file = "\
upstreams:
  shop:
    url: https://shop.test
    limits: 5/s
    cache:
      entry_bytes_max: 20MiB
";
    let warned = |flags: &[&str]| {
        let warnings = with(file, flags).wrong.warnings().into_iter();
        warnings.map(|warned| (warned.setting, warned.place, warned.line)).collect::<Vec<_>>()
    };
    let [limit, entry] = &warned(&[])[..] else { panic!() };
    assert_eq!((&*limit.0, limit.1.as_deref()), ("upstreams.shop.limits", Some("s.yaml:4")));
    assert!(limit.2.starts_with("s.yaml:4: upstreams.shop.limits: `5/s` has no margin"), "{}", limit.2);
    assert!(
        limit.2.ends_with("with 429; state the API's burst if it allows one, or set rate_margin: 10%"),
        "{}",
        limit.2
    );
    assert_eq!(entry.1.as_deref(), Some("s.yaml:6"));
    let flags = ["--rate", "unlimited", "--cache-entry-bytes-max", "30MiB"];
    let [(setting, place, line)] = &warned(&flags)[..] else { panic!() };
    assert_eq!((&**setting, place), ("--cache-entry-bytes-max", &None));
    assert!(line.starts_with("--cache-entry-bytes-max: bodies above 16MiB are not stored"), "{line}");
}
