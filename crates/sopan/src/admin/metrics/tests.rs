//! What is counted is shown, under its name and labels.

use std::sync::OnceLock;
use std::time::Duration;

use http::{Method, StatusCode};
use sopan_core::policy::LanePolicy;
use sopan_core::queue::ClientId;
use sopan_core::retry::Outcome;
use sopan_core::time::Instant;
use sopan_engine::event::{Attempted, Event};
use sopan_fake::open_metrics;

use super::*;

fn metrics() -> Arc<Metrics> {
    Metrics::new(["shop", "mail"].map(str::to_owned), None)
}

fn answered(status: u16) -> Outcome {
    Outcome::Answered { status: StatusCode::from_u16(status).unwrap(), retry_after: None }
}

pub(in crate::admin) fn event(status: u16) -> Event<'static> {
    static URI: OnceLock<http::Uri> = OnceLock::new();
    Event {
        ended: Instant::ORIGIN,
        method: &Method::GET,
        uri: URI.get_or_init(|| "/api/v1/orders?page=2&key=SECRET".parse().unwrap()),
        client: ClientId(1),
        status: Some(StatusCode::from_u16(status).unwrap()),
        refused: None,
        observed: None,
        cache: None,
        cache_detail: None,
        wait: Duration::from_micros(300_140),
        attempts: 2,
        upstream: Duration::from_micros(12_260),
        total: Duration::from_micros(312_400),
        bytes: 5120,
        whole: true,
        steps: &[],
        steps_left_out: 0,
        trace: None,
    }
}

/// Whether the text is what a strict scraper reads, and its names are such as they should be.
#[track_caller]
pub(super) fn check_form(text: &str) {
    let families = open_metrics::parse(text).unwrap_or_else(|why| panic!("{why}\nin\n{text}"));
    for family in families {
        let name = &family.name;
        assert!(["sopan_", "process_"].iter().any(|prefix| name.starts_with(prefix)), "{name}");
        let unit = ["seconds", "bytes"].into_iter().find(|unit| name.ends_with(&format!("_{unit}")));
        assert_eq!(family.unit, unit.unwrap_or_default(), "the unit of {name}");
        assert!(family.help.ends_with('.') && !family.help.ends_with(".."), "{name}: {}", family.help);
    }
}

#[track_caller]
pub(super) fn check_lines(text: &str, expected: &[&str]) {
    for line in expected {
        assert!(text.lines().any(|l| l == *line), "{line} is missing in:\n{text}");
    }
}

#[test]
fn every_outcome_is_counted_where_it_belongs() {
    let outcomes = [
        (answered(200), "2xx"),
        (answered(304), "3xx"),
        (answered(404), "4xx"),
        (answered(429), "429"),
        (answered(500), "5xx"),
        (answered(999), "5xx"),
        (Outcome::NotSent, "not_sent"),
        (Outcome::Broken, "broken"),
        (Outcome::TimedOut, "timed_out"),
    ];
    let ended = outcomes.iter().map(|(outcome, expected)| (Attempted::Ended(outcome), *expected));
    for (attempted, expected) in ended.chain([(Attempted::Left, "left"), (Attempted::Stale, "stale")]) {
        let metrics = metrics();
        metrics.observer(1).attempted(attempted);
        let text = metrics.text();
        for other in ATTEMPTS {
            let count = u8::from(other == expected);
            let line = |upstream, count| {
                format!("sopan_attempts_total{{upstream=\"{upstream}\",outcome=\"{other}\"}} {count}")
            };
            check_lines(&text, &[&line("mail", count), &line("shop", 0)]);
        }
    }
}

