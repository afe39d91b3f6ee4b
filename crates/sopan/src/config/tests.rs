//! Every flag: what it does, and what is said of a value that it cannot have.

mod clients;
mod credential;
mod jobs;
mod layers;
mod mutations;
mod secrets;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use clap::CommandFactory;
use http::StatusCode;
use sopan_core::headers::ForwardedPolicy;
use sopan_core::hints::Reader;
use sopan_core::policy::{
    BreakerPolicy, CachePolicy, JitterKind, LanePolicy, Limit, OnLongRetryAfter, RetryPolicy, Revalidate,
};
use sopan_core::safety::{HostName, Hosts};
use sopan_core::trace::Sampler;
use sopan_engine::shared::GoingAlone;
use sopan_fake::{Cut, Etag, Profile, RetryAfter, Window};

use super::route::Route;
use super::*;
use crate::cli;

/// A certificate of our own, for nothing.
const CERTIFICATE: &str = include_str!("../../tests/data/ca.pem");

fn read(command: &str, required: &[&str], flags: &[&str]) -> cli::Command {
    let args = ["sopan", command].into_iter().chain(required.iter().copied()).chain(flags.iter().copied());
    cli::read(args.map(OsString::from)).unwrap_or_else(|told| panic!("{flags:?}: {told}")).command
}

fn try_serve(flags: &[&str]) -> Result<Serve, Wrong> {
    // A flag that is given again would be refused, so the tests that are about this one leave it away here.
    let required: &[&str] = if flags.contains(&"--upstream") { &[] } else { &["--upstream", "http://u"] };
    let cli::Command::Serve(typed) = read("serve", required, flags) else { unreachable!() };
    serve(typed.config.as_deref(), &typed.settings)
}

fn try_fetch(url: &str, flags: &[&str]) -> Result<Single, Wrong> {
    let cli::Command::Fetch(typed) = read("fetch", &[url], flags) else { unreachable!() };
    fetch(&typed).map(|fetch| match fetch {
        Fetch::Single(single) => *single,
        Fetch::Jobs(jobs) => panic!("{flags:?} make a job: {jobs:?}"),
    })
}

fn try_fake(flags: &[&str]) -> Result<Fake, Wrong> {
    let cli::Command::FakeApi(typed) = read("fake-api", &[], flags) else { unreachable!() };
    fake(&typed)
}

fn try_explain(flags: &[&str]) -> Result<Explain, Wrong> {
    let required: &[&str] = if flags.contains(&"--status") { &[] } else { &["--status", "429"] };
    let cli::Command::Explain(typed) = read("explain", required, flags) else { unreachable!() };
    explain(&typed)
}

fn limit(text: &str) -> Limit {
    text.parse().unwrap()
}

/// Every flag of a command, so that a table can be held against them.
fn flags_of(command: &str) -> BTreeSet<String> {
    let program = cli::Cli::command();
    let command = program.find_subcommand(command).unwrap();
    // What a settings file says is tested elsewhere.
    command
        .get_arguments()
        .filter_map(|a| a.get_long())
        .filter(|name| *name != "config")
        .map(|name| format!("--{name}"))
        .collect()
}

fn flags_in<'t>(table: impl Iterator<Item = &'t str>) -> BTreeSet<String> {
    table.map(str::to_owned).collect()
}

type Effect<T> = (&'static str, &'static str, fn(&T) -> bool);

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn nothing_typed_means_the_defaults_of_the_policies() {
    let serve = try_serve(&[]).unwrap();
    assert_eq!(
        (serve.listen.to_string(), serve.admin.unwrap().to_string()),
        ("127.0.0.1:8000".into(), "127.0.0.1:8001".into())
    );
    assert_eq!(serve.upstreams[0].settings.lane, LanePolicy::default());
    assert_eq!(serve.upstreams[0].settings.retry, RetryPolicy::default());
    assert_eq!(serve.upstreams[0].settings.breaker, BreakerPolicy::default());
    assert_eq!((cache(&serve), &serve.store.disk), (&CachePolicy::default(), &None));
    assert_eq!((serve.upstreams[0].settings.connect_timeout, serve.upstreams[0].settings.idle_timeout), (s(5), s(60)));
    assert!(
        serve.upstreams[0].settings.waits_count
            && serve.upstreams[0].settings.http2
            && serve.upstreams[0].settings.roots.ca_file.is_none()
    );
    assert_eq!((serve.header_timeout, serve.idle_timeout, serve.drain), (s(10), s(60), s(10)));
    assert_eq!((serve.hosts, serve.upstreams[0].settings.forwarded), (Hosts::default(), ForwardedPolicy::Off));
    assert!(serve.upstreams[0].settings.rewrite_links);
    assert_eq!(
        (serve.max_connections, &serve.upstreams[0].client_by, serve.access_log),
        (10_000, &ClientBy::Ip, false)
    );
    assert_eq!((serve.log, serve.workers >= 1), (Format::Text, true));

    let fetch = try_fetch("http://u", &[]).unwrap();
    assert_eq!(fetch.upstream.lane, LanePolicy { wait_max: None, ..LanePolicy::default() });
    assert_eq!((fetch.upstream.retry, fetch.upstream.breaker), (RetryPolicy::default(), BreakerPolicy::default()));
    assert!(!fetch.upstream.waits_count && fetch.upstream.cache.is_none() && fetch.body_bytes_max == 1 << 30);

    let fake = try_fake(&[]).unwrap();
    assert_eq!(fake.listen.to_string(), "127.0.0.1:8765");
    assert_eq!(format!("{:?}", fake.settings), format!("{:?}", sopan_fake::Settings::default()));
}

/// In place of the value of a flag that needs another one beside it.
const ELSEWHERE: &str = "ELSEWHERE";

