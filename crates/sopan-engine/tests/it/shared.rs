//! Several instances that share their limits through a store, which can fail.

use std::sync::Arc;
use std::time::Duration;

use sopan_engine::Settings;
use sopan_engine::shared::{Fault, GoingAlone, OnStoreFailure, Shared, StoreMode};
use sopan_fake::script::Answer;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tracing::Level;

use crate::support::log::Log;
use crate::support::store::Store;
use crate::support::{Bench, Got, ms, now, s, settled};

/// What a turn may be late by.
const LAPSE: Duration = ms(50);

fn ten_a_second(settings: &mut Settings) {
    settings.lane.limits = vec!["10/s burst 10".parse().unwrap()];
    settings.lane.wait_max = None;
    settings.retry.total_timeout = None;
}

/// Instances in front of one API.
struct Group {
    store: Arc<Store>,
    shared: Vec<Arc<Shared>>,
    benches: Vec<Bench>,
    crowds: Vec<JoinHandle<Got>>,
    begun: Instant,
}

impl Group {
    async fn new(count: usize, alone: GoingAlone) -> Self {
        Self::answering(count, alone, |_| Answer::json(200, "{}")).await
    }

    /// `answer` is told the number of the instance.
    async fn answering(
        count: usize,
        alone: GoingAlone,
        answer: impl Fn(usize) -> Answer + Copy + Send + Sync + 'static,
    ) -> Self {
        let store = Store::new();
        let shared: Vec<_> = (0..count).map(|number| store.instance(&format!("i{number}"), alone)).collect();
        let bench = |(number, shared)| Bench::sharing(shared, move |_| answer(number), ten_a_second);
        let benches: Vec<_> = shared.iter().enumerate().map(bench).collect();
        // So that all of them know of each other.
        sleep(s(1)).await;
        Self { store, shared, benches, crowds: Vec::new(), begun: now() }
    }

    /// Each has so many requests that wait.
    fn crowd(&mut self, each: usize) {
        self.begun = now();
        self.crowds = self.benches.iter().flat_map(|bench| bench.crowd(each)).collect();
    }

    /// When requests arrived, of all or of one.
    fn arrivals(&self, of: impl Fn(usize) -> bool) -> Vec<Duration> {
        let benches = self.benches.iter().enumerate().filter(|(number, _)| of(*number));
        let mut at: Vec<_> = benches
            .flat_map(|(_, bench)| bench.upstream.requests())
            .filter_map(|request| request.first_byte_at.checked_duration_since(self.begun))
            .collect();
        at.sort_unstable();
        at
    }

    fn count(&self, of: impl Fn(usize) -> bool, from: Duration, to: Duration) -> usize {
        self.arrivals(of).into_iter().filter(|at| (from..to).contains(at)).count()
    }

    /// In no span more than `most` and ten a second arrived at all of them.
    #[track_caller]
    fn is_within(&self, most: f64) {
        let at = self.arrivals(|_| true);
        for (first, from) in at.iter().enumerate() {
            for (last, to) in at.iter().enumerate().skip(first) {
                let allowed = most + 10.0 * (*to - *from + LAPSE).as_secs_f64();
                let came = (last - first + 1) as f64;
                assert!(came <= allowed + 1e-6, "{came} from {from:?} to {to:?}, and {allowed} may\n{at:?}");
            }
        }
    }