#[test]
fn exchanges_are_counted_by_upstream_and_by_what_became_of_them() {
    let metrics = metrics();
    let shop = metrics.observer(0);
    shop.ended(&event(200));
    shop.ended(&Event { whole: false, ..event(200) });
    shop.ended(&Event { refused: Some("queue-full"), attempts: 0, upstream: Duration::ZERO, ..event(503) });
    shop.ended(&event(999));
    shop.ended(&Event { cache: Some(Cached::Stale), ..event(200) });
    for cached in [Cached::Hit, Cached::Hit, Cached::Stale, Cached::Coalesced, Cached::Miss, Cached::Bypass] {
        shop.ended(&Event { cache: Some(cached), attempts: 0, ..event(200) });
    }
    shop.ended(&Event { status: None, whole: false, ..event(200) });
    metrics.none().ended(&Event { refused: Some("no-route"), ..event(404) });
    let text = metrics.text();
    check_form(&text);
    check_lines(
        &text,
        &[
            "sopan_exchanges_total{upstream=\"shop\",status=\"2xx\"} 9",
            "sopan_cache_requests_total{upstream=\"shop\",result=\"hit\"} 2",
            "sopan_cache_requests_total{upstream=\"shop\",result=\"stale\"} 2",
            "sopan_cache_requests_total{upstream=\"shop\",result=\"revalidated\"} 0",
            "sopan_cache_tokens_saved_total{upstream=\"shop\"} 4",
            "sopan_exchanges_total{upstream=\"shop\",status=\"5xx\"} 2",
            "sopan_exchanges_total{upstream=\"shop\",status=\"none\"} 1",
            "sopan_exchanges_total{upstream=\"mail\",status=\"2xx\"} 0",
            "sopan_exchanges_total{upstream=\"none\",status=\"4xx\"} 1",
            "sopan_refusals_total{upstream=\"shop\",reason=\"queue-full\"} 1",
            "sopan_refusals_total{upstream=\"shop\",reason=\"wait-too-long\"} 0",
            "sopan_refusals_total{upstream=\"none\",reason=\"no-route\"} 1",
            "sopan_cut_off_total{upstream=\"shop\"} 2",
            "sopan_cut_off_total{upstream=\"mail\"} 0",
            "sopan_wait_seconds_bucket{le=\"0.25\",upstream=\"shop\"} 0",
            "sopan_wait_seconds_bucket{le=\"0.5\",upstream=\"shop\"} 12",
            "sopan_upstream_seconds_bucket{le=\"0.01\",upstream=\"shop\"} 0",
            "sopan_upstream_seconds_bucket{le=\"0.025\",upstream=\"shop\"} 11",
            "sopan_upstream_seconds_count{upstream=\"shop\"} 11",
            "sopan_exchange_seconds_count{upstream=\"shop\"} 12",
            "sopan_exchange_seconds_count{upstream=\"none\"} 1",
            &format!(
                "sopan_build_info{{version=\"{}\",commit=\"{}\"}} 1",
                version::NUMBER,
                version::COMMIT.unwrap_or("unknown")
            ),
        ],
    );
}

#[test]
fn why_an_answer_is_not_stored_or_given_stale_is_counted() {
    let details = NotStored::ALL.map(Detail::NotStored).into_iter().chain(Detail::STALE);
    for detail in details {
        let metrics = metrics();
        metrics.observer(1).ended(&Event { cache_detail: Some(detail), ..event(200) });
        let text = metrics.text();
        let counted = text.lines().filter(|line| line.contains("reason=") && !line.ends_with(" 0"));
        let name = if Detail::STALE.contains(&detail) { "stale" } else { "not_stored" };
        let expected = format!("sopan_cache_{name}_total{{upstream=\"mail\",reason=\"{}\"}} 1", detail.word());
        assert_eq!(counted.collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn counters_stand_in_the_same_order_in_every_run() {
    let text = metrics().text();
    let in_order = |name: &str, upstreams: &[&str], label: &str, values: &[&str]| {
        let shown: Vec<_> = text.lines().filter(|line| line.starts_with(name)).collect();
        let of = |upstream| {
            values.iter().map(move |value| format!("{name}{{upstream=\"{upstream}\",{label}=\"{value}\"}} 0"))
        };
        assert_eq!(shown, upstreams.iter().flat_map(of).collect::<Vec<_>>());
    };
    in_order("sopan_attempts_total", &["shop", "mail"], "outcome", &ATTEMPTS);
    in_order("sopan_exchanges_total", &["shop", "mail", "none"], "status", &CLASSES);
    in_order("sopan_refusals_total", &["shop", "mail", "none"], "reason", &REASONS);
}

#[test]
fn before_an_upstream_is_watched_and_after_it_is_gone_its_lane_is_not_shown() {
    let metrics = metrics();
    check_form(&metrics.text());
    metrics.watch(1, Weak::new(), Bounds::new(&LanePolicy::default(), []));
    let text = metrics.text();
    check_form(&text);
    assert!(!text.contains("sopan_waiting") && text.contains("sopan_log_lines_lost_total 0"));
}
