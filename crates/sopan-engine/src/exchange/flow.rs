//! A body that several clients read while it comes, and that is kept for the store.
//!
//! A [`Flow`] has one [`Feed`] and any number of [`Reader`]s. The one that wants more than there is asks the feed, for all,
//! and what comes is left there for the others. It is asked with a waker of the flow's own ([`stir`]), which wakes all that
//! wait: a task that was told of more and then waits for its own client would let the others wait too. The feed is taken
//! out while it is asked, so no lock is held meanwhile.
//!
//! While all of the body is kept, every reader has its own pace, and newcomers begin at the beginning. A body that is too
//! large for that is kept by no one, or by what writes it on as it comes ([`Spill`]); its readers share a window, and who
//! keeps the others waiting for too long is cut off. Only what has come whole is handed on, before its readers hear of its
//! end, so who asks again then finds it. When all readers have left, what little is left is read for the store, and a body
//! of which more is left is given up.
//!
//! Which answers are stored, and where, is for others to say ([`Keep`]); so is what a client is told.

mod finish;
mod kept;
mod readers;
mod state;
mod stir;

use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use sopan_core::time::Instant;

use super::answer::AnswerError;
use super::feed::Feed;
use crate::clock::Watchdog;
use crate::transport::WireError;
use crate::upstream::Upstream;
use finish::Finish;
pub(crate) use kept::{Keep, Spill, Whole};
use state::{Next, State};
use stir::Stir;

/// How far the first of several readers may be ahead of the last, where not all of the body is kept.
const WINDOW_BYTES: u64 = 256 * 1024;
/// How long the first waits for the others to come where it is. It is time for at least 25 KiB/s.
const LAG_MAX: Duration = Duration::from_secs(10);
/// How long it does so in all for one body, so that nobody sets the pace for others.
const LAGS_MAX: Duration = Duration::from_secs(30);
/// The most that is read of a body for the store alone.
const FINISH_BYTES_MAX: u64 = 1024 * 1024;
/// The longest that this may take.
const FINISH_TIME_MAX: Duration = Duration::from_secs(30);

/// A body on its way, for whoever wants to read it from the beginning.
#[derive(Clone)]
pub(crate) struct Flow(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    stir: Arc<Stir>,
    /// What the feed is asked with.
    waker: Waker,
    upstream: Arc<Upstream>,
    /// How long the whole is, if its head told.
    length: Option<u64>,
}

/// What came of asking the feed.
enum Asked {
    /// There is more, or an end.
    News,
    /// It broke off, and this task is the first to know.
    Broke,
}

impl Flow {
    /// A body that begins to come, and its first reader.
    pub(super) fn new(mut feed: Feed, keep: Option<Keep>) -> (Self, Reader) {
        let (stir, upstream) = (Arc::<Stir>::default(), Arc::clone(feed.upstream()));
        let length = feed.size_hint().exact();
        let is_empty = feed.is_end_stream();
        if is_empty {
            feed.end();
        }
        let state = State::new(Box::new(feed), keep, length);
        let waker = Waker::from(Arc::clone(&stir));
        let inner = Arc::new(Inner { state: Mutex::new(state), stir, waker, upstream, length });
        let number = inner.state.lock().attach();
        if is_empty {
            inner.complete(None);
        }
        (Self(Arc::clone(&inner)), Reader::new(inner, number))
    }

    /// One more reader, if all of the body that has come is still here.
    pub(crate) fn reader(&self) -> Option<Reader> {
        let number = self.0.state.lock().attach_if_whole()?;
        Some(Reader::new(Arc::clone(&self.0), number))
    }
}

impl Inner {
    /// Ready when there is news for this reader. Asks the feed if nobody has since it last stirred.
    fn poll_more(&self, number: u64, timer: &mut Watchdog, cx: &mut Context<'_>) -> Poll<Asked> {
        self.stir.register(number, cx.waker());
        let mut state = self.state.lock();
        // It may have come before this task was known to wait for it.
        if state.has_news(number) {
            return Poll::Ready(Asked::News);
        }
        let clock = self.upstream.clock;
        if let Some(until) = state.held_back_until(clock.now()) {
            drop(state);
            ready!(timer.poll(clock, until, cx));
            self.state.lock().cut_off(clock.now());
            self.stir.wake_all();
            return Poll::Ready(Asked::News);
        }
        if let Some(feed) = state.take_feed(&self.stir, number) {
            drop(state);
            return self.poll_feed(feed, timer, cx);
        }
        let silent_at = state.silent_at();
        drop(state);
        match silent_at {
            Some(at) => self.poll_silence(at, timer, cx),
            None => Poll::Pending,
        }
    }

