use super::*;
use crate::breaker::State;
use crate::lane::{Call, Enter, Lane, Turn, Visit};
use crate::policy::BreakerPolicy;
use crate::queue::{ClientId, TicketId};
use crate::retry::Budget;

const MS: u64 = 1_000_000;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * MS)
}

fn policy(limits: &[&str]) -> LanePolicy {
    LanePolicy { limits: limits.iter().map(|l| l.parse().unwrap()).collect(), ..LanePolicy::default() }
}

fn exact(limits: &[&str]) -> LanePolicy {
    LanePolicy { headroom: 0, rate_margin: "0%".parse().unwrap(), ..policy(limits) }
}

/// Trips at three failures in a row, and is open for 2 s.
fn breaker() -> Breaker {
    let (min_span, open_for) = (Duration::ZERO, Duration::from_secs(2));
    Breaker::new(BreakerPolicy { failures: 3, min_span, open_for, ..Default::default() })
}

fn entry(arrival: u64, wait_max: Option<Duration>, now: Instant) -> Entry {
    let deadline = wait_max.map(|wait| now.after(wait));
    Entry { client: ClientId(1), weight: 1, arrival, cost: 1, bytes: 0, since: now, deadline }
}

/// The shadow of a lane with the default `wait_max`, in front of which requests come one after the other.
struct Observed(Shadow, u64);

impl Observed {
    fn new(policy: &LanePolicy) -> Self {
        Self(Shadow::new(policy, breaker()), 0)
    }

    fn come(&mut self, now: u64) -> Shade {
        self.1 += 1;
        self.0.arrive(&entry(self.1, Some(Duration::from_secs(30)), at(now)), at(now))
    }

    /// One comes, and is answered at once.
    fn answered(&mut self, now: u64, health: Health, hold: Option<u64>) -> Foreseen {
        let mut shade = self.come(now);
        self.0.settle(&mut shade, health, hold.map(Duration::from_millis), at(now));
        let foreseen = shade.foreseen();
        self.0.finish(shade);
        foreseen
    }

    fn foreseen(&mut self, now: u64) -> Foreseen {
        self.answered(now, Health::Success, None)
    }

    fn shown(&mut self, now: u64) -> Snapshot {
        let mut snapshot = Lane::new(policy(&[]), breaker(), Budget::new(true)).snapshot(at(now));
        self.0.show(&mut snapshot, at(now));
        snapshot
    }
}

fn goes(ms: u64) -> Foreseen {
    Foreseen::Goes(Duration::from_millis(ms))
}

/// A lane in earnest, which is looked at just when it asks, and whose turns are written and answered as they come.
struct Earnest {
    lane: Lane,
    waiting: Vec<(TicketId, u64)>,
    /// Who left, and when.
    left: Vec<(u64, Instant)>,
    /// Who leaves is asked for such a hold.
    hold: Option<Duration>,
}

impl Earnest {
    fn come(&mut self, entry: Entry, now: Instant) -> Option<Refusal> {
        match self.lane.enter(entry, Visit::First, now) {
            Enter::Go(turn) => self.leaves(entry.arrival, turn, now),
            Enter::Wait(id) => self.waiting.push((id, entry.arrival)),
            Enter::Refused(refusal) => return Some(refusal),
        }
        None
    }

    fn leaves(&mut self, arrival: u64, mut turn: Turn, now: Instant) {
        self.left.push((arrival, now));
        self.lane.written(&mut turn, now);
        self.lane.settle(&mut turn, Health::Success, self.hold.take(), now);
        self.lane.finish(turn, now);
    }

    /// Lets time pass up to `until`.
    fn pass(&mut self, mut now: Instant, until: Instant) {
        loop {
            let mut calls = Vec::new();
            let next = self.lane.step(now, &mut calls).earliest();
            if calls.is_empty() {
                match next.filter(|next| *next <= until) {
                    Some(next) => now = next,
                    None => return,
                }
            }
            for call in calls {
                match call {
                    Call::Prepare(id) => self.lane.ready(id, true),
                    Call::Go(id, turn) => {
                        let place = self.waiting.iter().position(|(waits, _)| *waits == id).unwrap();
                        let (_, arrival) = self.waiting.remove(place);
                        self.leaves(arrival, turn, now);
                    }
                    Call::Refuse(..) => panic!("nobody is let in who comes too late"),
                }
            }
        }
    }
}

/// splitmix64: the histories are the same on every machine and in every year.
fn roll(state: &mut u64, sides: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % sides
}

/// The same arrivals at a lane in earnest and at its shadow.
struct Pair {
    earnest: Earnest,
    shadow: Shadow,
    /// When who was let in would leave.
    foreseen: Vec<(u64, Instant)>,
    refused: usize,
}

