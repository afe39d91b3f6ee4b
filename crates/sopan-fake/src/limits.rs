//! May this request be served now, and if not, when? As a vendor would decide it, to the nanosecond.
//!
//! A judge must be right more than fast: windows keep every admitted instant in a list, the bucket counts whole units
//! of 1/rate nanoseconds in 128 bits, and nothing is rounded or forgiven. Several limits admit together or not at all;
//! a refusal charges none of them.
//!
//! Time is told as a duration since the server's start, so this module can be driven by hand.

use std::collections::VecDeque;
use std::time::Duration;

/// What the API allows, in numbers; the grammar in which people write it is the program's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// `tokens` per `per`, up to `burst` at once. Fractions are exact: 0.5 per second is one token per two seconds.
    Rate {
        /// How many tokens come back in `per`.
        tokens: u64,
        /// The time in which they come back.
        per: Duration,
        /// How many can be saved up.
        burst: u32,
    },
    /// `count` requests in `span`.
    Quota {
        /// How many requests.
        count: u64,
        /// In what time.
        span: Duration,
    },
}

/// How the API counts what it allows. Vendors differ, and a polite client must be safe with all three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Window {
    /// A token bucket that starts full and refills continuously. A quota of N per P is a bucket of N tokens that
    /// refills at N per P.
    #[default]
    Bucket,
    /// A counter that starts anew every P, counted from the server's start.
    ///
    /// Here and in a sliding window a rate counts as `tokens + burst - 1` requests per `per`: just what a bucket with
    /// that burst lets into a half-open span of that length, so a client that keeps the rate is never refused.
    Fixed,
    /// At most N in any half-open span of P: a request leaves the count exactly P after it was admitted.
    Sliding,
}

impl Window {
    /// Every way to count, with its name in settings and on command lines.
    pub const ALL: [(&'static str, Self); 3] =
        [("bucket", Self::Bucket), ("fixed", Self::Fixed), ("sliding", Self::Sliding)];
}

/// What the limits say to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    /// Served, and charged to every limit.
    Granted,
    /// Refused by at least one limit and charged to none; the same request is granted that much later if nobody else
    /// comes, and not a nanosecond earlier.
    RetryAfter(Duration),
}

/// What is left of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    /// When it is whole again if nobody comes.
    pub(crate) reset: Duration,
}

/// All limits of one server.
#[derive(Debug)]
pub(crate) struct Limiter {
    meters: Vec<Meter>,
}

impl Limiter {
    /// # Panics
    /// Where a limit holds a zero: it would refuse everything or nothing, and neither can have been meant.
    pub(crate) fn new(limits: &[Limit], window: Window) -> Self {
        Self { meters: limits.iter().map(|limit| Meter::new(*limit, window)).collect() }
    }

    /// Asks for one request at `now`, which must not go back.
    pub(crate) fn take(&mut self, now: Duration) -> Take {
        let now = now.as_nanos();
        let wait = self.meters.iter_mut().map(|meter| meter.wait(now)).max().unwrap_or(0);
        if wait > 0 {
            return Take::RetryAfter(duration(wait));
        }
        for meter in &mut self.meters {
            meter.charge(now);
        }
        Take::Granted
    }

    /// What is left of the first limit at `now`; none without limits.
    pub(crate) fn standing(&mut self, now: Duration) -> Option<Standing> {
        let meter = self.meters.first_mut()?;
        // Brings it up to now.
        meter.wait(now.as_nanos());
        Some(meter.standing(now.as_nanos()))
    }
}

/// One limit and what it has counted so far. All times are nanoseconds since the start.
#[derive(Debug)]
enum Meter {
    Bucket(Bucket),
    Fixed { count: u64, span: u128, window: u128, used: u64 },
    Sliding { count: u64, span: u128, admitted: VecDeque<u128> },
}

