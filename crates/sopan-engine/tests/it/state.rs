//! What outlives the process: a file as a crash leaves it, or an orderly end, and an engine that goes on from there.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sopan_core::breaker::State;
use sopan_engine::clock::Clock;
use sopan_engine::{Settings, StateFile};
use sopan_fake::script::{Answer, Request, Upstream};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::support::{Bench, get, is_just, is_within, leave_after, ms, s, settled, wall};

/// A file of which every process has a copy: what a crash leaves is what had been written at that moment.
struct World {
    dir: TempDir,
    clock: Clock,
    copies: usize,
    file: StateFile,
}

impl World {
    fn new() -> Self {
        let (dir, clock) = (tempfile::tempdir().unwrap(), Clock::paused(wall()));
        let file = StateFile::open(&dir.path().join("0"), clock).unwrap();
        Self { dir, clock, copies: 0, file }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join(self.copies.to_string())
    }

    fn start(&self, script: impl Fn(&Request) -> Answer + Send + Sync + 'static, limit: &str) -> Bench {
        self.start_with(script, |settings| settings.lane.limits = vec![limit.parse().unwrap()])
    }

    fn start_with(
        &self,
        script: impl Fn(&Request) -> Answer + Send + Sync + 'static,
        change: impl FnOnce(&mut Settings),
    ) -> Bench {
        Bench::keeping(self.file.upstream("shop"), Arc::new(Upstream::in_process(script)), |settings| {
            settings.lane.wait_max = None;
            settings.retry.total_timeout = None;
            change(settings);
        })
    }

    fn crash(&mut self) {
        let from = self.path();
        self.copies += 1;
        std::fs::copy(from, self.path()).unwrap();
        self.file = StateFile::open(&self.path(), self.clock).unwrap();
    }
}

fn fine(_: &Request) -> Answer {
    Answer::json(200, "{}")
}

async fn all_fine(bench: &Bench, count: usize) {
    for got in bench.crowd(count) {
        assert_eq!(got.await.unwrap().status(), 200);
    }
}

/// How many arrived at about this time of the bench.
fn at(bench: &Bench, time: Duration) -> usize {
    bench.arrivals().iter().filter(|at| **at >= time && **at < time + s(1)).count()
}

const MINUTES: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn what_left_before_a_crash_counts_after_it() {
    let mut world = World::new();
    let first = world.start(fine, "10 per 1h");
    for _ in 0..4 {
        first.get("/x").await;
        sleep(s(1)).await;
    }
    sleep(20 * MINUTES).await;
    world.crash();
    let second = world.start(fine, "10 per 1h");
    all_fine(&second, 12).await;
    assert_eq!(at(&second, s(0)), 6);
    // That the last one had left was not on file: it counts as if it had at the start.
    let hour = 40 * MINUTES + ms(100);
    assert_eq!((at(&second, hour - s(4)), at(&second, hour - s(3)), at(&second, hour - s(2))), (1, 1, 1));
    assert_eq!(at(&second, 60 * MINUTES), 3);
}

#[tokio::test(start_paused = true)]
async fn after_an_orderly_end_all_counts_when_it_left() {
    let mut world = World::new();
    let first = world.start(fine, "1000 per 1h");
    all_fine(&first, 1000).await;
    first.engine.close();
    sleep(20 * MINUTES).await;
    world.crash();
    let second = world.start(fine, "1000 per 1h");
    all_fine(&second, 1).await;
    is_just(second.arrivals()[0], 40 * MINUTES + ms(100));
}

#[tokio::test(start_paused = true)]
async fn what_was_under_way_counts_as_gone() {
    let mut world = World::new();
    let first = world.start(|_| Answer::nothing(), "5 per 1h");
    leave_after(s(5), first.calling(get("/x"), 1)).await;
    let _slow = first.crowd(2);
    settled().await;
    world.crash();
    let second = world.start(fine, "5 per 1h");
    all_fine(&second, 3).await;
    assert_eq!((at(&second, s(0)), at(&second, 59 * MINUTES + s(55))), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_quota_of_the_calendar_goes_on_where_it_was() {
    let mut world = World::new();
    // It is noon.
    let limit = "10 per day at 13:00 UTC";
    all_fine(&world.start(fine, limit), 4).await;
    for left in [6, 0] {
        world.crash();
        let next = world.start(fine, limit);
        all_fine(&next, left + 1).await;
        assert_eq!(at(&next, s(0)), left);
        is_just(next.arrivals()[left], 60 * MINUTES + ms(100));
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_quota_starts_full() {
    let mut world = World::new();
    all_fine(&world.start(fine, "10 per 1h"), 10).await;
    world.crash();
    let second = world.start(fine, "12 per 1h");
    all_fine(&second, 12).await;
    assert_eq!(at(&second, s(0)), 12);
}

#[tokio::test(start_paused = true)]
async fn what_was_used_is_not_forgotten_while_an_upstream_is_only_observed() {
    let mut world = World::new();
    all_fine(&world.start(fine, "10 per 1h"), 10).await;
    world.crash();
    let observed = world.start_with(fine, |settings| {
        settings.lane.limits = vec!["10 per 1h".parse().unwrap()];
        settings.observe = true;
    });
    world.file.begin().unwrap();
    all_fine(&observed, 1).await;
    sleep(20 * MINUTES).await;
    world.crash();
    let third = world.start(fine, "10 per 1h");
    all_fine(&third, 1).await;
    is_just(third.arrivals()[0], 40 * MINUTES + ms(100));
}

#[tokio::test(start_paused = true)]
async fn a_pause_goes_on() {
    let mut world = World::new();
    let told = |request: &Request| match request.number {
        1 => Answer::status(429).header("Retry-After", "100"),
        _ => Answer::json(200, "{}"),
    };
    let first = world.start(told, "10 per 1s");
    assert_eq!(first.get("/x").await.status(), 429);
    for (slept, left) in [(30, 70), (30, 40)] {
        sleep(s(slept)).await;
        world.crash();
        let next = world.start(fine, "10 per 1s");
        let held = next.snapshot().hold.unwrap();
        is_within(held, s(left) - ms(1), s(left) + ms(1));
    }
    let last = world.start(fine, "10 per 1s");
    all_fine(&last, 1).await;
    is_just(last.arrivals()[0], s(40));
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_stays_open_and_is_half_open_then() {
    let mut world = World::new();
    let three = |settings: &mut Settings| {
        settings.breaker.on = true;
        settings.breaker.failures = 3;
        settings.breaker.min_span = s(0);
        settings.breaker.open_for = s(20);
        settings.retry.max_retries = 0;
    };
    let first = world.start_with(|_| Answer::status(500), three);
    for _ in 0..3 {
        first.get("/x").await;
    }
    sleep(s(5)).await;
    world.crash();
    let second = world.start_with(fine, three);
    assert_eq!(second.get("/x").await.status(), 503);
    sleep(s(16)).await;
    assert_eq!(second.snapshot().breaker, State::HalfOpen { free: 1 });
    world.crash();
    let third = world.start_with(fine, three);
    assert_eq!(third.snapshot().breaker, State::HalfOpen { free: 1 });
    assert_eq!(third.get("/x").await.status(), 200);
    world.crash();
    assert_eq!(world.start_with(fine, three).snapshot().breaker, State::Closed);
}