const SERVE: &[Effect<Serve>] = &[
    ("--upstream", "https://api.test/v2", |s| s.upstreams[0].settings.target.to_string() == "https://api.test/v2"),
    ("--listen", "[::1]:0", |s| s.listen.to_string() == "[::1]:0"),
    ("--admin", "off", |s| s.admin.is_none()),
    ("--admin", "[::1]:9", |s| s.admin.unwrap().to_string() == "[::1]:9"),
    ("--admin-token-file", ELSEWHERE, |_| true),
    ("--open", "", |s| s.hosts == Hosts { names: vec![], is_open: true }),
    ("--host", "Proxy.Test.", |s| {
        s.hosts == Hosts { names: vec![HostName::Name("proxy.test".into())], is_open: false }
    }),
    ("--forwarded", "pass", |s| s.upstreams[0].settings.forwarded == ForwardedPolicy::Pass),
    ("--forwarded", "rfc7239", |s| s.upstreams[0].settings.forwarded == ForwardedPolicy::Rfc7239),
    ("--forwarded", "x-forwarded", |s| s.upstreams[0].settings.forwarded == ForwardedPolicy::XForwarded),
    ("--observe", "on", |s| s.upstreams[0].settings.observe),
    ("--rewrite-links", "off", |s| !s.upstreams[0].settings.rewrite_links),
    ("--workers", "3", |s| s.workers == 3),
    ("--max-connections", "7", |s| s.max_connections == 7),
    ("--header-timeout", "3", |c| c.header_timeout == s(3)),
    ("--drain", "0", |s| s.drain.is_zero()),
    ("--cache", "off", |s| s.upstreams[0].settings.cache.is_none()),
    ("--cache", "on", |s| *cache(s) == CachePolicy::default()),
    ("--default-ttl", "300s", |c| cache(c).default_ttl == Some(s(300))),
    ("--default-ttl", "none", |s| cache(s).default_ttl.is_none()),
    ("--store-set-cookie", "on", |s| cache(s).store_set_cookie),
    ("--cache-targeted", "Edge-Cache-Control,cdn-cache-control", |s| {
        cache(s).targeted == ["edge-cache-control", "cdn-cache-control"]
    }),
    ("--cache-targeted", "none", |s| cache(s).targeted.is_empty()),
    ("--revalidate", "always", |s| cache(s).revalidate == Revalidate::Always),
    ("--stale-if-error", "1h", |c| cache(c).stale_if_error == s(3600)),
    ("--stale-max", "0", |s| cache(s).stale_max.is_zero()),
    ("--cache-entry-bytes-max", "1MiB", |s| cache(s).entry_bytes_max == 1 << 20),
    ("--cache-path", "/v2/live bypass", |s| cache(s).paths == ["/v2/live bypass".parse().unwrap()]),
    ("--cache-size", "64MiB", |s| s.store == Store { memory_bytes: 64 << 20, disk: None }),
    ("--cache-dir", "a/b", |s| s.store == Store { memory_bytes: 256 << 20, disk: Some(("a/b".into(), 1 << 30)) }),
    // It needs a directory.
    ("--cache-disk-size", ELSEWHERE, |_| true),
    ("--state", "a/b", |s| s.state == Some("a/b".into())),
    ("--access-log", "on", |s| s.access_log),
    ("--log", "json", |s| s.log == Format::Json),
    ("--rate", "5000 per 1h", |s| s.upstreams[0].settings.lane.limits == [limit("5000 per 1h")]),
    ("--rate", "unlimited", |s| s.upstreams[0].settings.lane.limits.is_empty()),
    ("--burst", "5", |s| s.upstreams[0].settings.lane.limits == [limit("10/s burst 5")]),
    ("--headroom", "0", |s| s.upstreams[0].settings.lane.headroom == 0),
    ("--rate-margin", "2%", |s| s.upstreams[0].settings.lane.rate_margin.millionths() == 20_000),
    ("--max-hold", "1m", |c| c.upstreams[0].settings.lane.max_hold == s(60)),
    ("--breaker", "off", |s| !s.upstreams[0].settings.breaker.on),
    ("--max-in-flight", "9", |s| s.upstreams[0].settings.lane.max_in_flight == Some(9)),
    ("--max-in-flight", "unlimited", |s| s.upstreams[0].settings.lane.max_in_flight.is_none()),
    ("--waiting-max", "0", |s| s.upstreams[0].settings.lane.waiting_max == 0),
    ("--queue-bytes-max", "1MiB", |s| s.upstreams[0].settings.lane.queue_bytes_max == 1 << 20),
    ("--wait-max", "1m30s", |c| c.upstreams[0].settings.lane.wait_max == Some(s(90))),
    ("--wait-max", "unlimited", |s| s.upstreams[0].settings.lane.wait_max.is_none()),
    ("--client-by", "connection", |s| s.upstreams[0].client_by == ClientBy::Connection),
    ("--client-by", "header:X-Team", |s| s.upstreams[0].client_by == ClientBy::Header("x-team".parse().unwrap())),
    ("--max-retries", "0", |s| s.upstreams[0].settings.retry.max_retries == 0),
    ("--backoff-base", "2s", |c| c.upstreams[0].settings.retry.backoff_base == s(2)),
    ("--backoff-cap", "5m", |c| c.upstreams[0].settings.retry.backoff_cap == s(300)),
    ("--jitter", "0", |s| s.upstreams[0].settings.retry.jitter == 0.0),
    ("--jitter-kind", "full", |s| s.upstreams[0].settings.retry.jitter_kind == JitterKind::Full),
    ("--jitter-kind", "decorrelated", |s| s.upstreams[0].settings.retry.jitter_kind == JitterKind::Decorrelated),
    ("--max-retry-after", "90", |c| c.upstreams[0].settings.retry.max_retry_after == s(90)),
    ("--on-long-retry-after", "cap", |s| s.upstreams[0].settings.retry.on_long_retry_after == OnLongRetryAfter::Cap),
    ("--min-wait", "0", |s| s.upstreams[0].settings.retry.min_wait.is_zero()),
    ("--default-wait", "2s", |c| c.upstreams[0].settings.retry.default_wait == Some(s(2))),
    ("--retry-after-reader", "strict", |s| s.upstreams[0].settings.retry.reader == Reader::Strict),
    ("--retry-after-jitter", "3s", |c| c.upstreams[0].settings.retry.retry_after_jitter == s(3)),
    ("--total-timeout", "10s", |c| c.upstreams[0].settings.retry.total_timeout == Some(s(10))),
    ("--total-timeout", "unlimited", |s| s.upstreams[0].settings.retry.total_timeout.is_none()),
    ("--attempt-timeout", "11s", |c| c.upstreams[0].settings.retry.attempt_timeout == s(11)),
    ("--retry-budget", "off", |s| !s.upstreams[0].settings.retry.retry_budget),
    ("--retry-on", "425,520", |s| {
        s.upstreams[0].settings.retry.retry_on == [StatusCode::TOO_EARLY, StatusCode::from_u16(520).unwrap()]
    }),
    ("--replay-bytes-max", "0", |s| s.upstreams[0].settings.retry.replay_bytes_max == 0),
    ("--replay-bytes-total", "1GB", |s| s.upstreams[0].settings.retry.replay_bytes_total == 1_000_000_000),
    ("--connect-timeout", "250ms", |s| s.upstreams[0].settings.connect_timeout == Duration::from_millis(250)),
    ("--idle-timeout", "7s", |c| (c.upstreams[0].settings.idle_timeout, c.idle_timeout) == (s(7), s(7))),
    ("--http2", "off", |s| !s.upstreams[0].settings.http2),
    ("--ca-file", "CERTIFICATE", |s| s.upstreams[0].settings.roots.ca_file.is_some()),
    ("--redis", "rediss://etl:pw@h/2", |s| {
        let shared = s.shared.as_ref().unwrap();
        (&*shared.redis.url.to_string(), &*shared.prefix, shared.redis.timeout, shared.going_alone)
            == ("rediss://h:6379/2", "sopan", Duration::from_millis(100), GoingAlone::default())
    }),
    // It needs a Redis.
    ("--instances", ELSEWHERE, |_| true),
    ("--otlp", "https://otlp.test/v1/traces", |s| {
        let traces = s.traces.as_ref().unwrap();
        (traces.to.path.as_str(), &*traces.service_name, traces.sampler)
            == ("/v1/traces", "sopan", Sampler::new(1.0).unwrap())
    }),
    // Without where they go nothing is recorded.
    ("--trace-sample", "0.1", |s| s.traces.is_none()),
    // Each needs the other, so they are looked at together elsewhere.
    ("--client-cert", ELSEWHERE, |_| true),
    ("--client-key", ELSEWHERE, |_| true),
    // They make one thing together.
    ("--credential-env", ELSEWHERE, |_| true),
    ("--credential-file", ELSEWHERE, |_| true),
    ("--credential-header", ELSEWHERE, |_| true),
    ("--credential-scheme", ELSEWHERE, |_| true),
    ("--credential-query", ELSEWHERE, |_| true),
];

