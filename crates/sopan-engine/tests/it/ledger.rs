//! The scripts that keep shared limits come to the same as the core does: both are played the same random histories, the
//! scripts in a real redis-server.
//!
//! The histories hold all that an instance can say of limits and all that can become of what it was leased, clocks that jump,
//! limits that change and instances that come and go. What the answers have to be like is the business of the core's own tests.

mod members;

use std::time::Duration;

use crate::support::redis::{Connection, Reply, Server};
use sopan_core::lane::HeldBy;
use sopan_core::policy::{Limit, Margin};
use sopan_core::share::{Ask, Granted, HoldNews, Leased, Ledger, Members, Stamp, TellHold, Terms};

const ASK: &str =
    concat!(include_str!("../../src/store/redis/ledger.lua"), include_str!("../../src/store/redis/ask.lua"));
const HOLD: &str =
    concat!(include_str!("../../src/store/redis/ledger.lua"), include_str!("../../src/store/redis/hold.lua"));

const LIMITS: [&[&str]; 16] = [
    &["100/s"],
    &["200/s burst 20"],
    &["1/s burst 5"],
    &["1000000/s burst 1000000000"],
    &["1/d"],
    &["0.333333/s burst 3", "999999.999999999/s"],
    &["20 per 1s"],
    &["300 per 1s", "50/s burst 10"],
    &["5000 per 1h"],
    &["3 per 1s", "1000 per 1d"],
    &["10 per day at 00:00 UTC"],
    &["50/s", "500 per day at 23:59 America/Los_Angeles"],
    &["10 per day at 00:00 Asia/Jakarta", "100 per day at 12:00 UTC", "20/s"],
    &["200000 per 10s"],
    &["1000/s burst 2", "20000 per 1min", "500/s burst 100"],
    &[],
];
const ALONE: usize = 8;
const MIDNIGHT: usize = 10;
const INSTANCES: [&str; 5] = ["a", "b", "c", "d", "0123456789abcdef"];
const SECOND: u64 = 1_000_000;

/// splitmix64: the histories are the same on every machine and in every year.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }
}

/// What an instance remembers.
#[derive(Default)]
struct Instance {
    number: u64,
    heard: u64,
    held: Vec<Granted>,
    last: Option<Stamp>,
}

struct History {
    dice: Dice,
    now: u64,
    ledger: Ledger,
    limits: usize,
    instances: [Instance; 5],
    keys: Vec<String>,
    /// What it is about, where it is about something.
    about: Option<About>,
    /// What was run, with which arguments, and what the core says of it.
    played: Vec<(Script, Vec<String>, Expected)>,
}

/// What chance alone seldom comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum About {
    /// Instances are alone again and again, so that a quota's ring has more groups than it is meant to have.
    Alone,
    /// A day ends.
    Midnight,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Script {
    Ask,
    Hold,
}

#[derive(Debug, PartialEq)]
enum Expected {
    Leased(Leased),
    Held(Option<(Duration, HeldBy)>),
}

