//! The only reader of time. Everything else asks a [`Clock`], so that a test can stand still and every instant is counted
//! from one origin.
//!
//! tokio's own timer fires on whole milliseconds, about 1.5 ms late. That is good enough for a time-out and not for a
//! pace of 1000/s, so on Linux a [`Timer`] is a timerfd read through the reactor, 0.04 to 0.07 ms late on a quiet
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
        Timer { clock: *self, precise: if self.wall.is_none() { precise::Precise::new() } else { None } }
    }
}

/// Waits for one instant after the other.
#[derive(Debug)]
pub(crate) struct Timer {
    clock: Clock,
    precise: Option<precise::Precise>,
}

impl Timer {
    /// Waits until `at`; for ever at [`Instant::NEVER`]. Never early.
    pub(crate) async fn sleep_until(&mut self, at: Instant) {
        if at == Instant::NEVER {
            return std::future::pending().await;
        }
        if let Some(precise) = &self.precise {
            loop {
                let left = at.until(self.clock.now());
                if left.is_zero() {
                    return;
                }
                if precise.sleep(left).await.is_err() {
                    break;
                }
            }
        }
        self.clock.sleep_until(at).await;
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
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use tokio::io::unix::AsyncFd;

    /// The system's monotonic clock, which tokio's instants count too.
    pub(super) fn monotonic() -> Option<u64> {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Some(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }

    #[derive(Debug)]
    pub(super) struct Precise(AsyncFd<OwnedFd>);

    impl Precise {
        /// None where the system refuses one, for example when descriptors have run out; pacing is coarser then.
        #[allow(deprecated, reason = "its successor is unsafe; an OwnedFd keeps what that asks for")]
        pub(super) fn new() -> Option<Self> {
            let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC).ok()?;
            AsyncFd::new(fd).ok().map(Self)
        }

        pub(super) async fn sleep(&self, wait: Duration) -> std::io::Result<()> {
            // A value of zero would disarm it.
            let wait = wait.clamp(Duration::from_nanos(1), Duration::from_secs(86_400));
            let value = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) as _ };
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
            timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
            loop {
                let mut guard = self.0.readable().await?;
                let mut expirations = [0u8; 8];
                match guard.try_io(|fd| rustix::io::read(fd, &mut expirations).map_err(Into::into)) {
                    Ok(read) => return read.map(drop),
                    Err(_would_block) => {}
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod precise {
    use std::time::Duration;

    pub(super) fn monotonic() -> Option<u64> {
        None
    }

    #[derive(Debug)]
    pub(super) struct Precise(std::convert::Infallible);

    impl Precise {
        pub(super) fn new() -> Option<Self> {
            None
        }

        pub(super) async fn sleep(&self, _wait: Duration) -> std::io::Result<()> {
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
            timer.sleep_until(at).await;
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
        clock.timer().sleep_until(at).await;
        assert_eq!((clock.now(), clock.wall()), (at, SystemTime::UNIX_EPOCH + Duration::from_secs(3600)));
    }
}
