//! How many retries can the traffic of a lane afford?
//!
//! When an upstream is ill, every request fails and every failure is retried; with three retries each that is four times
//! the traffic for something that cannot carry the half. So a lane's retries are kept in proportion to its requests: in
//! any 10 s at most 100, which leaves a quiet lane alone, and 20 % of the requests of those 10 s.
//!
//! What counts is what reaches the upstream: a retry is withdrawn when it is about to be sent, and refunded if it was not.
//! So an upstream that is away for a moment costs each request one retry, however often that has found the door shut.
//!
//! "Any" is meant: also the 10 s that begin just after a crowd of requests, which then pay for none of its retries. Who
//! only looks back over the last 10 s at each retry misses those.
//!
//! Every request weighs −1 and every retry +5. A span keeps to the rule while its weights sum to at most 500, and it can
//! only break it at a retry. So a retry is affordable if no span that ends with it, and began within the last 10 s, sums
//! to more. In each slot of half a second [`Budget`] holds the sum of the slot and the largest sum that ends with it;
//! together they give the largest of all. Only the oldest slot is not exact: what happened in it up to half a second
//! before the last 10 s still counts. So no retry is let through against the rule, and none is refused that the same rule
//! for spans up to 10.5 s would let through.

use std::time::Duration;

use crate::time::{Instant, nanos};

/// Retries that are always affordable in a span, by weight.
const RESERVE: i64 = 100 * RETRY;
/// A retry weighs as much as five requests: 20 %.
const RETRY: i64 = 5;
const REQUEST: i64 = -1;

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
/// budget.deposit(now);
/// ```
#[derive(Clone, Debug)]
pub struct Budget {
    on: bool,
    /// A ring; slot number n is at n modulo its length.
    slots: [Slot; SLOTS],
    /// The number of the newest slot.
    newest: u64,
}

/// The weights of some stretch of time.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    sum: i64,
    /// The largest sum of a stretch that ends with this one, which may be the empty one.
    peak: i64,
}

impl Slot {
    /// Both stretches as one.
    fn then(self, later: Self) -> Self {
        Self { sum: self.sum.saturating_add(later.sum), peak: later.peak.max(self.peak.saturating_add(later.sum)) }
    }
}

impl Budget {
    /// A budget of which nothing is spent. With `on` false it affords everything.
    pub fn new(on: bool) -> Self {
        Self { on, slots: [Slot::default(); SLOTS], newest: 0 }
    }

    /// A request entered the lane: one exchange, however many attempts it will take.
    pub fn deposit(&mut self, now: Instant) {
        self.add(REQUEST, now);
    }

    /// Whether one more retry could be afforded now.
    pub fn affords(&mut self, now: Instant) -> bool {
        self.advance(now);
        !self.on || self.peak() + RETRY <= RESERVE
    }

    /// Whether one more retry can be afforded; if so, it is spent.
    pub fn withdraw(&mut self, now: Instant) -> bool {
        let affordable = self.affords(now);
        if affordable {
            self.add(RETRY, now);
        }
        affordable
    }

    /// The retry that was spent at `withdrawn` was not sent. Its slot no longer knows what came before it and what after,
    /// so within the slot itself it goes on counting.
    pub fn refund(&mut self, withdrawn: Instant) {
        let number = withdrawn.as_nanos() / SLOT;
        // One that is older than the last 10 s no longer counts anyway.
        if self.newest.saturating_sub(number) < SLOTS as u64 {
            self.slots[place(number.min(self.newest))].sum -= RETRY;
        }
    }

    fn add(&mut self, weight: i64, now: Instant) {
        self.advance(now);
        let slot = &mut self.slots[place(self.newest)];
        *slot = slot.then(Slot { sum: weight, peak: weight.max(0) });
    }

    /// The largest sum of a span that ends now.
    fn peak(&self) -> i64 {
        let oldest_first = (1..=SLOTS as u64).map(|step| self.slots[place(self.newest + step)]);
        oldest_first.fold(Slot::default(), Slot::then).peak
    }