impl History {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        // Mostly in this century; a day or so from the end of one.
        let mut now = 1_780_000_000 * SECOND + dice.roll(300 * 86_400 * SECOND);
        let mut limits = dice.roll(LIMITS.len() as u64) as usize;
        let about =
            if seed.is_multiple_of(50) { Some(About::Alone) } else { dice.one_in(4).then_some(About::Midnight) };
        match about {
            Some(About::Alone) => limits = ALONE,
            Some(About::Midnight) => {
                limits = MIDNIGHT;
                now = now / (86_400 * SECOND) * 86_400 * SECOND - dice.roll(3 * SECOND);
            }
            None => {}
        }
        let keys = ["ledger", "records", "hungry", "known"].map(|kind| format!("{{h{seed}}}:{kind}"));
        let instances = Default::default();
        Self { dice, now, ledger: Ledger::default(), limits, instances, keys: keys.into(), about, played: Vec::new() }
    }

    fn event(&mut self) {
        let first = if self.about.is_some() { 4 } else { 0 };
        match first + self.dice.roll(40 - first) {
            0 => self.now += self.dice.roll(3 * 86_400 * SECOND),
            1 => self.now += self.dice.roll(100 * SECOND),
            2 => self.now -= self.dice.roll(3 * SECOND),
            3 => self.limits = self.dice.roll(LIMITS.len() as u64) as usize,
            4..=6 => return self.hold(),
            7..=20 => self.now += self.dice.roll(20_000),
            _ => self.now += self.dice.roll(400_000),
        }
        self.ask();
    }

    fn members(&mut self) -> Members {
        let counted = [1, 1, 2, 4, 7, 1000][self.dice.roll(6) as usize];
        let unseen = if self.dice.one_in(3) { self.dice.roll(counted.into()) as u32 } else { 0 };
        Members { seen: counted - unseen, counted }
    }

    fn terms(&self) -> Terms {
        let limits: Vec<Limit> = LIMITS[self.limits].iter().map(|limit| limit.parse().unwrap()).collect();
        Terms::new(&limits, 1, Margin::default())
    }

    fn ask(&mut self) {
        let members = self.members();
        let terms = self.terms();
        // An instance does not know the ledger's clock to the microsecond, or not at all.
        let known = (!self.dice.one_in(10)).then(|| Stamp(self.now - self.dice.roll(3_000)));
        let at = self.dice.roll(INSTANCES.len() as u64) as usize;
        let instance = &mut self.instances[at];
        let dice = &mut self.dice;
        if dice.one_in(60) {
            *instance = Instance::default();
        }
        instance.number += u64::from(!dice.one_in(40));
        let mut returned = Vec::new();
        let was_alone = self.about == Some(About::Alone);
        while !instance.held.is_empty() && dice.one_in(2) && returned.len() < 100 {
            let at = dice.roll(instance.held.len() as u64) as usize;
            returned.push(instance.held.swap_remove(at));
        }
        instance.held.truncate(200);
        let ask = Ask {
            number: instance.number,
            heard: instance.heard,
            want: [0, 1, 1, 2, 5, 10, 64, 1000][dice.roll(8) as usize],
            cost: [1, 1, 1, 1, 2, 5, 30][dice.roll(7) as usize],
            members,
            days: terms.days(known),
            lapse: [Duration::from_millis(50), Duration::from_millis(2), Duration::from_micros(61_234)]
                [dice.roll(3) as usize],
            terms: terms.into(),
            returned,
            spent: (was_alone || dice.one_in(20)).then(|| dice.roll(3) * dice.roll(200)),
            last: instance.last,
            valid_until: dice.one_in(2).then(|| Stamp(self.now + 100_000 - dice.roll(110_000))),
        };
        let leased = self.ledger.ask(INSTANCES[at], &ask, Stamp(self.now));
        if !self.dice.one_in(12) {
            let granted = |due: &Stamp| Granted { due: *due, cost: ask.cost };
            instance.held.extend(leased.due.iter().map(granted));
            instance.heard = ask.number;
            instance.last = instance.last.max(leased.due.last().copied());
        }
        let mut args = ask.args(INSTANCES[at]);
        args[0] = self.now.to_string();
        self.played.push((Script::Ask, args, Expected::Leased(leased)));
    }

    fn hold(&mut self) {
        let by = if self.dice.one_in(2) { HeldBy::Operator } else { HeldBy::Upstream };
        let news = if self.dice.one_in(3) {
            HoldNews::Released
        } else {
            HoldNews::Held { remaining: Duration::from_micros(1 + self.dice.roll(3 * SECOND)), by }
        };
        let (members, terms) = (self.members(), self.terms());
        let days = terms.days((!self.dice.one_in(10)).then_some(Stamp(self.now)));
        let tell = TellHold { news, terms: terms.into(), days, members };
        let held = self.ledger.tell(&tell, Stamp(self.now));
        let mut args = tell.args();
        args[0] = self.now.to_string();
        self.played.push((Script::Hold, args, Expected::Held(held)));
    }
}

fn numbers(reply: &Reply) -> Vec<i64> {
    let Reply::List(replies) = reply else { panic!("a script answered {reply:?}") };
    replies.iter().map(|reply| if let Reply::Number(number) = reply { *number } else { panic!("{reply:?}") }).collect()
}

fn read(script: Script, reply: &Reply, number: u64) -> Expected {
    let numbers = numbers(reply);
    match script {
        Script::Ask => Expected::Leased(Leased::read(&numbers, number).unwrap_or_else(|e| panic!("{e}: {numbers:?}"))),
        Script::Hold => {
            let by = if numbers[2] == 1 { HeldBy::Operator } else { HeldBy::Upstream };
            let held = u64::try_from(numbers[1]).unwrap();
            Expected::Held((held > 0).then_some((Duration::from_micros(held), by)))
        }
    }
}

