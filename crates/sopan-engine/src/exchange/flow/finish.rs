//! Reading the rest of a body that is wanted for the store and by nobody else.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::{FINISH_TIME_MAX, Inner};
use crate::clock::Watchdog;

/// A reader that only wants the end.
pub(super) struct Finish {
    flow: Arc<Inner>,
    number: u64,
    timer: Watchdog,
}

impl Finish {
    pub(super) fn new(flow: Arc<Inner>, number: u64) -> Self {
        Self { flow, number, timer: Watchdog::default() }
    }

    pub(super) async fn run(mut self) {
        // What took too long is given up, by the drop.
        let _ = tokio::time::timeout(FINISH_TIME_MAX, poll_fn(|cx| self.poll_end(cx))).await;
    }

    /// Ready when there is an end, or no use in going on: the store does not want it any more, or somebody reads it again.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.flow.state.lock().is_finish_wanted() {
            ready!(self.flow.poll_more(self.number, &mut self.timer, cx));
        }
        Poll::Ready(())
    }
}

impl Drop for Finish {
    fn drop(&mut self) {
        self.flow.stir.forget(self.number);
        let left = self.flow.state.lock().end_finish();
        drop(left);
        self.flow.stir.wake_all();
    }
}
