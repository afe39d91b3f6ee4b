//! How long do so many requests take, by limits that they have for themselves?
//!
//! They are played one after the other: each leaves as soon as the limits let it, and one of those under way has been answered.
//! So it is exact for what it knows; other users of the limits, pauses that the API asks for and repetitions come on top.

use std::time::{Duration, SystemTime};

use crate::bucket::{Bucket, Take};
use crate::policy::{Limit, Margin};
use crate::time::Instant;

/// So many are played; from there on it is reckoned by the last half of them.
const PLAYED_MAX: u64 = 200_000;
/// A request that does not leave after so many looks, one for each day that begins meanwhile, never does.
const LOOKS_MAX: u32 = 100_000;

/// What requests are held to.
#[derive(Debug, Clone, Copy)]
pub struct Pace<'a> {
    /// The limits.
    pub limits: &'a [Limit],
    /// What a rate with a burst leaves unused.
    pub headroom: u32,
    /// What is left of every rate.
    pub margin: Margin,
    /// How long one takes to be answered.
    pub each: Duration,
    /// How many are under way at most; at least 1.
    pub at_once: u32,
    /// The calendar time at which the first one leaves.
    pub begin: SystemTime,
}

impl Pace<'_> {
    /// How long `requests` take, from the first one on until the last is answered, where nothing was used before. None where
    /// they never would be done.
    pub fn takes(&self, requests: u64) -> Option<Duration> {
        if requests <= PLAYED_MAX {
            return self.played(requests).map(|(_, whole)| whole);
        }
        let (half, whole) = self.played(PLAYED_MAX)?;
        let per_s = (PLAYED_MAX - PLAYED_MAX / 2) as f64 / whole.saturating_sub(half).as_secs_f64();
        Duration::try_from_secs_f64((requests - PLAYED_MAX) as f64 / per_s).ok()?.checked_add(whole)
    }

    /// When half of them are answered, and when all are.
    fn played(&self, requests: u64) -> Option<(Duration, Duration)> {
        let mut bucket = Bucket::new(self.limits, self.headroom, self.margin);
        let mut now = Instant::ORIGIN;
        bucket.set_calendar(now, self.begin);
        let at_once = usize::try_from(self.at_once.max(1)).unwrap_or(1);
        let mut answered = std::collections::VecDeque::with_capacity(at_once);
        let (mut half, mut last) = (Duration::ZERO, now);
        for request in 0..requests {
            if answered.len() == at_once {
                now = answered.pop_front().map_or(now, |free: Instant| now.max(free));
            }
            now = self.leaves(&mut bucket, now)?;
            last = now.after(self.each);
            answered.push_back(last);
            if request == requests / 2 {
                half = last.since(Instant::ORIGIN);
            }
        }
        Some((half, last.since(Instant::ORIGIN)))
    }

    /// Lets one leave, from `now` on, and tells when that was.
    fn leaves(&self, bucket: &mut Bucket, mut now: Instant) -> Option<Instant> {
        for _ in 0..LOOKS_MAX {
            if now >= bucket.calendar_due() {
                bucket.set_calendar(now, self.begin + now.since(Instant::ORIGIN));
            }
            match bucket.take(1, now) {
                Take::Taken { due } => {
                    bucket.charge(1, Some(due), now);
                    return Some(now);
                }
                Take::At(at) | Take::Reserved(at) => {
                    let next = at.min(bucket.calendar_due());
                    if next == Instant::NEVER {
                        return None;
                    }
                    now = next.max(now.after(Duration::from_nanos(1)));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-10-21T12:00:00Z
    const NOON: Duration = Duration::from_secs(1_792_584_000);

    fn takes(limits: &[&str], each_ms: u64, at_once: u32, requests: u64) -> Option<f64> {
        let limits: Vec<_> = limits.iter().map(|limit| limit.parse().unwrap()).collect();
        let begin = SystemTime::UNIX_EPOCH + NOON;
        let each = Duration::from_millis(each_ms);
        let pace = Pace { limits: &limits, headroom: 1, margin: Margin::default(), each, at_once, begin };
        pace.takes(requests).map(|span| span.as_secs_f64())
    }

    #[test]
    fn requests_take_as_long_as_the_slowest_of_what_holds_them() {
        for (limits, each, at_once, requests, expected) in [
            (&[][..], 100, 1, 10, 1.0),
            (&[], 100, 4, 10, 0.3),
            (&["10/s"], 0, 1, 11, 1.0),
            (&["10/s"], 1000, 1, 11, 11.0),
            (&["10/s burst 21"], 0, 1, 120, 10.0),
            (&["5000 per 1h"], 0, 1, 5000, 0.0),
            (&["5000 per 1h"], 0, 1, 10_001, 7200.0),
            (&["10/s burst 2", "100 per 1h"], 0, 1, 101, 3600.0),
            (&["10 per day at 00:00 UTC"], 0, 1, 10, 0.0),
            (&["10 per day at 00:00 UTC"], 0, 1, 11, 43_200.0),
            (&["10 per day at 00:00 UTC"], 0, 1, 21, 43_200.0 + 86_400.0),
            (&["100/s"], 0, 1, 1_000_000, 10_000.0),
        ] {
            let took = takes(limits, each, at_once, requests).unwrap();
            let is_near = (took - expected).abs() <= expected * 0.005 + 0.11;
            assert!(is_near, "{limits:?} {each} {at_once} {requests}: {took}, not {expected}");
        }
    }
}
