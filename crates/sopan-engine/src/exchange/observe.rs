//! What would have become of an exchange whose upstream is only observed.
//!
//! What the lane foresees when the request comes, and what follows a failure, is noted in the story and logged as what would
//! be; then the exchange goes on as if there were neither limits nor retries. What is foreseen is the lane's business, and
//! what follows a failure is decided where it always is.

use std::time::Duration;

use sopan_core::lane::shadow::Foreseen;
use sopan_core::retry::{Verdict, Why};

use super::Exchange;
use crate::event::Observed;
use crate::refusal::Refusal;

impl Exchange<'_> {
    /// Notes what the lane would do with the request, when it first comes there.
    pub(super) fn foresee(&mut self, foreseen: Option<Foreseen>) {
        let Some(foreseen) = foreseen.filter(|_| self.story.observed.is_none()) else { return };
        let (wait, refused) = match foreseen {
            Foreseen::Goes(wait) => (wait, None),
            Foreseen::Refused(refusal) => (Duration::ZERO, Some(Refusal::Lane(refusal))),
        };
        if let Some(refusal) = refused {
            self.log_would_refuse(&refusal);
        }
        self.story.observed = Some(Box::new(Observed { wait, refused, failed: None, from_store: false }));
    }

    /// Notes what would follow a failure; nothing is repeated. A retry that would have been made is paid for like one that
    /// is, so that the budget ends where it would. What would have been refused would not have failed.
    pub(super) fn only_observe(&mut self, verdict: Verdict) -> Verdict {
        let Some(observed) = self.story.observed.as_mut().filter(|observed| observed.refused.is_none()) else {
            return Verdict::GiveUp(Why::OnlyObserved);
        };
        let verdict = match verdict {
            Verdict::Again(again) if again.spends_budget && self.upstream.dispatcher.withdraw().is_none() => {
                Verdict::GiveUp(Why::BudgetSpent)
            }
            verdict => verdict,
        };
        observed.failed = Some(verdict);
        let Verdict::Again(again) = verdict else { return verdict };
        self.log_would_wait(again.wait);
        Verdict::GiveUp(Why::OnlyObserved)
    }

    /// Whether the log has been told that the last attempt would be repeated.
    pub(super) fn is_told_to_repeat(&self) -> bool {
        self.story.observed.as_ref().is_some_and(|observed| matches!(observed.failed, Some(Verdict::Again(_))))
    }
}
