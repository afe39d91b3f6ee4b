//! An exchange that is recorded, with nothing that hangs on its connection.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::uri::PathAndQuery;
use http::{Method, StatusCode};
use sopan_core::headers::redact_url;
use sopan_core::trace::Trace;
use sopan_engine::event::{Cached, Event, Step, What};

/// The longest that is told of a target.
const TARGET_MAX: usize = 2048;

/// What there is to tell of it.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) trace: Trace,
    pub(super) ended: SystemTime,
    pub(super) upstream: Arc<str>,
    pub(super) method: Method,
    /// Without its secrets.
    pub(super) target: String,
    pub(super) status: Option<StatusCode>,
    pub(super) refused: Option<&'static str>,
    pub(super) cache: Option<Cached>,
    pub(super) wait: Duration,
    pub(super) attempts: u32,
    pub(super) total: Duration,
    pub(super) bytes: u64,
    pub(super) whole: bool,
    pub(super) steps: Vec<Step>,
    pub(super) steps_left_out: u32,
}

impl Record {
    /// None of one that is not recorded.
    pub(super) fn of(upstream: &Arc<str>, event: &Event<'_>) -> Option<Self> {
        let Event { method, uri, status, refused, cache, wait, attempts, total, bytes, whole, .. } = *event;
        let target = redact_url(uri.path_and_query().map_or("*", PathAndQuery::as_str));
        Some(Self {
            trace: *event.trace?,
            ended: SystemTime::now(),
            upstream: Arc::clone(upstream),
            method: method.clone(),
            target: shortened(target),
            status,
            refused,
            cache,
            wait,
            attempts,
            total,
            bytes,
            whole,
            steps: event.steps.to_vec(),
            steps_left_out: event.steps_left_out,
        })
    }

    /// How many spans it makes: itself, and one for each step that takes time.
    pub(super) fn spans(&self) -> u64 {
        let takes_time = |what: &What| match what {
            What::Sent { .. } | What::Refused { .. } | What::CutOff | What::Left => false,
            What::Waited { .. }
            | What::Connected { .. }
            | What::Answered { .. }
            | What::Failed { .. }
            | What::Stale
            | What::FromStore { .. }
            | What::Stored => true,
        };
        1 + self.steps.iter().filter(|step| takes_time(&step.what)).count() as u64
    }
}

fn shortened(target: String) -> String {
    if target.len() <= TARGET_MAX {
        return target;
    }
    let end = target.floor_char_boundary(TARGET_MAX);
    format!("{}…", &target[..end])
}
