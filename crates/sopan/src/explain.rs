//! What does an answer of an API say, and what would sopan do with it?
//!
//! [`explain`] asks the code that the proxy asks, for a first attempt whose answer came at once, and puts into words what comes
//! back; no rule is written down here a second time. Where chance decides, it asks for the least and for the most. What the
//! words are is in `steps`, for the cache in `stored`, how they are shown in `show`. Nothing is sent, and of the fields only
//! the values of `Retry-After` and the names in `Vary` are shown.

mod cached;
mod show;
mod steps;
mod stored;

use std::fmt::{self, Display};
use std::fs::File;
use std::io::{self, Read};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, Method, StatusCode};
use sopan_core::breaker::Health;
use sopan_core::headers::{Shown, redact_url, went_in_a_circle};
use sopan_core::policy::{BreakerPolicy, CachePolicy, LanePolicy, RetryPolicy};
use sopan_core::retry::{Backoff, Decision, Dice, Outcome, Situation, Verdict, Wait, Why, decide};
use sopan_engine::exchange::KEPT_BYTES_MAX;

use crate::config::{self, Body, Format};
use cached::{Cached, Fate};
use show::seconds;

/// An answer as it is typed.
#[derive(Clone)]
pub(crate) struct Answer {
    /// Of the request that it answers.
    pub(crate) method: Method,
    /// Its path and query.
    pub(crate) target: String,
    /// Its fields.
    pub(crate) request: HeaderMap,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Our wall clock at its reception.
    pub(crate) received: SystemTime,
    /// The size of its body, if that is known.
    pub(crate) body: Option<u64>,
}

/// Shows no secret.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, target, request, status, headers, received, body } = self;
        f.debug_struct("Answer")
            .field("method", method)
            .field("target", &redact_url(target))
            .field("request", &Shown(request))
            .field("status", status)
            .field("headers", &Shown(headers))
            .field("received", received)
            .field("body", body)
            .finish()
    }
}

/// By which it is judged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    pub(crate) retry: RetryPolicy,
    pub(crate) lane: LanePolicy,
    pub(crate) breaker: BreakerPolicy,
    /// None where nothing is stored.
    pub(crate) cache: Option<CachePolicy>,
}

/// What would be done with an answer.
#[derive(Debug)]
struct Explanation {
    outcome: Outcome,
    /// The wait before another attempt and the rule behind it, with the least and the most of chance; none for what is not
    /// retried.
    wait: Option<[Wait; 2]>,
    ending: Ending,
    /// How long nobody sends.
    hold: Option<Span>,
    /// What it says of the upstream's health; none without a breaker.
    health: Option<Health>,
    /// What the cache does with it; none without a cache.
    cached: Option<Cached>,
    steps: Vec<Step>,
}

/// What the exchange does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The answer goes to the client: it is no failure, or none that is repeated.
    PassOn,
    /// It goes to the client although it is a failure that is repeated.
    GiveUp(Why),
    /// It goes to the client, since it cannot be kept while another attempt is made.
    TooLongToKeep,
    Again {
        wait: Span,
        /// Where the most of chance would be too much.
        unless: Option<Why>,
    },
}

/// From the least to the most, where chance decides; mostly they are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    least: Duration,
    most: Duration,
}

/// One thing that is read or decided, and the reason for it.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    about: &'static str,
    says: String,
    because: String,
}

fn explain(answer: &Answer, rules: &Rules) -> Explanation {
    let Answer { method, status, headers, received, .. } = answer;
    let outcome = Outcome::of_answer(*status, headers, *received, &rules.retry);
    let situation = Situation {
        method,
        has_idempotency_key: false,
        is_replayable: true,
        backoff: Backoff::default(),
        left: rules.retry.total_timeout,
    };
    let [least, most] = CHANCE.map(|sample| {
        let dice = Dice { backoff: sample, retry_after: sample };
        let decision = decide(&rules.retry, &situation, &outcome, dice);
        match decision.verdict {
            Verdict::Again(_) if went_in_a_circle(headers) => {
                Decision { verdict: Verdict::GiveUp(Why::Hopeless), ..decision }
            }
            _ => decision,
        }
    });
    let wait = outcome
        .is_retried(&rules.retry)
        .then(|| CHANCE.map(|sample| Wait::after(&outcome, &rules.retry, situation.backoff, sample)));
    let hold = least
        .hold
        .zip(most.hold)
        .map(|(least, most)| Span { least: rules.lane.hold_for(least), most: rules.lane.hold_for(most) });
    let mut explanation = Explanation {
        outcome,
        wait,
        ending: ending(answer, &outcome, least.verdict, most.verdict),
        hold,
        health: rules.breaker.on.then(|| Health::of(&outcome)),
        cached: rules.cache.as_ref().map(|policy| Cached::of(answer, policy)),
        steps: Vec::new(),
    };
    explanation.steps = steps::of(&explanation, answer, rules, &situation);
    explanation
}

