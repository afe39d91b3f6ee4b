//! How many retries can the traffic of a lane afford?
//!
//! When an upstream is ill, every request fails and every failure is retried; with three retries each that is four times
//! the traffic for something that cannot carry the half. So a lane's retries are kept in proportion to its requests: at
//! every retry, those of the last 10 s are at most 100, which leaves a quiet lane alone, and 20 % of the requests of the
//! last 10 s.
//!
//! What counts is what reaches the upstream: a retry is withdrawn when it is about to be sent, and refunded if it was not.
//! So an upstream that is away for a moment costs each request one retry, however often that has found the door shut.
//!
//! [`Budget`] counts in slots of half a second. Only the oldest is not exact, and it counts against retries: its retries
//! still count, its requests no longer do.

use std::time::Duration;

use crate::time::{Instant, nanos};

/// Retries that are always affordable in a span.
const RESERVE: u64 = 100;
/// So many requests afford one retry more: 20 %.
const REQUESTS_PER_RETRY: u64 = 5;

const SLOT: u64 = nanos(Duration::from_millis(500));
/// A span of 10 s touches so many slots at most: 20 whole ones' worth, of which the first and the last are cut.
const SLOTS: usize = 21;

/// The retry budget of one lane: [`deposit`](Self::deposit) for every request, [`withdraw`](Self::withdraw) before every
/// retry that is to be paid for, [`refund`](Self::refund) for one that did not go out.
///
/// The instants given to it must not run backwards; one that does counts as the latest so far.
///
/// ```
/// use sopan_core::{retry::Budget, time::Instant};
///
/// let mut budget = Budget::new(true);
/// let now = Instant::ORIGIN;
/// assert_eq!((0..200).filter(|_| budget.withdraw(now)).count(), 100);
/// budget.refund(now);
/// assert!(budget.withdraw(now));
/// ```
#[derive(Clone, Debug)]
pub struct Budget {
    on: bool,
    /// A ring; slot number n is at n modulo its length.
    slots: [Slot; SLOTS],
    /// The number of the newest slot.
    newest: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    requests: u64,
    retries: u64,
}

impl Budget {
    /// A budget of which nothing is spent. With `on` false it affords everything.
    pub fn new(on: bool) -> Self {
        Self { on, slots: [Slot::default(); SLOTS], newest: 0 }
    }

    /// A request entered the lane: one exchange, however many attempts it will take.
    pub fn deposit(&mut self, now: Instant) {
        self.advance(now);
        self.slots[place(self.newest)].requests += 1;
    }

    /// Whether one more retry could be afforded now.
    pub fn affords(&mut self, now: Instant) -> bool {
        self.left(now).is_none_or(|left| left > 0)
    }

    /// How many more could be afforded now; none where any number can.
    pub fn left(&mut self, now: Instant) -> Option<u64> {
        self.advance(now);
        let oldest = place(self.newest + 1);
        let retries: u64 = self.slots.iter().map(|slot| slot.retries).sum();
        let all: u64 = self.slots.iter().map(|slot| slot.requests).sum();
        let requests = all - self.slots[oldest].requests;
        self.on.then(|| (RESERVE + requests / REQUESTS_PER_RETRY).saturating_sub(retries))
    }

    /// Whether one more retry can be afforded; if so, it is spent.
    pub fn withdraw(&mut self, now: Instant) -> bool {
        let affordable = self.affords(now);
        if affordable {
            self.slots[place(self.newest)].retries += 1;
        }
        affordable
    }

    /// The retry that was spent at `withdrawn` was not sent.
    pub fn refund(&mut self, withdrawn: Instant) {
        let number = slot_of(withdrawn);
        // One that is older than the last 10 s no longer counts anyway.
        if self.newest.saturating_sub(number) < SLOTS as u64 {
            let retries = &mut self.slots[place(number.min(self.newest))].retries;
            *retries = retries.saturating_sub(1);
        }
    }

    /// Makes the slot of `now` the newest one and clears those that were passed over.
    fn advance(&mut self, now: Instant) {
        let number = slot_of(now).max(self.newest);
        for step in 1..=(number - self.newest).min(SLOTS as u64) {
            self.slots[place(self.newest + step)] = Slot::default();
        }
        self.newest = number;
    }
}

fn slot_of(instant: Instant) -> u64 {
    instant.as_nanos() / SLOT
}

