//! rd-2: what each instance does while it cannot reach Redis, however that comes about, and that it comes back.

use std::thread;
use std::time::{Duration, SystemTime};

use serde_json::{Value as Json, json};

use crate::serve::door::Serve;
use crate::serve::instances::{Group, Load, Seen, await_mode, warned};
use crate::serve::timed::ms;
use crate::support::get;
use crate::support::redis::{self, Redis, Way};

const RATE: f64 = 40.0;
const LIMIT: &str = "40/s burst 4";
/// For so long an instance keeps to its share, whatever it does then.
const GRACE: &str = "2s";
/// In the last part of an outage all do what the settings say.
const OUTAGE: Duration = ms(4000);
const SETTLED: Duration = ms(2000);

/// How Redis goes away, and comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    StandsStill,
    Killed,
    PacketsLost,
    /// It is not there when the instances are started.
    NotThere,
}

/// What the settings say of it, and what of the rate arrives then.
struct Case {
    how: How,
    policy: &'static str,
    arrives: std::ops::Range<f64>,
}

const CASES: [Case; 6] = [
    Case { how: How::StandsStill, policy: "share", arrives: 0.7..1.05 },
    Case { how: How::StandsStill, policy: "refuse", arrives: 0.0..0.01 },
    Case { how: How::StandsStill, policy: "ignore", arrives: 1.5..2.1 },
    Case { how: How::Killed, policy: "share", arrives: 0.7..1.05 },
    Case { how: How::PacketsLost, policy: "share", arrives: 0.7..1.05 },
    Case { how: How::NotThere, policy: "share", arrives: 0.7..1.05 },
];

/// Both instances together, in the settled part of the outage; then again when Redis is back.
fn check(case: &Case) {
    let name = format!("{:?}, {}", case.how, case.policy);
    let mut redis = Redis::start();
    let way = (case.how == How::PacketsLost).then(|| Way::to(redis.address));
    let address = way.as_ref().map_or(redis.address, |way| way.address);
    if case.how == How::NotThere {
        redis.kill();
    }
    let section = format!("url: 'redis://{address}', instances: 2, grace: {GRACE}, on_store_failure: {}", case.policy);
    let group = Group::start(2, LIMIT, &section);
    let load = Load::start(&group.proxies, &[6, 6]);
    if case.how != How::NotThere {
        thread::sleep(ms(1500));
    }
    match case.how {
        How::StandsStill => redis.stop(),
        How::Killed => redis.kill(),
        How::PacketsLost => way.as_ref().unwrap().lose(true),
        How::NotThere => {}
    }
    let begun = SystemTime::now();
    thread::sleep(OUTAGE);
    for proxy in &group.proxies {
        check_told(&name, proxy, case.policy);
    }
    let settled = begun + SETTLED;
    let arrived = group.count(settled, begun + OUTAGE) as f64 / (RATE * (OUTAGE - SETTLED).as_secs_f64());
    assert!(case.arrives.contains(&arrived), "{name}: {arrived} of the rate arrived");
    match case.how {
        How::StandsStill => redis.go_on(),
        How::Killed | How::NotThere => redis.restart(),
        How::PacketsLost => way.as_ref().unwrap().lose(false),
    }
    for proxy in &group.proxies {
        await_mode(proxy, "shared");
    }
    let back = SystemTime::now();
    thread::sleep(ms(3000));
    let arrived = group.count(back + ms(1000), back + ms(3000)) as f64 / (RATE * 2.0);
    assert!((0.7..1.1).contains(&arrived), "{name}: {arrived} of the rate arrived when it was over");
    for seen in load.end() {
        check_seen(&name, case.policy, &seen);
    }
    for proxy in &group.proxies {
        let told = warned(proxy);
        // Once that it is gone, and once more where the others are not heeded any longer.
        let times = if case.policy == "share" { 1 } else { 2 };
        assert_eq!(told.len(), times, "{name}: {told:?}");
    }
}

/// What it says of itself while it is cut off is what it does.
#[track_caller]
fn check_told(name: &str, proxy: &Serve, policy: &str) {
    let state: Json = serde_json::from_str(&get(proxy.admin, "/state").body).unwrap();
    let allowed = match policy {
        "share" => RATE / 2.0,
        "refuse" => 0.0,
        _ => RATE,
    };
    assert_eq!(
        (&state["store"]["parts"], &state["upstreams"][0]["allowed_per_s"]),
        (&json!(2), &json!(allowed)),
        "{name}"
    );
}

/// Nobody hangs: with six in a line for half of the rate a turn is 0.3 s away, and an outage costs a second at most.
#[track_caller]
fn check_seen(name: &str, policy: &str, seen: &Seen) {
    assert!(seen.took < ms(3000), "{name}: {seen:?}");
    if seen.is_good() {
        return;
    }
    let answer = seen.answer.as_deref().unwrap_or_else(|| panic!("{name}: {seen:?}"));
    assert_eq!(policy, "refuse", "{name}: {answer}");
    assert!(answer.starts_with("HTTP/1.1 503 "), "{name}: {answer}");
    assert!(answer.contains("urn:sopan:store-unreachable"), "{name}: {answer}");
    assert!(answer.to_ascii_lowercase().contains("\r\nretry-after: "), "{name}: {answer}");
}

#[test]
fn without_redis_each_does_what_the_settings_say() {
    if !redis::is_there() {
        return;
    }
    thread::scope(|threads| {
        for case in &CASES {
            threads.spawn(|| check(case));
        }
    });
}