    /// Makes the slot of `now` the newest one and clears those that were passed over.
    fn advance(&mut self, now: Instant) {
        let number = (now.as_nanos() / SLOT).max(self.newest);
        for step in 1..=(number - self.newest).min(SLOTS as u64) {
            self.slots[place(self.newest + step)] = Slot::default();
        }
        self.newest = number;
    }
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
    fn a_hundred_retries_at_once_are_always_affordable_and_no_more() {
        check(0, 0, 100);
        check(0, 123_456, 100);
        // The span that begins after the requests holds none of them.
        check(1000, 5_000, 100);
    }

    #[test]
    fn a_hundred_come_back_after_ten_seconds_and_never_sooner() {
        let mut budget = Budget::new(true);
        assert_eq!((0..1000).filter(|_| budget.withdraw(at(700))).count(), 100);
        assert!(!budget.withdraw(at(700 + 10_000)));
        assert!(budget.withdraw(at(700 + 10_500)));
    }

    #[test]
    fn five_requests_afford_one_retry_more() {
        let mut budget = Budget::new(true);
        assert_eq!((0..1000).filter(|_| budget.withdraw(at(0))).count(), 100);
        (0..5).for_each(|_| budget.deposit(at(1000)));
        assert!(budget.withdraw(at(1000)));
        assert!(!budget.withdraw(at(1000)));
        (0..4).for_each(|_| budget.deposit(at(2000)));
        assert!(!budget.withdraw(at(2000)));
    }

    #[test]
    fn what_was_not_sent_comes_back() {
        let mut budget = Budget::new(true);
        for _ in 0..10 {
            assert!(budget.withdraw(at(0)));
        }
        (0..10).for_each(|_| budget.refund(at(0)));
        // Requests that come later make up for the whole slot, not for what is left in it.
        (0..50).for_each(|_| budget.deposit(at(600)));
        assert_eq!((0..1000).filter(|_| budget.withdraw(at(1_200))).count(), 100);
        assert!(!budget.affords(at(1_200)));
        budget.refund(at(1_200));
        // Too old to count; another slot lies at its place now.
        assert_eq!((0..1000).filter(|_| budget.withdraw(at(12_000))).count(), 100);
        budget.refund(at(1_200));
        assert!(!budget.withdraw(at(12_000)));
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

    /// What happened, in its order: an instant in milliseconds and a weight.
    type Events = Vec<(u64, i64)>;

    /// The largest sum of weights that ends with the last event and begins not before `since`, event by event.
    fn exact_peak(events: &Events, since: u64) -> i64 {
        let recent = events.iter().rev().take_while(|(millis, _)| *millis >= since);
        let sums = recent.scan(0, |sum, (_, weight)| {
            *sum += weight;
            Some(*sum)
        });
        sums.fold(0, i64::max)
    }

    /// Whether any span of at most 10 s, its ends included, holds more retries than 100 and a fifth of its requests. Only
    /// those that begin with a retry can be the worst.
    fn is_exceeded(events: &Events) -> bool {
        let starts = (0..events.len()).filter(|&n| events[n].1 == RETRY && (n == 0 || events[n - 1].0 < events[n].0));
        starts.into_iter().any(|start| {
            let span = events[start..].iter().take_while(|(millis, _)| *millis <= events[start].0 + 10_000);
            let mut sum = 0;
            span.zip(events[start + 1..].iter().map(Some).chain([None])).any(|((millis, weight), next)| {
                sum += weight;
                next.is_none_or(|(later, _)| later > millis) && sum > RESERVE
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_span_exceeds_it_and_none_is_refused_needlessly(
            bursts in proptest::collection::vec((0..2000_u64, any::<bool>(), 1..80_u32), 1..24),
        ) {
            let (mut budget, mut events, mut now) = (Budget::new(true), Events::new(), 0);
            for (gap, is_retry, count) in bursts {
                now += gap;
                for _ in 0..count {
                    if !is_retry {
                        budget.deposit(at(now));
                        events.push((now, REQUEST));
                    } else if budget.withdraw(at(now)) {
                        events.push((now, RETRY));
                    } else {
                        let peak = exact_peak(&events, now.saturating_sub(10_500));
                        prop_assert!(peak + RETRY > RESERVE, "refused at {now} ms with a peak of {peak}");
                    }
                }
            }
            prop_assert!(!is_exceeded(&events));
        }
    }
}