fn place(number: u64) -> usize {
    (number % SLOTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ORIGIN.after(Duration::from_millis(millis))
    }

    /// A budget after `requests` at the instant 0, and how many of 1000 retries it affords at `millis`.
    #[track_caller]
    fn check(requests: u32, millis: u64, expected: usize) {
        let mut budget = Budget::new(true);
        (0..requests).for_each(|_| budget.deposit(at(0)));
        let afforded = (0..1000).filter(|_| budget.withdraw(at(millis))).count();
        assert_eq!(afforded, expected, "{requests} requests at 0, retries at {millis} ms");
    }

    #[test]
    fn a_hundred_retries_are_always_affordable_and_a_fifth_of_the_last_requests() {
        check(0, 0, 100);
        check(0, 123_456, 100);
        check(4, 0, 100);
        check(5, 0, 101);
        check(1000, 0, 300);
        check(1000, 9_999, 300);
        // What is more than 9.5 s ago may be more than 10 s ago.
        check(1000, 10_000, 100);
        check(1000, 10_500, 100);
    }

    #[test]
    fn a_hundred_come_back_after_ten_seconds_and_never_sooner() {
        let mut budget = Budget::new(true);
        assert_eq!((0..1000).filter(|_| budget.withdraw(at(700))).count(), 100);
        assert!(!budget.withdraw(at(700 + 10_000)));
        assert!(budget.withdraw(at(700 + 10_500)));
    }

    #[test]
    fn what_was_not_sent_comes_back() {
        let mut budget = Budget::new(true);
        assert_eq!((0..1000).filter(|_| budget.withdraw(at(100))).count(), 100);
        assert!(!budget.withdraw(at(4_000)));
        budget.refund(at(100));
        assert!(budget.withdraw(at(4_000)));
        assert!(!budget.withdraw(at(4_000)));
        // Too old to count; another slot lies at its place now.
        budget.refund(at(4_000));
        assert_eq!((0..1000).filter(|_| budget.withdraw(at(11_000))).count(), 100);
        budget.refund(at(100));
        assert!(!budget.withdraw(at(11_000)));
    }

    #[test]
    fn a_crowd_that_finds_the_door_shut_again_and_again_pays_once() {
        let mut budget = Budget::new(true);
        (0..114).for_each(|_| budget.deposit(at(0)));
        let mut paid = vec![None; 114];
        for round in 0..20 {
            let now = at(round * 400);
            for paid in &mut paid {
                paid.take().into_iter().for_each(|before| budget.refund(before));
                assert!(budget.withdraw(now), "round {round}");
                *paid = Some(now);
            }
        }
    }

    #[test]
    fn under_steady_traffic_a_fifth_is_affordable_for_ever() {
        let mut budget = Budget::new(true);
        for request in 0..100_000 {
            budget.deposit(at(request * 10));
            if request % 5 == 0 {
                assert!(budget.withdraw(at(request * 10)), "request {request}");
            }
        }
    }

    #[test]
    fn when_everything_fails_the_retries_are_bounded() {
        let mut budget = Budget::new(true);
        // A minute of 100 requests a second, every one of which wants three retries.
        let mut afforded = 0;
        for request in 0..6000 {
            budget.deposit(at(request * 10));
            afforded += (0..3).filter(|_| budget.withdraw(at(request * 10))).count();
        }
        assert!((1200..=1200 + 600).contains(&afforded), "{afforded}");
    }

    #[test]
    fn off_means_no_bound() {
        let mut budget = Budget::new(false);
        assert!((0..10_000).all(|_| budget.withdraw(at(0))));
    }

    #[test]
    fn a_clock_at_its_ends_is_no_reason_to_panic() {
        let mut budget = Budget::new(true);
        budget.deposit(Instant::NEVER);
        assert!(budget.withdraw(Instant::NEVER));
        assert!(budget.withdraw(Instant::ORIGIN));
        budget.refund(Instant::ORIGIN);
        budget.refund(Instant::NEVER);
    }

    /// So many of the events since `since`.
    fn count(events: &[u64], since: u64) -> u64 {
        events.iter().rev().take_while(|millis| **millis >= since).count() as u64
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_retry_exceeds_it_and_none_is_refused_needlessly(
            bursts in proptest::collection::vec((0..2000_u64, 0..3_u8, 1..80_u32), 1..40),
        ) {
            let (mut budget, mut requests, mut retries, mut now) = (Budget::new(true), vec![], vec![], 0);
            for (gap, kind, count_of) in bursts {
                now += gap;
                for _ in 0..count_of {
                    match kind {
                        0 => {
                            budget.deposit(at(now));
                            requests.push(now);
                        }
                        1 => {
                            if let Some(withdrawn) = retries.pop() {
                                budget.refund(at(withdrawn));
                            }
                        }
                        _ if budget.withdraw(at(now)) => {
                            retries.push(now);
                            // A window of exactly 10 s, its older end not included.
                            let since = (now + 1).saturating_sub(10_000);
                            prop_assert!(count(&retries, since) <= 100 + count(&requests, since) / 5, "at {now} ms");
                        }
                        _ => {
                            let (of_retries, of_requests) = (now.saturating_sub(10_500), now.saturating_sub(9_500));
                            let wanted = count(&retries, of_retries) + 1;
                            prop_assert!(wanted > 100 + count(&requests, of_requests) / 5, "refused at {now} ms");
                        }
                    }
                }
            }
        }
    }
}
