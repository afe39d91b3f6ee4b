use super::*;

/// A decision to be made; the default is a GET without a body, before its first retry, with 60 s left.
struct Case {
    policy: RetryPolicy,
    method: Method,
    has_idempotency_key: bool,
    is_replayable: bool,
    backoff: Backoff,
    left: Option<Duration>,
    dice: Dice,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            policy: RetryPolicy { jitter: 0.0, ..RetryPolicy::default() },
            method: Method::GET,
            has_idempotency_key: false,
            is_replayable: true,
            backoff: Backoff::default(),
            left: Some(seconds(60.0)),
            dice: Dice { backoff: 0.5, retry_after: 0.5 },
        }
    }
}

impl Case {
    fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut case = Self::default();
        change(&mut case);
        case
    }

    fn decide(&self, outcome: Outcome) -> Decision {
        let situation = Situation {
            method: &self.method,
            has_idempotency_key: self.has_idempotency_key,
            is_replayable: self.is_replayable,
            backoff: self.backoff,
            left: self.left,
        };
        decide(&self.policy, &situation, &outcome, self.dice)
    }

    /// Another attempt after `wait` seconds.
    #[track_caller]
    fn repeats(&self, outcome: Outcome, wait: f64) -> &Self {
        match self.decide(outcome).verdict {
            Verdict::Again(again) => assert_eq!(again.wait, seconds(wait), "{outcome:?}"),
            other => panic!("{outcome:?} gave {other:?}"),
        }
        self
    }

    #[track_caller]
    fn gives_up(&self, outcome: Outcome, why: Why) -> &Self {
        assert_eq!(self.decide(outcome).verdict, Verdict::GiveUp(why), "{outcome:?}");
        self
    }

    #[track_caller]
    fn is_done(&self, outcome: Outcome) -> &Self {
        assert_eq!(self.decide(outcome), Decision { verdict: Verdict::Done, hold: None }, "{outcome:?}");
        self
    }

    /// The lane waits that many seconds.
    #[track_caller]
    fn holds(&self, outcome: Outcome, hold: impl Into<Option<f64>>) -> &Self {
        assert_eq!(self.decide(outcome).hold, hold.into().map(seconds), "{outcome:?}");
        self
    }

    #[track_caller]
    fn spends(&self, outcome: Outcome, expected: bool) -> &Self {
        match self.decide(outcome).verdict {
            Verdict::Again(again) => assert_eq!(again.spends_budget, expected, "{outcome:?}"),
            other => panic!("{outcome:?} gave {other:?}"),
        }
        self
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// An answer without a usable `Retry-After`.
fn bare(status: u16) -> Outcome {
    Outcome::Answered { status: StatusCode::from_u16(status).unwrap(), retry_after: None }
}

/// An answer that asks to wait that many seconds.
fn asking(status: u16, wait: f64) -> Outcome {
    Outcome::Answered { status: StatusCode::from_u16(status).unwrap(), retry_after: Some(seconds(wait)) }
}

fn too_long(asked: f64) -> Why {
    Why::AskedTooLong { asked: seconds(asked), max: seconds(60.0) }
}

fn too_close(wait: f64, left: f64) -> Why {
    Why::DeadlineTooClose { wait: seconds(wait), left: seconds(left) }
}

#[test]
fn only_these_statuses_are_retried() {
    let case = Case::default();
    for status in [408, 429, 500, 502, 503, 504] {
        case.repeats(bare(status), 0.5);
    }
    for status in
        [100, 101, 200, 204, 206, 301, 302, 304, 307, 400, 401, 403, 404, 409, 413, 422, 425, 451, 501, 505, 599]
    {
        case.is_done(bare(status)).is_done(asking(status, 2.0));
    }
}

#[test]
fn failures_without_an_answer_are_retried_after_the_backoff() {
    let case = Case::default();
    for outcome in [Outcome::NotSent, Outcome::Broken, Outcome::TimedOut] {
        case.repeats(outcome, 0.5).holds(outcome, None);
    }
}

#[test]
fn statuses_can_be_added() {
    let case = Case::with(|c| c.policy.retry_on = vec![StatusCode::TOO_EARLY, StatusCode::LOCKED]);
    case.repeats(bare(425), 0.5).repeats(asking(423, 2.0), 2.0).repeats(bare(500), 0.5).is_done(bare(404));
    case.holds(asking(423, 2.0), None).spends(bare(425), false);
}

#[test]
fn retry_after_is_honoured_on_every_retried_status() {
    let case = Case::default();
    for status in [408, 429, 500, 502, 503, 504] {
        case.repeats(asking(status, 2.0), 2.0);
    }
}

#[test]
fn a_429_holds_the_lane_always_and_a_503_only_when_it_asks() {
    let case = Case::default();
    case.holds(asking(429, 2.0), 2.0).holds(bare(429), 0.5);
    case.holds(asking(503, 2.0), 2.0).holds(bare(503), None);
    for status in [408, 500, 502, 504] {
        case.holds(asking(status, 2.0), None).holds(bare(status), None);
    }
}

#[test]
fn zero_is_floored_and_nothing_usable_is_not_zero() {
    let case = Case::default();
    case.repeats(asking(429, 0.0), 1.0).holds(asking(429, 0.0), 1.0);
    case.repeats(asking(503, 0.0), 1.0).holds(asking(503, 0.0), 1.0);
    case.repeats(asking(500, 0.0), 1.0);
    case.repeats(bare(429), 0.5);
}

#[test]
fn the_floor_raises_nothing_but_zero() {
    let case = Case::with(|c| (c.policy.min_wait, c.policy.default_wait) = (seconds(5.0), Some(seconds(2.0))));
    case.repeats(asking(429, 0.0), 5.0);
    case.repeats(asking(429, 0.001), 0.001).holds(asking(429, 0.001), 0.001);
    case.repeats(bare(429), 2.0);
    case.repeats(bare(500), 0.5);
    let case = Case::with(|c| c.policy.min_wait = Duration::ZERO);
    case.repeats(asking(429, 0.0), 0.0).holds(asking(429, 0.0), 0.0);
}

#[test]
fn the_default_wait_is_for_a_429_or_503_that_names_none() {
    let case = Case::with(|c| c.policy.default_wait = Some(seconds(2.0)));
    case.repeats(bare(429), 2.0).holds(bare(429), 2.0);
    case.repeats(bare(503), 2.0).holds(bare(503), None);
    case.repeats(asking(429, 7.0), 7.0);
    case.repeats(bare(500), 0.5).repeats(Outcome::Broken, 0.5);
}

#[test]
fn two_retries_with_sixty_seconds_left() {
    let mut case = Case::with(|c| {
        c.policy.max_retries = 2;
        c.policy.default_wait = Some(seconds(2.0));
        c.policy.min_wait = seconds(1.0);
    });
    for retries in 0..2 {
        case.backoff.retries = retries;
        case.gives_up(asking(429, 90.0), too_long(90.0));
        case.repeats(asking(429, 0.0), 1.0).repeats(bare(429), 2.0);
    }
    case.backoff.retries = 2;
    for outcome in [asking(429, 90.0), asking(429, 0.0), bare(429), bare(500), Outcome::NotSent] {
        case.gives_up(outcome, Why::RetriesSpent { max: 2 });
    }
}

#[test]
fn a_wait_that_is_not_shorter_than_the_time_left_is_not_begun() {
    let patient = |left| Case::with(|c| (c.left, c.policy.max_retry_after) = (left, seconds(100.0)));
    patient(Some(seconds(60.0))).gives_up(asking(429, 90.0), too_close(90.0, 60.0));
    patient(Some(seconds(120.0))).repeats(asking(429, 90.0), 90.0);
    patient(Some(seconds(90.0))).gives_up(asking(429, 90.0), too_close(90.0, 90.0));
    patient(Some(seconds(90.001))).repeats(asking(429, 90.0), 90.0);
    patient(None).repeats(asking(429, 90.0), 90.0);
    patient(Some(seconds(0.5))).gives_up(bare(500), too_close(0.5, 0.5));
    patient(Some(Duration::ZERO)).gives_up(Outcome::TimedOut, too_close(0.5, 0.0));
    let impatient = Case::with(|c| (c.left, c.policy.min_wait) = (Some(Duration::ZERO), Duration::ZERO));
    impatient.gives_up(asking(429, 0.0), too_close(0.0, 0.0));
}

#[test]
fn an_answer_that_asks_for_too_long_ends_the_exchange_and_holds_the_lane_for_all_of_it() {
    let case = Case::with(|c| c.left = None);
    case.repeats(asking(429, 60.0), 60.0);
    for (status, hold) in [(429, Some(60.001)), (503, Some(60.001)), (500, None)] {
        case.gives_up(asking(status, 60.001), too_long(60.001)).holds(asking(status, 60.001), hold);
    }
    let forever = Outcome::Answered { status: StatusCode::TOO_MANY_REQUESTS, retry_after: Some(Duration::MAX) };
    case.gives_up(forever, Why::AskedTooLong { asked: Duration::MAX, max: seconds(60.0) });
    assert_eq!(case.decide(forever).hold, Some(Duration::MAX));
}

#[test]
fn capped_a_long_retry_after_is_cut_for_the_exchange_and_the_lane() {
    let mut case = Case::with(|c| (c.left, c.policy.on_long_retry_after) = (None, OnLongRetryAfter::Cap));
    case.repeats(asking(429, 600.0), 60.0).holds(asking(429, 600.0), 60.0);
    case.repeats(asking(503, 600.0), 60.0).holds(asking(503, 600.0), 60.0);
    case.repeats(asking(500, 600.0), 60.0).holds(asking(500, 600.0), None);
    case.repeats(asking(429, 59.0), 59.0).holds(asking(429, 59.0), 59.0);
    case.backoff.retries = 3;
    case.gives_up(asking(429, 600.0), Why::RetriesSpent { max: 3 }).holds(asking(429, 600.0), 60.0);
}

#[test]
fn the_lane_is_held_also_where_the_exchange_gives_up() {
    let spent = Case::with(|c| c.backoff.retries = 3);
    spent.gives_up(asking(429, 7.0), Why::RetriesSpent { max: 3 }).holds(asking(429, 7.0), 7.0);
    // The backoff after three retries.
    spent.holds(bare(429), 4.0);
    let never = Case::with(|c| c.policy.max_retries = 0);
    never.gives_up(asking(503, 7.0), Why::RetriesSpent { max: 0 }).holds(asking(503, 7.0), 7.0);
    let streamed = Case::with(|c| c.is_replayable = false);
    streamed.gives_up(asking(429, 7.0), Why::BodyNotReplayable).holds(asking(429, 7.0), 7.0);
    let late = Case::with(|c| c.left = Some(seconds(5.0)));
    late.gives_up(asking(429, 7.0), too_close(7.0, 5.0)).holds(asking(429, 7.0), 7.0);
}

#[test]
fn jitter_on_retry_after_only_adds_and_never_to_the_hold() {
    let mut case = Case::with(|c| {
        c.policy.retry_after_jitter = seconds(4.0);
        c.policy.default_wait = Some(seconds(2.0));
        c.policy.on_long_retry_after = OnLongRetryAfter::Cap;
        c.left = None;
    });
    for (sample, added) in [(0.0, 0.0), (0.5, 2.0), (0.75, 3.0)] {
        case.dice.retry_after = sample;
        case.repeats(asking(429, 7.0), 7.0 + added).holds(asking(429, 7.0), 7.0);
        case.repeats(asking(429, 0.0), 1.0 + added).holds(asking(429, 0.0), 1.0);
        case.repeats(asking(429, 90.0), 60.0 + added).holds(asking(429, 90.0), 60.0);
        case.repeats(asking(500, 7.0), 7.0 + added);
        case.repeats(bare(429), 2.0).repeats(bare(500), 0.5);
    }
    case.left = Some(seconds(10.0));
    case.gives_up(asking(429, 7.0), too_close(10.0, 10.0));
}

#[test]
fn the_jitter_of_the_backoff_does_not_touch_what_was_told() {
    let case = Case::with(|c| (c.policy.jitter, c.dice.backoff) = (0.5, 0.0));
    case.repeats(bare(500), 0.25).repeats(asking(500, 7.0), 7.0);
    // What the lane waits is what the policy computed, its jitter included.
    case.repeats(bare(429), 0.25).holds(bare(429), 0.25);
}

#[test]
fn idempotent_methods_are_repeated_after_any_failure() {
    for method in ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"] {
        let case = Case::with(|c| c.method = method.parse().unwrap());
        for outcome in
            [bare(500), bare(503), bare(408), bare(429), Outcome::Broken, Outcome::TimedOut, Outcome::NotSent]
        {
            case.repeats(outcome, 0.5);
        }
    }
}