fn cache(serve: &Serve) -> &CachePolicy {
    serve.upstreams[0].settings.cache.as_ref().unwrap()
}

#[test]
fn every_flag_of_serve_has_its_effect() {
    assert_eq!(flags_in(SERVE.iter().map(|(flag, ..)| *flag)), flags_of("serve"));
    let ca = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&ca, CERTIFICATE).unwrap();
    for (flag, value, effect) in SERVE.iter().filter(|(_, value, _)| *value != ELSEWHERE) {
        let value = if *value == "CERTIFICATE" { ca.path().to_str().unwrap() } else { value };
        let typed = if value.is_empty() { &[*flag][..] } else { &[*flag, value] };
        let serve = try_serve(typed).unwrap_or_else(|wrong| panic!("{flag} {value}: {wrong}"));
        assert!(effect(&serve), "{flag} {value}: {serve:?}");
    }
}

const FETCH: &[Effect<Single>] = &[
    ("--header", "X-A: b", |f| f.headers["x-a"] == "b"),
    ("--header", "user-agent: me", |f| f.headers["user-agent"] == "me"),
    ("--body-bytes-max", "5", |f| f.body_bytes_max == 5),
    ("--log", "json", |f| f.log == Format::Json),
    ("--rate", "1/s", |f| f.upstream.lane.limits == [limit("1/s")]),
    ("--max-hold", "1m", |f| f.upstream.lane.max_hold == s(60)),
    ("--breaker", "off", |f| !f.upstream.breaker.on),
    ("--max-retries", "1", |f| f.upstream.retry.max_retries == 1),
    ("--total-timeout", "9", |f| f.upstream.retry.total_timeout == Some(s(9))),
    ("--idle-timeout", "8", |f| f.upstream.idle_timeout == s(8)),
];

#[test]
fn fetch_takes_the_flags_of_serve_and_its_own() {
    let own = ["--body-bytes-max", "--header"].map(str::to_owned);
    let shared: BTreeSet<_> = flags_of("serve").intersection(&flags_of("fetch")).cloned().collect();
    let of_jobs = flags_in(jobs::TYPED.iter().map(|(flag, ..)| *flag));
    assert_eq!(flags_of("fetch"), shared.into_iter().chain(own).chain(of_jobs).collect());
    for (flag, value, effect) in FETCH {
        assert!(effect(&try_fetch("http://u/x", &[flag, value]).unwrap()), "{flag} {value}");
    }
}

/// Wed, 21 Oct 2026 12:00:00 GMT.
const NOON: Duration = s(1_792_584_000);

fn came_at(explain: &Explain, since: Duration) -> bool {
    explain.answer.received == std::time::UNIX_EPOCH + since
}

const EXPLAIN: &[Effect<Explain>] = &[
    ("--status", "503", |e| e.answer.status == 503),
    ("--status", "999", |e| e.answer.status == 999),
    ("--header", "Retry-After: 5", |e| e.answer.headers["retry-after"] == "5"),
    ("--header", "Content-Length: 5", |e| e.answer.headers["content-length"] == "5"),
    ("--method", "PATCH", |e| e.answer.method == "PATCH"),
    ("--request-header", "Accept: text/html", |e| e.answer.request["accept"] == "text/html"),
    ("--path", "/v2/live?page=1", |e| e.answer.target == "/v2/live?page=1"),
    ("--default-ttl", "5m", |e| e.rules.cache.as_ref().unwrap().default_ttl == Some(s(300))),
    ("--cache", "off", |e| e.rules.cache.is_none()),
    ("--now", "Wed, 21 Oct 2026 12:00:00 GMT", |e| came_at(e, NOON)),
    ("--now", "Wed Oct 21 12:00:00 2026", |e| came_at(e, NOON)),
    ("--now", "2026-10-21T12:00:00Z", |e| came_at(e, NOON)),
    ("--now", "2026-10-21t12:00:00.25+00:00", |e| came_at(e, NOON + Duration::from_millis(250))),
    ("--now", "1792584000", |e| came_at(e, NOON)),
    ("--now", "1792584000.5", |e| came_at(e, NOON + Duration::from_millis(500))),
    ("--now", "0", |e| came_at(e, Duration::ZERO)),
    ("--now", "9999-12-31T23:59:59Z", |e| came_at(e, s(253_402_300_799))),
    ("--body", "-", |e| e.body == Some(Body::StandardInput)),
    ("--body", "a", |e| e.body == Some(Body::File("a".into()))),
    ("--format", "json", |e| e.format == Format::Json),
    ("--max-retries", "1", |e| e.rules.retry.max_retries == 1),
    ("--max-retry-after", "90", |e| e.rules.retry.max_retry_after == s(90)),
    ("--max-hold", "1m", |e| e.rules.lane.max_hold == s(60)),
    ("--breaker", "off", |e| !e.rules.breaker.on),
];

#[test]
fn explain_takes_the_flags_of_retrying_and_its_own() {
    let own = ["--status", "--header", "--method", "--request-header", "--path", "--now", "--body", "--format", "--of"];
    let own = own.map(str::to_owned);
    let shared: BTreeSet<_> = flags_of("serve").intersection(&flags_of("explain")).cloned().collect();
    assert_eq!(flags_of("explain"), shared.into_iter().chain(own).collect());
    for (flag, value, effect) in EXPLAIN {
        let explain = try_explain(&[flag, value]).unwrap_or_else(|wrong| panic!("{flag} {value}: {wrong}"));
        assert!(effect(&explain), "{flag} {value}: {explain:?}");
    }
    let explain = try_explain(&["--header", "Set-Cookie: SECRET", "--request-header", "X-Key: SECRET"]).unwrap();
    assert!(!format!("{explain:?}").contains("SECRET"));
}

