//! The steps from an answer to what is done with it, in words, each with its reason: a section of an RFC, or a setting.
//!
//! A setting is named by its key, as in a settings file. Nothing is decided here: what the steps tell of has been decided.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderName, Method, StatusCode};
use sopan_core::breaker::Health;
use sopan_core::headers::went_in_a_circle;
use sopan_core::hints::http_date::Form as DateForm;
use sopan_core::hints::retry_after::Form;
use sopan_core::hints::{self, Clock, Reader, Unknown};
use sopan_core::policy::{JitterKind, RetryPolicy};
use sopan_core::retry::{RETRIED, Safe, Situation, Wait, Why};
use sopan_engine::exchange::{KEPT_BYTES_MAX, KEPT_TIME_MAX};

use super::show::{quoted, seconds};
use super::{Answer, Ending, Explanation, Rules, Span, Step, stored};
use crate::log::Counted;

pub(super) fn step(about: &'static str, says: impl Into<String>, because: impl Into<String>) -> Step {
    Step { about, says: says.into(), because: because.into() }
}

/// All steps, in the order in which they are taken.
pub(super) fn of(explanation: &Explanation, answer: &Answer, rules: &Rules, situation: &Situation<'_>) -> Vec<Step> {
    let is_failure = answer.status.as_u16() >= 400;
    let mut steps = vec![status(answer.status, &rules.retry)];
    steps.extend(lines(answer, rules.retry.reader));
    if let Some(waits) = explanation.wait {
        steps.push(repeat(explanation, answer, &rules.retry, situation));
        // What can never be mended by waiting comes first, as where it is decided.
        if explanation.ending != Ending::GiveUp(Why::NotSafeToRepeat) {
            steps.extend(wait(waits, explanation, &rules.retry));
            steps.extend(attempts(explanation, &rules.retry));
        }
    }
    steps.extend(body(explanation, answer));
    if is_failure {
        steps.push(hold(explanation, rules));
    }
    steps.push(breaker(explanation.health));
    steps.extend(budget(explanation, &rules.retry));
    steps.extend(stored::of(explanation.cached.as_ref(), answer, rules.cache.as_ref()));
    steps.extend(not_read(answer));
    steps
}

fn status(status: StatusCode, policy: &RetryPolicy) -> Step {
    let code = status.as_u16();
    let section = match code {
        408 => "RFC 9110 §15.5.9",
        429 => "RFC 6585 §4",
        500 => "RFC 9110 §15.6.1",
        502 => "RFC 9110 §15.6.3",
        503 => "RFC 9110 §15.6.4",
        504 => "RFC 9110 §15.6.5",
        _ => "",
    };
    let (says, because) = match code {
        ..400 => ("is no failure".to_owned(), String::new()),
        429 => ("is retried: requests come too fast".to_owned(), section.to_owned()),
        503 => ("is retried: the API is not available for now".to_owned(), section.to_owned()),
        _ if RETRIED.contains(&status) => ("is retried: it may pass".to_owned(), section.to_owned()),
        _ if policy.retry_on.contains(&status) => ("is retried".to_owned(), "retry_on names it".to_owned()),
        400..500 => {
            ("is not retried: the API finds fault with the request".to_owned(), "retry_on does not name it".to_owned())
        }
        _ => {
            let listed = RETRIED.map(|status| status.as_u16().to_string()).join(", ");
            ("is not retried".to_owned(), format!("retried are {listed}, and what retry_on names"))
        }
    };
    step("status", format!("{code} {says}"), because)
}

/// What is read of when to come again.
fn lines(answer: &Answer, reader: Reader) -> Vec<Step> {
    let Answer { headers, received, status, .. } = answer;
    if status.as_u16() < 400 {
        let has_one = headers.contains_key(RETRY_AFTER);
        return has_one.then(|| step("Retry-After", "not looked at", "nothing failed")).into_iter().collect();
    }
    let waits = hints::waits(headers, *received, reader);
    let strictly = hints::waits(headers, *received, Reader::Strict);
    let mut steps: Vec<_> =
        waits.zip(strictly).map(|((line, wait), (_, strictly))| line_read(line.as_bytes(), wait, strictly)).collect();
    if steps.is_empty() {
        return vec![step("Retry-After", "there is none", "")];
    }
    let mut waits = hints::waits(headers, *received, reader);
    if waits.any(|(line, wait)| wait.is_some() && matches!(Form::of(line.as_bytes()), Some(Form::Date(_)))) {
        steps.push(clock(Clock::of(headers, *received, reader)));
    }
    if steps.iter().filter(|step| step.about == "Retry-After").count() > 1 {
        let longest = hints::read(headers, *received, reader).retry_after;
        let says = longest.map_or_else(|| "none is valid".to_owned(), seconds);
        steps.push(step("longest", says, "of several lines the longest valid one counts"));
    }
    steps
}