#[test]
fn what_may_have_been_processed_is_never_sent_twice() {
    for method in ["POST", "PATCH", "CONNECT", "FROBNICATE", "get"] {
        let case = Case::with(|c| c.method = method.parse().unwrap());
        for status in [408, 500, 502, 504] {
            case.gives_up(bare(status), Why::NotSafeToRepeat).gives_up(asking(status, 2.0), Why::NotSafeToRepeat);
        }
        for outcome in [bare(503), Outcome::Broken, Outcome::TimedOut] {
            case.gives_up(outcome, Why::NotSafeToRepeat);
        }
        case.repeats(Outcome::NotSent, 0.5);
        case.repeats(bare(429), 0.5).repeats(asking(429, 2.0), 2.0);
        case.repeats(asking(503, 2.0), 2.0).repeats(asking(503, 0.0), 1.0);
    }
}

#[test]
fn an_idempotency_key_makes_any_method_safe() {
    let case = Case::with(|c| (c.method, c.has_idempotency_key) = (Method::POST, true));
    for outcome in [bare(500), bare(503), Outcome::Broken, Outcome::TimedOut] {
        case.repeats(outcome, 0.5);
    }
}

#[test]
fn a_body_that_is_gone_is_not_sent_again() {
    let case = Case::with(|c| (c.method, c.is_replayable) = (Method::PUT, false));
    for outcome in [bare(500), bare(429), asking(503, 2.0), Outcome::Broken] {
        case.gives_up(outcome, Why::BodyNotReplayable);
    }
    case.is_done(bare(404));
}

