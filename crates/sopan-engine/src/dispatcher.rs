//! The only loop that waits its turn: it wakes exactly the next ticket at the exact instant.
//!
//! The [`Dispatcher`] keeps a [`lane::Lane`] behind one short lock. Everything that happens to the lane, an arrival, a
//! written head, an answer, is followed by a step of it on the spot, in whatever task it happened, and wakes those whom it
//! concerns; the loop in [`Dispatcher::run`] is there for what happens by itself, when a token comes due, a hold or a
//! deadline ends. Nobody polls, and nobody is woken in vain.
//!
//! A [`Ticket`] that is dropped leaves the queue, a [`Turn`] that is dropped gives back what was not written, and its
//! place: so a client that hangs up costs nothing.

mod operator;
mod shade;
mod sharing;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use sopan_core::breaker::{Change, Health};
use sopan_core::journal::Note;
use sopan_core::lane::shadow::{Foreseen, Shadow};
use sopan_core::lane::{self, Call, Cause, Enter, Lane, Refusal, Snapshot, Visit};
use sopan_core::queue::{Entry, TicketId};
use sopan_core::time::Instant;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::clock::Clock;
use crate::shared::Seat;
use crate::state::StateHandle;
use shade::Shade;

/// How long the loop leaves it to the first ticket to look by itself. Its own look is only there for a task that sleeps on
/// its turn.
const ALARM_GRACE: Duration = Duration::from_millis(5);

/// What a waiting ticket is told.
#[derive(Debug)]
pub(crate) enum News {
    /// Its turn is near.
    Prepare,
    /// Its turn has come.
    Go(Turn),
    /// It will not go.
    Refused(Refusal),
}

/// What an exchange gets that wants to send.
#[derive(Debug)]
pub(crate) enum Entered {
    Go(Turn),
    /// It waits, for this as things stand.
    Wait(Ticket, Cause),
    Refused(Refusal),
}

/// A lane that many tasks share.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    shared: Mutex<Shared>,
    bell: Arc<Notify>,
    /// Rung when nobody is let through any more, or not for longer than before.
    bars: Notify,
    /// The lane's count of holds, to be looked at without the lock.
    holds: AtomicU64,
    clock: Clock,
    /// What its upstream is called in the log.
    upstream: Arc<str>,
    /// By which it says what it wants of those who share its limits, if they are shared.
    seat: Option<Seat>,
}

#[derive(Debug)]
struct Shared {
    lane: Lane,
    /// What the lane would do, where it only observes. Then it has neither limits nor a breaker itself, and is never held.
    shadow: Option<Box<Shadow>>,
    /// Where what may leave is written before it does.
    state: Option<StateHandle>,
    notes: Vec<Note>,
    /// Whom to tell, by the ticket's index.
    waiters: Vec<Option<Arc<Waiter>>>,
    calls: Vec<Call>,
    /// When the loop will look again by itself.
    armed: Instant,
    /// Whether the breaker lets nobody through, and until when the lane is held, as the last step left it.
    barred: (bool, Option<Instant>),
}

/// What a ticket was told and has not heard yet.
#[derive(Debug, Default)]
struct Waiter(Mutex<WaiterState>);

#[derive(Debug, Default)]
struct WaiterState {
    waker: Option<Waker>,
    called: bool,
    /// When the ticket, which has its connection, looks by itself whether its turn has come.
    alarm: Option<Instant>,
    verdict: Option<Verdict>,
}

#[derive(Debug)]
enum Verdict {
    Go(lane::Turn),
    Refused(Refusal),
}

impl Dispatcher {
    /// A dispatcher for a lane to which nothing has happened yet; it goes on where the one before it ended, if `state` knows.
    pub(crate) fn new(
        lane: Lane,
        shadow: Option<Box<Shadow>>,
        clock: Clock,
        upstream: Arc<str>,
        state: Option<StateHandle>,
        seat: Option<Seat>,
    ) -> Self {
        let (waiters, calls, notes) = (Vec::new(), Vec::new(), Vec::new());
        let mut shared =
            Shared { lane, shadow, state, notes, waiters, calls, armed: Instant::NEVER, barred: (false, None) };
        let now = shared.now(clock);
        if let Some(seat) = &seat {
            shared.lane.share(seat.timeout(), now);
        }
        if let Some(state) = &shared.state {
            let notes = state.restore(&shared.lane.kept());
            shared.lane.restore(&notes, now);
        }
        let (shared, bars, holds) = (Mutex::new(shared), Notify::new(), AtomicU64::new(0));
        Self { shared, bell: Arc::default(), bars, holds, clock, upstream, seat }
    }