    fn poll_feed(&self, mut feed: Box<Feed>, timer: &mut Watchdog, cx: &mut Context<'_>) -> Poll<Asked> {
        let frame = match feed.poll_frame(&mut Context::from_waker(&self.waker)) {
            Poll::Pending => return self.nothing_yet(feed, timer, cx),
            Poll::Ready(Some(Err(error))) => return self.broken(feed, error),
            Poll::Ready(None) => None,
            Poll::Ready(Some(Ok(frame))) => Some(frame),
        };
        let data = match frame.map(Frame::into_data) {
            Some(Ok(data)) => Some(data),
            Some(Err(frame)) => {
                self.state.lock().set_trailers(frame.into_trailers().unwrap_or_default());
                None
            }
            None => {
                drop(feed);
                self.complete(None);
                return Poll::Ready(Asked::News);
            }
        };
        if feed.is_over() {
            drop(feed);
            self.complete(data);
            return Poll::Ready(Asked::News);
        }
        let mut state = self.state.lock();
        let not_kept = data.and_then(|data| state.push(data));
        state.put_feed(feed);
        // There may be more where this came from.
        self.stir.set();
        drop(state);
        self.stir.wake_all();
        drop(not_kept);
        Poll::Ready(Asked::News)
    }

    fn nothing_yet(&self, feed: Box<Feed>, timer: &mut Watchdog, cx: &mut Context<'_>) -> Poll<Asked> {
        let mut state = self.state.lock();
        state.put_feed(feed);
        let silent_at = state.falls_silent_after(self.upstream.clock.now(), self.upstream.idle_timeout);
        // Who came because it has stirred since it was asked has not found it.
        let has_stirred = self.stir.is_set();
        drop(state);
        if has_stirred {
            self.stir.wake_all();
        }
        self.poll_silence(silent_at, timer, cx)
    }

    fn poll_silence(&self, at: Instant, timer: &mut Watchdog, cx: &mut Context<'_>) -> Poll<Asked> {
        let clock = self.upstream.clock;
        ready!(timer.poll(clock, at, cx));
        // While another asks it, that one sees to its silence.
        let Some(mut feed) = self.state.lock().take_silent_feed(clock.now()) else { return Poll::Pending };
        feed.cut();
        self.end(AnswerError::Silent);
        Poll::Ready(Asked::Broke)
    }

    fn broken(&self, feed: Box<Feed>, error: WireError) -> Poll<Asked> {
        drop(feed);
        self.end(AnswerError::Broken(Arc::new(error)));
        Poll::Ready(Asked::Broke)
    }

    fn end(&self, error: AnswerError) {
        let left = self.state.lock().break_off(error);
        drop(left);
        self.stir.wake_all();
    }

    /// The feed has ended, with this last piece. It is handed on before anybody hears of the end.
    fn complete(&self, last: Option<Bytes>) {
        let (handed, not_kept) = self.state.lock().begin_end(last.clone());
        drop(not_kept);
        let joined = handed.and_then(|whole| whole.hand_on());
        self.state.lock().end(last, joined);
        self.stir.wake_all();
    }

    /// A reader has left.
    fn leave(inner: &Arc<Self>, number: u64) {
        inner.stir.forget(number);
        let mut state = inner.state.lock();
        let wakes = state.detach(number);
        if !state.is_forsaken() {
            drop(state);
            if wakes {
                inner.stir.wake_all();
            }
            return;
        }
        let runtime = tokio::runtime::Handle::try_current().ok().filter(|_| state.is_worth_finishing(inner.length));
        let Some(runtime) = runtime else {
            let left = state.abandon();
            drop(state);
            return drop(left);
        };
        let finish = Finish::new(Arc::clone(inner), state.begin_finish());
        drop(state);
        drop(runtime.spawn(finish.run()));
    }
}

/// A reader of a body, as an [`http_body::Body`] is read. It leaves when it is dropped.
pub(crate) struct Reader {
    flow: Arc<Inner>,
    number: u64,
    timer: Watchdog,
    is_first_to_know: bool,
}

impl Reader {
    fn new(flow: Arc<Inner>, number: u64) -> Self {
        Self { flow, number, timer: Watchdog::default(), is_first_to_know: false }
    }

    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        loop {
            let (next, wakes) = self.flow.state.lock().next(self.number);
            if wakes {
                self.flow.stir.wake_all();
            }
            match next {
                Next::Frame(frame) => return Poll::Ready(Some(Ok(frame))),
                Next::End => return Poll::Ready(None),
                Next::Broken(error) => return Poll::Ready(Some(Err(error))),
                Next::Wait => {}
            }
            if let Asked::Broke = ready!(self.flow.poll_more(self.number, &mut self.timer, cx)) {
                self.is_first_to_know = true;
            }
        }
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.flow.state.lock().is_at_end(self.number)
    }

    /// Whether the body has come whole, and was handed on to be kept.
    pub(super) fn is_handed_on(&self) -> bool {
        self.flow.state.lock().is_handed_on()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        match self.flow.state.lock().left(self.number, self.flow.length) {
            Some(left) => SizeHint::with_exact(left),
            None => SizeHint::default(),
        }
    }

    /// Whether it was this one that saw the body break off, which is worth one line in the log and not one for each.
    pub(super) fn is_first_to_know(&self) -> bool {
        self.is_first_to_know
    }

    pub(super) fn upstream(&self) -> &Arc<Upstream> {
        &self.flow.upstream
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        Inner::leave(&self.flow, self.number);
    }
}

#[cfg(test)]
mod tests;