#[test]
fn the_budget_pays_for_failures_and_not_for_being_asked_to_wait() {
    let case = Case::default();
    for outcome in [bare(500), bare(502), bare(503), bare(504), asking(500, 2.0)] {
        case.spends(outcome, true);
    }
    for outcome in [Outcome::NotSent, Outcome::Broken, Outcome::TimedOut] {
        case.spends(outcome, true);
    }
    for outcome in [bare(429), asking(429, 2.0), asking(503, 2.0), asking(503, 0.0), bare(408)] {
        case.spends(outcome, false);
    }
}

#[test]
fn the_backoff_moves_on_from_attempt_to_attempt() {
    let mut case = Case::default();
    for (retries, wait) in (0..3).zip([0.5, 1.0, 2.0]) {
        assert_eq!(case.backoff.retries, retries);
        case.repeats(bare(500), wait);
        let Verdict::Again(again) = case.decide(bare(500)).verdict else { panic!("not repeated") };
        assert_eq!(again.backoff, Backoff { retries: retries + 1, previous: seconds(wait) });
        case.backoff = again.backoff;
    }
    case.gives_up(bare(500), Why::RetriesSpent { max: 3 });
}

#[test]
fn a_wait_that_was_told_leaves_the_previous_one_of_the_backoff_alone() {
    let case = Case::with(|c| c.backoff = Backoff { retries: 1, previous: seconds(0.7) });
    let Verdict::Again(again) = case.decide(asking(429, 30.0)).verdict else { panic!("not repeated") };
    assert_eq!(again.backoff, Backoff { retries: 2, previous: seconds(0.7) });
}

#[test]
fn outcomes_and_reasons_read_as_log_lines() {
    let outcomes = [asking(429, 1.0), Outcome::NotSent, Outcome::Broken, Outcome::TimedOut];
    let expected = ["HTTP 429", "connection failed", "connection broken", "timed out"];
    assert_eq!(outcomes.map(|outcome| outcome.to_string()), expected);
    for (why, expected) in [
        (Why::RetriesSpent { max: 3 }, "limit of 3 retries reached"),
        (Why::RetriesSpent { max: 1 }, "limit of 1 retry reached"),
        (too_long(90.0), "asked to wait 90.00 s, which is above max_retry_after of 60.00 s"),
        (too_close(30.0, 12.5), "a wait of 30.00 s does not fit into the 12.50 s left"),
    ] {
        assert_eq!(why.to_string(), expected);
    }
}
