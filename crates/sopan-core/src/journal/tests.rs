use super::*;
use crate::bucket::{Bucket, Take};
use crate::policy::Margin;
use crate::time::Instant;
use std::time::SystemTime;

const S: u64 = 1_000_000_000;

/// 2026-10-23T12:00:00Z, two days before clocks change in Berlin.
const BEGUN: u64 = 1_792_756_800 * S;

/// Processes that follow on each other, and the file that they share.
struct World {
    limits: Vec<Limit>,
    ledger: Ledger,
    /// The true time, which is also the axis of the file.
    now: u64,
    /// When the present process began.
    begun: u64,
    bucket: Bucket,
    notes: usize,
    /// Turns that were handed out and not written yet.
    out: u32,
    /// When each arrived.
    sent: Vec<u64>,
}

fn world(limits: &[&str]) -> World {
    let limits: Vec<Limit> = limits.iter().map(|limit| limit.parse().unwrap()).collect();
    let bucket = Bucket::new(&limits, 0, Margin::default());
    let (ledger, sent) = (Ledger::default(), Vec::new());
    let mut world = World { limits, ledger, now: BEGUN, begun: BEGUN, bucket, notes: 0, out: 0, sent };
    world.start();
    world
}

impl World {
    fn instant(&self) -> Instant {
        Instant::from_nanos(self.now - self.begun)
    }

    fn start(&mut self) {
        self.begun = self.now;
        self.bucket = Bucket::new(&self.limits, 0, Margin::default());
        self.out = 0;
        self.tell();
        self.bucket.keep(&self.limits, None);
        let notes = self.ledger.notes(self.now as Tick);
        self.bucket.restore(&notes, self.instant());
    }

    /// The process is killed; the next one starts after `down`.
    fn crash(&mut self, down: u64) {
        self.now += down;
        self.start();
    }

    /// It ends in order.
    fn end(&mut self, down: u64) {
        let mut notes = Vec::new();
        self.bucket.whole_journal(self.instant(), &mut notes);
        self.add(notes);
        self.crash(down);
    }

    fn add(&mut self, notes: Vec<Note>) {
        self.notes += notes.len();
        notes.into_iter().for_each(|note| self.ledger.add(note, self.now as Tick));
    }

    fn tell(&mut self) {
        if self.instant() >= self.bucket.calendar_due() {
            let wall = SystemTime::UNIX_EPOCH + Duration::from_nanos(self.now);
            self.bucket.set_calendar(self.instant(), wall);
        }
    }

    /// Takes a turn, and has it on file.
    fn take(&mut self) -> Take {
        self.tell();
        let take = self.bucket.take(1, self.instant());
        if matches!(take, Take::Taken { .. }) {
            self.out += 1;
            let mut notes = Vec::new();
            self.bucket.journal(self.instant(), &mut notes);
            self.add(notes);
        }
        take
    }

    fn write(&mut self) {
        self.out -= 1;
        self.bucket.charge(1, None, self.instant());
        self.sent.push(self.now);
    }

    /// Sends as many as go now.
    fn send(&mut self, most: usize) -> usize {
        for sent in 0..most {
            let Take::Taken { .. } = self.take() else { return sent };
            self.write();
        }
        most
    }
}

#[test]
fn what_has_left_before_an_orderly_end_has_left_when_it_did() {
    for (limit, span) in [("100 per 1min", 60), ("1000 per 1h", 3600), ("100 per 30d", 30 * 86_400)] {
        let mut world = world(&[limit]);
        assert_eq!(world.send(40), 40);
        world.now += 20 * S;
        assert_eq!(world.send(20), 20);
        world.end(5 * S);
        let rest = world.send(9_999);
        assert_eq!(rest + 60, world.limits[0].to_string().split(' ').next().unwrap().parse::<usize>().unwrap());
        world.now += (span - 25) * S;
        assert_eq!(world.send(9_999), 0, "{limit}: the way's margin");
        world.now += S;
        assert_eq!(world.send(9_999), 40, "{limit}: those of before the end leave in their time");
    }
}