    fn modes(&self) -> Vec<StoreMode> {
        self.shared.iter().map(|shared| shared.look().mode).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn several_keep_one_limit_and_each_gets_its_part_of_it() {
    let mut group = Group::new(4, GoingAlone::default()).await;
    assert_eq!(group.modes(), [StoreMode::Shared; 4]);
    group.crowd(100);
    sleep(s(20)).await;
    group.is_within(10.0);
    let all = group.count(|_| true, s(0), s(20));
    assert!(all >= 9 + 196, "{all} of 209");
    for one in 0..4 {
        let count = group.count(|number| number == one, s(0), s(20));
        assert!((46..=58).contains(&count), "{one} got {count} of {all}");
    }
    let look = group.shared[0].look();
    assert_eq!((look.seen, look.counted, look.round_trip), (4, 4, Some(ms(2))));
    let asks = group.store.asks();
    // At such a rate each turn is asked for by itself, and some in vain.
    assert!(asks <= 2 * all, "{asks} asks for {all} requests");
}

#[tokio::test(start_paused = true)]
async fn whoever_needs_nothing_leaves_it_to_the_others_and_what_is_busy_hardly_asks() {
    let store = Store::new();
    let shared: Vec<_> = ["busy", "idle"].map(|name| store.instance(name, GoingAlone::default())).into();
    let fast = |settings: &mut Settings| {
        ten_a_second(settings);
        settings.lane.limits = vec!["1000/s burst 20".parse().unwrap()];
    };
    let benches: Vec<_> =
        shared.iter().map(|shared| Bench::sharing(shared, |_| Answer::json(200, "{}"), fast)).collect();
    sleep(s(1)).await;
    let begun = now();
    let crowd = benches[0].crowd(1000);
    for got in crowd {
        assert_eq!(got.await.unwrap().status(), 200);
    }
    let took = now() - begun;
    assert!(took < ms(1_020), "{took:?}");
    let asks = store.asks();
    assert!(asks <= 50, "{asks} asks for 1000 requests");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_gone_costs_a_second_and_then_each_goes_on_at_its_part() {
    for fault in [Fault::Slow(ms(100)), Fault::Unreachable("connection refused".to_owned())] {
        let log = Log::keep();
        let mut group = Group::new(2, GoingAlone::default()).await;
        group.crowd(200);
        sleep(s(5)).await;
        group.store.fails(Some(fault.clone()));
        sleep(s(6)).await;
        assert_eq!(group.modes(), [StoreMode::Alone; 2]);
        // Nobody refuses, and nobody takes what the other may be taking.
        group.is_within(10.0);
        for one in 0..2 {
            let alone = group.count(|number| number == one, s(7), s(11));
            assert!((19..=21).contains(&alone), "{one}: {alone} at 5/s in 4 s");
        }
        group.store.fails(None);
        sleep(s(9)).await;
        assert_eq!(group.modes(), [StoreMode::Shared; 2]);
        // One of them may be back a second before the other, and nothing bunches.
        group.is_within(10.0);
        let after = group.count(|_| true, s(13), s(20));
        assert!(after >= 68, "{after} of 70");
        // Told once, by each.
        let warnings = log.warnings();
        assert_eq!(warnings.len(), 2, "{warnings:#?}");
        let expected = format!("Redis {fault}: this instance goes on at 1 of 2 parts of each limit");
        assert!(warnings.iter().all(|warning| *warning == expected), "{warnings:#?}");
        let back = log.entries().into_iter().filter(|entry| entry.level == Level::INFO);
        let back: Vec<_> =
            back.map(|entry| entry.message).filter(|text| text.starts_with("Redis answers again")).collect();
        assert_eq!(back.len(), 2, "{back:?}");
        assert!(back.iter().all(|text| text.contains("limits are shared by 2 instances")), "{back:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_cut_off_for_long_does_what_it_was_told() {
    for (on_store_failure, mode) in [
        (OnStoreFailure::Share, StoreMode::Alone),
        (OnStoreFailure::Refuse, StoreMode::Refuse),
        (OnStoreFailure::Ignore, StoreMode::Ignore),
    ] {
        let mut group = Group::new(2, GoingAlone { on_store_failure, ..GoingAlone::default() }).await;
        group.crowd(200);
        group.store.fails(Some(Fault::Refused("READONLY".to_owned())));
        sleep(s(12)).await;
        assert_eq!(group.modes(), [mode; 2]);
        let before = group.count(|number| number == 0, s(0), s(12));
        let later = group.benches[0].get("/later");
        match on_store_failure {
            OnStoreFailure::Refuse => {
                let got = later.await;
                let told = (got.status(), got.refused(), got.retry_after());
                assert_eq!(told, (503, "store-unreachable".to_owned(), 1));
                // Those who waited heard of it too.
                for crowd in std::mem::take(&mut group.crowds) {
                    let got = crowd.await.unwrap();
                    assert!(got.status() == 200 || got.refused() == "store-unreachable", "{got:?}");
                }
                group.store.fails(None);
                sleep(s(2)).await;
                assert_eq!(group.benches[0].get("/back").await.status(), 200);
            }
            OnStoreFailure::Share | OnStoreFailure::Ignore => {
                sleep(s(4)).await;
                let rate = (group.count(|number| number == 0, s(0), s(16)) - before) as f64 / 4.0;
                let expected = if mode == StoreMode::Alone { 5.0 } else { 10.0 };
                assert!((rate - expected).abs() <= 0.5, "{rate}/s and not {expected}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_never_reaches_the_store_begins_soon_and_says_what_it_takes_itself_for() {
    for (instances, told, rate) in [
        (None, "it has never been reached, and this instance takes itself for the only one until it is", 10.0),
        (Some(4), "this instance goes on at 1 of 4 parts of each limit", 2.5),
    ] {
        let log = Log::keep();
        let store = Store::new();
        store.fails(Some(Fault::Unreachable("connection refused".to_owned())));
        let shared = store.instance("first", GoingAlone { instances, ..GoingAlone::default() });
        let bench = Bench::sharing(&shared, |_| Answer::json(200, "{}"), ten_a_second);
        let begun = now();
        let _crowd = bench.crowd(100);
        sleep(s(10)).await;
        let at: Vec<_> = bench.upstream.requests().iter().map(|request| request.first_byte_at - begun).collect();
        assert!((ms(400)..=ms(600)).contains(&at[0]), "{at:?}");
        let of_late = at.iter().filter(|at| **at >= s(2)).count() as f64 / 8.0;
        assert!((of_late - rate).abs() <= 0.3, "{of_late}/s and not {rate}");
        let warnings = log.warnings();
        assert!(warnings.len() == 1 && warnings[0].contains(told), "{warnings:?}");
        drop(log);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_one_meets_holds_all_of_them_at_once() {
    let mut group = Group::answering(3, GoingAlone::default(), |number| match number {
        0 => Answer::json(429, "{}").header("Retry-After", "3"),
        _ => Answer::json(200, "{}"),
    })
    .await;
    let first = group.benches[0].crowd(1);
    settled().await;
    sleep(ms(20)).await;
    group.crowd(20);
    sleep(s(2)).await;
    assert_eq!(group.count(|_| true, s(0), s(2)), 0, "held");
    for bench in &group.benches {
        assert!(bench.snapshot().hold.is_some());
    }
    // An operator lets them go, at whatever instance.
    assert_eq!(group.benches[2].engine.release(), Ok(true));
    sleep(ms(20)).await;
    assert!(group.benches.iter().all(|bench| bench.snapshot().hold.is_none()));
    sleep(s(1)).await;
    let went = group.count(|number| number > 0, s(2), ms(3_020));
    assert!((1..=12).contains(&went), "{went} after the pause");
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn one_that_ends_in_order_leaves_its_part_to_the_others_at_once() {
    let mut group = Group::new(2, GoingAlone::default()).await;
    group.crowd(300);
    sleep(s(3)).await;
    let left = group.benches.remove(0);
    group.shared[0].leave().await;
    drop(left);
    let before = group.count(|_| true, s(0), s(3));
    sleep(s(4)).await;
    let after = group.count(|_| true, ms(3_300), s(7));
    assert!(after >= 36, "{after} of 37, {before} before");
    let look = group.shared[1].look();
    assert_eq!((look.seen, look.counted), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_forgets_everything_lets_nobody_exceed_the_rate() {
    let mut group = Group::new(4, GoingAlone::default()).await;
    group.crowd(100);
    sleep(s(5)).await;
    group.store.forgets();
    sleep(s(10)).await;
    group.is_within(10.0);
    let after = group.count(|_| true, s(6), s(15));
    assert!(after >= 86, "{after} of 90");
    assert!(group.shared.iter().all(|shared| shared.look().counted == 4));
}

#[tokio::test(start_paused = true)]
async fn a_part_of_the_store_that_is_gone_concerns_only_the_lanes_that_need_it() {
    // At each of the two instances the log tells it once, of that lane.
    one_ledger_cannot_be_used(Store::of_parts(true), 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_cannot_be_used_starves_no_lane_where_the_store_answers() {
    // A value of another version under its key, no right to it. At first it may be all of the store.
    one_ledger_cannot_be_used(Store::new(), 4).await;
}

/// One of two lanes gets no answers; so many warnings tell of it.
async fn one_ledger_cannot_be_used(store: Arc<Store>, warnings: usize) {
    let log = Log::keep();
    let shared = ["one", "two"].map(|name| store.instance(name, GoingAlone::default()));
    let bench = |shared, name: &str| {
        Bench::sharing(
            shared,
            |_| Answer::json(200, "{}"),
            |settings| {
                ten_a_second(settings);
                name.clone_into(&mut settings.name);
            },
        )
    };
    let [shop, mail] = ["shop", "mail"].map(|name| shared.each_ref().map(|shared| bench(shared, name)));
    sleep(s(1)).await;
    let crowds: Vec<_> = shop.iter().chain(&mail).flat_map(|bench| bench.crowd(200)).collect();
    sleep(s(2)).await;
    store.loses_a_part();
    sleep(s(2)).await;
    // One of the two upstreams goes on alone in both instances, and nothing is heard of that from the other.
    let rates = || async {
        let count = |benches: &[Bench; 2]| benches.iter().map(|bench| bench.upstream.arrivals()).collect::<Vec<_>>();
        let before = [count(&shop), count(&mail)];
        sleep(s(4)).await;
        let after = [count(&shop), count(&mail)];
        [0, 1].map(|upstream| [0, 1].map(|one: usize| after[upstream][one] - before[upstream][one]))
    };
    for rate in rates().await {
        assert!((38..=41).contains(&rate.iter().sum::<usize>()), "{rate:?} in 4 s");
    }
    assert!(shared.iter().all(|shared| shared.look().mode == StoreMode::Shared));
    let told = log.warnings();
    let ending = "Redis refuses: CLUSTERDOWN: this instance goes on at 1 of 2 parts of each limit";
    assert!(told.len() == warnings && told.iter().all(|warning| warning.ends_with(ending)), "{told:#?}");
    store.finds_its_part();
    sleep(s(2)).await;
    for rate in rates().await {
        assert!((38..=41).contains(&rate.iter().sum::<usize>()), "{rate:?} in 4 s");
    }
    let back =
        log.entries().into_iter().filter(|entry| entry.message.ends_with("Redis answers again: its limits are shared"));
    assert_eq!((log.warnings().len(), back.count()), (warnings, 2));
    drop(crowds);
}

#[tokio::test(start_paused = true)]
async fn a_part_of_the_store_that_was_gone_before_all_of_it_is_found_again() {
    let store = Store::of_parts(true);
    let shared = store.instance("one", GoingAlone::default());
    let bench = Bench::sharing(&shared, |_| Answer::json(200, "{}"), ten_a_second);
    sleep(s(1)).await;
    let crowd = bench.crowd(400);
    sleep(s(2)).await;
    store.loses_a_part();
    sleep(s(3)).await;
    store.fails(Some(Fault::Unreachable("connection refused".to_owned())));
    sleep(s(5)).await;
    store.finds_its_part();
    store.fails(None);
    sleep(s(3)).await;
    let before = store.asks();
    sleep(s(2)).await;
    assert!(store.asks() > before, "its lane takes turns of the ledger again");
    drop(crowd);
}

#[tokio::test(start_paused = true)]
async fn of_two_pauses_that_could_not_be_told_the_later_news_is() {
    let group = Group::new(2, GoingAlone::default()).await;
    group.store.fails(Some(Fault::Slow(ms(100))));
    assert!(group.benches[0].engine.hold(s(60)).is_ok());
    sleep(ms(20)).await;
    assert_eq!(group.benches[0].engine.release(), Ok(true));
    sleep(ms(300)).await;
    group.store.fails(None);
    sleep(s(3)).await;
    assert_eq!(group.modes(), [StoreMode::Shared; 2]);
    assert!(group.benches.iter().all(|bench| bench.snapshot().hold.is_none()), "it was released");
}
