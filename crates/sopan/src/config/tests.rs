//! Every flag: what it does, and what is said of a value that it cannot have.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use clap::CommandFactory;
use sopan_fake::{Cut, RetryAfter, Window};

use super::*;
use crate::cli;

fn read(command: &str, required: &[&str], flags: &[&str]) -> cli::Command {
    let args = ["sopan", command].into_iter().chain(required.iter().copied()).chain(flags.iter().copied());
    cli::read(args.map(OsString::from)).unwrap_or_else(|told| panic!("{flags:?}: {told}")).command
}

fn try_fake(flags: &[&str]) -> Result<Fake, Wrong> {
    match read("fake-api", &[], flags) {
        cli::Command::FakeApi(typed) => fake(&typed),
    }
}

/// Every flag of a command, so that a table can be held against them.
fn flags_of(command: &str) -> BTreeSet<String> {
    let program = cli::Cli::command();
    let command = program.find_subcommand(command).unwrap();
    command.get_arguments().filter_map(|a| a.get_long()).map(|name| format!("--{name}")).collect()
}

fn flags_in<'t>(table: impl Iterator<Item = &'t str>) -> BTreeSet<String> {
    table.map(str::to_owned).collect()
}

type Effect<T> = (&'static str, &'static str, fn(&T) -> bool);

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn nothing_typed_means_the_defaults_of_the_library() {
    let fake = try_fake(&[]).unwrap();
    assert_eq!(fake.listen.to_string(), "127.0.0.1:8765");
    assert_eq!(format!("{:?}", fake.settings), format!("{:?}", sopan_fake::Settings::default()));
}

const FAKE: &[Effect<Fake>] = &[
    ("--listen", "127.0.0.1:0", |f| f.listen.port() == 0),
    ("--rate-limit-first", "1", |f| f.settings.rate_limit_first == 1),
    ("--fail-first", "2", |f| f.settings.fail_first == 2),
    ("--limit", "10/s", |f| f.settings.limits == [sopan_fake::Limit::Rate { tokens: 10, per: s(1), burst: 1 }]),
    ("--window", "sliding", |f| f.settings.window == Window::Sliding),
    ("--retry-after", "rfc850", |f| f.settings.retry_after == RetryAfter::Rfc850),
    ("--delay", "50ms", |f| f.settings.delay == Duration::from_millis(50)),
    ("--delay-jitter", "1", |f| f.settings.delay_jitter == s(1)),
    ("--seed", "18446744073709551615", |f| f.settings.seed == u64::MAX),
    ("--drop-before-head-first", "3", |f| f.settings.drop_before_head_first == 3),
    ("--drop-in-head-first", "4", |f| f.settings.drop_in_head_first == 4),
    ("--drop-after-head-first", "5", |f| f.settings.drop_after_head_first == 5),
    ("--truncate-first", "6", |f| f.settings.truncate_first == 6),
    ("--cut", "reset", |f| f.settings.cut == Cut::Reset),
    ("--orders-total", "0", |f| f.settings.orders_total == 0),
    ("--page-size", "1000", |f| f.settings.page_size == 1000),
    ("--log-entries-max", "0", |f| f.settings.log_entries_max == 0),
    ("--wall-start", "Wed, 21 Oct 2026 12:00:00 GMT", |f| {
        f.settings.wall_start == Some(std::time::UNIX_EPOCH + s(1_792_584_000))
    }),
];

#[test]
fn every_flag_of_the_fake_has_its_effect() {
    assert_eq!(flags_in(FAKE.iter().map(|(flag, ..)| *flag)), flags_of("fake-api"));
    for (flag, value, effect) in FAKE {
        assert!(effect(&try_fake(&[flag, value]).unwrap()), "{flag} {value}");
    }
}

#[test]
fn a_limit_of_the_fake_counts_in_the_unit_that_was_written() {
    let rate = |tokens, seconds, burst| sopan_fake::Limit::Rate { tokens, per: s(seconds), burst };
    for (text, expected) in [
        ("10/s", rate(10, 1, 1)),
        ("10/s burst 20", rate(10, 1, 20)),
        ("600/min", rate(600, 60, 1)),
        ("0.5/s", rate(1, 2, 1)),
        ("2.5/s", rate(5, 2, 1)),
        ("6/hour burst 2", rate(6, 3600, 2)),
        ("1/d", rate(1, 86_400, 1)),
        ("50 per 1s", sopan_fake::Limit::Quota { count: 50, span: s(1) }),
    ] {
        assert_eq!(try_fake(&["--limit", text]).unwrap().settings.limits, [expected], "{text}");
    }
    let both = try_fake(&["--limit", "10/s burst 20", "--limit", "100 per 1min"]).unwrap();
    assert_eq!(both.settings.limits, [rate(10, 1, 20), sopan_fake::Limit::Quota { count: 100, span: s(60) }]);
}

/// What is said of flags that cannot be: all of it.
#[track_caller]
fn check(wrong: Option<Wrong>, expected: &[&str]) {
    let said = wrong.map_or_else(|| "nothing".to_owned(), |wrong| wrong.to_string());
    let expected: Vec<_> = expected.iter().map(|line| format!("error: {line}")).collect();
    assert_eq!(said, expected.join("\n"));
}

#[test]
fn what_the_fake_cannot_be_is_told() {
    for (flag, value, why) in [
        ("--listen", "x", "`x` is not an address with a port; write for example 127.0.0.1:8000 or [::1]:8000"),
        ("--rate-limit-first", "-1", "`-1` is not allowed; write a whole number from 0 to 18446744073709551615"),
        (
            "--limit",
            "0/s",
            "`0/s` is not a limit: a rate of zero would let nothing through, ever; the lowest rate is 1/d",
        ),
        ("--window", "round", "`round` is not allowed; write one of bucket, fixed, sliding"),
        ("--retry-after", "1", "`1` is not allowed; write one of seconds, imf, rfc850, asctime, none, garbage"),
        ("--cut", "fin", "`fin` is not allowed; write one of close, reset"),
        ("--page-size", "0", "`0` is not allowed; write a whole number from 1 to 1000"),
        ("--page-size", "1001", "`1001` is not allowed; write a whole number from 1 to 1000"),
        (
            "--wall-start",
            "2026-10-21",
            "`2026-10-21` is not a date since 1970; write for example Wed, 21 Oct 2026 12:00:00 GMT, or now",
        ),
    ] {
        check(try_fake(&[flag, value]).err(), &[&format!("{flag}: {why}")]);
    }
}