#[test]
fn the_scripts_and_the_core_come_to_the_same_in_a_thousand_random_histories() {
    let Some(server) = Server::start() else { return };
    let mut redis = server.connect();
    let [ask, hold] = [ASK, HOLD].map(|script| redis.load(script));
    let (mut leased, mut refused, mut held) = (0, 0, 0);
    for seed in 0..1_000 {
        let mut history = History::new(seed);
        let events = if history.about == Some(About::Alone) { 500 } else { 60 };
        (0..events).for_each(|_| history.event());
        for (script, args, _) in &history.played {
            let sha = if *script == Script::Ask { &ask } else { &hold };
            redis.send_script(sha, &history.keys, args);
        }
        for (n, (script, args, expected)) in history.played.iter().enumerate() {
            let number = if let Expected::Leased(answer) = expected { answer.number } else { 0 };
            let answer = read(*script, &redis.reply(), number);
            assert_eq!(answer, *expected, "history {seed}, step {n}: {script:?} {args:?}");
            match expected {
                Expected::Leased(answer) => {
                    leased += answer.due.len();
                    refused += usize::from(answer.again_in.is_some());
                }
                Expected::Held(hold) => held += usize::from(hold.is_some()),
            }
        }
    }
    assert!(leased > 50_000 && refused > 10_000 && held > 1_000, "rich enough: {leased}, {refused}, {held}");
}

#[test]
fn a_script_of_the_servers_own_clock_keeps_to_the_second_and_its_keys_expire() {
    let Some(server) = Server::start() else { return };
    let mut redis = server.connect();
    let [ask, hold] = [ASK, HOLD].map(|script| redis.load(script));
    let keys = ["{tag}:ledger", "{tag}:records", "{tag}:hungry", "{tag}:known"].map(str::to_owned);
    let limits = ["100/s burst 11".parse().unwrap(), "50000 per 1h".parse().unwrap()];
    let terms = std::sync::Arc::new(Terms::new(&limits, 1, Margin::default()));
    let mut leased = |number: u64| {
        let wanted = Ask {
            number,
            heard: number - 1,
            want: 64,
            cost: 1,
            members: Members::ONE,
            terms: terms.clone(),
            days: Vec::new(),
            lapse: Duration::from_millis(50),
            returned: Vec::new(),
            spent: None,
            last: None,
            valid_until: None,
        };
        Leased::read(&numbers(&redis.run(&ask, &keys, &wanted.args("a"))), number).unwrap()
    };
    let first = leased(1);
    // The burst at once, and what comes within the horizon.
    assert_eq!(first.due.iter().filter(|due| **due == first.at).count(), 10);
    assert_eq!(first.due.len(), 10 + 29);
    let second = leased(2);
    assert!(second.at >= first.at && second.due.first().is_none_or(|due| *due > first.due[38]));
    for (key, least) in keys.iter().zip([3_600_000, 3_600_000, 3_600_000, 3_600_000]) {
        let Reply::Number(left) = redis.call(&["PTTL", key]) else { panic!("no answer for {key}") };
        assert!(left > least && left < 2 * least, "{key} is kept for {left} ms");
    }
    let tell = TellHold {
        news: HoldNews::Held { remaining: Duration::from_secs(5), by: HeldBy::Upstream },
        terms,
        days: Vec::new(),
        members: Members::ONE,
    };
    let mut listener = server.connect();
    listener.call(&["SUBSCRIBE", "holds"]);
    let mut args = tell.args();
    args.extend(["holds".to_owned(), "tag 5000000".to_owned()]);
    let held = numbers(&redis.run(&hold, &keys, &args));
    assert!(held[1] > 4_900_000 && held[1] <= 5_000_000);
    let heard = Reply::List(["message", "holds", "tag 5000000"].map(|text| Reply::Text(text.to_owned())).into());
    assert_eq!(listener.reply(), heard);
}

