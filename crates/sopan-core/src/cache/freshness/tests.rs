use std::time::UNIX_EPOCH;

use super::*;

const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;
const NOON: &str = "Wed, 21 Oct 2026 12:00:00 GMT";

/// So many seconds after Wed, 21 Oct 2026 12:00:00 GMT.
fn at(seconds: f64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_792_584_000) + Duration::from_secs_f64(seconds)
}

fn fields(lines: &[&str]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        fields.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    fields
}

/// An answer of this status, asked for at noon and received so many seconds later.
fn read(status: u16, lines: &[&str], received: f64, default_ttl: Option<f64>) -> Freshness {
    let headers = fields(lines);
    let directives = ResponseDirectives::read(&headers, &[HeaderName::from_static("cdn-cache-control")]);
    let times = Times { requested: at(0.0), received: at(received) };
    let status = StatusCode::from_u16(status).unwrap();
    Freshness::of(status, &headers, &directives, times, default_ttl.map(Duration::from_secs_f64))
}

#[track_caller]
fn check(lines: &[&str], lifetime: f64, source: Source) {
    let read = read(200, lines, 0.0, None);
    assert_eq!((read.lifetime, read.source), (Duration::from_secs_f64(lifetime), source), "{lines:?}");
}

#[track_caller]
fn check_age(lines: &[&str], received: f64, expected: f64) {
    let read = read(200, lines, received, None);
    assert_eq!(read.initial_age, Duration::from_secs_f64(expected), "{lines:?}, received {received} s after noon");
}

#[test]
fn a_lifetime_is_the_first_that_is_told() {
    use Source::*;
    let (expires, modified) =
        ("expires: Wed, 21 Oct 2026 12:00:30 GMT", "last-modified: Tue, 20 Oct 2026 12:00:00 GMT");
    check(&[], 0.0, None);
    check(&["cache-control: s-maxage=5, max-age=60", expires, modified], 5.0, Directive);
    check(&["cache-control: max-age=60", expires, modified], 60.0, Directive);
    check(&["cache-control: max-age=0", expires, modified], 0.0, Directive);
    check(&["cache-control: max-age=x", expires, modified], 0.0, Directive);
    check(&["cache-control: max-age=60", "expires: 0"], 60.0, Directive);
    check(&["cache-control: public", expires, modified], 30.0, Expires);
    check(&[modified], 0.1 * DAY, Heuristic);
    // Beside a field that speaks to this cache alone, the others are not looked at.
    check(&["cdn-cache-control: max-age=60", "cache-control: no-store", "expires: 0"], 60.0, Directive);
    check(&["cdn-cache-control: s-maxage=5, max-age=60"], 5.0, Directive);
    check(&["cdn-cache-control: public", "cache-control: max-age=60", expires], 0.0, None);
    check(&["cdn-cache-control: max-age=\"60\"", expires], 30.0, Expires);
}