#[test]
fn explain_takes_the_rules_of_an_upstream_in_a_file() {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    let path = file.path().to_str().unwrap();
    let one = "upstreams: { a: { url: http://u, cache: { default_ttl: 9s }, retry: { max_retries: 7, max_retry_after: 10s } } }\n";
    std::fs::write(path, one).unwrap();
    let rules = try_explain(&["--config", path, "--max-retry-after", "20s"]).unwrap().rules;
    assert_eq!((rules.retry.max_retries, rules.retry.max_retry_after), (7, s(20)));
    assert_eq!(rules.cache.unwrap().default_ttl, Some(s(9)));
    std::fs::write(path, one.replace("} } }", "} }, b: { url: http://v, route: /b } }")).unwrap();
    let rules = |name: &str| try_explain(&["--config", path, "--of", name]).map(|explain| explain.rules.retry);
    assert_eq!((rules("a").unwrap().max_retries, rules("b").unwrap().max_retries), (7, 3));
    check(rules("c").err(), &[&format!("--of: `c` is no upstream of {path}; there are a, b")]);
    let several = format!("--of: {path} has several upstreams; say whose answer it is: --of one of a, b");
    check(try_explain(&["--config", path]).err(), &[&several]);
    std::fs::write(path, "upstreams: { a: { url: u } }\n").unwrap();
    assert!(try_explain(&["--config", path]).unwrap_err().to_string().contains("`u` is not an upstream"));
}

#[test]
fn what_is_no_answer_is_told() {
    for status in ["", "99", "100", "199", "1000", "4291", "x", "+429"] {
        let why = "is not the status of an answer; write a number from 200 on, such as 429";
        check(try_explain(&["--status", status]).err(), &[&format!("--status: `{status}` {why}")]);
    }
    for now in [
        "",
        "yesterday",
        "-1",
        "1.",
        "1.0000000001",
        "253402300800",
        "99999999999999999999999",
        "2026-10-21",
        "2026-10-21T12:00:00",
        "2026-10-21T12:00:00+02:00",
        "2026-13-21T12:00:00Z",
        "2026-02-30T12:00:00Z",
        "2026-10-21T25:00:00Z",
        "2026-10-21T12:00:00.Z",
        "2026-10-é1T12:00:00Z",
        "1969-12-31T23:59:59Z",
    ] {
        let why = "is no instant from 1970 to 9999; write for example 2026-10-21T12:00:00Z, \
                   'Wed, 21 Oct 2026 12:00:00 GMT' or 1792584000";
        check(try_explain(&["--now", now]).err(), &[&format!("--now: `{now}` {why}")]);
    }
    for (flag, value, why) in [
        ("--method", "a b", "`a b` is not a method; write for example GET or POST"),
        ("--path", "live", "`live` is not a path; write for example /v2/orders?page=1"),
        ("--path", "/a b", "`/a b` is not a path; write for example /v2/orders?page=1"),
        ("--request-header", "SECRET", "number 1 has no colon; write 'Name: value'"),
        ("--format", "xml", "`xml` is not allowed; write one of text, json"),
        ("--header", "SECRET", "number 1 has no colon; write 'Name: value'"),
    ] {
        check(try_explain(&[flag, value]).err(), &[&format!("{flag}: {why}")]);
    }
}

