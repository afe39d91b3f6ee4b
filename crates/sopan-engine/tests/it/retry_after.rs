//! `Retry-After`: which forms are understood, on which answers, and what is done when it asks for too much.

use std::time::{Duration, UNIX_EPOCH};

use sopan_core::hints::Reader;
use sopan_core::policy::OnLongRetryAfter;
use sopan_core::retry::Why;
use sopan_engine::{Settings, parse_retry_after};
use sopan_fake::http_date;
use sopan_fake::script::Answer;

use crate::support::log::Log;
use crate::support::{Bench, EPOCH, Got, SECOND, is_just, is_within, ms, now, s, wall};

/// An upstream that answers the first request with this status and these fields, every later one with 200.
fn first(status: u16, fields: &[(&'static str, String)], change: impl FnOnce(&mut Settings)) -> Bench {
    let fields = fields.to_vec();
    let script = move |request: &sopan_fake::script::Request| {
        let answer = Answer::status(status);
        match request.number {
            1 => fields.iter().fold(answer, |answer, (name, value)| answer.header(*name, value)),
            _ => Answer::json(200, r#"{"ok":true}"#),
        }
    };
    Bench::new(script, change)
}

fn asking(value: &str, change: impl FnOnce(&mut Settings)) -> Bench {
    first(429, &[("Retry-After", value.to_owned())], change)
}

/// The wait before the second attempt, which must be the last.
async fn wait_before_the_second(bench: &Bench) -> Duration {
    let got = bench.get("/x").await;
    assert_eq!((got.status(), got.text()), (200, r#"{"ok":true}"#));
    assert_eq!(bench.upstream.arrivals(), 2);
    bench.is_at_rest();
    bench.upstream.gap(1)
}

// ra-1
#[tokio::test(start_paused = true)]
async fn a_number_and_all_three_forms_of_a_date_cost_one_whole_wait() {
    for (form, from, to) in [
        (None, s(3), ms(3_500)),
        (Some(http_date::imf as fn(_) -> _), s(2), ms(3_800)),
        (Some(http_date::rfc850), s(2), ms(3_800)),
        (Some(http_date::asctime), s(2), ms(3_800)),
    ] {
        let begun = now();
        let bench = Bench::new(
            move |request| {
                let later = wall() + (now() - begun) + s(3);
                match request.number {
                    1 => Answer::status(429).header("Retry-After", form.map_or("3".to_owned(), |form| form(later))),
                    _ => Answer::json(200, r#"{"ok":true}"#),
                }
            },
            |_| {},
        );
        // A date has whole seconds, and this is not one.
        tokio::time::sleep(ms(300)).await;
        is_within(wait_before_the_second(&bench).await, from, to);
    }
}

// ra-1, its table
#[tokio::test(start_paused = true)]
async fn every_form_means_the_same_wait_read_alone_and_on_the_way() {
    for (value, seconds) in [
        ("45", 45),
        ("Tue, 10 Mar 2026 12:00:45 GMT", 45),
        ("Tuesday, 10-Mar-26 12:00:45 GMT", 45),
        ("Tue Mar 10 12:00:45 2026", 45),
        ("Thu Apr  2 00:00:00 2026", 1_944_000),
    ] {
        assert_eq!(parse_retry_after(value, wall()), Some(s(seconds)), "{value}");
        let patient = |settings: &mut Settings| {
            settings.retry.max_retry_after = s(2_000_000);
            settings.retry.total_timeout = None;
            settings.lane.max_hold = s(2_000_000);
            settings.idle_timeout = s(3_000_000);
        };
        is_just(wait_before_the_second(&asking(value, patient)).await, s(seconds));
    }
}

// ra-2
#[tokio::test(start_paused = true)]
async fn zero_is_an_instruction_and_no_instruction_is_the_backoff() {
    let fixed = |settings: &mut Settings| (settings.retry.backoff_base, settings.retry.backoff_cap) = (s(2), s(2));
    for (value, wait, logged, said) in [
        // The floor under zero is `min_wait`.
        (Some("0"), s(1), "1.00", "0 s"),
        (Some("000"), s(1), "1.00", "0 s"),
        (None, s(2), "2.00", "none"),
        (Some("abc"), s(2), "2.00", "unusable"),
        (Some(""), s(2), "2.00", "unusable"),
    ] {
        let log = Log::keep();
        let field = value.map(|value| ("Retry-After", value.to_owned()));
        let bench = first(429, field.as_slice(), fixed);
        is_just(wait_before_the_second(&bench).await, wait);
        let line = format!("attempt 1 failed (HTTP 429); waiting {logged} s before retrying");
        assert_eq!(log.warnings(), [line], "{value:?}");
        let fields = log.entries().into_iter().map(|entry| entry.fields).find(|fields| fields.contains_key("wait_s"));
        assert_eq!(fields.unwrap()["retry_after"], said, "{value:?}");
    }
}

// ra-3
#[tokio::test(start_paused = true)]
async fn junk_is_no_instruction() {
    let change = |settings: &mut Settings| {
        (settings.retry.backoff_base, settings.retry.total_timeout) = (ms(300), Some(s(10)));
    };
    for junk in [
        "-3",
        "+3",
        "1e1",
        "0x10",
        "5s",
        "5 seconds",
        "120junk",
        "NaN",
        "inf",
        "²",
        "١٢",
        "Sep 2027",
        "Jan 1 2030",
        "2026-03-10T12:00:45Z",
        "1;2",
        "\"5\"",
        "true",
    ] {
        is_within(wait_before_the_second(&asking(junk, change)).await, ms(300), ms(800));
        assert_eq!(parse_retry_after(junk, wall()), None, "{junk}");
    }
    is_just(wait_before_the_second(&asking("  1\t", change)).await, s(1));
    is_just(wait_before_the_second(&asking("007", change)).await, s(7));
}

/// The caller has the upstream's own answer at once, with its fields as they were.
#[track_caller]
fn is_handed_on_at_once(got: &Got, bench: &Bench, value: &str) {
    assert_eq!((got.status(), got.field("retry-after")), (429, Some(value)));
    assert!(got.body_at < SECOND, "{:?}", got.body_at);
    assert_eq!(bench.upstream.arrivals(), 1);
}

// ra-4
#[tokio::test(start_paused = true)]
async fn a_wait_too_long_for_any_timer_is_handed_on_at_once_and_the_lane_lives_on() {
    let nines = "9".repeat(5000);
    for value in [
        "2147483",
        "2147484",
        "2147483647",
        "2147483648",
        "4294967296",
        "9223372036",
        "9223372037",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        "99999999999999999999999999999999",
        &nines,
    ] {
        let bench = asking(value, |settings| settings.retry.total_timeout = Some(s(5)));
        is_handed_on_at_once(&bench.get("/x").await, &bench, value);
        // Those who come later are told at once what is in the way, and when it ends: after `max_hold`, not in decades.
        let got = bench.get("/x").await;
        assert_eq!((got.status(), got.refused()), (503, "wait-too-long".to_owned()));
        assert!(got.detail().contains("(hold)"), "{}", got.detail());
        is_within(s(got.retry_after()), s(3600 - 30), s(3600));
        tokio::time::sleep(s(3600)).await;
        assert_eq!(bench.get("/x").await.status(), 200);
        bench.is_at_rest();
    }
}

// ra-5
#[tokio::test(start_paused = true)]
async fn a_moment_or_milliseconds_where_seconds_belong_are_handed_on_and_nobody_sleeps() {
    for (value, reset) in [((EPOCH + 3).to_string(), (EPOCH + 3).to_string()), ("60000".to_owned(), "58".to_owned())] {
        let fields = [("Retry-After", value.clone()), ("X-RateLimit-Reset", reset.clone())];
        let bench = first(429, &fields, |settings| settings.retry.total_timeout = Some(s(10)));
        let got = bench.get("/x").await;
        is_handed_on_at_once(&got, &bench, &value);
        assert_eq!(got.field("x-ratelimit-reset"), Some(&*reset));
        tokio::time::sleep(s(12)).await;
        assert_eq!(bench.upstream.arrivals(), 1);
        bench.is_at_rest();
    }
}

// ra-6
#[tokio::test(start_paused = true)]
async fn it_is_honoured_on_what_is_repeated_and_passed_on_with_what_is_not() {
    for status in [429, 503, 500, 502, 504, 408] {
        is_just(wait_before_the_second(&first(status, &[("Retry-After", "2".to_owned())], |_| {})).await, s(2));
    }
    for status in [200, 204, 301, 302, 307, 400, 401, 404, 409, 413, 425, 501] {
        let fields = [("Retry-After", "2".to_owned()), ("Location", "/elsewhere".to_owned())];
        let bench = first(status, &fields, |_| {});
        let got = bench.get("/x").await;
        assert_eq!(
            (got.status(), got.field("retry-after"), got.field("location")),
            (status, Some("2"), Some("/elsewhere"))
        );
        tokio::time::sleep(s(10)).await;
        assert_eq!((bench.upstream.arrivals(), got.body_at), (1, Duration::ZERO), "{status}");
        bench.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn of_several_lines_the_longest_readable_one_counts() {
    let lines = ["1", "soon", "4", "2"].map(|value| ("Retry-After", value.to_owned()));
    is_just(wait_before_the_second(&first(429, &lines, |_| {})).await, s(4));
}

#[tokio::test(start_paused = true)]
async fn the_lenient_reader_takes_fractions_and_the_upstreams_own_clock() {
    let date = |at: u64| http_date::imf(UNIX_EPOCH + s(at));
    // By its own clock, ten minutes ahead of ours, it asks for five seconds.
    let ahead = [("Retry-After", date(EPOCH + 605)), ("Date", date(EPOCH + 600))];
    let five = |settings: &mut Settings| settings.retry.backoff_base = ms(700);
    let strict = |settings: &mut Settings| {
        settings.retry.reader = Reader::Strict;
        settings.retry.backoff_base = ms(700);
    };
    is_just(wait_before_the_second(&first(429, &ahead, five)).await, s(5));
    is_just(wait_before_the_second(&asking("1.5", five)).await, ms(1_500));
    is_just(wait_before_the_second(&asking("1.5", strict)).await, ms(700));
    let bench = first(429, &ahead, strict);
    let Why::AskedTooLong { asked, .. } = bench.get("/x").await.why() else { panic!("it was not too long") };
    assert_eq!(asked, s(605));
}

#[tokio::test(start_paused = true)]
async fn a_capped_wait_is_waited_and_then_asked_again() {
    let cap = |settings: &mut Settings| {
        settings.retry.on_long_retry_after = OnLongRetryAfter::Cap;
        settings.retry.max_retry_after = s(5);
    };
    let bench = asking("86400", cap);
    is_just(wait_before_the_second(&bench).await, s(5));
    // The hold was cut too, or this one would be refused.
    assert_eq!(bench.get("/x").await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn the_floor_is_under_zero_only_and_the_default_is_for_silence_only() {
    let change = |settings: &mut Settings| {
        settings.retry.min_wait = s(1);
        settings.retry.default_wait = Some(ms(300));
    };
    for (status, value, wait) in [
        (429, Some("0"), s(1)),
        (429, Some("0.25"), ms(250)),
        (429, None, ms(300)),
        (503, None, ms(300)),
        // No answer of a limit, so the backoff.
        (500, None, ms(200)),
    ] {
        let field = value.map(|value| ("Retry-After", value.to_owned()));
        is_just(wait_before_the_second(&first(status, field.as_slice(), change)).await, wait);
    }
}

#[tokio::test(start_paused = true)]
async fn jitter_only_adds_to_what_was_asked() {
    let script = |request: &sopan_fake::script::Request| match request.number % 2 {
        1 => Answer::status(429).header("Retry-After", "2"),
        _ => Answer::status(200),
    };
    let bench = Bench::new(script, |settings| settings.retry.retry_after_jitter = s(1));
    let mut waits = Vec::new();
    for i in 0..20 {
        assert_eq!(bench.get("/x").await.status(), 200);
        waits.push(bench.upstream.gap(2 * i + 1));
    }
    waits.sort();
    is_within(waits[0], s(2), ms(2_300));
    is_within(waits[19], ms(2_700), ms(3_001));
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_does_not_fit_is_never_shortened_to_fit() {
    // (time in all, asked, honoured at most, attempts)
    for (total, asked, max, attempts) in [(60, 90, 100, 1), (120, 90, 100, 2), (90, 90, 100, 1), (120, 90, 60, 1)] {
        let bench = asking(&asked.to_string(), |settings| {
            settings.retry.total_timeout = Some(s(total));
            settings.retry.max_retry_after = s(max);
        });
        let got = bench.get("/x").await;
        assert_eq!(bench.upstream.arrivals(), attempts, "{total} s, asked for {asked}");
        if attempts == 1 {
            is_handed_on_at_once(&got, &bench, "90");
        } else {
            is_just(bench.upstream.gap(1), s(90));
        }
    }
}