/// The least and the most that dice show.
const CHANCE: [f64; 2] = [0.0, 1.0];

/// What is done, by the verdicts with the least and the most of chance. A longer wait can only be one too many.
fn ending(answer: &Answer, outcome: &Outcome, least: Verdict, most: Verdict) -> Ending {
    let (wait, unless) = match (least, most) {
        (Verdict::Done, _) | (_, Verdict::Done) => return Ending::PassOn,
        (Verdict::GiveUp(why), _) => return Ending::GiveUp(why),
        (Verdict::Again(least), Verdict::GiveUp(why)) => (Span { least: least.wait, most: least.wait }, Some(why)),
        (Verdict::Again(least), Verdict::Again(most)) => (Span { least: least.wait, most: most.wait }, None),
    };
    if answer.is_too_long_to_keep() && !outcome.asks_to_wait() {
        return Ending::TooLongToKeep;
    }
    Ending::Again { wait, unless }
}

impl Answer {
    fn is_too_long_to_keep(&self) -> bool {
        self.body.is_some_and(|bytes| bytes > KEPT_BYTES_MAX as u64)
    }
}

impl Explanation {
    /// All of it in one sentence.
    fn conclusion(&self) -> String {
        let others = match (self.hold, self.ending) {
            (None, _) => String::new(),
            (Some(hold), Ending::Again { wait, unless: None }) if wait == hold => {
                ", and nobody else sends meanwhile".to_owned()
            }
            (Some(hold), _) => format!("; nobody else sends for {hold}"),
        };
        let done = match self.ending {
            Ending::PassOn => "passes this answer on at once".to_owned(),
            Ending::GiveUp(why) => format!("passes this answer on at once: {why}"),
            Ending::TooLongToKeep => "passes this answer on at once: it is too long to be kept for a retry".to_owned(),
            Ending::Again { wait, unless: None } => format!("waits {wait}, then sends attempt 2"),
            Ending::Again { wait, unless: Some(_) } => format!(
                "waits at least {}, then sends attempt 2; if chance makes the wait too long for the time left, it passes \
                 this answer on at once",
                seconds(wait.least)
            ),
        };
        format!("sopan {done}{others}{}", self.kept())
    }

    /// What is kept of it for others, if anything is that they get without asking.
    fn kept(&self) -> String {
        match self.cached.as_ref().map(|cached| &cached.fate) {
            Some(Fate::Stored(kept)) if kept.is_given_at_once() => {
                format!("; for {} equal requests get it from the cache", seconds(kept.left))
            }
            _ => String::new(),
        }
    }
}

/// Explains an answer on standard output.
///
/// # Errors
/// The body cannot be read, or nothing can be written.
pub(crate) fn run(settings: config::Explain) -> anyhow::Result<()> {
    let config::Explain { mut answer, rules, body, format, colours } = settings;
    answer.body = body.map(|body| size(&body)).transpose()?;
    let explanation = explain(&answer, &rules);
    let text = match format {
        Format::Text => show::text(&explanation, &answer, colours),
        Format::Json => show::json(&explanation, &answer, &rules),
    };
    crate::print(text.as_bytes())
}

/// Longer bodies than this are not counted to their end.
const COUNTED_MAX: u64 = 1 << 30;

/// How long a body is. Nothing of it is kept, or shown.
fn size(body: &Body) -> anyhow::Result<u64> {
    let count = |from: &mut dyn Read| io::copy(&mut from.take(COUNTED_MAX), &mut io::sink());
    let fail = |name: &dyn Display, e| anyhow::anyhow!("--body: `{name}` cannot be read: {e}");
    match body {
        Body::StandardInput => count(&mut io::stdin().lock()).map_err(|e| fail(&"-", e)),
        Body::File(path) => {
            File::open(path).and_then(|mut file| count(&mut file)).map_err(|e| fail(&path.display(), e))
        }
    }
}

#[cfg(test)]
mod tests;
