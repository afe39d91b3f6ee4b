//! Instances that keep one limit together, while all is well and while Redis or one of them fails. `bench/instances.py` plays
//! more faults, for longer, and measures what is only bounded here.

mod failure;

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use sopan_fake::script::Answer;

use super::ms;
use crate::serve::door::{Scripted, Serve};
use crate::serve::instances::{Arrival, Group, Load, await_mode, refused, warned};
use crate::support::redis::{self, Guarded, Redis};
use crate::support::until;

/// What they keep to, all together.
const RATE: f64 = 100.0;
const BURST: f64 = 10.0;
const LIMIT: &str = "100/s burst 10";
/// How many ask each of them, all as fast as they can.
const CONNECTIONS: [usize; 3] = [2, 6, 18];

/// Never more than one burst above the limit, whatever happens.
#[track_caller]
fn check_limit(what: &str, arrivals: &[Arrival]) {
    let over = refused(arrivals, RATE, 2.0 * BURST);
    assert_eq!(over, 0, "{what}: more than one burst above the limit, of {}", arrivals.len());
}

/// What of the rate was used in a span.
fn used(group: &Group, from: SystemTime, span: Duration) -> f64 {
    group.count(from, from + span) as f64 / (RATE * span.as_secs_f64())
}

/// rd-1, while all is well: greedy instances get equal shares of one limit, and who leaves leaves its share to the others.
#[test]
fn unequal_greed_gets_equal_shares_of_one_limit() {
    if !redis::is_there() {
        return;
    }
    let redis = Redis::start();
    let mut group = Group::start(CONNECTIONS.len(), LIMIT, &format!("url: '{}'", redis.url()));
    let load = Load::start(&group.proxies, &CONNECTIONS);
    thread::sleep(ms(1500));
    let (begun, asked) = (SystemTime::now(), redis.commands(&["eval", "evalsha"]));
    let (span, before) = (ms(4000), group.arrivals().len());
    thread::sleep(span);
    let asked = redis.commands(&["eval", "evalsha"]) - asked;
    let arrivals = group.arrivals();
    check_limit("together", &arrivals);
    let share = used(&group, begun, span);
    assert!(share >= 0.9, "{share} of the rate was used");
    let each = asked as f64 / (arrivals.len() - before) as f64;
    // Three tell five times a second that they live, which is a part of 0.15.
    assert!(each <= 0.4, "{each} questions to Redis for each request");
    let within = |arrival: &&Arrival| (begun..begun + span).contains(&arrival.at);
    let mut shares = [0.0; CONNECTIONS.len()];
    arrivals.iter().filter(within).for_each(|arrival| shares[arrival.by] += 1.0);
    let equal = RATE * span.as_secs_f64() / CONNECTIONS.len() as f64;
    assert!(shares.iter().all(|share| (0.7..1.3).contains(&(share / equal))), "{shares:?}");

    // Two leave, as they do at a restart: the third has the whole rate at once, though nobody was gone for `grace`.
    for gone in [0, 1] {
        group.proxies[gone].program.signal("TERM");
        group.proxies[gone].program.wait();
    }
    let left = SystemTime::now();
    thread::sleep(ms(3000));
    let share = used(&group, left + ms(1000), ms(2000));
    assert!(share >= 0.8, "{share} of the rate was used by the one that is left");
    check_limit("alone", &group.arrivals());
    let seen = load.end();
    let bad: Vec<_> = seen.iter().filter(|seen| seen.by == 2 && !seen.is_good()).collect();
    assert!(bad.is_empty(), "{bad:?}");
}

/// What happens during a load, and what ends it.
struct Fault {
    name: &'static str,
    begin: fn(&mut Scene),
    heal: fn(&mut Scene),
    lasts: Duration,
    /// Which instance is gone for good.
    gone: Option<usize>,
    /// Whether instances notice that Redis is not there, and say so once.
    told: bool,
}

/// What it happens to.
struct Scene {
    redis: Option<Redis>,
    guarded: Option<Guarded>,
    group: Group,
}

impl Scene {
    fn start(has_sentinels: bool) -> Self {
        let guarded = has_sentinels.then(Guarded::start);
        let redis = (!has_sentinels).then(Redis::start);
        let url = guarded.as_ref().map_or_else(|| redis.as_ref().unwrap().url(), Guarded::url);
        let group = Group::start(CONNECTIONS.len(), LIMIT, &format!("url: '{url}', grace: 2s"));
        Self { redis, guarded, group }
    }

    fn redis(&mut self) -> &mut Redis {
        self.redis.as_mut().unwrap()
    }
}

const NOTHING: Fault = Fault { name: "", begin: |_| {}, heal: |_| {}, lasts: Duration::ZERO, gone: None, told: false };