const FAKE: &[Effect<Fake>] = &[
    ("--listen", "127.0.0.1:0", |f| f.listen.port() == 0),
    ("--profile", "stripe", |f| f.settings.profile == Some(Profile::Stripe)),
    ("--rate-limit-first", "1", |f| f.settings.rate_limit_first == 1),
    ("--fail-first", "2", |f| f.settings.fail_first == 2),
    ("--limit", "10/s", |f| f.settings.limits == [sopan_fake::Limit::Rate { tokens: 10, per: s(1), burst: 1 }]),
    ("--window", "sliding", |f| f.settings.window == Window::Sliding),
    ("--etag", "free", |f| f.settings.etag == Etag::Free),
    ("--retry-after", "rfc850", |f| f.settings.retry_after == RetryAfter::Rfc850),
    ("--delay", "50ms", |f| f.settings.delay == Duration::from_millis(50)),
    ("--delay-jitter", "1", |f| f.settings.delay_jitter == s(1)),
    ("--seed", "18446744073709551615", |f| f.settings.seed == u64::MAX),
    ("--drop-before-head-first", "3", |f| f.settings.drop_before_head_first == 3),
    ("--drop-in-head-first", "4", |f| f.settings.drop_in_head_first == 4),
    ("--drop-after-head-first", "5", |f| f.settings.drop_after_head_first == 5),
    ("--truncate-first", "6", |f| f.settings.truncate_first == 6),
    ("--slow-first", "7", |f| f.settings.slow_first == 7),
    ("--slow", "1", |f| f.settings.slow == s(1)),
    ("--faults-after", "8", |f| f.settings.faults_after == 8),
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
fn a_vendor_brings_its_limit_and_its_page_size_until_others_are_told() {
    let vendor = Profile::Slack.defaults();
    let fake = try_fake(&["--profile", "slack"]).unwrap().settings;
    assert_eq!((&*fake.limits, fake.window, fake.page_size), (&[vendor.limit][..], vendor.window, vendor.page_size));
    let told = ["--profile", "slack", "--limit", "1/s", "--window", "fixed", "--page-size", "7"];
    let fake = try_fake(&told).unwrap().settings;
    assert_eq!((fake.limits.len(), fake.window, fake.page_size), (1, Window::Fixed, 7));
    assert_ne!(fake.limits[0], vendor.limit);
    let fake = try_fake(&[]).unwrap().settings;
    assert_eq!((fake.limits.len(), fake.window, fake.page_size), (0, Window::Bucket, 50));
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
    let error = try_fake(&["--limit", "5 per day at 00:00 UTC"]).unwrap_err().to_string();
    assert!(error.contains("the fake API knows no calendar"), "{error}");
    let both = try_fake(&["--limit", "10/s burst 20", "--limit", "100 per 1min"]).unwrap();
    assert_eq!(both.settings.limits, [rate(10, 1, 20), sopan_fake::Limit::Quota { count: 100, span: s(60) }]);
}

#[test]
fn the_breaker_takes_settings() {
    let breaker =
        try_serve(&["--breaker", "failures=3, min_span=0s,open_for=2s,share=0.75,window=7s,probes=2,attempts_min=21"]);
    let expected = BreakerPolicy {
        on: true,
        failures: 3,
        min_span: Duration::ZERO,
        share: 0.75,
        attempts_min: 21,
        window: s(7),
        open_for: s(2),
        probes: 2,
    };
    assert_eq!(breaker.unwrap().upstreams[0].settings.breaker, expected);
    assert_eq!(try_serve(&["--breaker", "on"]).unwrap().upstreams[0].settings.breaker, BreakerPolicy::default());
}

#[test]
fn the_store_has_memory_and_perhaps_a_disk() {
    let serve = try_serve(&["--cache-size", "2GiB", "--cache-dir", "/c", "--cache-disk-size", "10GB"]).unwrap();
    assert_eq!(serve.store, Store { memory_bytes: 2 << 30, disk: Some(("/c".into(), 10_000_000_000)) });
    let twice = ["--cache-path", "/x bypass", "--cache-path", "/x/ revalidate always"];
    check(try_serve(&twice).err(), &["--cache-path: `/x/` has two rules, and only one can count; keep one"]);
}

#[test]
fn limits_and_bursts_go_together() {
    for (flags, expected) in [
        (&["--rate", "10/s", "--burst", "20"][..], &["10/s burst 20"][..]),
        (&["--rate", "10/s", "--rate", "5000 per 1h"], &["10/s", "5000 per 1h"]),
        (&["--rate", "5000 per 1h", "--rate", "10/s", "--burst", "3"], &["5000 per 1h", "10/s burst 3"]),
        (&["--rate", "1/s burst 2", "--rate", "10/min", "--burst", "3"], &["1/s burst 2", "10/min burst 3"]),
        (&["--burst", "1"], &["10/s"]),
    ] {
        let limits = try_serve(flags).unwrap().upstreams[0].settings.lane.limits.clone();
        assert_eq!(limits.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{flags:?}");
    }
}

/// What is said of flags that cannot be: all of it.
#[track_caller]
fn check(wrong: Option<Wrong>, expected: &[&str]) {
    let said = wrong.map_or_else(|| "nothing".to_owned(), |wrong| wrong.to_string());
    let expected: Vec<_> = expected.iter().map(|line| format!("error: {line}")).collect();
    assert_eq!(said, expected.join("\n"));
}

const LIMIT_GRAMMAR: &str = "write a rate such as 10/s, 10/s burst 20, 500/min, 0.5/s, or a quota such as 5000 per 1h, 50 per 1s, 10000 per day at 00:00 UTC";
const DURATION_GRAMMAR: &str = "write a number and a unit, for example 500ms, 2s, 5m, 1h30m, 1d (up to 10 years)";
const SIZE_GRAMMAR: &str = "write bytes, or for example 64KiB, 1MiB, 10MB, 2GiB (up to 1TiB)";
const ADDRESS_GRAMMAR: &str = "write for example 127.0.0.1:8000 or [::1]:8000";

const PATH_GRAMMAR: &str =
    "write for example /v2/live bypass, /v2/catalog default-ttl 1d, or /v2/feed revalidate always";
const HOST_GRAMMAR: &str = "write a name or an address without a port or a wildcard, for example proxy.example.com";

/// What is said of a value, in which `GRAMMAR` stands for one of the texts above.
const WRONG_SERVE: &[(&str, &str, &str, &str)] = &[
    ("--rate", "0/s", "is not a limit: a rate of zero would let nothing through, ever; the lowest rate is 1/d", ""),
    ("--rate", "-1", "is not a limit: it is neither a rate nor a quota; GRAMMAR", LIMIT_GRAMMAR),
    (
        "--rate",
        "-1/s",
        "is not a limit: `-1` is not a number of digits with at most nine decimals; GRAMMAR",
        LIMIT_GRAMMAR,
    ),
    ("--rate", "NaN", "is not a limit: it is neither a rate nor a quota; GRAMMAR", LIMIT_GRAMMAR),
    ("--rate", "1e309", "is not a limit: it is neither a rate nor a quota; GRAMMAR", LIMIT_GRAMMAR),
    ("--rate", "", "is not a limit: it is neither a rate nor a quota; GRAMMAR", LIMIT_GRAMMAR),
    (
        "--rate",
        "10/fortnight",
        "is not a limit: `fortnight` is not a unit; allowed are s, min, h and d; GRAMMAR",
        LIMIT_GRAMMAR,
    ),
    ("--rate", "2000000000/s", "is not a limit: the highest rate is 1000000/s; write unlimited to keep no limit", ""),
    ("--rate", "10/s burst", "is not a limit: a burst needs a number; write for example 10/s burst 20", ""),
    ("--rate", "10/s burst 0", "is not a limit: the burst must be 1 to 1000000000", ""),
    ("--burst", "0", "is not allowed; write a whole number from 1 to 1000000000", ""),
    ("--burst", "-1", "is not allowed; write a whole number from 1 to 1000000000", ""),
    ("--burst", "1.5", "is not allowed; write a whole number from 1 to 1000000000", ""),
    ("--upstream", "api.test", "is not an upstream: it lacks http:// or https://; GRAMMAR", UPSTREAM_GRAMMAR),
    (
        "--upstream",
        "ftp://api.test",
        "is not an upstream: its scheme is neither http nor https; GRAMMAR",
        UPSTREAM_GRAMMAR,
    ),
    ("--listen", "8000", "is not an address with a port; GRAMMAR", ADDRESS_GRAMMAR),
    ("--listen", "127.0.0.1:65536", "is not an address with a port; GRAMMAR", ADDRESS_GRAMMAR),
    (
        "--listen",
        "0.0.0.0:9000",
        "`0.0.0.0:9000` can be reached from other machines, and whoever reaches it uses the API as you do; add --open if \
         that is meant, or listen on 127.0.0.1:9000",
        "",
    ),
    ("--host", "proxy.test:80", "is not a host; GRAMMAR", HOST_GRAMMAR),
    ("--host", "*.test", "is not a host; GRAMMAR", HOST_GRAMMAR),
    ("--forwarded", "on", "is not allowed; write one of off, pass, rfc7239, x-forwarded", ""),
    ("--state", " ", "`` is not a file; write its name", ""),
    ("--observe", "1", "is not allowed; write on or off", ""),
    ("--rewrite-links", "yes", "is not allowed; write on or off", ""),
    ("--admin", "on", "is not an address with a port; GRAMMAR, or off", ADDRESS_GRAMMAR),
    (
        "--admin",
        "0.0.0.0:8001",
        "`0.0.0.0:8001` can be reached from other machines, and whoever reaches it sees and changes what goes on; add \
         --admin-token-file FILE or set SOPAN_ADMIN_TOKEN, or listen on 127.0.0.1:8001",
        "",
    ),
    (
        "--admin-token-file",
        "/no/such/file",
        "the file is not to be read: No such file or directory (os error 2); name one that sopan may read",
        "",
    ),
    ("--admin", "127.0.0.1:8000", "is the address of --listen; it needs a port of its own, or off", ""),
    ("--workers", "0", "is not allowed; write a whole number from 1 to 1024", ""),
    ("--max-connections", "0", "is not allowed; write a whole number from 1 to 1000000", ""),
    ("--header-timeout", "0s", "is zero; allowed is more than zero", ""),
    ("--drain", "-1", "is not a duration; GRAMMAR", DURATION_GRAMMAR),
    ("--cache", "maybe", "is not allowed; write on or off", ""),
    ("--default-ttl", "0", "0s is not allowed; allowed is more than zero, or none", ""),
    ("--default-ttl", "for ever", "is not a duration; GRAMMAR, or none", DURATION_GRAMMAR),
    ("--store-set-cookie", "yes", "is not allowed; write on or off", ""),
    ("--cache-targeted", "a b", "is not the name of a field; write for example cdn-cache-control", ""),
    ("--revalidate", "never", "is not allowed; write one of stale, always", ""),
    (
        "--stale-if-error",
        "2d",
        "2d is more than --stale-max, which is 1d by default; raise --stale-max, or lower this",
        "",
    ),
    ("--stale-max", "none", "is not a duration; GRAMMAR", DURATION_GRAMMAR),
    ("--cache-entry-bytes-max", "0", "0 is not allowed; allowed is 1 or more", ""),
    (
        "--cache-path",
        "/x off",
        "is not a rule for a path: `off` is none of bypass, default-ttl DURATION and revalidate stale|always; GRAMMAR",
        PATH_GRAMMAR,
    ),
    ("--cache-size", "512KiB", "has no room for anything; write 1MiB or more", ""),
    ("--cache-disk-size", "15MiB", "has no room for anything; write 16MiB or more", ""),
    ("--cache-dir", " ", "`` is not a directory; write its path", ""),
    (
        "--cache-disk-size",
        "1GiB",
        "it bounds what is stored on disk, and nothing is; add --cache-dir DIR, or leave this away",
        "",
    ),
    ("--access-log", "yes", "is not allowed; write on or off", ""),
    ("--log", "xml", "is not allowed; write one of text, json", ""),
    ("--headroom", "-1", "is not a count; write digits and nothing else", ""),
    ("--rate-margin", "0.1", "is not a margin; write a percentage from 0% to 50%, for example 0.1%", ""),
    ("--rate-margin", "5", "is not a margin; write a percentage from 0% to 50%, for example 0.1%", ""),
    ("--max-hold", "0", "0s is not allowed; allowed is more than zero", ""),
    ("--max-hold", "for ever", "is not a duration; GRAMMAR", DURATION_GRAMMAR),
    ("--breaker", "maybe", "is not allowed; write on, off, or settings such as failures=3,open_for=2s", ""),
    (
        "--breaker",
        "fails=3",
        "`fails` is no setting of the breaker; there are failures, min_span, share, attempts_min, window, open_for, probes",
        "",
    ),
    ("--breaker", "probes=1,probes=2", "`probes` is given twice", ""),
    ("--breaker", "failures=0", "--breaker failures: 0 is not allowed; allowed is 1 or more", ""),
    ("--breaker", "share=NaN", "--breaker share: NaN is not allowed; allowed is above 0 and at most 1", ""),
    ("--max-in-flight", "0", "0 is not allowed; allowed is 1 or more, or unlimited", ""),
    ("--max-in-flight", "many", "is not a count; write digits and nothing else, or unlimited", ""),
    ("--waiting-max", "5000000000", "is too large; write a whole number up to 4294967295", ""),
    ("--queue-bytes-max", "-1", "is not a size; GRAMMAR", SIZE_GRAMMAR),
    ("--wait-max", "-5s", "is not a duration; GRAMMAR, or unlimited", DURATION_GRAMMAR),
    ("--client-by", "cookie", "is not allowed; write ip, connection, or header:NAME", ""),
    ("--max-retries", "1001", "1001 is not allowed; allowed is 0 to 1000", ""),
    ("--max-retries", "three", "is not a count; write digits and nothing else", ""),
    ("--backoff-base", "NaN", "is not a duration; GRAMMAR", DURATION_GRAMMAR),
    ("--backoff-cap", "100ms", "100ms is not allowed; allowed is --backoff-base (500ms, the default) or more", ""),
    ("--jitter", "NaN", "NaN is not allowed; allowed is 0 to 1", ""),
    ("--jitter", "1e309", "inf is not allowed; allowed is 0 to 1", ""),
    ("--jitter", "-0.1", "-0.1 is not allowed; allowed is 0 to 1", ""),
    ("--jitter", "much", "is not a number; write for example 0.25", ""),
    ("--jitter-kind", "none", "is not allowed; write one of fraction, full, decorrelated", ""),
    ("--max-retry-after", "1e309", "is not a duration; GRAMMAR", DURATION_GRAMMAR),
    ("--on-long-retry-after", "wait", "is not allowed; write one of give-up, cap", ""),
    ("--min-wait", "", "is not a duration; GRAMMAR", DURATION_GRAMMAR),
    ("--default-wait", "unlimited", "is not a duration; GRAMMAR, or none", DURATION_GRAMMAR),
    ("--retry-after-reader", "x", "is not allowed; write one of lenient, strict", ""),
    ("--retry-after-jitter", "5x", "is not a duration; GRAMMAR", DURATION_GRAMMAR),
    ("--total-timeout", "0", "0s is not allowed; allowed is more than zero", ""),
    ("--attempt-timeout", "0", "0s is not allowed; allowed is more than zero", ""),
    ("--retry-budget", "20%", "is not allowed; write on or off", ""),
    ("--retry-on", "teapot", "is not a status; write for example 425 or 520", ""),
    ("--retry-on", "200", "200 is not allowed; allowed is the status of a failure, 400 to 599", ""),
    ("--retry-on", "999", "999 is not allowed; allowed is the status of a failure, 400 to 599", ""),
    (
        "--replay-bytes-max",
        "1GiB",
        "1GiB is more than --replay-bytes-total, which is 256MiB by default; raise --replay-bytes-total, or lower this",
        "",
    ),
    ("--replay-bytes-total", "1.5GiB", "is not a size; GRAMMAR", SIZE_GRAMMAR),
    ("--connect-timeout", "0", "is zero; allowed is more than zero", ""),
    ("--idle-timeout", "0ms", "is zero; allowed is more than zero", ""),
    ("--http2", "maybe", "is not allowed; write on or off", ""),
    (
        "--otlp",
        "https://me:pw@otlp.test",
        "`https://otlp.test` is not where traces can go: it holds a user name or password, which would be shown in logs; \
         write for example http://127.0.0.1:4318/v1/traces",
        "",
    ),
    (
        "--redis",
        "https://h",
        "its scheme is not known here; write for example redis://127.0.0.1:6379, redis-sentinel://a:26379,b:26379/MASTER or \
         redis-cluster://a:6379,b:6379",
        "",
    ),
    ("--instances", "0", "is not allowed; write a whole number from 1 to 100000", ""),
    ("--trace-sample", "2", "2 is not allowed; allowed is 0 to 1", ""),
    ("--trace-sample", "NaN", "NaN is not allowed; allowed is 0 to 1", ""),
    ("--trace-sample", "some", "is not a number; write for example 0.25", ""),
];
const UPSTREAM_GRAMMAR: &str = "write for example https://api.example.com or http://127.0.0.1:8765/v2";

#[test]
fn every_wrong_value_is_told_with_flag_value_and_what_is_allowed() {
    let table =
        WRONG_SERVE.iter().map(|(flag, ..)| *flag).chain(["--ca-file", "--open", "--client-cert", "--client-key"]);
    assert_eq!(flags_in(table.chain(credential::FLAGS)), flags_of("serve"));
    for (flag, value, why, grammar) in WRONG_SERVE {
        let expected = match why.replace("GRAMMAR", grammar) {
            // It is said of another flag, or of a part of this one.
            why if why.starts_with("--") => why,
            // Policies say by themselves what the value is, and so does what is said of a part of it.
            why if why.starts_with('`') || why.contains(" is ") && !why.starts_with("is ") => format!("{flag}: {why}"),
            why => format!("{flag}: `{value}` {why}"),
        };
        check(try_serve(&[flag, value]).err(), &[&expected]);
    }
}

#[test]
fn limits_that_do_not_go_together_are_refused() {
    let exactly_one = |burst: &str, count: usize| {
        format!(
            "--burst: `{burst}` must belong to exactly one --rate without a burst of its own, but there are {count}; \
             write bursts into the rates, such as --rate '10/s burst 20'"
        )
    };
    let alone = "--rate: `unlimited` stands alone; take away the other limits, or `unlimited`".to_owned();
    for (flags, expected) in [
        (&["--rate", "10/s", "--rate", "9/min", "--burst", "20"][..], exactly_one("20", 2)),
        (&["--rate", "10/s burst 5", "--burst", "20"], exactly_one("20", 0)),
        (&["--rate", "5000 per 1h", "--burst", "20"], exactly_one("20", 0)),
        (&["--rate", "unlimited", "--rate", "1/s"], alone.clone()),
        (&["--rate", "unlimited", "--burst", "2"], alone),
        (&["--rate", "10/s", "--rate", "10/s burst 1"], "--rate: `10/s` is given twice; once is enough".to_owned()),
    ] {
        check(try_serve(flags).err(), &[&expected]);
    }
    let many: Vec<_> = (1..=17).flat_map(|n| ["--rate".to_owned(), format!("{n}/s")]).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    check(try_serve(&many).err(), &["--rate: 17 of them are not allowed; allowed is up to 16"]);
    check(try_fetch("http://u", &many).err(), &["--rate: 17 of them are not allowed; allowed is up to 16"]);
}

#[test]
fn everything_wrong_is_told_at_once() {
    let flags = [
        "--upstream",
        "x",
        "--rate",
        "0/s",
        "--rate",
        "1/y",
        "--jitter",
        "2",
        "--max-retries",
        "2000",
        "--cache",
        "so",
    ];
    let said = try_serve(&flags).unwrap_err().to_string();
    let flags: Vec<_> = said.lines().map(|line| line.split(": ").nth(1).unwrap()).collect();
    assert_eq!(flags, ["--upstream", "--rate", "--rate", "--cache", "--max-retries", "--jitter"], "{said}");
}

#[test]
fn an_upstream_that_is_the_proxy_itself_is_refused() {
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "correct-horse-battery\n").unwrap();
    let secret = ["--admin-token-file", token.path().to_str().unwrap()];
    for (upstream, listen, is_itself) in [
        ("http://127.0.0.1:8000", "127.0.0.1:8000", true),
        ("http://LOCALHOST:8000/v2", "127.0.0.1:8000", true),
        ("http://localhost:8000", "[::1]:8000", true),
        ("http://0.0.0.0:8000", "127.0.0.1:8000", true),
        ("http://127.0.0.1:8000", "0.0.0.0:8000", true),
        ("http://127.0.0.2:8000", "0.0.0.0:8000", true),
        ("http://127.0.0.1:8000", "[::]:8000", true),
        ("http://[::ffff:127.0.0.1]:8000", "127.0.0.1:8000", true),
        ("http://[::1]:8000", "[::]:8000", true),
        ("http://10.0.0.1:8000", "10.0.0.1:8000", true),
        ("http://localhost", "127.0.0.1:80", true),
        ("http://127.0.0.1:8765", "127.0.0.1:8000", false),
        ("http://127.0.0.2:8000", "127.0.0.1:8000", false),
        ("http://[::1]:8000", "0.0.0.0:8000", false),
        ("http://10.0.0.1:8000", "0.0.0.0:8000", false),
        ("http://api.test:8000", "127.0.0.1:8000", false),
    ] {
        for (flag, other) in [("--listen", "--admin"), ("--admin", "--listen")] {
            let flags = ["--open", "--upstream", upstream, flag, listen, other, "127.0.0.1:9"];
            let wrong = try_serve(&[&flags[..], &secret].concat()).err();
            let itself = format!(
                "--upstream: `{upstream}` is the address of {flag}, so sopan would ask itself; write the address of the API, or change {flag}"
            );
            match is_itself {
                true => check(wrong, &[&itself]),
                false => assert!(wrong.is_none(), "{upstream} {listen}: {wrong:?}"),
            }
        }
    }
}

#[test]
fn where_other_machines_reach_the_admin_port_it_wants_a_secret_that_is_none_to_be_guessed() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    for (written, says) in [
        ("correct-horse-battery", None),
        ("\r\n correct-horse-battery\r\n", None),
        ("SECRET", Some("shorter than 16 characters")),
        ("", Some("shorter than 16 characters")),
        ("SECRET that has blanks in it", Some("has blanks")),
        (&*"SECRET".repeat(200), Some("longer than 1024 bytes")),
    ] {
        std::fs::write(file.path(), written).unwrap();
        for admin in ["0.0.0.0:9", "127.0.0.1:9"] {
            let read = try_serve(&["--admin", admin, "--admin-token-file", path]);
            match (read, says) {
                (Ok(serve), None) => assert!(serve.admin_token.is_some()),
                (Err(wrong), Some(says)) => {
                    let said = wrong.to_string();
                    assert!(said.starts_with("error: --admin-token-file: ") && said.contains(says), "{said}");
                    assert!(!said.contains("SECRET") && said.lines().count() == 1, "{said}");
                }
                (read, _) => panic!("{written}: {read:?}"),
            }
        }
        // Where there is no admin port there is nothing to know.
        assert!(try_serve(&["--admin", "off", "--admin-token-file", path]).unwrap().admin_token.is_none());
    }
}

