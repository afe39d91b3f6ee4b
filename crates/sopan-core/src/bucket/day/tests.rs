use super::super::{Bucket, Take};
use super::*;
use crate::policy::{Limit, Margin};
use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;
use std::collections::BTreeMap;

const S: i64 = 1_000_000_000;
const MS: i64 = 1_000_000;

/// A bucket that is told the calendar as the dispatcher tells it, by a clock on the wall that can be set.
struct World {
    bucket: Bucket,
    now: Instant,
    /// What the clock on the wall shows at the origin of instants, in ns since 1970.
    origin: i64,
    /// Written, by the clock on the wall, in ns.
    sent: Vec<i64>,
}

fn nanos(text: &str) -> i64 {
    i64::try_from(text.parse::<Timestamp>().unwrap().as_nanosecond()).unwrap()
}

fn world(limits: &[&str], wall: &str) -> World {
    let limits: Vec<Limit> = limits.iter().map(|limit| limit.parse().unwrap()).collect();
    let bucket = Bucket::new(&limits, 0, Margin::from_millionths(0).unwrap());
    // An hour into the life of the process.
    let now = Instant::from_nanos(3_600 * S as u64);
    World { bucket, now, origin: nanos(wall) - 3_600 * S, sent: Vec::new() }
}

impl World {
    fn wall(&self) -> i64 {
        self.origin + self.now.as_nanos() as i64
    }

    fn tell(&mut self) {
        let wall = SystemTime::UNIX_EPOCH + Duration::from_nanos(self.wall() as u64);
        self.bucket.set_calendar(self.now, wall);
    }

    fn pass(&mut self, nanos: i64) {
        self.now = self.now.after(Duration::from_nanos(nanos as u64));
    }

    fn take(&mut self) -> Take {
        if self.now >= self.bucket.calendar_due() {
            self.tell();
        }
        self.bucket.take(1, self.now)
    }

    /// Sends as many as go at once.
    fn send(&mut self, most: usize) -> usize {
        for sent in 0..most {
            let Take::Taken { .. } = self.take() else { return sent };
            self.bucket.charge(1, None, self.now);
            self.sent.push(self.wall());
        }
        most
    }

    /// Sends as many as go before `until`, each at the very instant that the bucket names.
    fn send_until(&mut self, until: &str) -> usize {
        let before = self.sent.len();
        while self.wall() < nanos(until) {
            if self.send(1) == 0 {
                let Take::At(at) = self.take() else { panic!("nothing is reserved") };
                assert!(at > self.now, "the bucket names a time that helps");
                self.now = at.min(self.bucket.calendar_due());
            }
        }
        self.sent.len() - before
    }

    fn predict(&mut self, ahead: u64) -> i64 {
        self.take_nothing();
        self.bucket.predict(ahead, 1, self.now).as_nanos() as i64 + self.origin
    }

    fn take_nothing(&mut self) {
        if self.now >= self.bucket.calendar_due() {
            self.tell();
        }
    }
}

/// Of three a day the first leave at `from`, and three more at each of `opens`.
#[track_caller]
fn check(at: &str, from: &str, opens: &[&str]) {
    let mut world = world(&[&format!("3 per day at {at}")], from);
    let until = Timestamp::from_nanosecond(i128::from(nanos(opens.last().unwrap()) + S)).unwrap().to_string();
    world.send_until(&until);
    let expected: Vec<_> = std::iter::once(nanos(from))
        .chain(opens.iter().map(|open| nanos(open) + 100 * MS))
        .flat_map(|at| [at; 3])
        .collect();
    assert_eq!(world.sent, expected, "{at} from {from}");
}