/// What is left is what a ledger would be that was lost, or one that lost only who asked; and it goes on so.
#[test]
fn what_cannot_be_read_is_lost_once_and_is_no_error_to_each_who_asks() {
    let Some(server) = Server::start() else { return };
    let mut redis = server.connect();
    let [ask, hold] = [ASK, HOLD].map(|script| redis.load(script));
    let limits = [
        "100/s burst 11".parse().unwrap(),
        "5000 per 1h".parse().unwrap(),
        "900 per day at 00:00 UTC".parse().unwrap(),
    ];
    let terms = std::sync::Arc::new(Terms::new(&limits, 1, Margin::default()));
    let now = Stamp(1_780_000_000 * SECOND);
    let asked = |number: u64, at: u64| {
        let wanted = Ask {
            number,
            heard: number - 1,
            want: 8,
            cost: 1,
            members: Members { seen: 2, counted: 2 },
            terms: terms.clone(),
            days: terms.days(Some(now)),
            lapse: Duration::from_millis(50),
            returned: Vec::new(),
            spent: None,
            last: None,
            valid_until: None,
        };
        (wanted, Stamp(now.0 + at))
    };
    let lists = "return redis.call(ARGV[1], KEYS[1], cmsgpack.pack(cjson.decode(ARGV[2])))";
    // A state that says where what came back is due, in a thousand years; one without pages; of no numbers.
    let states = [
        "[1,1,0,0,[],[],1]",
        "[1,1,0,0,[\"x\"],[[\"r\",\"y\"]],1]",
        "[1]",
        "[]",
        "7",
        "\"zzz\"",
        "[\"1\"]",
        "{\"a\":1}",
    ];
    let mut damages: Vec<Vec<String>> = Vec::new();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    for key in 0..4 {
        let key = format!("KEY{key}");
        damages.push(words(&["SET", &key, "zzz"]));
        damages.push(words(&["SET", &key, ""]));
        damages.push(words(&["RPUSH", &key, "zzz"]));
        damages.push(words(&["HSET", &key, "a", "zzz"]));
        damages.push(words(&["ZADD", &key, "inf", "a"]));
    }
    for value in ["zzz", "", "nan", "inf", "-inf", "-5", "1e300"] {
        damages.push(words(&["HSET", "KEY1", "", value]));
        damages.push(words(&["HSET", "KEY1", "a", value]));
        damages.push(words(&["HSET", "KEY1", "b", value]));
    }
    for score in ["inf", "-inf", "-1", "1e300", "0.5"] {
        damages.push(words(&["ZADD", "KEY2", score, "nobody"]));
        damages.push(words(&["ZADD", "KEY2", score, "b"]));
        damages.push(words(&["ZADD", "KEY3", score, "nobody"]));
        damages.push(words(&["ZADD", "KEY3", score, "b"]));
    }
    for state in states {
        damages.push(words(&["EVAL", lists, "1", "KEY0", "SET", state]));
    }
    for (n, damage) in damages.iter().enumerate() {
        let keys: Vec<_> = ["ledger", "records", "hungry", "known"].map(|kind| format!("{{d{n}}}:{kind}")).into();
        let run = |redis: &mut Connection, instance: &str, number: u64, at: u64| {
            let (wanted, at) = asked(number, at);
            let mut args = wanted.args(instance);
            args[0] = at.0.to_string();
            let reply = redis.run(&ask, &keys, &args);
            Leased::read(&numbers(&reply), number).unwrap_or_else(|error| panic!("{damage:?}: {error}: {reply:?}"))
        };
        run(&mut redis, "a", 1, 0);
        run(&mut redis, "b", 1, 0);
        let is_another_type = !matches!(
            (&*damage[0], &*damage[1]),
            ("HSET", "KEY1") | ("ZADD", "KEY2" | "KEY3") | ("SET", "KEY0") | ("EVAL", _)
        );
        let with_keys = |word: &String| match word.strip_prefix("KEY") {
            Some(at) => keys[at.parse::<usize>().unwrap()].clone(),
            None => word.clone(),
        };
        let done: Vec<_> = damage.iter().map(with_keys).collect();
        if is_another_type {
            redis.call(&["DEL", &done[1]]);
        }
        redis.call(&done.iter().map(String::as_str).collect::<Vec<_>>());
        let again = [("a", 2, 200_000), ("b", 2, 250_000), ("a", 3, 400_000), ("b", 3, 400_000)];
        let again = again.map(|(instance, number, at)| run(&mut redis, instance, number, at));
        assert!(again.iter().any(|leased| !leased.due.is_empty()), "{damage:?}: {again:?}");
        // And what is kept then is counted on: it was not lost each time.
        let quota = |leased: &Leased| leased.fills.get(1).map(|fill| fill.tokens);
        assert!(quota(&again[3]) < quota(&again[0]), "{damage:?}: {again:?}");
    }
    // A hold too.
    let keys: Vec<_> = ["ledger", "records", "hungry", "known"].map(|kind| format!("{{hold}}:{kind}")).into();
    redis.call(&["SET", &keys[0], "zzz"]);
    let news = HoldNews::Held { remaining: Duration::from_secs(5), by: HeldBy::Upstream };
    let tell = TellHold { news, days: terms.days(Some(now)), terms, members: Members::ONE };
    assert_eq!(numbers(&redis.run(&hold, &keys, &tell.args()))[1], 5_000_000);
}
