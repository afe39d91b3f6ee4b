//! What an exchange logs, for whoever runs the program: every wait before a retry, every failure that is not retried, and
//! now and then that requests are refused.

use std::time::Duration;

use http::{Method, Uri};
use parking_lot::Mutex;
use sopan_core::headers::redact_url;
use sopan_core::retry::Outcome;
use sopan_core::time::Instant;

use super::{End, Exchange, Failed};
use crate::refusal::Refusal;

/// Refusals come by the thousand where they come at all, so they are logged this far apart.
const REFUSALS_APART: Duration = Duration::from_secs(10);

impl Exchange<'_> {
    /// A wait before a retry begins.
    pub(super) fn log_wait(&self, wait: Duration) {
        let Some(Failed { reason, outcome, .. }) = self.last() else { return };
        let (attempt, wait_s) = (self.story.attempts, wait.as_secs_f64());
        tracing::warn!(
            attempt,
            reason,
            wait_s = thousandths(wait_s),
            retry_after = self.retry_after(outcome),
            upstream = self.upstream.name(),
            method = self.head.method().as_str(),
            target = self.shown_target(),
            "attempt {attempt} failed ({reason}); waiting {wait_s:.2} s before retrying"
        );
    }

    /// The exchange ends with a failure. Where the upstream answered, its client is told by that; where it did not, only
    /// this line says what happened.
    pub(super) fn log_end(&self, end: &End) {
        let (End::GaveUp { why, .. }, Some(Failed { reason, outcome, failure })) = (end, self.last()) else { return };
        let (attempt, upstream) = (self.story.attempts, self.upstream.name());
        let (retry_after, method, target) =
            (self.retry_after(outcome), self.head.method().as_str(), self.shown_target());
        if failure.is_some() {
            tracing::warn!(
                attempt,
                reason,
                upstream,
                method,
                target,
                "attempt {attempt} failed ({reason}); not retried: {why}"
            );
        } else if !self.is_told_to_repeat() {
            tracing::info!(
                attempt,
                reason,
                retry_after,
                upstream,
                method,
                target,
                "attempt {attempt} failed ({reason}); not retried: {why}"
            );
        }
    }

    /// An exchange that is only observed would wait before a retry.
    pub(super) fn log_would_wait(&self, wait: Duration) {
        let Some(Failed { reason, outcome, .. }) = self.last() else { return };
        let (attempt, would_wait_s) = (self.story.attempts, wait.as_secs_f64());
        tracing::info!(
            attempt,
            reason,
            would_wait_s = thousandths(would_wait_s),
            retry_after = self.retry_after(outcome),
            upstream = self.upstream.name(),
            method = self.head.method().as_str(),
            target = self.shown_target(),
            "observe: attempt {attempt} failed ({reason}); would wait {would_wait_s:.2} s before retrying"
        );
    }

    /// An exchange that is only observed would be refused.
    pub(super) fn log_would_refuse(&self, refusal: &Refusal) {
        let Some(count) = self.upstream.would_be_refusals.next(refusal.reason(), self.now()) else { return };
        let more = if count > 1 { format!(" ({count} since the last such line)") } else { String::new() };
        let (reason, detail, upstream) = (refusal.reason(), refusal.detail(), self.upstream.name());
        let (method, target) = (self.head.method().as_str(), self.shown_target());
        tracing::warn!(
            reason,
            count,
            upstream,
            method,
            target,
            "observe: {method} {target} would be refused: {detail}{more}"
        );
    }

    /// sopan answers by itself, without an attempt.
    pub(super) fn log_refusal(&self, refusal: &Refusal) {
        if self.story.is_nobodys() {
            return self.log_unasked(refusal);
        }
        let Some(count) = self.upstream.refusals.next(refusal.reason(), self.now()) else { return };
        log_refusal(refusal, count, self.upstream.name(), self.head.method(), self.target_as_sent());
    }

    /// What was given though it is stale could not be asked about in the background. No client is the worse for it yet, and
    /// whoever comes next tries again.
    fn log_unasked(&self, refusal: &Refusal) {
        let (reason, detail, upstream) = (refusal.reason(), refusal.detail(), self.upstream.name());
        let target = self.shown_target();
        tracing::debug!(
            reason,
            upstream,
            target,
            "{target} is stale, and was not asked about in the background: {detail}"
        );
    }

    /// What the upstream said of when to come again: a wait, nothing, or nothing that can be used.
    fn retry_after(&self, outcome: &Outcome) -> Option<String> {
        let Outcome::Answered { retry_after, .. } = outcome else { return None };
        let says_when = self.past.as_ref().is_some_and(|past| past.says_when);
        Some(match retry_after {
            Some(wait) => format!("{} s", thousandths(wait.as_secs_f64())),
            None if says_when => "unusable".to_owned(),
            None => "none".to_owned(),
        })
    }

    /// The target as the client sent it.
    pub(super) fn target_as_sent(&self) -> &Uri {
        self.original.as_deref().unwrap_or(self.head.uri())
    }

    fn shown_target(&self) -> String {
        redact_url(&self.target_as_sent().to_string())
    }
}

/// sopan answers by itself, as it has `count` times since the last such line.
pub(super) fn log_refusal(refusal: &Refusal, count: u64, upstream: &str, method: &Method, target: &Uri) {
    let more = if count > 1 { format!(" ({count} refused since the last such line)") } else { String::new() };
    let (reason, detail) = (refusal.reason(), refusal.detail());
    let (method, target) = (method.as_str(), redact_url(&target.to_string()));
    tracing::warn!(reason, count, upstream, method, target, "{method} {target} refused: {detail}{more}");
}

fn thousandths(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

/// Counts what is logged only now and then, each reason by itself: one that comes often hides no other.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    /// As many as there are reasons in the program, each once it has come.
    of: Mutex<Vec<Told>>,
}

#[derive(Debug)]
struct Told {
    reason: &'static str,
    /// From when on the next line may come.
    from: Instant,
    silent: u64,
}

impl Seldom {
    /// One more for this reason; answers how many there were since the last line, if it is time for another.
    pub(super) fn next(&self, reason: &'static str, now: Instant) -> Option<u64> {
        let mut of = self.of.lock();
        let Some(told) = of.iter_mut().find(|told| told.reason == reason) else {
            of.push(Told { reason, from: now.after(REFUSALS_APART), silent: 0 });
            return Some(1);
        };
        told.silent += 1;
        if now < told.from {
            return None;
        }
        told.from = now.after(REFUSALS_APART);
        Some(std::mem::take(&mut told.silent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_for_one_reason_hide_none_for_another() {
        let seldom = Seldom::default();
        let at = |seconds| Instant::ORIGIN.after(Duration::from_secs(seconds));
        for (reason, second, expected) in [
            ("key-unknown", 0, Some(1)),
            ("key-unknown", 1, None),
            ("not-allowed", 1, Some(1)),
            ("not-allowed", 9, None),
            ("key-unknown", 10, Some(2)),
            ("not-allowed", 10, None),
            ("not-allowed", 11, Some(3)),
            ("key-unknown", 40, Some(1)),
        ] {
            assert_eq!(seldom.next(reason, at(second)), expected, "{reason} at {second} s");
        }
    }
}