    /// Serves the lane until the dispatcher is gone.
    pub(crate) async fn run(dispatcher: Weak<Self>) {
        let Some((clock, bell)) = dispatcher.upgrade().map(|d| (d.clock, Arc::clone(&d.bell))) else { return };
        let mut timer = clock.timer();
        // The dispatcher itself is not kept while the loop sleeps; it rings when it goes.
        while let Some(next) = dispatcher.upgrade().map(|d| d.rearm()) {
            let mut bell = pin!(bell.notified());
            poll_fn(|cx| {
                let rung = bell.as_mut().poll(cx).is_ready();
                if rung || timer.poll_until(next, cx).is_ready() { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            // A timer that has fired already makes for a loop without a pause, and others have work to do.
            tokio::task::coop::consume_budget().await;
        }
    }

    /// An exchange wants to send. `foreseen` is how a lane that is only observed sees that.
    pub(crate) fn enter(self: &Arc<Self>, entry: Entry, visit: Visit, foreseen: Visit) -> Entered {
        self.act(|shared, now| match shared.lane.enter(entry, visit, now) {
            Enter::Go(turn) => Entered::Go(self.turn(turn, Shade::of(self, shared, &entry, foreseen, now))),
            Enter::Wait(id) => {
                let (waiter, shade) = (Some(shared.waiter(id)), Shade::of(self, shared, &entry, foreseen, now));
                let awaits = shared.lane.awaits(&entry, now);
                Entered::Wait(Ticket { dispatcher: Arc::clone(self), id, waiter, shade }, awaits)
            }
            Enter::Refused(refusal) => Entered::Refused(refusal),
        })
    }

    /// Whether the traffic could afford a retry now.
    pub(crate) fn affords_retry(&self) -> bool {
        let mut shared = self.shared.lock();
        shared.lane.affords_retry(self.clock.now())
    }

    /// Whether the traffic affords a retry; if so, it is spent now.
    pub(crate) fn withdraw(&self) -> Option<Instant> {
        self.act(|shared, now| shared.lane.withdraw(now).then_some(now))
    }

    /// A retry that was spent at `withdrawn` was never sent.
    pub(crate) fn refund_retry(&self, withdrawn: Instant) {
        self.shared.lock().lane.refund_retry(withdrawn);
    }

    /// The answer that asked for a pause has come to its end at `now`.
    pub(crate) fn prolong_hold(&self, wait: Duration, now: Instant) {
        self.act(|shared, _| shared.lane.prolong_hold(wait, now));
    }

    /// Until when the lane is held.
    pub(crate) fn held_until(&self) -> Option<Instant> {
        self.shared.lock().lane.held_until()
    }

    /// Why whoever comes now gets no turn until `deadline`, if so.
    pub(crate) fn bar(&self, deadline: Option<Instant>) -> Option<Cause> {
        let shared = self.shared.lock();
        shared.lane.bar(deadline, self.clock.now())
    }

    /// Ready when there may be another answer to that than when it was made.
    pub(crate) fn barred(&self) -> Notified<'_> {
        self.bars.notified()
    }

    /// How often the lane has been held.
    pub(crate) fn holds(&self) -> u64 {
        self.holds.load(Ordering::Acquire)
    }

    pub(crate) fn set_connect_time(&self, measured: Duration) {
        self.act(|shared, _| shared.lane.set_connect_time(measured));
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut shared = self.shared.lock();
        let now = shared.now(self.clock);
        let mut snapshot = shared.lane.snapshot(now);
        if let Some(shadow) = &mut shared.shadow {
            shadow.show(&mut snapshot, now);
        }
        snapshot
    }

    /// Writes what the state does not know yet, for a process that ends in order.
    pub(crate) fn close(&self) {
        let mut shared = self.shared.lock();
        let now = shared.now(self.clock);
        let Shared { lane, state, notes, .. } = &mut *shared;
        if let Some(state) = state {
            lane.whole_journal(now, notes);
            state.write(notes);
        }
    }

    fn turn(self: &Arc<Self>, turn: lane::Turn, shade: Option<Box<Shade>>) -> Turn {
        Turn { dispatcher: Arc::clone(self), turn: Some(turn), shade }
    }

    /// Does something to the lane, then whatever follows from it, and wakes those whom it concerns after the lock.
    fn act<T>(&self, act: impl FnOnce(&mut Shared, Instant) -> T) -> T {
        let mut wakers = Vec::new();
        let mut shared = self.shared.lock();
        // Read under the lock, so that the lane sees time in order.
        let now = shared.now(self.clock);
        let done = act(&mut shared, now);
        let next = shared.step(now, &mut wakers);
        self.holds.store(shared.lane.holds(), Ordering::Release);
        let sooner = next < shared.armed;
        shared.armed = shared.armed.min(next);
        let change = shared.lane.take_change();
        let is_barred = shared.is_newly_barred(now);
        let errand = self.errand(&mut shared, now);
        drop(shared);
        wakers.into_iter().for_each(Waker::wake);
        self.want(errand);
        if is_barred {
            self.bars.notify_waiters();
        }
        if sooner {
            self.bell.notify_one();
        }
        if let Some(change) = change {
            log_change(change, &self.upstream, now);
        }
        done
    }

    /// Does what is due by itself; answers when the loop must look again.
    fn rearm(&self) -> Instant {
        let mut wakers = Vec::new();
        let mut shared = self.shared.lock();
        let now = shared.now(self.clock);
        let next = shared.step(now, &mut wakers);
        shared.armed = next;
        let is_barred = shared.is_newly_barred(now);
        let errand = self.errand(&mut shared, now);
        drop(shared);
        wakers.into_iter().for_each(Waker::wake);
        self.want(errand);
        if is_barred {
            self.bars.notify_waiters();
        }
        next
    }
}

/// Says how the breaker's state has changed.
fn log_change(change: Change, upstream: &str, now: Instant) {
    let (until, what) = match change {
        Change::Reset => {
            return tracing::info!(breaker = "closed", upstream, "the upstream answers again: the breaker is closed");
        }
        Change::Tripped { until } => (until, "the upstream fails too often"),
        Change::Reopened { until } => (until, "the upstream still fails"),
    };
    let open_s = until.until(now).as_secs_f64();
    tracing::warn!(
        breaker = "open",
        open_s,
        upstream,
        "{what}: the breaker is open, nothing is sent for {open_s:.2} s"
    );
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.bell.notify_one();
    }
}

impl Shared {
    /// The present instant; the lane is told the calendar before it sees one at which it wants to know it.
    fn now(&mut self, clock: Clock) -> Instant {
        let now = clock.now();
        if now >= self.lane.calendar_due() {
            self.lane.set_calendar(now, clock.wall());
        }
        if let Some(shadow) = self.shadow.as_mut().filter(|shadow| now >= shadow.calendar_due()) {
            shadow.set_calendar(now, clock.wall());
        }
        now
    }