impl Pair {
    fn new(policy: &LanePolicy) -> Self {
        let lane = Lane::new(policy.clone(), breaker(), Budget::new(true));
        let earnest = Earnest { lane, waiting: Vec::new(), left: Vec::new(), hold: None };
        Self { earnest, shadow: Shadow::new(policy, breaker()), foreseen: Vec::new(), refused: 0 }
    }

    /// One comes at both; the lane must say what its shadow says.
    fn come(&mut self, arrival: u64, wait_max: Option<Duration>, now: Instant) -> Shade {
        let entry = entry(arrival, wait_max, now);
        let shade = self.shadow.arrive(&entry, now);
        let refused = self.earnest.come(entry, now);
        match shade.foreseen() {
            Foreseen::Goes(wait) => {
                assert_eq!(refused, None, "{wait:?}");
                self.foreseen.push((arrival, now.after(wait)));
            }
            Foreseen::Refused(refusal) => {
                assert_eq!(refused, Some(refusal));
                self.refused += 1;
            }
        }
        shade
    }

    #[track_caller]
    fn shows_the_same(&mut self, now: Instant) {
        let expected = self.earnest.lane.snapshot(now);
        let mut shown = Snapshot { hold: None, holds: 0, fills: Vec::new(), ..expected.clone() };
        self.shadow.show(&mut shown, now);
        assert_eq!(shown, expected);
    }
}

/// Gaps that now keep to the limits and now exceed them, up to 1.3 s.
fn gap(dice: &mut u64) -> Duration {
    let scale = [1, 20, 200, 1300][roll(dice, 4) as usize];
    Duration::from_nanos(roll(dice, scale * MS))
}

#[test]
fn who_is_let_in_and_when_he_leaves_is_what_the_lane_does() {
    let mut refused = 0;
    for (seed, limits) in [
        &["10/s burst 20"][..],
        &["7/s"],
        &["0.333333/s burst 3", "5/s burst 2"],
        &["300/min burst 40", "20/s burst 5", "1000/h burst 200"],
        &["20 per 1s"],
        &["100 per 10s"],
        &["500 per 1min"],
        &[],
    ]
    .into_iter()
    .cycle()
    .take(64)
    .enumerate()
    {
        for wait_max in [None, Some(Duration::from_millis(3_333))] {
            let policy = LanePolicy { waiting_max: if seed % 3 == 0 { 20 } else { 1000 }, ..policy(limits) };
            let (mut dice, mut pair, mut now) = (seed as u64, Pair::new(&policy), at(5));
            for arrival in 0..400 {
                let next = now.after(gap(&mut dice));
                pair.earnest.pass(now, next);
                now = next;
                let shade = pair.come(arrival, wait_max, now);
                pair.shadow.finish(shade);
                pair.shows_the_same(now);
            }
            pair.earnest.pass(now, Instant::NEVER);
            assert_eq!(pair.earnest.left, pair.foreseen, "{limits:?}, seed {seed}");
            refused += pair.refused;
        }
    }
    assert!(refused > 1_000, "the histories are rich enough: {refused}");
}

/// With holds, and with limits of both kinds, where a wait is foreseen no better than by the lane itself.
#[test]
fn what_is_left_of_the_limits_is_what_the_lane_has_left() {
    let mut holds = 0;
    for (seed, limits) in
        [&["10/s burst 20"][..], &["50/s burst 5", "40 per 1s"], &["20/s burst 5", "600/min burst 30"], &["3/s"]]
            .into_iter()
            .cycle()
            .take(60)
            .enumerate()
    {
        let policy = LanePolicy { waiting_max: 1_000_000, ..policy(limits) };
        let (mut dice, mut pair, mut now) = (seed as u64, Pair::new(&policy), at(5));
        for arrival in 0..400 {
            let next = now.after(gap(&mut dice));
            pair.earnest.pass(now, next);
            now = next;
            let goes_at_once = pair.earnest.waiting.is_empty();
            let hold = Duration::from_millis(roll(&mut dice, 2_000));
            let hold = (goes_at_once && roll(&mut dice, 4) == 0).then_some(hold);
            pair.earnest.hold = hold;
            let mut shade = pair.come(arrival, None, now);
            if hold.is_some() && pair.earnest.hold.is_none() {
                // It left at once, and was told to wait.
                pair.shadow.settle(&mut shade, Health::Success, hold, now);
            }
            pair.earnest.hold = None;
            pair.shadow.finish(shade);
            pair.shows_the_same(now);
        }
        holds += pair.shadow.holds;
    }
    assert!(holds > 300, "the histories are rich enough: {holds}");
}

