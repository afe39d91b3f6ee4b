//! Many instances that share a limit keep it together, whatever happens to them, to the way between them and to the ledger.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod world;

use std::time::Duration;

use sopan_core::share::{LAPSE, Mode, OnStoreFailure, TIMEOUT};
use world::*;

/// What 200/s burst 20 lets at once: its headroom left unused, and what may be late.
fn burst(rate: f64, burst: f64) -> f64 {
    burst - 1.0 + rate * LAPSE.as_secs_f64() + 1.0
}

#[track_caller]
fn check_fair(world: &World, nodes: std::ops::Range<usize>, from: u64, within: f64) {
    let sent: Vec<_> = nodes.map(|at| world.sent_by(at, from, world.now) as f64).collect();
    let mean = sent.iter().sum::<f64>() / sent.len() as f64;
    for sent in &sent {
        assert!((sent / mean - 1.0).abs() <= within, "{sent} of {mean} on average");
    }
}

#[test]
fn four_greedy_instances_use_the_whole_rate_in_equal_parts_with_few_round_trips() {
    let loads = vec![Load::Greedy(500), Load::Greedy(50), Load::Greedy(200), Load::Greedy(100)];
    let mut world = World::new(Settings::new(&["200/s burst 20"], loads));
    world.run_for(30 * SECOND);
    let sent = world.sent.len() as f64;
    assert!(sent >= 0.99 * (20.0 + 200.0 * 30.0), "{sent} sent");
    assert!(burst_of(&world.sent, 200.0) <= 20.0);
    check_fair(&world, 0..4, 0, 0.1);
    let (asks, all) = (world.asks as f64 / sent, (world.asks + world.beats) as f64 / sent);
    assert!(asks <= 0.1 && all <= 0.2, "{asks:.3} asks, {all:.3} round trips a request");
    assert_eq!(world.lapsed, 0);
}

#[test]
fn faults() {
    let loads = || vec![Load::Greedy(200), Load::Greedy(50), Load::Greedy(100), Load::Greedy(100)];
    let run = |name: &str, act: &dyn Fn(&mut World)| {
        let mut world = World::new(Settings::new(&["200/s burst 20"], loads()));
        world.run_for(5 * SECOND);
        act(&mut world);
        let sent = world.sent.len() as f64;
        let seconds = world.now as f64 / SECOND as f64;
        let by: Vec<_> = (0..world.nodes.len()).map(|at| world.sent_by(at, 5 * SECOND, world.now)).collect();
        let mut per_s: Vec<usize> = vec![0; seconds as usize + 1];
        world.sent.iter().for_each(|(at, _)| per_s[(at / SECOND) as usize] += 1);
        println!(
            "{name}: {:.4} of the rate, burst {:.1}, lapsed {}, by {by:?} {per_s:?}",
            sent / (19.0 + 199.8 * seconds),
            burst_of(&world.sent, 200.0),
            world.lapsed
        );
    };
    run("nothing", &|w| w.run_for(20 * SECOND));
    run("kill", &|w| {
        w.kill(1);
        w.run_for(20 * SECOND)
    });
    run("drain", &|w| {
        w.drain(1);
        w.run_for(20 * SECOND)
    });
    run("join", &|w| {
        w.join(Load::Greedy(100));
        w.run_for(20 * SECOND)
    });
    run("stop one", &|w| {
        w.stop(1, 5 * SECOND);
        w.run_for(20 * SECOND)
    });
    run("server down 5 s", &|w| {
        w.is_down = true;
        w.run_for(5 * SECOND);
        w.is_down = false;
        w.run_for(10 * SECOND)
    });
    run("server down 20 s", &|w| {
        w.is_down = true;
        w.run_for(20 * SECOND);
        w.is_down = false;
        w.run_for(10 * SECOND)
    });
    run("server down 5 s, flushed", &|w| {
        w.is_down = true;
        w.run_for(5 * SECOND);
        w.flush();
        w.is_down = false;
        w.run_for(10 * SECOND)
    });
    run("flush", &|w| {
        w.flush();
        w.run_for(10 * SECOND)
    });
    run("partition of one 5 s", &|w| {
        w.nodes[0].is_cut_off = true;
        w.run_for(5 * SECOND);
        w.nodes[0].is_cut_off = false;
        w.run_for(10 * SECOND)
    });
    run("partition of one 20 s", &|w| {
        w.nodes[0].is_cut_off = true;
        w.run_for(20 * SECOND);
        w.nodes[0].is_cut_off = false;
        w.run_for(10 * SECOND)
    });
    run("hiccup 150 ms", &|w| {
        w.is_down = true;
        w.run_for(150 * MS);
        w.is_down = false;
        w.run_for(10 * SECOND)
    });
    run("slow way", &|w| {
        w.way = (0, 40 * MS);
        w.run_for(10 * SECOND);
    });
    run("server clock back 2 s", &|w| {
        w.server_ahead = -2_000_000;
        w.run_for(10 * SECOND);
    });
    run("server clock on 2 s", &|w| {
        w.server_ahead = 2_000_000;
        w.run_for(10 * SECOND);
    });
    run("hold", &|w| {
        w.hold(0, Duration::from_secs(2));
        w.run_for(10 * SECOND);
    });
}