#[test]
fn a_crash_costs_a_group_and_what_was_under_way_at_most() {
    for (limit, group, count) in [("100 per 1min", 1, 100), ("1000 per 1h", 8, 1000), ("100000 per 1h", 782, 100_000)] {
        for (sent, out) in [(0, 0), (1, 0), (37, 0), (37, 5), (50, 1)] {
            let mut world = world(&[limit]);
            assert_eq!(world.send(sent), sent);
            for _ in 0..out {
                world.take();
            }
            world.crash(S);
            let rest = world.send(usize::MAX);
            let lost = count - sent - rest;
            assert!(
                lost >= out && lost < out + group + usize::from(group == 1),
                "{limit}: {sent} sent, {out} out: {lost} lost"
            );
        }
    }
}

#[test]
fn crash_after_crash_loses_nothing_of_what_has_left() {
    let mut world = world(&["1000 per 1h"]);
    let mut sent = 0;
    for _ in 0..20 {
        sent += world.send(13);
        world.crash(S);
        world.crash(S);
    }
    sent += world.send(9_999);
    assert!((1000 - 20 * 8..=1000).contains(&sent), "{sent}");
}

#[test]
fn few_notes_are_enough() {
    for (limit, turns, most) in
        [("100 per 1min", 100, 100), ("100000 per 1h", 100_000, 129), ("100000 per day at 00:00 UTC", 100_000, 129)]
    {
        let mut world = world(&[limit]);
        assert_eq!(world.send(usize::MAX), turns);
        assert!(world.notes <= most, "{limit}: {}", world.notes);
        assert!(world.ledger.notes(world.now as Tick).len() == 1);
    }
    // Those that are granted together are told together.
    let mut world = world(&["100 per 1min"]);
    let now = world.instant();
    for _ in 0..50 {
        world.bucket.take(1, now);
    }
    let mut notes = Vec::new();
    world.bucket.journal(now, &mut notes);
    assert_eq!(notes, [Note::Sliding { limit: "100 per 1m".into(), left: Vec::new(), may: 50 }]);
}

#[test]
fn short_quotas_and_rates_are_not_kept() {
    let mut world = world(&["50 per 1s", "59 per 59s", "1000/s burst 1000"]);
    world.send(40);
    assert_eq!((world.notes, world.ledger.notes(0)), (0, Vec::new()));
    world.crash(0);
    assert_eq!(world.send(99), 50);
}

#[test]
fn a_day_keeps_its_count_and_a_day_that_is_over_does_not_matter() {
    let mut world = world(&["100 per day at 00:00 Europe/Berlin"]);
    world.send(60);
    world.end(S);
    assert_eq!(world.send(999), 40);
    // It is two in the afternoon there.
    world.crash(10 * 3600 * S - 10 * S);
    assert_eq!(world.send(999), 0);
    world.crash(20 * S);
    // One was let on the day before, and may have left on either.
    assert_eq!(world.send(999), 99);
    world.end(86_400 * S);
    assert_eq!(world.send(999), 100);
}

#[test]
fn a_ledger_is_small_whatever_is_added_to_it() {
    let mut ledger = Ledger::default();
    let limit: Arc<str> = "100 per 30d".into();
    let left = |n: u64| (0..n).map(|i| Left { ago: Duration::from_secs(n - i), turns: 1 }).collect();
    ledger.add(Note::Sliding { limit: Arc::clone(&limit), left: left(100_000), may: u64::MAX }, 0);
    let days =
        (1..99).map(|i| (Date::new(2026, 1, 1).unwrap().saturating_add(jiff::Span::new().days(i)), u64::MAX)).collect();
    let calendar: Arc<str> = "100 per day at 00:00 UTC".into();
    ledger.add(Note::Calendar { limit: Arc::clone(&calendar), days, today: Date::MIN, may: u64::MAX }, 0);
    for nonsense in ["", "10/s", "50 per", "é", "etl: 10/s", ": "] {
        ledger.add(Note::Sliding { limit: nonsense.into(), left: left(1), may: 1 }, Tick::MAX);
        ledger.add(Note::Calendar { limit: nonsense.into(), days: Vec::new(), today: Date::MAX, may: 1 }, Tick::MIN);
    }
    let notes = ledger.notes(0);
    let [Note::Sliding { left, .. }, Note::Calendar { days, .. }] = &notes[..] else { panic!("{notes:?}") };
    assert_eq!((left.len(), left.iter().map(|l| l.turns).sum::<u64>(), days.len()), (LEFT_MAX, 100_000, DAYS_MAX));
    // A lane that reads nonsense closes its quota, and does not fall over it.
    let limits = [limit.parse().unwrap(), calendar.parse().unwrap()];
    let mut bucket = Bucket::new(&limits, 0, Margin::default());
    bucket.set_calendar(Instant::ORIGIN, SystemTime::UNIX_EPOCH);
    bucket.keep(&limits, None);
    for tick in [Tick::MIN, 0, Tick::MAX] {
        bucket.restore(&ledger.notes(tick), Instant::from_nanos(u64::MAX - 5));
    }
    assert!(!matches!(bucket.take(1, Instant::ORIGIN), Take::Taken { .. }));
    bucket.predict(u64::MAX, u32::MAX, Instant::ORIGIN);
    assert_eq!(ledger.keep_only(&BTreeSet::from([calendar.to_string()])), [limit]);
    assert_eq!(ledger.notes(0).len(), 1);
}

