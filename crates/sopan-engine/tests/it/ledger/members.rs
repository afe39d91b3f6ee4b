//! The script that keeps the register of instances comes to the same as the core does.

use std::time::Duration;

use sopan_core::share::{Members, Register, Stamp, UNSEEN_AFTER};

use super::{Dice, INSTANCES, SECOND};
use crate::support::redis::{Reply, Server};

const MEMBERS: &str = include_str!("../../../src/store/redis/members.lua");
const GRACE: Duration = Duration::from_secs(10);

#[test]
fn the_script_and_the_core_know_the_same_instances_in_random_histories() {
    let Some(server) = Server::start() else { return };
    let mut redis = server.connect();
    let sha = redis.load(MEMBERS);
    let mut brought_along = 0;
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let (mut register, key) = (Register::default(), format!("members{seed}"));
        let mut now = 1_780_000_000 * SECOND + dice.roll(SECOND);
        for event in 0..100 {
            match dice.roll(20) {
                0 => now += dice.roll(20 * SECOND),
                1 => now -= dice.roll(SECOND),
                2 => {
                    register = Register::default();
                    redis.call(&["DEL", &key]);
                }
                _ => now += dice.roll(SECOND / 4),
            }
            let instance = INSTANCES[dice.roll(INSTANCES.len() as u64) as usize];
            let known = u32::try_from(1 + dice.roll(4)).unwrap();
            let leaves = dice.one_in(20);
            let what = if leaves { "leave" } else { "beat" };
            let micros = |span: Duration| span.as_micros().to_string();
            let valid_until = [0, now - 1, now, now + 1][dice.roll(4) as usize];
            let (spans, numbers) = ([UNSEEN_AFTER, GRACE].map(micros), [known.into(), 60_000, valid_until, now]);
            let words = [instance, what].map(str::to_owned).into_iter().chain(spans);
            let args: Vec<_> = words.chain(numbers.map(|number: u64| number.to_string())).collect();
            let found = redis.run(&sha, std::slice::from_ref(&key), &args);
            if valid_until == now - 1 {
                let expected = [0, 0, i64::try_from(now).unwrap()].map(Reply::Number);
                assert_eq!(found, Reply::List(expected.into()), "history {seed}, event {event}: it came too late");
                continue;
            }
            if leaves {
                register.leave(instance);
                continue;
            }
            let Members { seen, counted } = register.beat_knowing(known, instance, GRACE, Stamp(now));
            let expected =
                [seen.into(), counted.into(), now].map(|number| Reply::Number(i64::try_from(number).unwrap()));
            assert_eq!(found, Reply::List(expected.into()), "history {seed}, event {event}");
            brought_along += u32::from(counted > seen);
        }
    }
    assert!(brought_along > 1000, "{brought_along}");
    assert!(matches!(redis.call(&["PTTL", "members0"]), Reply::Number(1..=60_000)));
}