    /// Whether less gets through than before.
    fn is_newly_barred(&mut self, now: Instant) -> bool {
        let barred = (self.lane.bar(None, now).is_some(), self.lane.held_until());
        let (was_shut, was_held) = std::mem::replace(&mut self.barred, barred);
        barred.0 && !was_shut || barred.1 > was_held
    }

    /// A place for what a new ticket is told.
    fn waiter(&mut self, id: TicketId) -> Arc<Waiter> {
        if self.waiters.len() <= id.index() {
            self.waiters.resize_with(id.index() + 1, || None);
        }
        let waiter = Arc::<Waiter>::default();
        self.waiters[id.index()] = Some(Arc::clone(&waiter));
        waiter
    }

    fn step(&mut self, now: Instant, wakers: &mut Vec<Waker>) -> Instant {
        let next = self.lane.step(now, &mut self.calls);
        // Before anybody hears of a turn. Under the lock, since who comes next may use what this lets.
        if let Some(state) = &self.state {
            self.lane.journal(now, &mut self.notes);
            state.write(&mut self.notes);
        }
        for call in self.calls.drain(..) {
            // A ticket that goes or is refused has left the queue, and its index may be used again at once.
            let (id, verdict) = match call {
                Call::Prepare(id) => (id, None),
                Call::Go(id, turn) => (id, Some(Verdict::Go(turn))),
                Call::Refuse(id, refusal) => (id, Some(Verdict::Refused(refusal))),
            };
            let place = &mut self.waiters[id.index()];
            let waiter = if verdict.is_some() { place.take() } else { place.clone() };
            wakers.extend(waiter.and_then(|w| w.tell(verdict)));
        }
        if let Some(turn) = next.turn {
            // Its alarm may be set for later, from when more went before it.
            let first = self.lane.first().and_then(|id| self.waiters[id.index()].as_ref());
            wakers.extend(first.and_then(|waiter| waiter.alarm_by(turn)));
        }
        let turn = next.turn.map(|turn| turn.after(ALARM_GRACE));
        turn.into_iter().chain(next.other).min().unwrap_or(Instant::NEVER)
    }
}

impl Waiter {
    /// Sees to it that the ticket's alarm goes at `turn` or before.
    fn alarm_by(&self, turn: Instant) -> Option<Waker> {
        let mut state = self.0.lock();
        if state.alarm.is_some_and(|alarm| alarm <= turn) {
            return None;
        }
        state.alarm = Some(turn);
        state.waker.take()
    }