#[test]
fn expires_is_counted_from_the_senders_own_date() {
    for (expires, lifetime) in [
        ("Wed, 21 Oct 2026 12:01:30 GMT", 90.0),
        ("Wednesday, 21-Oct-26 12:01:30 GMT", 90.0),
        ("Wed Oct 21 12:01:30 2026", 90.0),
        ("WED, 21 OCT 2026 12:01:30 gMT", 90.0),
        ("Sun, 21 Nov 2286 04:46:39 GMT", 8_207_455_599.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 251_609_716_799.0),
        (NOON, 0.0),
        ("Wed, 21 Oct 2026 11:59:59 GMT", 0.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("0", 0.0),
        ("-1", 0.0),
        ("", 0.0),
        ("Wed, 21 Oct 2026 12:01:30 UTC", 0.0),
        ("Wed, 21 Oct 2026 12:01:30 AEST", 0.0),
        ("Wed, 21 Oct 26 12:01:30 GMT", 0.0),
        ("Wed 21 Oct 2026 12:01:30 GMT", 0.0),
        ("Wed, 21  Oct  2026 12:01:30 GMT", 0.0),
        ("Wed, 21-Oct-2026 12:01:30 GMT", 0.0),
        ("Wed, 21 Oct 2026 12.01.30 GMT", 0.0),
        ("Wed, 21 Oct 2026 2:01:30 GMT", 0.0),
    ] {
        let expires = format!("expires: {expires}");
        check(&[&expires, &format!("date: {NOON}")], lifetime, Source::Expires);
        check(&[&expires], lifetime, Source::Expires);
        check(&[&expires, "date: foo"], lifetime, Source::Expires);
        check(&[&expires, &format!("date: {NOON}"), "date: Wed, 21 Oct 2026 10:00:00 GMT"], lifetime, Source::Expires);
        check(&[&expires, &expires], lifetime, Source::Expires);
        check(&[&expires, "expires: Wed, 21 Oct 2026 12:01:31 GMT"], 0.0, Source::Expires);
    }
    let expires = "expires: Wed, 21 Oct 2026 12:01:30 GMT";
    check(&[expires, "date: Wed, 21 Oct 2026 11:00:00 GMT"], 3690.0, Source::Expires);
    check(&[expires, "date: Wed, 21 Oct 2026 12:01:20 GMT"], 10.0, Source::Expires);
    check(&[expires, "date: Wed, 21 Oct 2026 12:02:00 GMT"], 0.0, Source::Expires);
}

#[test]
fn a_guess_is_a_tenth_of_the_time_since_it_changed_and_a_day_at_most() {
    for (modified, lifetime) in [
        ("Wed, 21 Oct 2026 11:59:55 GMT", 0.5),
        ("Wed, 21 Oct 2026 11:50:00 GMT", 60.0),
        ("Sun, 11 Oct 2026 12:00:00 GMT", DAY),
        ("Sun, 11 Oct 2026 11:59:59 GMT", DAY),
        ("Thu, 01 Jan 1970 00:00:00 GMT", DAY),
    ] {
        check(&[&format!("last-modified: {modified}")], lifetime, Source::Heuristic);
    }
    for lines in [
        &["last-modified: Wed, 21 Oct 2026 12:00:00 GMT"][..],
        &["last-modified: Wed, 21 Oct 2026 12:00:01 GMT"],
        &["last-modified: yesterday"],
        &["last-modified: Wed, 21 Oct 2026 11:00:00 GMT", "last-modified: Wed, 21 Oct 2026 11:30:00 GMT"],
        &["last-modified: Wed, 21 Oct 2026 11:00:00 GMT", "cache-control: no-cache"],
        &["last-modified: Wed, 21 Oct 2026 11:00:00 GMT", "cache-control: no-store"],
    ] {
        check(lines, 0.0, Source::None);
    }
    // By the sender's own clock, here an hour fast.
    check(
        &["date: Wed, 21 Oct 2026 13:00:00 GMT", "last-modified: Wed, 21 Oct 2026 12:50:00 GMT"],
        60.0,
        Source::Heuristic,
    );
    check(&["cache-control: no-cache=\"x\"", "last-modified: Wed, 21 Oct 2026 11:50:00 GMT"], 60.0, Source::Heuristic);
}

#[test]
fn only_some_statuses_may_be_guessed_about_unless_public_is_said() {
    let modified = "last-modified: Wed, 21 Oct 2026 11:50:00 GMT";
    for status in [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501] {
        assert_eq!(read(status, &[modified], 0.0, None).source, Source::Heuristic, "{status}");
    }
    for status in [201, 202, 302, 303, 307, 400, 403, 429, 500, 502, 503, 504, 599] {
        assert_eq!(read(status, &[modified], 0.0, None).source, Source::None, "{status}");
        let public = read(status, &[modified, "cache-control: public"], 0.0, None);
        assert_eq!((public.source, public.lifetime.as_secs()), (Source::Heuristic, 60), "{status}");
        let told = read(status, &["cache-control: max-age=60"], 0.0, None);
        assert_eq!((told.source, told.lifetime.as_secs()), (Source::Directive, 60), "{status}");
    }
}

#[test]
fn the_settings_decide_where_a_success_says_nothing() {
    let modified = "last-modified: Tue, 20 Oct 2026 12:00:00 GMT";
    for (status, lines, lifetime, source) in [
        (200, &[][..], 300, Source::Default),
        (200, &[modified], 300, Source::Default),
        (204, &[], 300, Source::Default),
        // What no one may guess about is not stored without a word of its sender (RFC 9111 §3).
        (201, &[], 0, Source::None),
        (202, &[], 0, Source::None),
        (202, &["cache-control: public"], 300, Source::Default),
        (200, &["cache-control: public"], 300, Source::Default),
        (200, &["cache-control: no-cache=\"set-cookie\""], 300, Source::Default),
        (200, &["cdn-cache-control: public", "cache-control: max-age=60"], 300, Source::Default),
        (200, &["cache-control: max-age=60"], 60, Source::Directive),
        (200, &["cache-control: max-age=x"], 0, Source::Directive),
        (200, &["expires: 0"], 0, Source::Expires),
        (200, &["cache-control: no-cache"], 0, Source::None),
        (200, &["cache-control: no-store"], 0, Source::None),
        (200, &["content-type: text/event-stream; charset=utf-8"], 0, Source::None),
        (200, &["content-type: Text/Event-Stream", "cache-control: max-age=60"], 60, Source::Directive),
        (200, &["content-type: text/plain"], 300, Source::Default),
        (302, &[], 0, Source::None),
        (404, &[], 0, Source::None),
        (404, &[modified], 8640, Source::Heuristic),
        (500, &[], 0, Source::None),
    ] {
        let read = read(status, lines, 0.0, Some(300.0));
        assert_eq!((read.lifetime, read.source), (Duration::from_secs(lifetime), source), "{status} {lines:?}");
    }
}

#[test]
fn an_age_is_the_first_number_of_a_list_and_anything_else_is_none() {
    for (lines, expected) in [
        (&["age: 7200"][..], 2.0 * HOUR),
        (&["age: 007200"], 2.0 * HOUR),
        (&["age: 7200, 0"], 2.0 * HOUR),
        (&["age: 0, 7200"], 0.0),
        (&["age: 7200", "age: 0"], 2.0 * HOUR),
        (&["age: 0", "age: 7200"], 0.0),
        (&["age: ", "age: , 7200"], 2.0 * HOUR),
        (&["age: 2147483647"], 2_147_483_647.0),
        (&["age: 2147483648"], 2_147_483_648.0),
        (&["age: 99999999999999999999"], 2_147_483_648.0),
        (&["age: abc"], 0.0),
        (&["age: abc, 7200"], 0.0),
        (&["age: -7200"], 0.0),
        (&["age: 7200.0"], 0.0),
        (&["age: 7200;a=b"], 0.0),
        (&["age: \"7200\""], 0.0),
    ] {
        check_age(lines, 0.0, expected);
    }
}

#[test]
fn the_age_on_arrival_is_the_larger_of_two_estimates() {
    let date = "date: Wed, 21 Oct 2026 11:59:50 GMT";
    check_age(&[], 0.0, 0.0);
    // What was under way may have been made at once.
    check_age(&[], 2.5, 2.5);
    check_age(&["age: 6"], 2.5, 8.5);
    check_age(&[date], 0.0, 10.0);
    check_age(&[date, "age: 6"], 2.5, 12.0);
    check_age(&[date, "age: 11"], 2.5, 13.5);
    check_age(&["date: Wed, 21 Oct 2026 13:00:00 GMT", "age: 15"], 0.0, 15.0);
    check_age(&["date: Thu, 01 Jan 1970 00:00:00 GMT"], 0.0, 1_792_584_000.0);
    check_age(&["date: foo"], 0.0, 0.0);
    // A second that has begun is no second that has passed.
    check_age(&["date: Wed, 21 Oct 2026 12:00:00 GMT"], 0.9, 0.9);
    check_age(&["date: Wed, 21 Oct 2026 12:00:00 GMT"], 1.0, 1.0);
}

#[test]
fn an_answer_ages_by_the_time_it_is_held() {
    let freshness = read(200, &["age: 6"], 0.5, None);
    let times = Times { requested: at(0.0), received: at(0.5) };
    assert_eq!(freshness.age(times, at(0.5)), Duration::from_millis(6500));
    assert_eq!(freshness.age(times, at(10.5)), Duration::from_millis(16_500));
    assert_eq!(freshness.age(times, at(0.0)), Duration::from_millis(6500), "the clock was set back");
}

#[test]
fn a_clock_that_runs_backwards_or_to_its_end_is_no_reason_to_panic() {
    let ends = [UNIX_EPOCH, at(0.0), UNIX_EPOCH + Duration::from_secs(i64::MAX as u64)];
    let headers =
        fields(&["age: 99999999999", "expires: Fri, 31 Dec 9999 23:59:59 GMT", "date: Sat, 01 Jan 0000 00:00:00 GMT"]);
    for (requested, received) in ends.iter().flat_map(|requested| ends.map(|received| (*requested, received))) {
        let times = Times { requested, received };
        let freshness = Freshness::of(StatusCode::OK, &headers, &ResponseDirectives::default(), times, None);
        for now in ends {
            assert!(freshness.age(times, now) >= Duration::from_secs(1 << 31));
        }
    }
}