#[test]
fn a_client_certificate_comes_with_its_key() {
    let file = |content: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        file
    };
    let pair = || {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    };
    let ((certificate, key), (_, other)) = (pair(), pair());
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let broken = key.replacen("MI", "?!", 1);
    let (empty, no_pem) = ("it holds no", "it is no PEM file");
    for (certificate, key, flag, why) in [
        (&certificate, &key, "", ""),
        (&key, &key, "--client-cert", "it holds no certificate"),
        (&String::new(), &key, "--client-cert", empty),
        (&certificate, &certificate, "--client-key", "it holds no private key"),
        (&certificate, &String::new(), "--client-key", empty),
        (&certificate, &encrypted, "--client-key", "its key is encrypted; take off the passphrase"),
        (&certificate, &broken, "--client-key", no_pem),
        (&certificate, &other, "--client-key", "it is not the key of the certificate in "),
    ] {
        let (certificate, key) = (file(certificate), file(key));
        let (cert_path, key_path) = (certificate.path().to_str().unwrap(), key.path().to_str().unwrap());
        let flags = ["--client-cert", cert_path, "--client-key", key_path];
        let result = try_serve(&[&flags[..], &["--upstream", "https://u"]].concat());
        let (kind, path) = if flag == "--client-cert" { ("client certificate", cert_path) } else { ("key", key_path) };
        match result {
            Ok(serve) => assert!(flag.is_empty() && serve.upstreams[0].settings.client_certificate.is_some(), "{why}"),
            Err(wrong) => {
                let said = wrong.to_string();
                let begin = format!("error: {flag}: the {kind} file {path} cannot be used: {why}");
                assert!(said.starts_with(&begin) && said.contains("; it must hold the "), "{said}");
                // Nothing of a key is shown. Names of temporary files are made of any letters.
                let rest = said.replace(cert_path, "").replace(key_path, "");
                assert!(!rest.contains("MI") && said.lines().count() == 1, "{said}");
            }
        }
    }
    check(
        try_serve(&["--client-cert", "f"]).err(),
        &["--client-cert: it needs the private key too; add --client-key FILE"],
    );
    check(
        try_serve(&["--client-key", "f"]).err(),
        &["--client-key: it needs the certificate too; add --client-cert FILE"],
    );
    check(
        try_serve(&["--client-cert", "f", "--client-key", "f"]).err(),
        &["--client-cert: the upstream is asked over plain http, which knows no certificates; write https://…"],
    );
}