    fn tell(&self, verdict: Option<Verdict>) -> Option<Waker> {
        let mut state = self.0.lock();
        match verdict {
            None => state.called = true,
            verdict => state.verdict = verdict,
        }
        state.waker.take()
    }
}

/// A place in the queue, left when it is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    dispatcher: Arc<Dispatcher>,
    id: TicketId,
    /// What it is told; none when it was told the last.
    waiter: Option<Arc<Waiter>>,
    shade: Option<Box<Shade>>,
}

impl Ticket {
    /// What the lane would do with its request, if it only observes.
    pub(crate) fn foreseen(&self) -> Option<Foreseen> {
        self.shade.as_ref()?.foreseen()
    }

    /// Waits for news; each is told once, and after a turn or a refusal there is none.
    pub(crate) fn poll_news(&mut self, cx: &mut Context<'_>) -> Poll<News> {
        let Some(waiter) = &self.waiter else { return Poll::Pending };
        let mut state = waiter.0.lock();
        let Some(verdict) = state.verdict.take() else {
            if std::mem::take(&mut state.called) {
                return Poll::Ready(News::Prepare);
            }
            if !state.waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
                state.waker = Some(cx.waker().clone());
            }
            return Poll::Pending;
        };
        drop(state);
        self.waiter = None;
        Poll::Ready(match verdict {
            Verdict::Go(turn) => News::Go(self.dispatcher.turn(turn, self.shade.take())),
            Verdict::Refused(refusal) => News::Refused(refusal),
        })
    }

    /// Says whether it could go at once. If so it must look by itself when its alarm goes.
    pub(crate) fn ready(&self, ready: bool) {
        self.dispatcher.act(|shared, now| {
            shared.lane.ready(self.id, ready);
            let due = if ready { shared.lane.due(self.id, now) } else { None };
            self.set_alarm(due, now);
        });
    }

    /// What is due already waits for something else to happen, and is told then.
    fn set_alarm(&self, due: Option<Instant>, now: Instant) {
        if let Some(waiter) = &self.waiter {
            waiter.0.lock().alarm = due.filter(|due| *due > now);
        }
    }

    /// When to [`Ticket::look`].
    pub(crate) fn alarm(&self) -> Option<Instant> {
        self.waiter.as_ref()?.0.lock().alarm
    }

    /// Looks whether its turn has come, and if not when to look again.
    ///
    /// A ticket that sleeps until its own turn wakes in the task that will send, on the worker that holds its connection: one
    /// wake-up, where the loop's would be two, and on a busy machine each can be milliseconds late.
    pub(crate) fn look(&self) {
        self.dispatcher.act(|shared, now| {
            // An estimate is good for one look: it moves on with the clock until who holds the tokens has written, and then
            // the lane is stepped.
            let is_certain = !shared.lane.is_reserved();
            let due = if is_certain { shared.lane.due(self.id, now) } else { None };
            self.set_alarm(due, now);
        });
    }

    /// No connection could be made for it: it leaves, and the lane hears why, before anybody else is told to connect.
    pub(crate) fn unconnected(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        if let Some(shade) = &mut self.shade {
            shade.unconnected();
        }
        self.dispatcher.act(|shared, now| match waiter.0.lock().verdict.take() {
            Some(Verdict::Go(turn)) => shared.lane.unconnected(Some(turn), now),
            Some(Verdict::Refused(_)) => {}
            None => {
                shared.lane.leave(self.id);
                shared.waiters[self.id.index()] = None;
                shared.lane.unconnected(None, now);
            }
        });
    }

    /// Counts bytes that were read ahead; answers whether more may be.
    pub(crate) fn grow(&self, bytes: u64) -> bool {
        self.dispatcher.shared.lock().lane.grow(self.id, bytes)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        // Under the lane's lock nobody can tell it anything meanwhile.
        self.dispatcher.act(|shared, now| match waiter.0.lock().verdict.take() {
            Some(Verdict::Go(turn)) => shared.lane.finish(turn, now),
            Some(Verdict::Refused(_)) => {}
            None => {
                shared.lane.leave(self.id);
                shared.waiters[self.id.index()] = None;
            }
        });
    }
}