const FAULTS: [Fault; 7] = [
    Fault {
        name: "Redis is killed and started again",
        begin: |scene| scene.redis().kill(),
        heal: |scene| scene.redis().restart(),
        lasts: ms(1500),
        told: true,
        ..NOTHING
    },
    Fault {
        name: "it stands still",
        begin: |scene| scene.redis().stop(),
        heal: |scene| scene.redis().go_on(),
        lasts: ms(3000),
        told: true,
        ..NOTHING
    },
    Fault {
        name: "its scripts are forgotten",
        begin: |scene| drop(scene.redis().ask(&["SCRIPT", "FLUSH"])),
        ..NOTHING
    },
    Fault { name: "all is forgotten", begin: |scene| drop(scene.redis().ask(&["FLUSHALL"])), ..NOTHING },
    Fault {
        name: "its connections are cut",
        begin: |scene| {
            for _ in 0..3 {
                scene.redis().cut();
                thread::sleep(ms(300));
            }
        },
        ..NOTHING
    },
    Fault {
        name: "its replica takes over",
        begin: |scene| scene.guarded.as_mut().unwrap().fail_over(),
        told: true,
        ..NOTHING
    },
    Fault {
        name: "an instance is killed",
        begin: |scene| {
            scene.group.proxies[1].program.0.kill().unwrap();
            scene.group.proxies[1].program.wait();
        },
        lasts: ms(2500),
        gone: Some(1),
        ..NOTHING
    },
];

fn check_fault(fault: &Fault) {
    let mut scene = Scene::start(fault.name == "its replica takes over");
    let load = Load::start(&scene.group.proxies, &CONNECTIONS);
    thread::sleep(ms(1500));
    (fault.begin)(&mut scene);
    thread::sleep(fault.lasts);
    (fault.heal)(&mut scene);
    let healed = SystemTime::now();
    let rest = || scene.group.proxies.iter().enumerate().filter(|(number, _)| Some(*number) != fault.gone);
    for (_, proxy) in rest() {
        await_mode(proxy, "shared");
    }
    thread::sleep(ms(4000).saturating_sub(healed.elapsed().unwrap()));
    let arrivals = scene.group.arrivals();
    check_limit(fault.name, &arrivals);
    let share = used(&scene.group, healed + ms(1000), ms(3000));
    assert!(share >= 0.8, "{}: {share} of the rate was used when it was over", fault.name);
    // Once for each time that it was gone, and not for each request.
    let told: Vec<_> = rest().map(|(_, proxy)| warned(proxy)).collect();
    assert!(told.iter().all(|told| told.len() <= 3), "{}: {told:?}", fault.name);
    assert!(!fault.told || told.iter().all(|told| !told.is_empty()), "{}: {told:?}", fault.name);
    for seen in load.end().iter().filter(|seen| Some(seen.by) != fault.gone) {
        assert!(seen.is_good(), "{}: {seen:?}", fault.name);
        assert!(seen.took < ms(5000), "{}: {seen:?}", fault.name);
    }
}

#[test]
fn whatever_fails_the_limit_is_kept_and_no_request_fails() {
    if !redis::is_there() {
        return;
    }
    // Not all at the same time, which is more than two cores do in time.
    for some in FAULTS.chunks(3) {
        thread::scope(|threads| {
            for fault in some {
                threads.spawn(|| check_fault(fault));
            }
        });
    }
}

#[test]
fn a_pause_that_one_was_asked_for_is_kept_by_all() {
    if !redis::is_there() {
        return;
    }
    const PAUSE: Duration = ms(2000);
    let redis = Redis::start();
    let upstream = Scripted::start(|request| match request.target.as_str() {
        "/full" => Answer::json(429, "{}").header("Retry-After", "2"),
        _ => Answer::json(200, "{}"),
    });
    let settings = format!(
        "upstreams: {{ api: {{ url: '{}', limits: [{LIMIT}], retry: {{ max_retries: 0 }} }} }}\n\
         redis: {{ url: '{}' }}\n",
        upstream.url(),
        redis.url()
    );
    let proxies = [(); 2].map(|()| Serve::start_with(&settings));
    proxies.iter().for_each(|proxy| assert_eq!(proxy.get("/first").status(), 200));
    let asked = Instant::now();
    assert_eq!(proxies[0].get("/full").status(), 429);
    // Who hears of it needs a moment; a message comes long before anything is asked again.
    let held = "sopan_hold_seconds{upstream=\"api\"}";
    until(|| (proxies[1].metric(held) > 0.0).then_some(()));
    assert!(asked.elapsed() < PAUSE, "it came too late");
    assert_eq!(proxies[1].get("/later").status(), 200);
    let waited = upstream.await_target("/later").first_byte_at.into_std() - asked;
    assert!(waited >= PAUSE, "it went on after {waited:?}");

    // Who comes only then hears of it too.
    let asked = Instant::now();
    assert_eq!(proxies[0].get("/full").status(), 429);
    let late = Serve::start_with(&settings);
    assert_eq!(late.get("/latest").status(), 200);
    let waited = upstream.await_target("/latest").first_byte_at.into_std() - asked;
    assert!(waited >= PAUSE, "who came late went on after {waited:?}");
}