/// One line, and how long it asks to wait: as we read it, and as the RFC does to the letter.
fn line_read(line: &[u8], wait: Option<Duration>, strictly: Option<Duration>) -> Step {
    const SECTION: &str = "RFC 9110 §10.2.3";
    let form = Form::of(line);
    let Some(wait) = wait else {
        let why = match form {
            None => "it is empty",
            Some(Form::Seconds) => "it is no number of seconds",
            Some(Form::Decimal) => "it begins as a number and is none, of seconds alone",
            Some(Form::Date(_)) => "it is neither a number nor an HTTP-date",
        };
        return step("Retry-After", format!("{} cannot be used: {why}", quoted(line)), SECTION);
    };
    let name = match form {
        None | Some(Form::Seconds) => "a number of seconds",
        Some(Form::Decimal) => "a decimal number of seconds",
        Some(Form::Date(DateForm::ImfFixdate)) => "a date as senders must write it (IMF-fixdate)",
        Some(Form::Date(DateForm::Rfc850)) => "a date in the form of RFC 850",
        Some(Form::Date(DateForm::Asctime)) => "a date in the form of asctime, which is UTC",
    };
    let because = match (strictly, form) {
        (Some(strictly), _) if strictly == wait => SECTION.to_owned(),
        (Some(strictly), _) => {
            format!("{SECTION}; the strict reader, which has only our clock, says {}", seconds(strictly))
        }
        (None, Some(Form::Date(_))) => {
            format!("its zone is not GMT; the strict reader of {SECTION} takes nothing else")
        }
        (None, _) => format!("the strict reader of {SECTION} takes no fraction"),
    };
    step("Retry-After", format!("{} is {name}: {}", quoted(line), seconds(wait)), because)
}

/// From where a date is measured.
fn clock(clock: Clock) -> Step {
    let apart = |theirs: i64, ours: i64| {
        let apart = seconds(Duration::from_secs(theirs.abs_diff(ours)));
        format!("{apart} {} ours", if theirs < ours { "behind" } else { "ahead of" })
    };
    let (says, because) = match clock {
        Clock::Ours(_) => ("measured by our clock".to_owned(), "the strict reader looks at no other"),
        Clock::Unknown(_, why) => {
            let because = match why {
                Unknown::NoDate => "the answer has no Date",
                Unknown::SeveralDates => "the answer has several Dates",
                Unknown::UnusableDate => "the answer's Date is no HTTP-date",
                Unknown::Aged => "the answer has an Age: a cache has kept it since its Date",
            };
            ("measured by our clock".to_owned(), because)
        }
        Clock::Senders { theirs, ours } if theirs == ours => (
            "measured from the answer's Date, which agrees with our clock".to_owned(),
            "whoever wrote both has one clock",
        ),
        Clock::Senders { theirs, ours } => (
            format!("measured from the answer's Date, which is {}", apart(theirs, ours)),
            "whoever wrote both has one clock",
        ),
        Clock::Apart { theirs, ours } => (
            format!("measured so that the shorter wait counts: the answer's Date is {}", apart(theirs, ours)),
            "more than an hour apart, one of the clocks is wrong",
        ),
    };
    step("clock", says, because)
}