#[test]
fn a_day_has_its_count_and_the_next_opens_as_long_after_its_beginning_as_clocks_are_apart() {
    check("00:00 UTC", "2026-10-21T12:00:00Z", &["2026-10-22T00:00:00Z", "2026-10-23T00:00:00Z"]);
    check("00:00 UTC", "2026-12-31T12:00:00Z", &["2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z"]);
    check("00:00 Asia/Kolkata", "2026-10-21T12:00:00Z", &["2026-10-21T18:30:00Z", "2026-10-22T18:30:00Z"]);
    // Days of 23 and of 25 hours.
    check("00:00 America/New_York", "2026-03-08T12:00:00Z", &["2026-03-09T04:00:00Z", "2026-03-10T04:00:00Z"]);
    check("00:00 America/New_York", "2026-10-31T12:00:00Z", &["2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"]);
    check("00:00 Europe/Berlin", "2026-03-28T12:00:00Z", &["2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"]);
    check("00:00 Europe/Berlin", "2026-10-24T12:00:00Z", &["2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"]);
    // Times that are skipped, and that come twice.
    check("02:30 America/New_York", "2026-03-07T12:00:00Z", &["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]);
    check("01:30 America/New_York", "2026-10-31T12:00:00Z", &["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"]);
}

#[test]
fn what_is_written_near_a_boundary_counts_in_both_days() {
    let boundary = nanos("2026-10-22T00:00:00Z");
    for (before, whole) in [(101, 5), (100, 1), (1, 1), (0, 1), (-99, 1), (-100, 5)] {
        let mut world = world(&["5 per day at 00:00 UTC"], "2026-10-21T12:00:00Z");
        world.send(1);
        world.pass(boundary - before * MS - world.wall());
        assert_eq!(world.send(2), 2);
        world.send_until("2026-10-22T12:00:00Z");
        let open = world.sent.iter().filter(|at| **at >= boundary + 100 * MS).count();
        assert_eq!(open, whole, "from {before} ms before on all went that could");
    }
}

#[test]
fn a_newcomer_is_told_when_his_day_begins() {
    let mut world = world(&["3 per day at 00:00 America/New_York"], "2026-10-30T12:00:00Z");
    let day = 86_400 * S;
    let (now, open) = (world.wall(), nanos("2026-10-31T04:00:00Z") + 100 * MS);
    let expect = |world: &mut World, expected: &[(u64, i64)]| {
        for (ahead, at) in expected {
            assert_eq!(world.predict(*ahead), *at, "{ahead} ahead");
        }
    };
    expect(
        &mut world,
        &[(0, now), (2, now), (3, open), (5, open), (6, open + day), (8, open + day), (9, open + 2 * day)],
    );
    world.send(2);
    expect(&mut world, &[(0, now), (1, open), (3, open), (4, open + day)]);
    // Near the boundary what goes is counted twice.
    world.pass(nanos("2026-10-31T03:59:59.95Z") - now);
    let now = world.wall();
    expect(&mut world, &[(0, now), (1, open), (2, open), (3, open + day)]);
    world.send(1);
    expect(&mut world, &[(0, open), (1, open), (2, open + day)]);
}

#[test]
fn a_clock_that_is_set_gives_no_day_twice() {
    let hour = 3_600 * S;
    let mut world = world(&["3 per day at 00:00 UTC"], "2026-10-21T23:00:00Z");
    assert_eq!(world.send(9), 3);
    // Put forward over the boundary: another day begins, as far as anybody can tell.
    world.origin += 2 * hour;
    world.pass(10 * S);
    assert_eq!(world.send(2), 2);
    // Put back: the day that was used up is used up still.
    world.origin -= 2 * hour;
    world.pass(10 * S);
    assert_eq!(world.send(9), 0);
    assert_eq!(world.predict(0), nanos("2026-10-22T00:00:00Z") + 100 * MS);
    // And when its day comes at last, so is what was used of it.
    assert_eq!(world.send_until("2026-10-22T23:00:00Z"), 1);
    // A clock that is a year ahead for a while.
    world.origin += 365 * 24 * hour;
    world.pass(10 * S);
    assert_eq!(world.send(9), 3);
    world.origin -= 365 * 24 * hour;
    world.pass(10 * S);
    assert_eq!(world.send(9), 0);
}

#[test]
fn a_clock_that_is_set_is_followed_within_seconds() {
    let mut world = world(&["1 per day at 00:00 UTC"], "2026-10-21T12:00:00Z");
    world.send(1);
    assert_eq!(world.take(), Take::At(world.now.after(Duration::from_secs(12 * 3_600) + MARGIN)));
    world.origin += 11 * 3_600 * S;
    world.pass(10 * S);
    assert_eq!(world.take(), Take::At(world.now.after(Duration::from_secs(3_590) + MARGIN)));
}

#[test]
fn reserved_turns_count_in_whichever_day_they_are_written() {
    let mut world = world(&["3 per day at 00:00 UTC"], "2026-10-21T12:00:00Z");
    let opens = world.now.after(Duration::from_secs(12 * 3_600) + MARGIN);
    for _ in 0..3 {
        assert!(matches!(world.take(), Take::Taken { .. }));
    }
    assert_eq!(world.take(), Take::Reserved(opens));
    world.bucket.give_back(1);
    assert!(matches!(world.take(), Take::Taken { .. }));
    world.bucket.charge(1, None, world.now);
    // Two are still out when the next day begins.
    world.now = opens;
    assert_eq!(world.send(9), 1);
    for _ in 0..2 {
        world.bucket.charge(1, None, world.now);
    }
    assert_eq!(world.send(9), 0);
}

#[test]
fn a_cost_above_the_day_goes_when_nothing_is_used_of_it() {
    let mut world = world(&["3 per day at 00:00 UTC"], "2026-10-21T12:00:00Z");
    world.send(1);
    assert!(matches!(world.bucket.take(9, world.now), Take::At(_)));
    world.pass(13 * 3_600 * S);
    world.take_nothing();
    assert!(matches!(world.bucket.take(9, world.now), Take::Taken { .. }));
    world.bucket.charge(9, None, world.now);
    assert_eq!(world.send(1), 0);
    assert!(world.bucket.fills(world.now).all(|fill| fill.tokens == 0.0 && fill.capacity == 3.0));
}

#[test]
fn whoever_is_never_told_the_calendar_keeps_to_one_day_for_ever() {
    let limits = ["3 per day at 00:00 UTC".parse().unwrap()];
    let mut bucket = Bucket::new(&limits, 0, Margin::default());
    for _ in 0..3 {
        assert!(matches!(bucket.take(1, Instant::ORIGIN), Take::Taken { .. }));
        bucket.charge(1, None, Instant::ORIGIN);
    }
    for now in [Instant::ORIGIN, Instant::from_nanos(u64::MAX / 2)] {
        assert!(matches!(bucket.take(1, now), Take::At(at) if at > now));
    }
}

#[test]
fn a_changed_quota_keeps_what_the_day_has_used() {
    for (new, left) in [
        ("10 per day at 00:00 UTC", 6),
        ("2 per day at 00:00 UTC", 0),
        ("10 per day at 06:00 Asia/Tokyo", 6),
        ("10 per 24h", 10),
    ] {
        let mut world = world(&["5 per day at 00:00 UTC"], "2026-10-21T12:00:00Z");
        world.send(4);
        let limits: Vec<_> = ["50 per 1h", new].map(|limit| limit.parse().unwrap()).into();
        world.bucket.change(&limits, 0, Margin::default(), world.now);
        world.tell();
        assert_eq!(world.send(99), left, "{new}");
    }
}

/// splitmix64: the histories are the same on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % sides as u64) as i64
    }
}