#[test]
fn no_more_are_kept_than_may_wait() {
    let mut observed = Observed::new(&LanePolicy { waiting_max: 2, ..exact(&["1/s"]) });
    let full = Foreseen::Refused(Refusal::QueueFull { waiting: 2, retry_after: 1 });
    let foreseen = [0; 5].map(|now| observed.foreseen(now));
    assert_eq!(foreseen, [goes(0), goes(1_000), goes(2_000), full, full]);
    assert_eq!(observed.0.line.len(), 2);
}

#[test]
fn a_hold_is_foreseen_and_moves_back_those_who_would_be_waiting() {
    let mut observed = Observed::new(&exact(&["10/s burst 2"]));
    assert_eq!(observed.foreseen(0), goes(0));
    let mut told = observed.come(0);
    assert_eq!(observed.foreseen(0), goes(100));
    observed.0.settle(&mut told, Health::Success, Some(Duration::from_secs(5)), at(50));
    observed.0.finish(told);
    // The one of 100 ms goes first when the hold ends, and with it the one token that is left.
    assert_eq!(observed.foreseen(60), goes(5_090));
    // What is sent meanwhile, and would not have been, asks for no other one.
    assert_eq!(observed.answered(70, Health::Success, Some(60_000)), goes(5_180));
    assert_eq!((observed.shown(1_050).hold, observed.shown(1_050).holds), (Some(Duration::from_secs(4)), 1));
    let shown = observed.shown(5_250);
    assert_eq!((shown.hold, shown.fills[0].tokens), (None, 0.0));
    // Too long a one for those who come, and at most `max_hold`.
    assert_eq!(observed.answered(9_000, Health::Success, Some(u64::MAX)), goes(0));
    let refused = |predicted, retry_after| {
        let (predicted, allowed) = (Duration::from_secs(predicted), Duration::from_secs(30));
        Foreseen::Refused(Refusal::WaitTooLong { predicted, allowed, cause: Cause::Hold, retry_after })
    };
    assert_eq!(observed.foreseen(9_000), refused(3_600, 3_570));
    assert_eq!(observed.foreseen(609_000), refused(3_000, 2_970));
}

#[test]
fn those_whom_a_hold_would_make_too_late_cost_nothing() {
    let mut observed = Observed::new(&exact(&["1/s", "100 per 1h"]));
    let mut told = observed.come(0);
    for _ in 0..10 {
        observed.foreseen(0);
    }
    observed.0.settle(&mut told, Health::Success, Some(Duration::from_secs(40)), at(500));
    observed.0.finish(told);
    assert_eq!(observed.shown(39_000).fills[1].tokens, 99.0);
    assert_eq!(observed.foreseen(39_000), goes(1_500));
    assert_eq!(observed.shown(41_000).fills[1].tokens, 98.0);
}

#[test]
fn a_breaker_would_trip_refuse_and_let_one_probe_decide() {
    let mut observed = Observed::new(&policy(&["1000/s burst 100"]));
    let open = |retry_after| Foreseen::Refused(Refusal::BreakerOpen { retry_after });
    for _ in 0..3 {
        assert_eq!(observed.answered(0, Health::Failure, None), goes(0));
    }
    assert_eq!(observed.0.take_change(), Some(Change::Tripped { until: at(2_000) }));
    // What goes out all the same says nothing, well or ill.
    for health in [Health::Success, Health::Failure] {
        assert_eq!(observed.answered(500, health, Some(1_000)), open(2));
    }
    assert_eq!((observed.shown(600).breaker, observed.shown(600).hold), (State::Open { until: at(2_000) }, None));
    assert_eq!(observed.0.take_change(), None);
    // A probe whose client leaves makes room for another.
    let probe = observed.come(2_000);
    assert_eq!(observed.foreseen(2_000), open(1));
    observed.0.finish(probe);
    let mut probe = observed.come(2_100);
    observed.0.unconnected(&mut probe, at(2_100));
    observed.0.finish(probe);
    assert_eq!(observed.0.take_change(), Some(Change::Reopened { until: at(4_100) }));
    assert_eq!(observed.foreseen(4_100), goes(0));
    assert_eq!((observed.0.take_change(), observed.shown(4_100).breaker), (Some(Change::Reset), State::Closed));
    // Bodies that break off are failures, where their heads were none.
    for health in [Health::Success, Health::Failure] {
        let mut shade = observed.come(4_200);
        observed.0.settle(&mut shade, health, None, at(4_200));
        observed.0.cut(&shade, at(4_200));
        observed.0.finish(shade);
    }
    assert_eq!(observed.0.take_change(), None);
    let mut again = observed.0.come_again(at(4_300));
    observed.0.settle(&mut again, Health::Failure, None, at(4_300));
    assert_eq!(observed.0.take_change(), Some(Change::Tripped { until: at(6_300) }));
    observed.0.finish(again);
}
