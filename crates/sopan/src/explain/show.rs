//! How an explanation is shown: lines for people, or one JSON object for programs.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use sopan_core::breaker::Health;
use sopan_core::hints::http_date::Form as DateForm;
use sopan_core::hints::retry_after::Form;
use sopan_core::hints::{self, Reader};
use sopan_core::retry::Wait;

use super::{Answer, Ending, Explanation, Rules, Span, Step, steps, stored};
use crate::log::Printable;

/// As wide as a line of an explanation should be.
const WIDTH: usize = 100;

/// More of a value is no hint to anybody.
const QUOTED_MAX: usize = 60;

/// Aligned lines, and the conclusion at the end.
pub(super) fn text(explanation: &Explanation, answer: &Answer, colours: bool) -> String {
    let (dim, bold, plain) = if colours { ("\x1b[2m", "\x1b[1m", "\x1b[0m") } else { ("", "", "") };
    let width = explanation.steps.iter().map(|step| step.about.len()).max().unwrap_or(0);
    let received = httpdate::fmt_http_date(answer.received);
    let mut text = format!("{} answered with {}, received {received}\n\n", answer.method, answer.status.as_u16());
    let mut last = "";
    for Step { about, says, because } in &explanation.steps {
        // Lines about the same thing stand together, and its name before the first.
        let name = if *about == last { "" } else { about };
        last = about;
        text += &format!("  {bold}{name:width$}{plain}  {says}");
        if !because.is_empty() {
            // A reason that does not fit beside it stands below.
            let fits = width + says.chars().count() + because.chars().count() + 7 <= WIDTH;
            let gap = if fits { " ".to_owned() } else { format!("\n{:1$}", "", width + 4) };
            text += &format!("{gap}{dim}({because}){plain}");
        }
        text.push('\n');
    }
    text + &format!("\n{bold}So {}{plain}\n", explanation.conclusion())
}

/// The same for programs: what was read and decided, and the words beside it.
pub(super) fn json(explanation: &Explanation, answer: &Answer, rules: &Rules) -> String {
    let Explanation { outcome, wait, ending, hold, health, cached, steps } = explanation;
    let action = match ending {
        Ending::PassOn | Ending::GiveUp(_) | Ending::TooLongToKeep => "pass-on",
        Ending::Again { .. } => "retry",
    };
    let why = match ending {
        Ending::GiveUp(why) | Ending::Again { unless: Some(why), .. } => Some(why.to_string()),
        Ending::PassOn | Ending::TooLongToKeep | Ending::Again { unless: None, .. } => None,
    };
    let wait_before = match ending {
        Ending::Again { wait, .. } => Some(*wait),
        Ending::PassOn | Ending::GiveUp(_) | Ending::TooLongToKeep => None,
    };
    let rule = wait.map(|[least, _]| match least {
        Wait::Asked(_) => "asked",
        Wait::Floored(_) => "min_wait",
        Wait::Capped(_) => "cap",
        Wait::TooLong(_) => "give-up",
        Wait::Default(_) => "default_wait",
        Wait::Backoff(_) => "backoff",
    });
    let breaker = match health {
        None => "off",
        Some(Health::Success) => "success",
        Some(Health::Failure) => "failure",
        Some(Health::Neither) => "neither",
    };
    let steps: Vec<_> = steps
        .iter()
        .map(|Step { about, says, because }| json!({ "about": about, "says": says, "because": because }))
        .collect();
    let object = json!({
        "method": answer.method.as_str(),
        "status": answer.status.as_u16(),
        "received": httpdate::fmt_http_date(answer.received),
        "retry_after": lines(answer, rules.retry.reader),
        "retry_after_s": outcome.retry_after().map(|wait| wait.as_secs_f64()),
        "rule": rule,
        "action": action,
        "why": why,
        "wait_s": wait_before.map(span),
        "hold_s": hold.map(span),
        "breaker": breaker,
        "spends_budget": wait_before.is_some() && rules.retry.retry_budget && outcome.spends_budget(),
        "cache": cached.as_ref().map(stored::json),
        "not_read": steps::unread(answer),
        "steps": steps,
        "conclusion": explanation.conclusion(),
    });
    format!("{object:#}\n")
}

fn span(Span { least, most }: Span) -> Value {
    json!({ "least": least.as_secs_f64(), "most": most.as_secs_f64() })
}

/// Every line of `Retry-After`: what it looks like, and how it is read.
fn lines(answer: &Answer, reader: Reader) -> Vec<Value> {
    let waits = hints::waits(&answer.headers, answer.received, reader);
    let lines = waits.map(|(line, wait)| {
        let form = match Form::of(line.as_bytes()) {
            None => "empty",
            Some(Form::Seconds) => "seconds",
            Some(Form::Decimal) => "decimal",
            Some(Form::Date(DateForm::ImfFixdate)) => "imf-fixdate",
            Some(Form::Date(DateForm::Rfc850)) => "rfc850",
            Some(Form::Date(DateForm::Asctime)) => "asctime",
        };
        let form = if wait.is_some() { form } else { "unusable" };
        json!({ "value": excerpt(line.as_bytes()), "form": form, "s": wait.map(|wait| wait.as_secs_f64()) })
    });
    lines.collect()
}

/// The beginning of a value that came from outside.
fn excerpt(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    let mut chars = text.chars();
    let begin: String = chars.by_ref().take(QUOTED_MAX).collect();
    let rest = if chars.next().is_some() { "…" } else { "" };
    format!("{}{rest}", Printable(&begin))
}

/// The same between quotation marks.
pub(super) fn quoted(value: &[u8]) -> String {
    format!("\"{}\"", excerpt(value))
}

/// A duration as this command tells it: `90 s`, `0.375 s`, and where that says little, also in a larger unit.
pub(super) fn seconds(span: Duration) -> String {
    format!("{} s{}", number(span), larger(span))
}

/// Seconds, with the decimals that are there, at most three.
fn number(span: Duration) -> String {
    if span.subsec_nanos() == 0 {
        return span.as_secs().to_string();
    }
    match format!("{:.3}", span.as_secs_f64()).trim_end_matches('0').trim_end_matches('.') {
        "0" => "less than 0.001".to_owned(),
        number => number.to_owned(),
    }
}

/// About the same in hours, days or years, where it is that long.
fn larger(span: Duration) -> String {
    const HOUR: f64 = 3600.0;
    let (of, unit) = match span.as_secs_f64() / HOUR {
        ..2.0 => return String::new(),
        ..48.0 => (HOUR, "hours"),
        ..17_520.0 => (24.0 * HOUR, "days"),
        _ => (8766.0 * HOUR, "years"),
    };
    format!(" ({:.1} {unit})", span.as_secs_f64() / of)
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { least, most } = *self;
        if least == most { f.write_str(&seconds(most)) } else { write!(f, "{} to {}", number(least), seconds(most)) }
    }
}