/// How long is waited, by which rule.
fn wait([least, most]: [Wait; 2], explanation: &Explanation, policy: &RetryPolicy) -> Vec<Step> {
    let span = Span { least: least.as_duration(), most: most.as_duration() };
    let asked = explanation.outcome.retry_after().unwrap_or_default();
    let max = seconds(policy.max_retry_after);
    let (says, because) = match least {
        Wait::Asked(_) => (format!("{span}, as asked"), format!("not above max_retry_after of {max}")),
        Wait::Floored(_) => (format!("{span} instead of none at all"), "min_wait".to_owned()),
        Wait::Capped(_) => (
            format!("{span} instead of {}", seconds(asked)),
            format!("above max_retry_after of {max}, and on_long_retry_after is cap"),
        ),
        Wait::TooLong(_) => (
            "the request does not wait so long".to_owned(),
            format!("above max_retry_after of {max}, and on_long_retry_after is give-up"),
        ),
        Wait::Default(_) => (span.to_string(), "default_wait, without a usable Retry-After".to_owned()),
        Wait::Backoff(_) => (
            format!("{span}{}", if span.least == span.most { "" } else { ", by chance" }),
            format!("without a usable Retry-After the backoff: {}", backoff(policy)),
        ),
    };
    let mut steps = vec![step("wait", says, because)];
    let is_told = matches!(least, Wait::Asked(_) | Wait::Floored(_) | Wait::Capped(_));
    if is_told && !policy.retry_after_jitter.is_zero() {
        let more = seconds(policy.retry_after_jitter);
        steps.push(step("jitter", format!("up to {more} more, by chance"), "retry_after_jitter"));
    }
    steps
}

/// The rule of the first wait of the backoff.
fn backoff(policy: &RetryPolicy) -> String {
    let base = seconds(policy.backoff_base);
    let kind = match policy.jitter_kind {
        JitterKind::Fraction => format!("jitter of {}", policy.jitter),
        JitterKind::Full => "jitter_kind full".to_owned(),
        JitterKind::Decorrelated => "jitter_kind decorrelated".to_owned(),
    };
    format!("backoff_base of {base}, {kind}")
}

/// Whether the request may be sent a second time.
fn repeat(explanation: &Explanation, answer: &Answer, policy: &RetryPolicy, situation: &Situation<'_>) -> Step {
    let Answer { method, headers, .. } = answer;
    if went_in_a_circle(headers) {
        return step("repeat", "pointless: the request went in a circle", "Proxy-Status, RFC 9209 §2.3.12");
    }
    let (mut says, mut because) = match Safe::because(situation, &explanation.outcome) {
        Some(Safe::AskedToWait) => {
            ("safe for any method: asked to wait, the API did not act".to_owned(), String::new())
        }
        Some(Safe::Method) => (format!("safe: {method} is idempotent"), "RFC 9110 §9.2.2".to_owned()),
        Some(Safe::NotSent) => ("safe: nothing was sent".to_owned(), String::new()),
        Some(Safe::Key) => ("safe: the API knows the request by its key".to_owned(), "Idempotency-Key".to_owned()),
        None => {
            let says = format!("not safe: the API may have acted, and {method} is not idempotent");
            let mended = "an Idempotency-Key in the request would make it safe";
            return step("repeat", says, format!("RFC 9110 §9.2.2; {mended}"));
        }
    };
    if !method.is_safe() && *method != Method::DELETE {
        let semicolon = if because.is_empty() { "" } else { "; " };
        says += ", as long as its body was kept";
        because += &format!("{semicolon}replay_bytes_max of {} bytes", policy.replay_bytes_max);
    }
    step("repeat", says, because)
}

/// Whether there are attempts and time for another one.
fn attempts(explanation: &Explanation, policy: &RetryPolicy) -> Vec<Step> {
    let total = |left: &str| format!("total_timeout of {left}, less what attempt 1 took");
    let time = match (explanation.ending, policy.total_timeout) {
        (Ending::GiveUp(Why::RetriesSpent { .. }), _) => {
            return vec![step("attempts", "no other one", format!("max_retries is {}", policy.max_retries))];
        }
        (Ending::GiveUp(Why::DeadlineTooClose { wait, .. }), Some(left)) => {
            step("time left", format!("too little for a wait of {}", seconds(wait)), total(&seconds(left)))
        }
        (Ending::Again { unless: Some(_), .. }, Some(left)) => {
            step("time left", "too little, if chance makes the wait too long", total(&seconds(left)))
        }
        (Ending::Again { wait, .. }, Some(left)) => {
            let rest = Span { least: left.saturating_sub(wait.most), most: left.saturating_sub(wait.least) };
            step("time left", format!("{rest} for attempt 2 and what may follow"), total(&seconds(left)))
        }
        (Ending::Again { .. }, None) => step("time left", "as much as it takes", "total_timeout is unlimited"),
        (Ending::PassOn | Ending::GiveUp(_) | Ending::TooLongToKeep, _) => return Vec::new(),
    };
    let more = Counted(policy.max_retries.into(), "more attempt");
    vec![step("attempts", format!("up to {more}"), "max_retries"), time]
}

