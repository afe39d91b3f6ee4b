//! How far one ledger carries: 1 to 1,000 instances that share a limit, by how far the ledger is away.
//!
//! `cargo run --release -p sopan-core --example instances -- docs/images` prints the tables of docs/instances.md and draws its
//! pictures. It takes a few minutes and comes to the same on every machine.
#![allow(clippy::print_stdout, reason = "a program that is run by hand")]

mod plot;
#[path = "../../tests/fleet/world.rs"]
#[allow(dead_code, reason = "the tests do more with it")]
mod world;

use std::path::Path;

use plot::{Axis, Line, Plot};
use world::{Load, SECOND, Settings, World};

/// Round trips to the ledger, in microseconds.
const AWAY: [u64; 4] = [100, 1_000, 10_000, 50_000];
const INSTANCES: [usize; 4] = [1, 10, 100, 1_000];
/// Turns a second of each instance, for the sizes of leases; at most half of the instances are needed for the fast ones.
const RATES: [(f64, usize); 11] = [
    (0.05, 100),
    (0.2, 100),
    (0.5, 100),
    (1.0, 50),
    (2.0, 50),
    (5.0, 20),
    (10.0, 20),
    (20.0, 10),
    (50.0, 10),
    (200.0, 5),
    (1_000.0, 4),
];

/// What a run came to.
struct Found {
    used: f64,
    burst: f64,
    asks: f64,
    beats: f64,
    /// Turns in an answer.
    lease: f64,
    /// How far the one is from an equal part who is furthest from it.
    unfair: f64,
}

fn run(rate: f64, burst: u32, instances: usize, away: u64, span: u64) -> Found {
    let limit = format!("{rate}/s burst {burst}");
    let mut settings = Settings::new(&[&limit], vec![Load::Greedy(100); instances]);
    // As long there as back, and now and then a tenth more.
    settings.way = (away * 1000 / 2, away * 1000 / 2 + away * 100);
    let mut world = World::new(settings);
    // They all come at once; what is asked is how it goes on.
    let warm = 5 * SECOND;
    world.run_for(warm);
    let (asks, beats, leased) = (world.asks, world.beats, world.sent.len());
    world.run_for(span);
    let sent = world.sent.len() - leased;
    let parts: Vec<_> = (0..instances).map(|at| world.sent_by(at, warm, world.now) as f64).collect();
    let part = sent as f64 / instances as f64;
    let unfair = parts.iter().map(|sent| (sent / part - 1.0).abs()).fold(0.0, f64::max);
    let (asks, beats) = ((world.asks - asks) as f64, (world.beats - beats) as f64);
    Found {
        used: sent as f64 / (rate * span as f64 / SECOND as f64),
        burst: world::burst_of(&world.sent, rate),
        asks: asks / sent as f64,
        beats: beats / sent as f64,
        lease: sent as f64 / asks,
        unfair,
    }
}

fn main() {
    let Some(dir) = std::env::args().nth(1) else {
        println!("say where the pictures go: cargo run --release -p sopan-core --example instances -- docs/images");
        return;
    };
    let dir = Path::new(&dir);
    by_instances(dir);
    by_rate(dir);
    by_speed();
}

fn name(away: u64) -> String {
    if away < 1_000 { format!("{} ms", away as f64 / 1000.0) } else { format!("{} ms", away / 1000) }
}

/// One limit, more and more instances.
fn by_instances(dir: &Path) {
    println!("| instances | away | of the rate | largest burst | asks a request | with beats | furthest from equal |");
    println!("|---|---|---|---|---|---|---|");
    let (mut used, mut unfair) = (Vec::new(), Vec::new());
    for away in AWAY {
        let (mut of_rate, mut parts) = (Vec::new(), Vec::new());
        for instances in INSTANCES {
            // So long that each has 200 turns on average.
            let span = (instances as u64 * 200 / 200).max(30) * SECOND;
            let found = run(200.0, 20, instances, away, span);
            println!(
                "| {instances} | {} | {:.2} % | {:.1} | {:.3} | {:.3} | {:.1} % |",
                name(away),
                found.used * 100.0,
                found.burst,
                found.asks,
                found.asks + found.beats,
                found.unfair * 100.0
            );
            of_rate.push((instances as f64, found.used * 100.0));
            parts.push((instances as f64, found.unfair * 100.0));
        }
        used.push(Line { name: name(away), points: of_rate });
        unfair.push(Line { name: name(away), points: parts });
    }
    Plot {
        title: "200/s burst 20, all greedy: how much of the rate is used",
        x: Axis { title: "instances", log: true, from: 1.0, to: 1_000.0 },
        y: Axis { title: "% of the rate", log: false, from: 90.0, to: 100.0 },
        lines: &used,
        legend: "round trip",
    }
    .write(&dir.join("instances-used.svg"));
    Plot {
        title: "200/s burst 20, all greedy: who is furthest from an equal part",
        x: Axis { title: "instances", log: true, from: 1.0, to: 1_000.0 },
        y: Axis { title: "% of an equal part", log: false, from: 0.0, to: 20.0 },
        lines: &unfair,
        legend: "round trip",
    }
    .write(&dir.join("instances-fair.svg"));
}

/// How many turns a lease has, and so how many round trips a request takes, is a matter of how many turns one instance has.
fn by_rate(dir: &Path) {
    println!();
    println!("| turns a second of each | away | turns in a lease | asks a request | furthest from equal |");
    println!("|---|---|---|---|---|");
    let (mut asks, mut sizes) = (Vec::new(), Vec::new());
    for away in AWAY {
        let (mut trips, mut fair) = (Vec::new(), Vec::new());
        for (each, instances) in RATES {
            let span = (60.0 / each).clamp(20.0, 600.0) as u64 * SECOND;
            let found = run(each * instances as f64, 2, instances, away, span);
            println!(
                "| {each} | {} | {:.1} | {:.3} | {:.1} % |",
                name(away),
                found.lease,
                found.asks,
                found.unfair * 100.0
            );
            trips.push((each, found.asks));
            fair.push((found.lease, found.unfair * 100.0));
        }
        fair.sort_by(|a, b| a.0.total_cmp(&b.0));
        asks.push(Line { name: name(away), points: trips });
        sizes.push(Line { name: name(away), points: fair });
    }
    Plot {
        title: "round trips for one request, by how many an instance sends",
        x: Axis { title: "turns a second of each instance", log: true, from: 0.05, to: 1_000.0 },
        y: Axis { title: "asks a request", log: true, from: 0.01, to: 10.0 },
        lines: &asks,
        legend: "round trip",
    }
    .write(&dir.join("instances-asks.svg"));
    Plot {
        title: "fairness by the size of leases",
        x: Axis { title: "turns in a lease", log: true, from: 0.1, to: 100.0 },
        y: Axis { title: "furthest from an equal part, %", log: false, from: 0.0, to: 100.0 },
        lines: &sizes,
        legend: "round trip",
    }
    .write(&dir.join("instances-leases.svg"));
}

/// One instance is leased at most so many turns with each round trip.
fn by_speed() {
    println!();
    println!("| turns a second | 0.1 ms | 1 ms | 10 ms | 50 ms |");
    println!("|---|---|---|---|---|");
    for rate in [500.0, 1_000.0, 5_000.0, 20_000.0] {
        let used = AWAY.map(|away| format!("{:.1} %", run(rate, 20, 1, away, 5 * SECOND).used * 100.0));
        println!("| {rate} | {} |", used.join(" | "));
    }
}