#[test]
fn a_clock_that_was_put_back_makes_what_left_leave_now() {
    let mut ledger = Ledger::default();
    let limit: Arc<str> = "5 per 1m".into();
    let left = |ago, turns| Left { ago: Duration::from_secs(ago), turns };
    ledger.add(Note::Sliding { limit: Arc::clone(&limit), left: vec![left(0, 1)], may: 0 }, 100 * S as Tick);
    ledger.add(Note::Sliding { limit: Arc::clone(&limit), left: vec![left(0, 2)], may: 1 }, 90 * S as Tick);
    ledger.add(Note::Hold { left: Duration::from_secs(7) }, 90 * S as Tick);
    let hold = |left| Note::Hold { left: Duration::from_secs(left) };
    let sliding = |left| Note::Sliding { limit: Arc::clone(&limit), left, may: 1 };
    assert_eq!(ledger.notes(95 * S as Tick), [sliding(vec![left(5, 2), left(0, 1)]), hold(2)]);
    assert_eq!(ledger.notes(110 * S as Tick), [sliding(vec![left(20, 2), left(10, 1)])]);
}

/// splitmix64: the histories are the same on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

/// Turns are taken, written, given back, and processes killed at any moment: what was out then may have left, or not.
fn simulate(seed: u64, limit: &str) {
    let mut dice = Dice(seed);
    let mut world = world(&[limit]);
    for _ in 0..4_000 {
        match dice.roll(40) {
            0 => {
                for _ in 0..world.out {
                    if dice.roll(2) == 0 {
                        world.sent.push(world.now);
                    }
                }
                let down = dice.roll(20 * S);
                world.crash(down);
            }
            1 if world.out == 0 => world.end(S),
            2..=5 => world.now += dice.roll(S / 10),
            6 => world.now += dice.roll(40 * S),
            7 if world.out > 0 => {
                world.bucket.give_back(1);
                world.out -= 1;
            }
            8..=20 if world.out > 0 => world.write(),
            _ => {
                world.take();
            }
        }
    }
    let fits = |sent: &[u64], span: u64, count: usize| sent.windows(count + 1).all(|w| w[count] - w[0] >= span);
    match &world.limits[0] {
        Limit::Quota(quota) => {
            let span = quota.span().as_nanos() as u64;
            assert!(fits(&world.sent, span, quota.count() as usize), "seed {seed}, {limit}");
        }
        Limit::Calendar(quota) => {
            let mut days = BTreeMap::<_, u64>::new();
            for at in &world.sent {
                let day = quota.daybreak().day(SystemTime::UNIX_EPOCH + Duration::from_nanos(*at));
                *days.entry(day.date).or_default() += 1;
            }
            assert!(
                days.len() > 1 && days.values().all(|sent| *sent <= quota.count()),
                "seed {seed}, {limit}: {days:?}"
            );
        }
        Limit::Rate(_) => panic!("rates are not kept"),
    }
}

#[test]
fn no_span_or_day_ever_has_more_whatever_is_killed_when() {
    for seed in 0..30 {
        for limit in
            ["100 per 1min", "7 per 90s", "300 per 5min", "1000 per 10min", "250 per day at 14:30 Europe/Berlin"]
        {
            simulate(seed, limit);
        }
    }
}