/// What becomes of the body, where its size is known.
fn body(explanation: &Explanation, answer: &Answer) -> Option<Step> {
    let bytes = answer.body?;
    let size = Counted(bytes, "byte");
    let bound = format!("at most {KEPT_BYTES_MAX} bytes that come within {} are kept", seconds(KEPT_TIME_MAX));
    Some(match explanation.ending {
        Ending::Again { .. } if answer.is_too_long_to_keep() => {
            let says =
                format!("{size}, dropped: if nothing better follows, the client gets a 502 or 504 of sopan's own");
            step("body", says, bound)
        }
        Ending::Again { .. } => {
            step("body", format!("{size}, kept: the client gets it if nothing better follows"), bound)
        }
        Ending::TooLongToKeep => {
            step("body", format!("{size}, too long to be kept: passed on, and not retried"), bound)
        }
        Ending::PassOn | Ending::GiveUp(_) => step("body", format!("{size}, passed on as it comes"), ""),
    })
}

/// How long everybody waits.
fn hold(explanation: &Explanation, rules: &Rules) -> Step {
    let Some(hold) = explanation.hold else {
        return step("others", "are not held", "only a 429, or a 503 with a usable Retry-After, speaks for everybody");
    };
    let waited = explanation.wait.map(|waits| waits.map(Wait::as_duration));
    let is_cut = waited.is_some_and(|[_, most]| most > hold.most);
    let mut because = match explanation.outcome.retry_after() {
        Some(_) => "what the API asks for is meant for everybody".to_owned(),
        None => "a 429 is meant for everybody".to_owned(),
    };
    if is_cut {
        because = format!("no hold is longer than max_hold of {}", seconds(rules.lane.max_hold));
    }
    let mut says = format!("nobody sends for {hold}");
    if let Some(wait_max) = rules.lane.wait_max.filter(|wait_max| hold.most > *wait_max) {
        says += &format!(", and newcomers are refused while more than {} of it is left", seconds(wait_max));
        because += &format!("; wait_max is {}", seconds(wait_max));
    }
    step("others", says, because)
}

fn breaker(health: Option<Health>) -> Step {
    let (says, because) = match health {
        None => ("there is none", "breaker is off"),
        Some(Health::Success) => ("counts a success", "the API answers, and not with a server's error"),
        Some(Health::Failure) => ("counts a failure", "a server's error"),
        Some(Health::Neither) => ("counts nothing", "the API asked to wait"),
    };
    step("breaker", says, because)
}

/// Whether the retry must be afforded.
fn budget(explanation: &Explanation, policy: &RetryPolicy) -> Option<Step> {
    if !matches!(explanation.ending, Ending::Again { .. }) {
        return None;
    }
    Some(match (policy.retry_budget, explanation.outcome.spends_budget()) {
        (false, _) => step("budget", "retries are not bounded", "retry_budget is off"),
        (true, true) => step(
            "budget",
            "the retry is sent only if it can be afforded",
            "in 10 s at most 100 retries and 20 % of the requests",
        ),
        (true, false) => step("budget", "the retry costs nothing of it", "it pays for retries after a server's error"),
    })
}

/// Fields that tell of limits too, in dialects that are not read.
fn not_read(answer: &Answer) -> Option<Step> {
    let names = unread(answer).join(", ");
    (!names.is_empty()).then(|| step("not read", names, "of limits only Retry-After is read so far"))
}

/// The names of those fields.
pub(super) fn unread(answer: &Answer) -> Vec<&str> {
    let tells_of_limits = |name: &&HeaderName| {
        let text = name.as_str();
        let words = ["ratelimit", "rate-limit", "retry-after", "quota"];
        **name != RETRY_AFTER && words.iter().any(|word| text.contains(word))
    };
    answer.headers.keys().filter(tells_of_limits).map(HeaderName::as_str).collect()
}