#[test]
fn a_file_of_authorities_must_hold_certificates() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let garbage = CERTIFICATE.replacen("MII", "AAA", 1);
    for (content, why) in [("", "it holds no certificate"), ("hello", "it holds no certificate"), (&garbage, "")] {
        std::fs::write(path, content).unwrap();
        for flags in [&["--ca-file", path][..], &["--ca-file", path, "--upstream", "https://u"]] {
            let said = try_serve(flags).unwrap_err().to_string();
            let begin = format!("error: --ca-file: the certificate file {path} cannot be used: {why}");
            assert!(
                said.starts_with(&begin) && said.ends_with("; it must hold one or more PEM certificates"),
                "{said}"
            );
        }
    }
    let said = try_fetch("http://u", &["--ca-file", "/no/such/file"]).unwrap_err().to_string();
    assert!(said.contains("--ca-file: the certificate file /no/such/file cannot be used: "), "{said}");
}

#[test]
fn a_url_is_split_into_target_and_path_as_it_was_typed() {
    for (url, target, path, shown) in [
        ("http://u", "http://u", "/", "http://u"),
        ("https://u:8443/a//b?x=%2f&y", "https://u:8443", "/a//b?x=%2f&y", "https://u:8443/a//b?x=…&…"),
        ("http://u?q=1#frag", "http://u", "/?q=1", "http://u?q=…"),
        ("http://u/#frag?x=1", "http://u", "/", "http://u/"),
        ("http://[::1]:80/x", "http://[::1]", "/x", "http://[::1]:80/x"),
        ("http://u//x", "http://u", "//x", "http://u//x"),
        ("http://u/a@b", "http://u", "/a@b", "http://u/a@b"),
    ] {
        let fetch = try_fetch(url, &[]).unwrap();
        assert_eq!(
            (&*fetch.upstream.target.to_string(), &*fetch.path.to_string(), &*fetch.shown),
            (target, path, shown)
        );
    }
}