/// Six days over a change of clocks, with a clock on the wall that runs up to 40 ms wrong and is mended now and then, and
/// a way that takes up to 60 ms. The upstream counts what arrives on each date there.
fn simulate(seed: u64, zone: &str, from: &str, is_greedy: bool) {
    let mut dice = Dice(seed);
    let count = 1 + dice.roll(300) as usize;
    let zone = TimeZoneDatabase::bundled().get(zone).unwrap();
    let limit = format!("{count} per day at 00:00 {}", zone.iana_name().unwrap());
    let mut world = world(&[&limit], from);
    // When the history begins by the true clock; that on the wall is `wrong` ahead of it.
    let (begun, mut wrong) = (world.origin, 0);
    let end = nanos(from) + 6 * 86_400 * S;
    let mut arrived: BTreeMap<Date, usize> = BTreeMap::new();
    loop {
        let truth = begun + world.now.as_nanos() as i64;
        if truth > end {
            break;
        }
        // Ten parts in a million, at most, and once in a while it is set right.
        wrong = if dice.roll(20) == 0 { 0 } else { (wrong + dice.roll(10 * MS) - 5 * MS).clamp(-40 * MS, 40 * MS) };
        world.origin = begun + wrong;
        if world.send(1) == 1 {
            let arrival = truth + dice.roll(60 * MS);
            let there = zone.to_datetime(Timestamp::from_nanosecond(i128::from(arrival)).unwrap());
            *arrived.entry(there.date()).or_default() += 1;
            if !is_greedy {
                // Mostly a little while, so that much happens around midnight.
                let most = [50 * MS, S, 3_600 * S, 40_000 * S][dice.roll(4) as usize];
                world.pass(dice.roll(most));
            }
        } else {
            let Take::At(at) = world.take() else { panic!("nothing is reserved") };
            world.now = at.min(world.bucket.calendar_due()).max(world.now.after(Duration::from_micros(1)));
        }
    }
    let last = *arrived.last_key_value().unwrap().0;
    for (date, arrived) in arrived {
        assert!(arrived <= count, "seed {seed}, {limit}: {arrived} on {date}");
        assert!(!is_greedy || arrived == count || date == last, "seed {seed}, {limit}: only {arrived} on {date}");
    }
}

#[test]
fn no_day_anywhere_ever_has_more_and_all_of_it_can_be_used() {
    let zones = [
        ("America/New_York", "2026-03-06T12:00:00Z"),
        ("America/New_York", "2026-10-29T12:00:00Z"),
        ("Europe/Berlin", "2026-03-27T12:00:00Z"),
        ("Europe/Berlin", "2026-10-22T12:00:00Z"),
        ("Australia/Lord_Howe", "2026-04-02T12:00:00Z"),
        ("Asia/Kolkata", "2026-12-29T12:00:00Z"),
        ("UTC", "2028-02-27T12:00:00Z"),
    ];
    for seed in 0..16 {
        for (zone, from) in zones {
            simulate(seed, zone, from, seed % 2 == 0);
        }
    }
}