impl Meter {
    fn new(limit: Limit, window: Window) -> Self {
        let (tokens, per, burst) = match limit {
            Limit::Rate { tokens, per, burst } => (tokens, per, u64::from(burst)),
            Limit::Quota { count, span } => (count, span, count),
        };
        assert!(tokens > 0 && !per.is_zero() && burst > 0, "a limit holds a zero: {limit:?}");
        let span = per.as_nanos();
        let count = match limit {
            Limit::Rate { .. } => tokens.saturating_add(burst - 1),
            Limit::Quota { .. } => tokens,
        };
        match window {
            Window::Bucket => Self::Bucket(Bucket::full(tokens, span, burst)),
            Window::Fixed => Self::Fixed { count, span, window: 0, used: 0 },
            Window::Sliding => Self::Sliding { count, span, admitted: VecDeque::new() },
        }
    }

    /// Brings the count up to `now` and says how long one more request must wait; zero if it need not.
    fn wait(&mut self, now: u128) -> u128 {
        match self {
            Self::Bucket(bucket) => {
                bucket.refill(now);
                bucket.wait()
            }
            Self::Fixed { count, span, window, used } => {
                if now / *span > *window {
                    (*window, *used) = (now / *span, 0);
                }
                if *used < *count { 0 } else { (*window + 1) * *span - now }
            }
            Self::Sliding { count, span, admitted } => {
                while admitted.front().is_some_and(|first| first + *span <= now) {
                    admitted.pop_front();
                }
                match admitted.front() {
                    Some(first) if admitted.len() as u64 >= *count => first + *span - now,
                    _ => 0,
                }
            }
        }
    }

    /// What is left of it, when it was brought up to `now`.
    fn standing(&self, now: u128) -> Standing {
        let (limit, used, reset) = match self {
            Self::Bucket(bucket) => {
                let left = bucket.fill / bucket.token;
                let (limit, missing) = (bucket.capacity / bucket.token, bucket.capacity - bucket.fill);
                let count = |tokens| u64::try_from(tokens).unwrap_or(u64::MAX);
                (count(limit), count(limit - left), missing.div_ceil(bucket.refill))
            }
            Self::Fixed { count, span, window, used } => (*count, *used, (*window + 1) * *span - now),
            Self::Sliding { count, span, admitted } => {
                let last = admitted.back().map_or(0, |last| last + *span - now);
                (*count, admitted.len() as u64, last)
            }
        };
        Standing { limit, remaining: limit - used, reset: duration(reset) }
    }

    /// Counts one request, which [`Meter::wait`] has just allowed.
    fn charge(&mut self, now: u128) {
        match self {
            Self::Bucket(bucket) => bucket.fill -= bucket.token,
            Self::Fixed { used, .. } => *used += 1,
            Self::Sliding { admitted, .. } => admitted.push_back(now),
        }
    }
}

/// A token bucket in whole numbers: one token is `token` units and `refill` units come back per nanosecond, so a rate
/// of `refill` tokens per `token` nanoseconds needs no division.
#[derive(Debug)]
struct Bucket {
    token: u128,
    refill: u128,
    capacity: u128,
    fill: u128,
    filled_at: u128,
}

impl Bucket {
    fn full(tokens: u64, per_nanos: u128, burst: u64) -> Self {
        let capacity = per_nanos.saturating_mul(u128::from(burst));
        Self { token: per_nanos, refill: u128::from(tokens), capacity, fill: capacity, filled_at: 0 }
    }

    fn refill(&mut self, now: u128) {
        let come_back = (now - self.filled_at).saturating_mul(self.refill);
        self.fill = self.fill.saturating_add(come_back).min(self.capacity);
        self.filled_at = now;
    }

    fn wait(&self) -> u128 {
        self.token.saturating_sub(self.fill).div_ceil(self.refill)
    }
}

