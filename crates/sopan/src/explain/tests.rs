use http::{HeaderName, HeaderValue};
use sopan_core::policy::{JitterKind, OnLongRetryAfter};

use super::*;

mod cached;

/// Wed, 21 Oct 2026 12:00:00 GMT.
fn noon() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_792_584_000)
}

/// An answer to a GET, come at noon.
fn answer(status: u16, lines: &[&str]) -> Answer {
    let headers = fields(lines);
    let status = StatusCode::from_u16(status).unwrap();
    Answer {
        method: Method::GET,
        target: "/".to_owned(),
        request: HeaderMap::new(),
        status,
        headers,
        received: noon(),
        body: None,
    }
}

fn fields(lines: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':').unwrap();
        headers.append(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_bytes(value.trim().as_bytes()).unwrap(),
        );
    }
    headers
}

/// What is told of one thing, a line each: `says (because)`.
fn told(answer: &Answer, rules: &Rules, about: &str) -> String {
    let steps = explain(answer, rules).steps;
    let lines = steps.iter().filter(|step| step.about == about);
    lines.map(|Step { says, because, .. }| format!("{says} ({because})")).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn check_read(value: &str, expected: &str) {
    let answer = answer(429, &[&format!("Retry-After: {value}")]);
    assert_eq!(told(&answer, &Rules::default(), "Retry-After"), expected);
}

#[test]
fn every_form_of_retry_after_is_told_by_its_name() {
    let section = "(RFC 9110 §10.2.3)";
    for (value, says) in [
        ("90", "is a number of seconds: 90 s"),
        ("0", "is a number of seconds: 0 s"),
        ("7200", "is a number of seconds: 7200 s (2.0 hours)"),
        ("1792584000", "is a number of seconds: 1792584000 s (56.8 years)"),
        ("99999999999999999999999", "is a number of seconds: 18446744073709551615 s (584542046090.6 years)"),
        ("Wed, 21 Oct 2026 12:01:30 GMT", "is a date as senders must write it (IMF-fixdate): 90 s"),
        ("Wednesday, 21-Oct-26 12:01:30 GMT", "is a date in the form of RFC 850: 90 s"),
        ("Wed Oct 21 12:01:30 2026", "is a date in the form of asctime, which is UTC: 90 s"),
        ("Wed, 21 Oct 2026 11:59:30 GMT", "is a date as senders must write it (IMF-fixdate): 0 s"),
        ("not-a-date", "cannot be used: it is neither a number nor an HTTP-date"),
        ("", "cannot be used: it is empty"),
        ("-1", "cannot be used: it is neither a number nor an HTTP-date"),
        ("5s", "cannot be used: it begins as a number and is none, of seconds alone"),
        ("90, 120", "cannot be used: it begins as a number and is none, of seconds alone"),
    ] {
        check_read(value, &format!("\"{value}\" {says} {section}"));
    }
    check_read(
        "1.5",
        "\"1.5\" is a decimal number of seconds: 1.5 s (the strict reader of RFC 9110 §10.2.3 takes no fraction)",
    );
    for zone in ["UTC", "+0000"] {
        let value = format!("Wed, 21 Oct 2026 12:01:30 {zone}");
        let says = "is a date as senders must write it (IMF-fixdate): 90 s";
        let because = "its zone is not GMT; the strict reader of RFC 9110 §10.2.3 takes nothing else";
        check_read(&value, &format!("\"{value}\" {says} ({because})"));
    }
    assert_eq!(told(&answer(429, &[]), &Rules::default(), "Retry-After"), "there is none ()");
}

#[test]
fn what_came_from_outside_is_cut_and_cannot_play_tricks() {
    let long = "x".repeat(61);
    check_read(
        &long,
        &format!("\"{}…\" cannot be used: it is neither a number nor an HTTP-date (RFC 9110 §10.2.3)", &long[1..]),
    );
    check_read(
        "a\tb\u{9b}",
        "\"a\\tb\\u{9b}\" cannot be used: it is neither a number nor an HTTP-date (RFC 9110 §10.2.3)",
    );
}

#[test]
fn of_several_lines_the_longest_is_named() {
    let rules = Rules::default();
    let several = |lines: &[&str]| told(&answer(429, lines), &rules, "longest");
    let rule = "(of several lines the longest valid one counts)";
    assert_eq!(several(&["Retry-After: 5", "Retry-After: 20", "Retry-After: soon"]), format!("20 s {rule}"));
    assert_eq!(several(&["Retry-After: x", "Retry-After: soon"]), format!("none is valid {rule}"));
    assert_eq!(several(&["Retry-After: 5"]), "");
}

#[test]
fn it_is_told_from_which_clock_a_date_is_measured() {
    let until = "Retry-After: Wed, 21 Oct 2026 12:01:30 GMT";
    for (lines, expected) in [
        (&[][..], "measured by our clock (the answer has no Date)"),
        (
            &["Date: Wed, 21 Oct 2026 12:00:00 GMT"],
            "measured from the answer's Date, which agrees with our clock (whoever wrote both has one clock)",
        ),
        (
            &["Date: Wed, 21 Oct 2026 12:01:00 GMT"],
            "measured from the answer's Date, which is 60 s ahead of ours (whoever wrote both has one clock)",
        ),
        (
            &["Date: Wed, 21 Oct 2026 12:01:00 GMT", "Age: 30"],
            "measured by our clock (the answer has an Age: a cache has kept it since its Date)",
        ),
        (
            &["Date: Wed, 21 Oct 2026 10:00:00 GMT"],
            "measured so that the shorter wait counts: the answer's Date is 7200 s (2.0 hours) behind ours (more than an \
             hour apart, one of the clocks is wrong)",
        ),
    ] {
        let lines: Vec<_> = lines.iter().copied().chain([until]).collect();
        assert_eq!(told(&answer(429, &lines), &Rules::default(), "clock"), expected);
    }
    assert_eq!(told(&answer(429, &["Retry-After: 5"]), &Rules::default(), "clock"), "");
    let skewed = answer(429, &[until, "Date: Wed, 21 Oct 2026 12:01:00 GMT"]);
    let strict = told(&skewed, &Rules::default(), "Retry-After");
    assert!(
        strict.ends_with(": 30 s (RFC 9110 §10.2.3; the strict reader, which has only our clock, says 90 s)"),
        "{strict}"
    );
}

/// An answer, by which rules, and what is done with it.
type Case = (u16, &'static [&'static str], fn(&mut Answer, &mut Rules), &'static str);

const PLAIN: fn(&mut Answer, &mut Rules) = |_, _| {};
const POST: fn(&mut Answer, &mut Rules) = |answer, _| answer.method = Method::POST;

const CASES: &[Case] = &[
    (200, &[], PLAIN, "passes this answer on at once"),
    (301, &["Retry-After: 5"], PLAIN, "passes this answer on at once"),
    (404, &["Retry-After: 5"], PLAIN, "passes this answer on at once"),
    (501, &[], PLAIN, "passes this answer on at once"),
    (
        425,
        &[],
        |_, rules| rules.retry.retry_on = vec![StatusCode::TOO_EARLY],
        "waits 0.375 to 0.625 s, then sends attempt 2",
    ),
    (408, &[], PLAIN, "waits 0.375 to 0.625 s, then sends attempt 2"),
    (500, &[], PLAIN, "waits 0.375 to 0.625 s, then sends attempt 2"),
    (502, &[], PLAIN, "waits 0.375 to 0.625 s, then sends attempt 2"),
    (503, &[], PLAIN, "waits 0.375 to 0.625 s, then sends attempt 2"),
    (504, &[], PLAIN, "waits 0.375 to 0.625 s, then sends attempt 2"),
    (500, &["Retry-After: 7"], PLAIN, "waits 7 s, then sends attempt 2"),
    (503, &["Retry-After: 7"], PLAIN, "waits 7 s, then sends attempt 2, and nobody else sends meanwhile"),
    (429, &["Retry-After: 7"], PLAIN, "waits 7 s, then sends attempt 2, and nobody else sends meanwhile"),
    (429, &[], PLAIN, "waits 0.375 to 0.625 s, then sends attempt 2, and nobody else sends meanwhile"),
    (429, &["Retry-After: 0"], PLAIN, "waits 1 s, then sends attempt 2, and nobody else sends meanwhile"),
    (
        429,
        &["Retry-After: soon"],
        |_, rules| rules.retry.default_wait = Some(Duration::from_secs(2)),
        "waits 2 s, then sends attempt 2, and nobody else sends meanwhile",
    ),
    (500, &[], |_, rules| rules.retry.jitter_kind = JitterKind::Full, "waits 0 to 0.5 s, then sends attempt 2"),
    (
        500,
        &[],
        |_, rules| rules.retry.jitter_kind = JitterKind::Decorrelated,
        "waits 0.5 to 1.5 s, then sends attempt 2",
    ),
    (500, &[], |_, rules| rules.retry.jitter = 0.0, "waits 0.5 s, then sends attempt 2"),
    (
        429,
        &["Retry-After: 7"],
        |_, rules| rules.retry.retry_after_jitter = Duration::from_secs(3),
        "waits 7 to 10 s, then sends attempt 2; nobody else sends for 7 s",
    ),
    (
        429,
        &["Retry-After: 90"],
        PLAIN,
        "passes this answer on at once: asked to wait 90.00 s, which is above max_retry_after of 60.00 s; nobody else \
         sends for 90 s",
    ),
    (
        429,
        &["Retry-After: 90"],
        |_, rules| rules.retry.max_retry_after = Duration::from_secs(90),
        "waits 90 s, then sends attempt 2, and nobody else sends meanwhile",
    ),
    (
        429,
        &["Retry-After: 90"],
        |_, rules| rules.retry.on_long_retry_after = OnLongRetryAfter::Cap,
        "waits 60 s, then sends attempt 2, and nobody else sends meanwhile",
    ),
    (
        429,
        &["Retry-After: 1792584000"],
        PLAIN,
        "passes this answer on at once: asked to wait 1792584000.00 s, which is above max_retry_after of 60.00 s; nobody \
         else sends for 3600 s",
    ),
    (
        500,
        &["Retry-After: 50"],
        |_, rules| rules.retry.total_timeout = Some(Duration::from_secs(50)),
        "passes this answer on at once: a wait of 50.00 s does not fit into the 50.00 s left",
    ),
    (500, &["Retry-After: 50"], |_, rules| rules.retry.total_timeout = None, "waits 50 s, then sends attempt 2"),
    (
        500,
        &[],
        |_, rules| rules.retry.total_timeout = Some(Duration::from_millis(500)),
        "waits at least 0.375 s, then sends attempt 2; if chance makes the wait too long for the time left, it passes this \
         answer on at once",
    ),
    (500, &[], |_, rules| rules.retry.max_retries = 0, "passes this answer on at once: limit of 0 retries reached"),
    (
        500,
        &[],
        POST,
        "passes this answer on at once: it may have been processed, and this method is not safe to repeat without an \
         Idempotency-Key",
    ),
    (429, &[], POST, "waits 0.375 to 0.625 s, then sends attempt 2, and nobody else sends meanwhile"),
    (503, &["Retry-After: 5"], POST, "waits 5 s, then sends attempt 2, and nobody else sends meanwhile"),
    (
        502,
        &["Proxy-Status: sopan; error=proxy_loop_detected"],
        PLAIN,
        "passes this answer on at once: trying again would change nothing",
    ),
    (500, &[], |answer, _| answer.body = Some(65_536), "waits 0.375 to 0.625 s, then sends attempt 2"),
    (
        500,
        &[],
        |answer, _| answer.body = Some(65_537),
        "passes this answer on at once: it is too long to be kept for a retry",
    ),
    (
        429,
        &["Retry-After: 5"],
        |answer, _| answer.body = Some(65_537),
        "waits 5 s, then sends attempt 2, and nobody else sends meanwhile",
    ),
];

#[test]
fn the_conclusion_is_what_the_proxy_does() {
    for (status, lines, change, expected) in CASES {
        let (mut answer, mut rules) = (answer(*status, lines), Rules::default());
        change(&mut answer, &mut rules);
        assert_eq!(explain(&answer, &rules).conclusion(), format!("sopan {expected}"), "{status} {lines:?}");
    }
}

/// Whatever the dice show in between, the proxy stays within what was said.
#[test]
fn chance_stays_between_the_least_and_the_most() {
    for (status, lines, change, _) in CASES {
        let (mut answer, mut rules) = (answer(*status, lines), Rules::default());
        change(&mut answer, &mut rules);
        let explanation = explain(&answer, &rules);
        let situation = Situation {
            method: &answer.method,
            has_idempotency_key: false,
            is_replayable: true,
            backoff: Backoff::default(),
            left: rules.retry.total_timeout,
        };
        for sample in [0.01, 0.3, 0.7, 0.99] {
            let dice = Dice { backoff: sample, retry_after: sample };
            let decision = decide(&rules.retry, &situation, &explanation.outcome, dice);
            let hold = decision.hold.map(|hold| rules.lane.hold_for(hold));
            let is_held =
                hold.zip(explanation.hold).is_some_and(|(hold, said)| (said.least..=said.most).contains(&hold));
            assert_eq!(is_held, hold.is_some() || explanation.hold.is_some(), "{status} {lines:?}");
            match (explanation.ending, decision.verdict) {
                (Ending::Again { wait, unless: None }, Verdict::Again(again)) => {
                    assert!((wait.least..=wait.most).contains(&again.wait), "{status} {lines:?}: {again:?}");
                }
                (Ending::Again { wait, .. }, Verdict::Again(again)) => assert!(again.wait >= wait.least),
                (Ending::Again { unless, .. }, Verdict::GiveUp(_)) => assert!(unless.is_some()),
                (Ending::GiveUp(Why::Hopeless) | Ending::TooLongToKeep, Verdict::Again(_)) => {}
                (Ending::GiveUp(said), Verdict::GiveUp(why)) => assert_eq!(said, why),
                (Ending::PassOn, Verdict::Done) => {}
                (said, done) => panic!("{status} {lines:?}: {said:?}, and {done:?}"),
            }
        }
    }
}

#[test]
fn settings_that_are_off_are_told_too() {
    let mut rules = Rules::default();
    rules.breaker.on = false;
    rules.retry.retry_budget = false;
    assert_eq!(told(&answer(500, &[]), &rules, "breaker"), "there is none (breaker is off)");
    assert_eq!(told(&answer(500, &[]), &rules, "budget"), "retries are not bounded (retry_budget is off)");
}

#[test]
fn other_fields_are_told_by_name_and_no_value_is_shown() {
    let lines = [
        "RateLimit: SECRET",
        "X-RateLimit-Remaining: SECRET",
        "X-Rate-Limit-Reset: SECRET",
        "Retry-After-Ms: SECRET",
        "X-Quota-Left: SECRET",
        "Set-Cookie: SECRET",
        "Authorization: SECRET",
        "Date: SECRET",
        "Retry-After: Wed, 21 Oct 2026 12:01:30 GMT",
    ];
    let answer = answer(429, &lines);
    let (rules, explanation) = (Rules::default(), explain(&answer, &Rules::default()));
    let names = "ratelimit, x-ratelimit-remaining, x-rate-limit-reset, retry-after-ms, x-quota-left";
    let expected = format!("{names} (of limits only Retry-After is read so far)");
    assert_eq!(told(&answer, &rules, "not read"), expected);
    for shown in [show::text(&explanation, &answer, true), show::json(&explanation, &answer, &rules)] {
        assert!(shown.contains("x-quota-left") && !shown.contains("SECRET"), "{shown}");
    }
}

#[test]
fn for_people_it_is_aligned_lines() {
    let mut answer = answer(503, &["Retry-After: 5", "Retry-After: 1.5"]);
    (answer.method, answer.body) = (Method::POST, Some(70_000));
    let explanation = explain(&answer, &Rules::default());
    let expected = "\
POST answered with 503, received Wed, 21 Oct 2026 12:00:00 GMT

  status       503 is retried: the API is not available for now (RFC 9110 §15.6.4)
  Retry-After  \"5\" is a number of seconds: 5 s (RFC 9110 §10.2.3)
               \"1.5\" is a decimal number of seconds: 1.5 s
               (the strict reader of RFC 9110 §10.2.3 takes no fraction)
  longest      5 s (of several lines the longest valid one counts)
  repeat       safe for any method: asked to wait, the API did not act, as long as its body was kept
               (replay_bytes_max of 1048576 bytes)
  wait         5 s, as asked (not above max_retry_after of 60 s)
  attempts     up to 3 more attempts (max_retries)
  time left    115 s for attempt 2 and what may follow
               (total_timeout of 120 s, less what attempt 1 took)
  body         70000 bytes, dropped: if nothing better follows, the client gets a 502 or 504 of sopan's own
               (at most 65536 bytes that come within 1 s are kept)
  others       nobody sends for 5 s (what the API asks for is meant for everybody)
  breaker      counts nothing (the API asked to wait)
  budget       the retry costs nothing of it (it pays for retries after a server's error)
  cache        there is none (cache is off)

So sopan waits 5 s, then sends attempt 2, and nobody else sends meanwhile
";
    let text = show::text(&explanation, &answer, false);
    assert_eq!(text, expected);
    let coloured = show::text(&explanation, &answer, true);
    let plain = ["\x1b[1m", "\x1b[2m", "\x1b[0m"].iter().fold(coloured.clone(), |text, code| text.replace(code, ""));
    assert!(plain == text && coloured != text, "{coloured}");
}

#[test]
fn for_programs_it_is_one_object() {
    let answer = answer(429, &["Retry-After: 7", "Retry-After: 5s"]);
    let rules = Rules::default();
    let explanation = explain(&answer, &rules);
    let mut object: serde_json::Value = serde_json::from_str(&show::json(&explanation, &answer, &rules)).unwrap();
    let steps = object.as_object_mut().unwrap().remove("steps").unwrap();
    assert_eq!(steps.as_array().unwrap().len(), explanation.steps.len());
    let first = serde_json::json!({
        "about": "status", "says": "429 is retried: requests come too fast", "because": "RFC 6585 §4"
    });
    assert_eq!(steps[0], first);
    let expected = serde_json::json!({
        "method": "GET",
        "status": 429,
        "received": "Wed, 21 Oct 2026 12:00:00 GMT",
        "retry_after": [
            { "value": "7", "form": "seconds", "s": 7.0 },
            { "value": "5s", "form": "unusable", "s": null },
        ],
        "retry_after_s": 7.0,
        "rule": "asked",
        "action": "retry",
        "why": null,
        "wait_s": { "least": 7.0, "most": 7.0 },
        "hold_s": { "least": 7.0, "most": 7.0 },
        "breaker": "success",
        "spends_budget": false,
        "cache": null,
        "not_read": [],
        "conclusion": "sopan waits 7 s, then sends attempt 2, and nobody else sends meanwhile",
    });
    assert_eq!(object, expected);
}