#[test]
fn what_cannot_be_fetched_is_told_without_its_secrets() {
    for (url, shown, why) in [
        ("", "", "it cannot be read as a URL"),
        ("/x", "/x", "it cannot be read as a URL"),
        ("api.test/x?key=SECRET", "api.test/x?key=…", "it lacks http:// or https://"),
        ("ftp://u/x", "ftp://u/x", "its scheme is neither http nor https"),
        ("http:///x", "http:///x", "it cannot be read as a URL"),
        ("http://me:SECRET@u/x", "http://u/x", "it holds a user name or password, which would be shown in logs"),
        ("http://me:SEC/RET@u/x", "http://u/x", "its port is not a number from 1 to 65535"),
        ("http://u:0/x", "http://u:0/x", "its port is 0"),
        ("http://u/a b", "http://u/a b", "its path or query holds a character that must be percent-encoded"),
    ] {
        let expected =
            format!("URL: `{shown}` cannot be fetched: {why}; write for example https://api.example.com/orders?page=1");
        check(try_fetch(url, &[]).err(), &[&expected]);
    }
}

#[test]
fn fields_of_a_request_are_checked_and_their_values_never_shown() {
    let fetch =
        try_fetch("http://u", &["--header", "Authorization: Bearer SECRET", "--header", "x-a:1", "--header", "X-A: 2"]);
    let fetch = fetch.unwrap();
    assert_eq!(fetch.headers.get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(
        (&fetch.headers["accept"], fetch.headers["user-agent"].to_str().unwrap()),
        (&"*/*".parse().unwrap(), concat!("sopan/", env!("CARGO_PKG_VERSION")))
    );
    assert!(!format!("{fetch:?}").contains("SECRET"));
    for (field, why) in [
        ("SECRET", "number 1 has no colon; write 'Name: value'"),
        ("X A: SECRET", "number 1 does not begin with the name of a field; write 'Name: value'"),
        (": SECRET", "number 1 does not begin with the name of a field; write 'Name: value'"),
        ("X-A: SECRET\r\nX-B: 1", "the value of `x-a` holds a character that no field may hold, such as a line break"),
        ("Host: u", "`host` is set by sopan itself; leave it away"),
        ("content-length: 5", "`content-length` is set by sopan itself; leave it away"),
        ("Transfer-Encoding: chunked", "`transfer-encoding` is set by sopan itself; leave it away"),
    ] {
        check(try_fetch("http://u", &["--header", field]).err(), &[&format!("--header: {why}")]);
    }
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