/// That many nanoseconds; the longest duration where they do not fit.
fn duration(nanos: u128) -> Duration {
    const PER_SECOND: u128 = 1_000_000_000;
    let seconds = u64::try_from(nanos / PER_SECOND).unwrap_or(u64::MAX);
    Duration::new(seconds, (nanos % PER_SECOND) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::Dice;

    const SECOND: Duration = Duration::from_secs(1);

    fn rate(tokens: u64, per: Duration, burst: u32) -> Limit {
        Limit::Rate { tokens, per, burst }
    }

    fn quota(count: u64, span: Duration) -> Limit {
        Limit::Quota { count, span }
    }

    /// Each line: requests at that many milliseconds, and what each is told: 0 granted, else the wait in milliseconds.
    #[track_caller]
    fn check(limits: &[Limit], window: Window, lines: &[(u64, &[u64])]) {
        let mut limiter = Limiter::new(limits, window);
        for (at_ms, told) in lines {
            for (i, wait_ms) in told.iter().enumerate() {
                let expected = match wait_ms {
                    0 => Take::Granted,
                    ms => Take::RetryAfter(Duration::from_millis(*ms)),
                };
                let got = limiter.take(Duration::from_millis(*at_ms));
                assert_eq!(got, expected, "request {} at {at_ms} ms", i + 1);
            }
        }
    }

    #[test]
    fn a_bucket_starts_full_and_refills_continuously() {
        let limits = [rate(10, SECOND, 3)];
        check(&limits, Window::Bucket, &[(0, &[0, 0, 0, 100]), (99, &[1]), (100, &[0, 100]), (1000, &[0, 0, 0, 100])]);
    }

    #[test]
    fn a_bucket_of_a_quota_holds_the_whole_quota() {
        let limits = [quota(4, SECOND)];
        check(&limits, Window::Bucket, &[(0, &[0, 0, 0, 0, 250]), (250, &[0, 250]), (5000, &[0, 0, 0, 0, 250])]);
    }

    #[test]
    fn a_slow_rate_is_taken_as_written() {
        check(&[rate(1, 2 * SECOND, 1)], Window::Bucket, &[(0, &[0, 2000]), (1999, &[1]), (2000, &[0, 2000])]);
        check(&[rate(6, 3600 * SECOND, 1)], Window::Bucket, &[(0, &[0, 600_000]), (599_999, &[1]), (600_000, &[0])]);
    }

    #[test]
    fn a_bucket_rounds_a_wait_up_to_the_nanosecond() {
        let mut limiter = Limiter::new(&[rate(3, SECOND, 1)], Window::Bucket);
        assert_eq!(limiter.take(Duration::ZERO), Take::Granted);
        assert_eq!(limiter.take(Duration::ZERO), Take::RetryAfter(Duration::from_nanos(333_333_334)));
        assert_eq!(limiter.take(Duration::from_nanos(333_333_333)), Take::RetryAfter(Duration::from_nanos(1)));
        assert_eq!(limiter.take(Duration::from_nanos(333_333_334)), Take::Granted);
    }

    #[test]
    fn a_fixed_window_starts_anew_at_multiples_of_its_span() {
        let limits = [quota(2, SECOND)];
        check(&limits, Window::Fixed, &[(900, &[0, 0, 100]), (1000, &[0, 0, 1000]), (3500, &[0, 0, 500])]);
    }

    #[test]
    fn a_sliding_window_frees_a_place_one_span_after_it_was_taken() {
        let limits = [quota(2, SECOND)];
        check(&limits, Window::Sliding, &[(0, &[0]), (900, &[0, 100]), (999, &[1]), (1000, &[0, 900]), (1900, &[0])]);
    }

    #[test]
    fn a_window_holds_what_a_bucket_would_let_into_it() {
        for window in [Window::Fixed, Window::Sliding] {
            check(&[rate(2, SECOND, 1)], window, &[(0, &[0, 0, 1000]), (1000, &[0])]);
            check(&[rate(2, SECOND, 3)], window, &[(0, &[0, 0, 0, 0, 1000]), (1000, &[0])]);
        }
    }

    #[test]
    fn several_limits_admit_together_or_not_at_all() {
        let limits = [rate(10, SECOND, 1), quota(2, SECOND)];
        // Had the refusals at 0 and 100 ms been charged anywhere, the later grants would be refused.
        check(&limits, Window::Sliding, &[(0, &[0, 0, 1000]), (100, &[900]), (1000, &[0, 0])]);
        check(&limits, Window::Bucket, &[(0, &[0, 100, 100]), (100, &[0, 400]), (400, &[100]), (500, &[0])]);
    }

    #[test]
    fn what_is_left_is_told_and_when_it_is_whole_again() {
        for (window, after_two, at_half) in [
            (Window::Bucket, (2, 500), (4, 0)),
            (Window::Fixed, (2, 1000), (2, 500)),
            (Window::Sliding, (2, 1000), (2, 500)),
        ] {
            let mut limiter = Limiter::new(&[quota(4, SECOND), quota(1000, SECOND)], window);
            let told = |(remaining, ms)| Standing { limit: 4, remaining, reset: Duration::from_millis(ms) };
            limiter.take(Duration::ZERO);
            limiter.take(Duration::ZERO);
            assert_eq!(limiter.standing(Duration::ZERO), Some(told(after_two)), "{window:?}");
            assert_eq!(limiter.standing(SECOND / 2), Some(told(at_half)), "{window:?}");
        }
        assert_eq!(Limiter::new(&[], Window::Fixed).standing(SECOND), None);
    }

    #[test]
    fn without_limits_everything_is_granted() {
        check(&[], Window::Bucket, &[(0, &[0; 1000])]);
    }

    #[test]
    fn huge_numbers_saturate() {
        let mut limiter = Limiter::new(&[rate(u64::MAX, Duration::MAX, u32::MAX)], Window::Bucket);
        assert_eq!(limiter.take(Duration::MAX), Take::Granted);
        let mut limiter = Limiter::new(&[quota(1, Duration::MAX)], Window::Sliding);
        assert_eq!(limiter.take(Duration::MAX), Take::Granted);
        assert_eq!(limiter.take(Duration::MAX), Take::RetryAfter(Duration::MAX));
    }

    #[test]
    #[should_panic(expected = "a limit holds a zero")]
    fn a_limit_of_zero_is_refused() {
        Limiter::new(&[quota(0, SECOND)], Window::Sliding);
    }

    /// A second opinion on every meter, straight from its definition: may a request at `now` join those admitted?
    fn allowed(limit: Limit, window: Window, admitted: &[u128], now: u128) -> bool {
        let (tokens, per, burst) = match limit {
            Limit::Rate { tokens, per, burst } => (u128::from(tokens), per.as_nanos(), u128::from(burst)),
            Limit::Quota { count, span } => (u128::from(count), span.as_nanos(), u128::from(count)),
        };
        let count = if matches!(limit, Limit::Rate { .. }) { tokens + burst - 1 } else { tokens };
        let among = |within: &dyn Fn(u128) -> bool| admitted.iter().filter(|at| within(**at)).count() as u128;
        match window {
            // In every span that ends now, at most burst + rate · length.
            Window::Bucket => admitted.iter().chain([&now]).all(|first| {
                let n = among(&|at| at >= *first) + 1;
                n.saturating_sub(burst) * per <= tokens * (now - first)
            }),
            Window::Fixed => among(&|at| at / per == now / per) < count,
            Window::Sliding => among(&|at| at + per > now) < count,
        }
    }

    #[test]
    fn every_answer_agrees_with_the_definition() {
        let mut dice = Dice::new(42);
        for round in 0..300 {
            let per = Duration::from_nanos(1 + dice.below(40));
            let limit = if dice.below(2) == 0 {
                rate(1 + dice.below(7), per, 1 + dice.below(5) as u32)
            } else {
                quota(1 + dice.below(7), per)
            };
            let window = Window::ALL[dice.below(3) as usize].1;
            let mut limiter = Limiter::new(&[limit], window);
            let (mut admitted, mut now) = (Vec::new(), 0);
            for _ in 0..200 {
                now += u128::from(dice.below(12));
                match limiter.take(duration(now)) {
                    Take::Granted => {
                        assert!(allowed(limit, window, &admitted, now), "round {round}: {limit:?} {window:?} at {now}");
                        admitted.push(now);
                    }
                    Take::RetryAfter(wait) => {
                        let due = now + wait.as_nanos();
                        for at in now..due {
                            assert!(
                                !allowed(limit, window, &admitted, at),
                                "round {round}: {limit:?} {window:?} at {at}"
                            );
                        }
                        assert!(allowed(limit, window, &admitted, due), "round {round}: {limit:?} {window:?} at {due}");
                    }
                }
            }
        }
    }
}
