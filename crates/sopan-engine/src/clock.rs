//! The only reader of time. Everything else asks a [`Clock`], so that a test can stand still and every instant is counted
//! from one origin.
//!
//! tokio's own timer fires on whole milliseconds, about 1.5 ms late. That is good enough for a time-out and not for a
//! pace of 1000/s, so on Linux a `Timer` is a timerfd read through the reactor, 0.04 to 0.07 ms late on a quiet
//! machine. Elsewhere, and under tokio's paused clock, it is tokio's.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use sopan_core::time::Instant;
use tokio::time::{Instant as TokioInstant, Sleep};

/// Where instants are counted from, and which timers are used.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: TokioInstant,
    /// The system's monotonic clock at the origin, in ns, where it is read without a detour.
    monotonic: Option<u64>,
    /// The calendar time of the origin, for a clock that only tests advance; none reads the system's.
    wall: Option<SystemTime>,
}

impl Clock {
    /// The machine's clock.
    #[allow(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn system() -> Self {
        Self { origin: TokioInstant::now(), monotonic: precise::monotonic(), wall: None }
    }

    /// tokio's clock, which tests pause, with the calendar at `wall` now.
    #[allow(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn paused(wall: SystemTime) -> Self {
        Self { origin: TokioInstant::now(), monotonic: None, wall: Some(wall) }
    }

    /// The present instant. Asked ten times in a request, so it is read as directly as can be.
    #[allow(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn now(&self) -> Instant {
        match self.monotonic {
            Some(origin) => Instant::from_nanos(precise::monotonic().unwrap_or(origin).saturating_sub(origin)),
            None => Instant::ORIGIN.after(TokioInstant::now().duration_since(self.origin)),
        }
    }

    /// The present calendar time.
    #[allow(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn wall(&self) -> SystemTime {
        match self.wall {
            Some(wall) => wall + self.now().since(Instant::ORIGIN),
            None => SystemTime::now(),
        }
    }

    /// Time since the machine was started, sleep included, where the system tells: what two processes of one boot share.
    pub(crate) fn boot_time(&self) -> Option<Duration> {
        if self.wall.is_none() { precise::boot_time() } else { None }
    }

    /// The same instant as tokio counts it; far away where it cannot be counted.
    pub fn tokio(&self, at: Instant) -> TokioInstant {
        const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);
        self.origin + at.since(Instant::ORIGIN).min(FAR)
    }

    /// Waits until an instant, to the accuracy of a time-out.
    pub(crate) async fn sleep_until(&self, at: Instant) {
        tokio::time::sleep_until(self.tokio(at)).await;
    }

    /// A timer that is accurate enough to pace with. Must be called inside of a tokio runtime.
    pub(crate) fn timer(&self) -> Timer {
        let precise = if self.wall.is_none() { precise::Precise::new() } else { None };
        Timer { clock: *self, precise, coarse: Watchdog::default(), armed: None }
    }
}

/// Waits for one instant after the other.
#[derive(Debug)]
pub(crate) struct Timer {
    clock: Clock,
    precise: Option<precise::Precise>,
    coarse: Watchdog,
    /// What the precise timer is set for.
    armed: Option<Instant>,
}

impl Timer {
    /// Ready when `at` has come, never early; the instant of the last call counts.
    pub(crate) fn poll_until(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(precise) = &self.precise {
            let left = at.until(self.clock.now());
            if left.is_zero() {
                self.armed = None;
                return Poll::Ready(());
            }
            if self.armed != Some(at) {
                if precise.set(left).is_err() {
                    break;
                }
                self.armed = Some(at);
            }
            match precise.poll_fired(cx) {
                Poll::Pending => return Poll::Pending,
                // Set for as long as can be, or fired a hair early: once more.
                Poll::Ready(Ok(())) => self.armed = None,
                Poll::Ready(Err(_)) => break,
            }
        }
        self.precise = None;
        self.coarse.poll(self.clock, at, cx)
    }
}

/// Fires when a deadline that moves has passed. The timer is set anew only when it has fired or the deadline came nearer, so
/// that moving it further away, which every request does, costs nothing.
#[derive(Debug, Default)]
pub struct Watchdog {
    timer: Option<Pin<Box<Sleep>>>,
    /// When the timer fires, if it is set.
    armed: Option<Instant>,
}

impl Watchdog {
    /// Ready when `deadline` has passed; the deadline of the last call counts.
    pub fn poll(&mut self, clock: Clock, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.armed.is_none_or(|armed| deadline < armed) {
                if deadline == Instant::NEVER {
                    return Poll::Pending;
                }
                self.armed = Some(deadline);
                let at = clock.tokio(deadline);
                match &mut self.timer {
                    Some(timer) => timer.as_mut().reset(at),
                    None => self.timer = Some(Box::pin(tokio::time::sleep_until(at))),
                }
            }
            let Some(timer) = &mut self.timer else { return Poll::Pending };
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if deadline <= clock.now() {
                return Poll::Ready(());
            }
            self.armed = None;
        }
    }
}

