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
fn probe() {
    for (limits, loads) in [
        (vec!["200/s burst 20"], vec![Load::Greedy(500), Load::Greedy(50), Load::Rate(10.0), Load::Rate(30.0)]),
        (vec!["200/s burst 20"], vec![Load::Greedy(500), Load::Rate(150.0), Load::Rate(10.0)]),
        (vec!["200/s burst 20"], vec![Load::Rate(30.0); 4]),
        (vec!["200/s"], vec![Load::Greedy(100); 4]),
        (vec!["10/s"], vec![Load::Greedy(100); 4]),
        (vec!["1/s"], vec![Load::Greedy(100); 5]),
        (vec!["1000/s burst 10"], vec![Load::Greedy(1000); 4]),
        (vec!["5000/s burst 10"], vec![Load::Greedy(1000); 4]),
        (vec!["50 per 1s"], vec![Load::Greedy(100); 4]),
        (vec!["500 per 10s", "100/s burst 20"], vec![Load::Greedy(100); 4]),
        (vec!["200/s burst 20"], vec![Load::Greedy(20); 40]),
    ] {
        let n = loads.len();
        let mut world = World::new(Settings::new(&limits, loads.clone()));
        world.run_for(30 * SECOND);
        let sent = world.sent.len() as f64;
        let by: Vec<_> = (0..n.min(8)).map(|at| world.sent_by(at, 0, world.now)).collect();
        let waits: Vec<_> = (0..n.min(8))
            .map(|at| world.nodes[at].waited as f64 / 1e6 / world.nodes[at].sent.max(1) as f64)
            .map(|w| format!("{w:.1}"))
            .collect();
        println!(
            "{limits:?} {n}: sent {sent}, asks {:.3}, lapsed {}, by {by:?} wait {waits:?}",
            world.asks as f64 / sent,
            world.lapsed
        );
    }
}