/// The permission to send one request; finished when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    dispatcher: Arc<Dispatcher>,
    turn: Option<lane::Turn>,
    shade: Option<Box<Shade>>,
}

impl Turn {
    /// What the lane would do with its request, if it only observes.
    pub(crate) fn foreseen(&self) -> Option<Foreseen> {
        self.shade.as_ref()?.foreseen()
    }

    /// Whether a hold has come since it was granted, so that it must not be written any more.
    pub(crate) fn is_revoked(&self) -> bool {
        let holds = self.dispatcher.holds();
        self.turn.as_ref().is_none_or(|turn| turn.holds() != holds)
    }

    /// Its head was written at `at`.
    pub(crate) fn written(&mut self, at: Instant) {
        self.dispatcher.act(|shared, _| {
            if let Some(turn) = &mut self.turn {
                shared.lane.written(turn, at);
            }
        });
    }

    /// Its answer has come, or will not come.
    pub(crate) fn settle(&mut self, health: Health, mut hold: Option<Duration>) {
        if let Some(shade) = &mut self.shade {
            shade.settle(health, hold.take());
        }
        let begun = self.dispatcher.act(|shared, now| {
            let was_held = shared.lane.held_until().is_some_and(|end| end > now);
            if let Some(turn) = &mut self.turn {
                shared.lane.settle(turn, health, hold, now);
            }
            let end = shared.lane.held_until().filter(|_| !was_held);
            end.map(|end| end.until(now).as_secs_f64())
        });
        if let Some(hold_s) = begun.filter(|hold_s| *hold_s > 0.0) {
            let upstream = &*self.dispatcher.upstream;
            tracing::info!(hold_s, upstream, "the upstream asks for a pause: nothing is sent for {hold_s:.2} s");
        }
    }

    /// No connection could be made for it.
    pub(crate) fn unconnected(mut self) {
        if let Some(shade) = &mut self.shade {
            shade.unconnected();
        }
        if let Some(turn) = self.turn.take() {
            self.dispatcher.act(|shared, now| shared.lane.unconnected(Some(turn), now));
        }
    }

    /// The body of its answer broke off.
    pub(crate) fn cut(&mut self) {
        if let Some(shade) = &mut self.shade {
            shade.cut();
        }
        self.dispatcher.act(|shared, now| {
            if let Some(turn) = &self.turn {
                shared.lane.cut(turn, now);
            }
        });
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turn) = self.turn.take() {
            self.dispatcher.act(|shared, now| shared.lane.finish(turn, now));
        }
    }
}