#[cfg(target_os = "linux")]
mod precise {
    use std::cell::RefCell;
    use std::io;
    use std::os::fd::OwnedFd;
    use std::task::{Context, Poll, ready};
    use std::time::Duration;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use tokio::io::unix::AsyncFd;
    use tokio::runtime::{Handle, Id};

    /// The system's monotonic clock, which tokio's instants count too.
    pub(super) fn monotonic() -> Option<u64> {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Some(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }

    pub(super) fn boot_time() -> Option<Duration> {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Some(Duration::new(now.tv_sec as u64, now.tv_nsec as u32))
    }

    #[derive(Debug)]
    pub(super) struct Precise(Option<AsyncFd<OwnedFd>>);

    impl Precise {
        /// None where the system refuses one, for example when descriptors have run out; pacing is coarser then.
        #[allow(deprecated, reason = "its successor is unsafe; an OwnedFd keeps what that asks for")]
        pub(super) fn new() -> Option<Self> {
            if let Some(fd) = kept() {
                return Some(Self(Some(fd)));
            }
            let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC).ok()?;
            AsyncFd::new(fd).ok().map(|fd| Self(Some(fd)))
        }

        pub(super) fn set(&self, wait: Duration) -> io::Result<()> {
            // A value of zero would disarm it.
            let wait = wait.clamp(Duration::from_nanos(1), Duration::from_secs(86_400));
            let value = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) as _ };
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
            timerfd_settime(self.fd(), TimerfdTimerFlags::empty(), &once)?;
            Ok(())
        }

        pub(super) fn poll_fired(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            loop {
                let mut guard = ready!(self.fd().poll_read_ready(cx))?;
                let mut expirations = [0u8; 8];
                match guard.try_io(|fd| rustix::io::read(fd, &mut expirations).map_err(Into::into)) {
                    Ok(read) => return Poll::Ready(read.map(drop)),
                    Err(_would_block) => {}
                }
            }
        }

        fn fd(&self) -> &AsyncFd<OwnedFd> {
            self.0.as_ref().expect("it is only taken out when it is dropped")
        }
    }

    /// Timers that are kept for the next who waits on this thread: opening and registering one costs five system calls.
    const KEPT_MAX: usize = 64;

    thread_local! {
        static KEPT: RefCell<Vec<(Id, AsyncFd<OwnedFd>)>> = const { RefCell::new(Vec::new()) };
    }

    /// A kept timer of this runtime. Those of another, which is gone or lives elsewhere, are of no use here.
    fn kept() -> Option<AsyncFd<OwnedFd>> {
        let id = Handle::try_current().ok()?.id();
        KEPT.with_borrow_mut(|kept| {
            kept.retain(|(of, _)| *of == id);
            kept.pop().map(|(_, fd)| fd)
        })
    }

    impl Drop for Precise {
        fn drop(&mut self) {
            let (Some(fd), Ok(handle)) = (self.0.take(), Handle::try_current()) else { return };
            // The thread may be ending, and its kept timers with it.
            let _ = KEPT.try_with(|kept| {
                let mut kept = kept.borrow_mut();
                if kept.len() < KEPT_MAX {
                    kept.push((handle.id(), fd));
                }
            });
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod precise {
    use std::io;
    use std::task::{Context, Poll};
    use std::time::Duration;

    pub(super) fn monotonic() -> Option<u64> {
        None
    }

    pub(super) fn boot_time() -> Option<Duration> {
        None
    }

    #[derive(Debug)]
    pub(super) struct Precise(std::convert::Infallible);

    impl Precise {
        pub(super) fn new() -> Option<Self> {
            None
        }

        pub(super) fn set(&self, _wait: Duration) -> io::Result<()> {
            match self.0 {}
        }

        pub(super) fn poll_fired(&self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            match self.0 {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_timer_is_never_early_and_not_a_millisecond_late_for_ever() {
        let clock = Clock::system();
        let mut timer = clock.timer();
        let mut late = Vec::new();
        for _ in 0..50 {
            let at = clock.now().after(Duration::from_micros(1_300));
            std::future::poll_fn(|cx| timer.poll_until(at, cx)).await;
            let now = clock.now();
            assert!(now >= at);
            late.push(now.since(at));
        }
        late.sort();
        assert!(late[25] < Duration::from_millis(20), "half of the time: {:?}", late[25]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_jumps_over_an_hour() {
        let clock = Clock::paused(SystemTime::UNIX_EPOCH);
        let at = clock.now().after(Duration::from_secs(3600));
        let mut timer = clock.timer();
        std::future::poll_fn(|cx| timer.poll_until(at, cx)).await;
        assert_eq!((clock.now(), clock.wall()), (at, SystemTime::UNIX_EPOCH + Duration::from_secs(3600)));
    }
}
