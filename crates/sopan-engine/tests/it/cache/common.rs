//! Several instances with their answers in common: what one has, or makes untrue, the others have too, or have no more.

use std::sync::Arc;
use std::time::Duration;

use sopan_core::policy::CachePolicy;
use sopan_engine::{CacheSettings, DiskSettings, Purge, Settings};
use tokio::time::{sleep, timeout};

use super::{Stage, caching};
use crate::support::commons::{Commons, Link, Way};
use crate::support::log::Log;
use crate::support::{TICK, is_within, leave_after, ms, s, settled};

const NONE: Duration = Duration::ZERO;

/// Instances, each with an upstream of its own, so that it can be told which one has asked.
struct Fleet {
    commons: Arc<Commons>,
    links: Vec<Arc<Link>>,
    stages: Vec<Stage>,
}

impl Fleet {
    /// So many, in step.
    async fn new(count: u64) -> Self {
        Self::with(count, |_| {}).await
    }

    async fn with(count: u64, change: impl Fn(&mut CachePolicy)) -> Self {
        let mut fleet = Self { commons: Commons::new(), links: Vec::new(), stages: Vec::new() };
        for _ in 0..count {
            fleet.add(NONE, caching(&change));
        }
        fleet.in_step().await;
        fleet
    }

    /// Waits until all are.
    async fn in_step(&self) {
        while !self.stages.iter().all(is_in_step) {
            heard().await;
        }
    }

    fn add(&mut self, ahead: Duration, change: impl FnOnce(&mut Settings)) {
        self.add_with(ahead, &CacheSettings::default(), change);
    }

    fn add_with(&mut self, ahead: Duration, size: &CacheSettings, change: impl FnOnce(&mut Settings)) {
        let link = self.commons.link();
        let instance = self.links.len() as u64 + 1;
        self.stages.push(Stage::in_common(Arc::clone(&link), instance, ahead, size, change));
        self.links.push(link);
    }

    /// Plays these lines one after the other: at which instance, what is asked, what the upstream answers that one, and what the
    /// client gets.
    async fn play(&self, lines: &[(usize, &str, &str, &str)]) -> &Self {
        for (at, asked, answers, expected) in lines {
            let told = self.stages[*at].line(asked, answers).await;
            assert_eq!(told, *expected, "{at}: {asked}");
        }
        self
    }
}

fn is_in_step(stage: &Stage) -> bool {
    stage.bench.cache.usage().commons.unwrap().is_in_step
}

/// Waits until what was told is heard, and done, also on other threads: as long as those work the clock stands still.
async fn heard() {
    sleep(ms(1)).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_stored_by_one_is_a_hit_on_another() {
    let fleet = Fleet::new(3).await;
    fleet
        .play(&[
            (0, "GET /a", "200 | max-age=60", "200 v1 miss"),
            (1, "GET /a", "-", "200 v1 hit age=0"),
            (1, "GET /a", "-", "200 v1 hit age=0"),
            (2, "HEAD /a", "-", "200 hit age=0"),
            (1, "GET /a | Range: bytes=0-0", "-", "206 v hit age=0"),
            // To another instance, of which nothing is there at hand.
            (0, "GET /b", "200 | max-age=60", "200 v2 miss"),
            (2, "GET /b | Range: bytes=1-1", "-", "206 2 hit age=0"),
            (1, "GET /b | Cache-Control: only-if-cached", "-", "200 v2 hit age=0"),
            (1, "GET /c | Cache-Control: only-if-cached", "-", "504 only-if-cached"),
        ])
        .await;
    let saved = fleet.stages[1].bench.seen.ended();
    assert!(saved.iter().filter(|ended| ended.what.ends_with("/a 200")).all(|ended| ended.saved_a_token));
    // What is at hand is not asked for.
    let before = fleet.commons.fetches();
    fleet.play(&[(0, "GET /a", "-", "200 v1 hit age=0"), (1, "GET /a", "-", "200 v1 hit age=0")]).await;
    assert_eq!(fleet.commons.fetches(), before);
}

/// What cannot be answered from a store does not ask the server.
#[tokio::test(start_paused = true)]
async fn nobody_is_asked_in_vain() {
    let fleet = Fleet::new(2).await;
    fleet.play(&[(0, "GET /a", "200 | max-age=60", "200 v1 miss")]).await;
    for (asked, answer, expected) in [
        ("POST /a", "404", 0),
        ("GET /a | Cache-Control: no-cache", "200 | max-age=60", 0),
        ("GET /a | If-Match: \"x\"", "200", 0),
        ("GET /new", "200 | no-store", 1),
        // The last answer was for nobody else.
        ("GET /new", "200 | no-store", 0),
        ("GET /each", "200 | no-cache | ETag: \"a\"", 1),
        // One that is to be asked about each time is no younger anywhere.
        ("GET /each", "304", 0),
    ] {
        let before = fleet.commons.fetches();
        fleet.stages[0].line(asked, answer).await;
        assert_eq!(fleet.commons.fetches() - before, expected, "{asked} {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_private_answer_is_found_by_its_owner_at_any_instance() {
    let fleet = Fleet::new(3).await;
    let (ann, bob) = ("GET /me | Authorization: ann", "GET /me | Authorization: bob");
    fleet
        .play(&[
            (0, ann, "200 | private, max-age=60", "200 v1 miss"),
            (1, bob, "200 | private, max-age=60", "200 v1 miss"),
            (1, "GET /me", "200 | private, max-age=60", "200 v2 miss"),
            (1, ann, "-", "200 v1 hit age=0"),
            (0, bob, "-", "200 v1 hit age=0"),
            (2, bob, "-", "200 v1 hit age=0"),
            (2, ann, "-", "200 v1 hit age=0"),
            (0, "GET /me | Host: other.test | Authorization: ann", "200 | private, max-age=60", "200 v2 miss"),
            (0, "GET /de | Accept-Language: de", "200 | max-age=60 | Vary: Accept-Language", "200 v3 miss"),
            (1, "GET /de | Accept-Language: en", "200 | max-age=60 | Vary: Accept-Language", "200 v3 miss"),
            (1, "GET /de | Accept-Language: de", "-", "200 v3 hit age=0"),
        ])
        .await;
}

/// Each clock shows something else, the server's too.
#[tokio::test(start_paused = true)]
async fn an_answer_is_as_old_as_it_is_whatever_the_clocks_show() {
    for (one, other) in [(0, 0), (0, 7200), (7200, 0)] {
        let mut fleet = Fleet::new(0).await;
        fleet.add(s(one), caching(|_| {}));
        fleet.add(s(other), caching(|_| {}));
        fleet.in_step().await;
        fleet.play(&[(0, "GET /a", "200 | max-age=60 | Date: Tue, 10 Mar 2026 12:00:00 GMT", "200 v1 miss")]).await;
        // By its own clock that is two hours old, and has been so long on the way.
        if one > 0 {
            continue;
        }
        sleep(s(20)).await;
        fleet.play(&[(1, "GET /a", "-", "200 v1 hit age=20")]).await;
        sleep(s(41)).await;
        fleet.play(&[(1, "GET /a", "200 | max-age=60", "200 v1 miss")]).await;
        sleep(s(2)).await;
        // The other has an old one, and gets a new one.
        fleet.play(&[(0, "GET /a", "-", "200 v1 hit age=2")]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_confirmed_at_one_is_fresh_at_another() {
    let fleet = Fleet::new(2).await;
    fleet
        .play(&[(0, "GET /a", "200 | max-age=60 | ETag: \"a\"", "200 v1 miss"), (1, "GET /a", "-", "200 v1 hit age=0")])
        .await;
    sleep(s(61)).await;
    fleet
        .play(&[(0, "GET /a", "304 | max-age=60", "200 v1 revalidated age=0"), (1, "GET /a", "-", "200 v1 hit age=0")])
        .await;
}

/// A write through one, and what an operator throws away.
#[tokio::test(start_paused = true)]
async fn what_is_made_untrue_at_one_is_a_miss_on_all() {
    let all = ["/v1/a", "/v1/a?x", "/v10", "/"];
    let tables: [(&str, Option<Purge<'_>>, &[&str]); 5] = [
        ("PUT /v1/a", None, &["/v1/a"]),
        ("", Some(Purge::Url { upstream: "default", target: "/v1/a?x" }), &["/v1/a?x"]),
        ("", Some(Purge::Prefix { upstream: "default", path: "/v1" }), &["/v1/a", "/v1/a?x"]),
        ("", Some(Purge::Prefix { upstream: "default", path: "" }), &all),
        ("", Some(Purge::All), &all),
    ];
    for (write, purge, gone) in tables {
        let fleet = Fleet::new(3).await;
        for target in all {
            let asked = format!("GET {target}");
            fleet.stages[0].line(&asked, "200 | max-age=600").await;
            fleet.stages[1].line(&asked, "-").await;
        }
        match purge {
            Some(purge) => {
                let purged = fleet.stages[2].bench.cache.purge(purge).await;
                assert_eq!(purged.is_told, Some(true));
            }
            None => drop(fleet.stages[2].line(write, "204").await),
        }
        heard().await;
        for target in all {
            let is_left = !gone.contains(&target);
            // The third has nothing but what the server gives it.
            for stage in &fleet.stages {
                assert_eq!(stage.has(&format!("GET {target}")).await, is_left, "{write} {purge:?} {target}");
            }
        }
        // What comes now is stored, and shared.
        let asked = format!("GET {}", gone[0]);
        fleet.play(&[(1, &asked, "200 | max-age=600 | = new", "200 new miss")]).await;
        fleet.play(&[(2, &asked, "-", "200 new hit age=0"), (0, &asked, "-", "200 new hit age=0")]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_for_before_a_write_elsewhere_is_not_stored_after_it() {
    let fleet = Fleet::new(2).await;
    fleet.stages[0].will_answer("200 | max-age=600 | after 5");
    let asking = fleet.stages[0].spawn("GET /a", 1);
    settled().await;
    fleet.play(&[(1, "PUT /a", "204", "204 bypass")]).await;
    assert_eq!(asking.await.unwrap().text(), "v1");
    settled().await;
    assert_eq!((fleet.stages[0].has("GET /a").await, fleet.stages[1].has("GET /a").await), (false, false));
}

/// What was asked for in common before a write is not taken after it.
#[tokio::test(start_paused = true)]
async fn what_is_under_way_from_the_server_when_it_becomes_untrue_is_not_taken() {
    let fleet = Fleet::new(2).await;
    fleet.play(&[(0, "GET /a", "200 | max-age=600", "200 v1 miss")]).await;
    fleet.links[1].set(Way::Late(ms(50)));
    fleet.stages[1].will_answer("200 | max-age=600 | = new");
    let asking = fleet.stages[1].spawn("GET /a", 1);
    sleep(ms(20)).await;
    fleet.play(&[(0, "PUT /a", "204", "204 bypass")]).await;
    assert_eq!(asking.await.unwrap().text(), "new");
    fleet.play(&[(1, "GET /a", "-", "200 new hit age=0")]).await;
}

/// What is at hand may be younger than what the others have.
#[tokio::test(start_paused = true)]
async fn an_older_answer_takes_the_place_of_none() {
    let fleet = Fleet::new(2).await;
    fleet.play(&[(0, "GET /a", "200 | max-age=10 | ETag: \"a\"", "200 v1 miss")]).await;
    fleet.links[1].set(Way::Cut);
    sleep(s(1)).await;
    fleet.play(&[(1, "GET /a", "200 | max-age=10 | ETag: \"b\"", "200 v1 miss")]).await;
    fleet.links[1].set(Way::Open);
    sleep(s(12)).await;
    let before = fleet.commons.fetches();
    fleet.play(&[(1, "GET /a", "304", "200 v1 revalidated age=0")]).await;
    assert_eq!(fleet.commons.fetches(), before + 1);
    assert_eq!(fleet.stages[1].last_asked_with("if-none-match").as_deref(), Some("\"b\""));
}

/// A client that hangs up before the others are told leaves no old answer to them.
#[tokio::test(start_paused = true)]
async fn who_leaves_after_a_write_leaves_it_told() {
    let fleet = Fleet::new(2).await;
    fleet.play(&[(0, "GET /a", "200 | max-age=600", "200 v1 miss"), (1, "GET /a", "-", "200 v1 hit age=0")]).await;
    fleet.links[0].set(Way::Slow(ms(50)));
    fleet.stages[0].will_answer("204");
    leave_after(ms(20), fleet.stages[0].ask("PUT /a")).await;
    sleep(ms(200)).await;
    assert_eq!((fleet.stages[0].has("GET /a").await, fleet.stages[1].has("GET /a").await), (false, false));
}

/// One that does not hear of a write may not store what was before it for the others.
#[tokio::test(start_paused = true)]
async fn who_has_not_heard_of_a_write_stores_nothing_for_the_others() {
    let fleet = Fleet::new(2).await;
    fleet.links[0].set(Way::Deaf);
    fleet.play(&[(1, "PUT /a", "204", "204 bypass"), (0, "GET /a", "200 | max-age=600", "200 v1 miss")]).await;
    assert_eq!(fleet.commons.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_is_cut_off_goes_on_with_its_own_and_is_not_held_up() {
    let fleet = Fleet::new(2).await;
    fleet.play(&[(0, "GET /a", "200 | max-age=600", "200 v1 miss"), (1, "GET /a", "-", "200 v1 hit age=0")]).await;
    fleet.links[1].set(Way::Slow(s(5)));
    // The first one finds out.
    let got = fleet.stages[1].ask("GET /b | Cache-Control: only-if-cached").await;
    assert_eq!(got.status(), 504);
    is_within(got.head_at, ms(100), ms(100) + 2 * TICK);
    let begun = crate::support::now();
    fleet.play(&[(1, "GET /b", "200 | max-age=600", "200 v1 miss"), (1, "GET /a", "-", "200 v1 hit age=0")]).await;
    assert_eq!(begun.elapsed(), NONE);
    assert!(!is_in_step(&fleet.stages[1]));
    // What it has stored meanwhile is its own.
    fleet.links[1].set(Way::Open);
    sleep(s(7)).await;
    assert!(is_in_step(&fleet.stages[1]));
    fleet
        .play(&[
            (0, "GET /b", "200 | max-age=600", "200 v2 miss"),
            // Nothing was made untrue meanwhile.
            (1, "GET /a", "-", "200 v1 hit age=7"),
        ])
        .await;
}

#[tokio::test(start_paused = true)]
async fn who_has_missed_something_drops_what_it_has() {
    // Its connections are cut; or what is told does not come, and nobody says so.
    for way in [Way::Cut, Way::Deaf] {
        let fleet = Fleet::new(2).await;
        for asked in ["GET /a", "GET /b"] {
            fleet
                .play(&[(0, asked, "200 | max-age=600", if asked == "GET /a" { "200 v1 miss" } else { "200 v2 miss" })])
                .await;
            fleet.stages[1].line(asked, "-").await;
        }
        fleet.links[1].set(way);
        settled().await;
        fleet.play(&[(0, "PUT /a", "204", "204 bypass")]).await;
        sleep(ms(900)).await;
        if way == Way::Cut {
            // As long as it hears of nobody it has what it had.
            assert!(fleet.stages[1].has("GET /a").await);
            fleet.links[1].set(Way::Open);
            sleep(ms(1100)).await;
        }
        assert!(!fleet.stages[1].has("GET /a").await, "{way:?}");
        // It was dropped here, and not there.
        fleet.links[1].set(Way::Open);
        sleep(s(2)).await;
        let before = fleet.commons.fetches();
        assert!(fleet.stages[1].has("GET /b").await, "{way:?}");
        assert_eq!(fleet.commons.fetches(), before + 1, "{way:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_made_untrue_while_one_was_cut_off_is_told_when_it_is_back() {
    for count in [1, 2000] {
        let fleet = Fleet::new(2).await;
        fleet.play(&[(0, "GET /a", "200 | max-age=600", "200 v1 miss"), (1, "GET /a", "-", "200 v1 hit age=0")]).await;
        fleet.links[0].set(Way::Cut);
        fleet.play(&[(0, "PUT /a", "204", "204 bypass")]).await;
        for i in 1..count {
            fleet.stages[0].line(&format!("DELETE /{i}"), "204").await;
        }
        let purged = fleet.stages[0].bench.cache.purge(Purge::Url { upstream: "default", target: "/x" }).await;
        assert_eq!(purged.is_told, Some(false));
        assert_eq!((fleet.stages[0].has("GET /a").await, fleet.stages[1].has("GET /a").await), (false, true));
        fleet.links[0].set(Way::Open);
        sleep(ms(1500)).await;
        assert_eq!(
            (fleet.stages[0].has("GET /a").await, fleet.stages[1].has("GET /a").await),
            (false, false),
            "{count}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_lost_what_it_knew_brings_nothing_back() {
    let fleet = Fleet::new(2).await;
    let fresh = "200 | max-age=600";
    fleet.play(&[(0, "GET /a", fresh, "200 v1 miss"), (1, "GET /a", "-", "200 v1 hit age=0")]).await;
    // All of it.
    fleet.commons.flush();
    sleep(s(3)).await;
    for stage in &fleet.stages {
        assert!(!stage.has("GET /a").await, "after a loss of all");
        assert!(is_in_step(stage));
    }
    fleet.play(&[(0, "GET /a", fresh, "200 v2 miss"), (1, "GET /a", "-", "200 v2 hit age=0")]).await;
    // The latest: a write, of which both have heard, and that it does not know of any more, but of a later one.
    let before = fleet.commons.purges();
    fleet.play(&[(0, "PUT /a", "204", "204 bypass"), (0, "GET /a", fresh, "200 v4 miss")]).await;
    fleet.commons.forget_latest(&before);
    heard().await;
    fleet.play(&[(1, "PUT /b", "204", "204 bypass")]).await;
    sleep(s(3)).await;
    for stage in &fleet.stages {
        assert!(!stage.has("GET /a").await);
        assert!(is_in_step(stage));
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_not_what_was_written_is_a_miss_and_goes() {
    type Change = fn(&mut Vec<u8>);
    let changes: [Change; 4] =
        [|value| value[0] = 9, |value| value[30] ^= 1, |value| value.truncate(20), |value| *value = b"{}".to_vec()];
    for change in changes {
        let fleet = Fleet::new(2).await;
        fleet.play(&[(0, "GET /a", "200 | max-age=600", "200 v1 miss")]).await;
        fleet.commons.damage(change);
        fleet.play(&[(1, "GET /a", "200 | no-store", "200 v1 miss")]).await;
        assert_eq!(fleet.commons.count(), 0);
        assert_eq!(fleet.stages[1].bench.cache.usage().commons.unwrap().damaged, 1);
    }
}

/// Only whole answers that are not too large, and they take less than they are long.
#[tokio::test(start_paused = true)]
async fn what_is_shared_is_bounded() {
    let fleet = Fleet::new(1).await;
    let long = "{\"id\": 17}, ".repeat(1 << 17);
    let small = "{\"id\": 17}, ".repeat(1 << 10);
    fleet.stages[0].line("GET /long", &format!("200 | max-age=600 | = {long}")).await;
    fleet.stages[0].line("GET /part | Range: bytes=0-1", "206 | max-age=600 | Content-Range: bytes 0-1/9").await;
    assert_eq!(fleet.commons.count(), 0);
    fleet.stages[0].line("GET /small", &format!("200 | max-age=600 | = {small}")).await;
    assert!(fleet.commons.only().len() < small.len() / 10);
}

#[tokio::test(start_paused = true)]
async fn of_those_who_ask_at_several_instances_one_goes_to_the_upstream() {
    let fleet = Fleet::new(3).await;
    fleet.stages[0].will_answer("200 | max-age=60 | after 3");
    let first = fleet.stages[0].spawn("GET /a", 1);
    settled().await;
    let others: Vec<_> = (0..10).map(|client| fleet.stages[1 + client % 2].spawn("GET /a", client as u128)).collect();
    assert_eq!(first.await.unwrap().text(), "v1");
    for other in others {
        let got = other.await.unwrap();
        assert_eq!(got.text(), "v1");
        is_within(got.head_at, s(3), s(3) + 5 * TICK);
    }
    let arrivals: Vec<_> = fleet.stages.iter().map(|stage| stage.bench.upstream.arrivals()).collect();
    assert_eq!(arrivals, [1, 0, 0]);
    let ended = fleet.stages[2].bench.seen.ended();
    assert!(ended.iter().all(|ended| ended.saved_a_token && ended.cache.unwrap().word() == "coalesced"));
    // Also while a body comes that is stored when it is whole.
    fleet.stages[0].will_answer("200 | max-age=60 | body after 3");
    let first = fleet.stages[0].spawn("GET /b", 1);
    settled().await;
    let other = fleet.stages[1].spawn("GET /b", 1);
    assert_eq!((first.await.unwrap().text(), other.await.unwrap().text()), ("v2", "v2"));
    assert_eq!(fleet.stages[1].bench.upstream.arrivals(), 0);
    // When it is stale, too.
    sleep(s(70)).await;
    fleet.stages[1].will_answer("200 | max-age=60 | after 3");
    let first = fleet.stages[1].spawn("GET /a", 1);
    settled().await;
    let other = fleet.stages[2].spawn("GET /a", 1);
    assert_eq!((first.await.unwrap().text(), other.await.unwrap().text()), ("v1", "v1"));
}

/// Nobody waits longer for another's answer than that may take, and in vain only once.
#[tokio::test(start_paused = true)]
async fn who_waits_in_vain_goes_by_itself() {
    // What comes is for nobody else; there is a failure; the instance dies; it takes too long.
    for (answer, waits_for) in
        [("200 | no-store | after 3", 3), ("503 | after 3", 3), ("dies", 10), ("200 | max-age=60 | after 30", 10)]
    {
        let fleet = Fleet::new(2).await;
        let lasts = if answer == "dies" { "200 | max-age=60 | after 30" } else { answer };
        fleet.stages[0].will_answer(lasts);
        fleet.stages[1].will_answer("200 | max-age=60");
        let first = fleet.stages[0].spawn("GET /a", 1);
        settled().await;
        if answer == "dies" {
            fleet.links[0].set(Way::Cut);
            first.abort();
        }
        let got = fleet.stages[1].ask("GET /a").await;
        assert_eq!((got.status(), got.text()), (200, "v1"));
        is_within(got.head_at, s(waits_for), s(waits_for) + 5 * TICK);
    }
    // One that is cut off itself does not wait for what it would not hear.
    let fleet = Fleet::new(2).await;
    fleet.stages[0].will_answer("200 | max-age=60 | after 30");
    fleet.stages[1].will_answer("200 | max-age=60");
    let _first = fleet.stages[0].spawn("GET /a", 1);
    settled().await;
    let asking = fleet.stages[1].spawn("GET /a", 1);
    sleep(s(1)).await;
    fleet.links[1].set(Way::Cut);
    is_within(asking.await.unwrap().head_at, s(1), s(1) + 5 * TICK);
    // One that has little time goes by itself while there is some.
    let mut fleet = Fleet::new(1).await;
    fleet.add(NONE, |settings| {
        caching(|_| {})(settings);
        settings.retry.total_timeout = Some(s(4));
    });
    fleet.in_step().await;
    fleet.stages[0].will_answer("200 | max-age=60 | after 5");
    fleet.stages[1].will_answer("200 | max-age=60 | after 1");
    let _first = fleet.stages[0].spawn("GET /a", 1);
    settled().await;
    let got = fleet.stages[1].ask("GET /a").await;
    assert_eq!(got.status(), 200);
    is_within(got.head_at, s(3), s(3) + 5 * TICK);
}

/// The answer that it would wait for is its own.
#[tokio::test(start_paused = true)]
async fn one_that_has_come_round_waits_for_nobody() {
    let fleet = Fleet::new(2).await;
    fleet.stages[0].will_answer("200 | max-age=60 | after 5");
    let _first = fleet.stages[0].spawn("GET /a", 1);
    settled().await;
    let via = fleet.stages[0].last_asked_with("via").unwrap();
    fleet.play(&[(1, &format!("GET /a | Via: {via}"), "200 | max-age=60", "200 v1 miss")]).await;
}

#[tokio::test(start_paused = true)]
async fn in_the_background_one_instance_asks() {
    let fleet = Fleet::new(2).await;
    let answer = "200 | max-age=10, stale-while-revalidate=600";
    fleet.play(&[(0, "GET /a", answer, "200 v1 miss"), (1, "GET /a", "-", "200 v1 hit age=0")]).await;
    sleep(s(20)).await;
    fleet
        .play(&[
            (0, "GET /a", answer, "200 v1 stale age=20"),
            // It finds the new one in the background, and gives that from then on.
            (1, "GET /a", "-", "200 v1 stale age=20"),
            (1, "GET /a", "-", "200 v2 hit age=0"),
        ])
        .await;
}

/// What is on its disk is dropped by the next process only if something was made untrue meanwhile.
#[tokio::test(start_paused = true)]
async fn who_comes_back_has_what_is_still_true_on_its_disk() {
    for (meanwhile, is_left) in [("GET /b", true), ("PUT /b", false)] {
        let directory = tempfile::tempdir().unwrap();
        let disk = Some(DiskSettings { directory: directory.path().to_owned(), bytes_max: 64 << 20 });
        let size = CacheSettings { disk, ..CacheSettings::default() };
        let mut fleet = Fleet::new(1).await;
        fleet.add_with(NONE, &size, caching(|_| {}));
        fleet.in_step().await;
        fleet.play(&[(1, "GET /a", "200 | max-age=600", "200 v1 miss")]).await;
        let gone = fleet.stages.pop().unwrap();
        gone.bench.cache.close();
        fleet.links[1].set(Way::Cut);
        drop(gone);
        heard().await;
        fleet.stages[0].line(meanwhile, "204").await;
        // Only what the other has at hand counts.
        fleet.commons.forget_answers();
        fleet.links.pop();
        fleet.add_with(NONE, &size, caching(|_| {}));
        fleet.in_step().await;
        assert_eq!(fleet.stages[1].has("GET /a").await, is_left, "{meanwhile}");
    }
}

/// An API that lets nothing be stored does not cost a round trip for each request.
#[tokio::test(start_paused = true)]
async fn what_is_never_stored_is_soon_not_asked_for() {
    let fleet = Fleet::new(2).await;
    let before = fleet.commons.fetches();
    for i in 0..320 {
        fleet.stages[0].line(&format!("GET /{i}"), "200 | no-store").await;
    }
    let in_vain = fleet.commons.fetches() - before;
    assert!((32..50).contains(&in_vain), "{in_vain}");
    // Something is, and from then on it is asked again.
    fleet
        .play(&[(0, "GET /a", "200 | max-age=60", "200 v321 miss"), (1, "GET /b", "200 | max-age=60", "200 v1 miss")])
        .await;
    fleet.play(&[(0, "GET /b", "-", "200 v1 hit age=0")]).await;
}

#[tokio::test(start_paused = true)]
async fn only_what_is_cached_takes_part() {
    let fleet = Fleet::with(2, |policy| policy.paths = vec!["/live bypass".parse().unwrap()]).await;
    let before = fleet.commons.fetches();
    fleet
        .play(&[
            (0, "GET /live", "200 | max-age=60", "200 v1 bypass"),
            (1, "GET /live", "200 | max-age=60", "200 v1 bypass"),
        ])
        .await;
    assert_eq!((fleet.commons.fetches(), fleet.commons.count()), (before, 0));
}

/// A way that fails again and again is told of now and then, not each time.
#[tokio::test(start_paused = true)]
async fn it_is_logged_at_most_every_ten_seconds_that_nothing_is_in_common() {
    let log = Log::keep();
    let fleet = Fleet::new(1).await;
    let told = || log.entries().iter().filter(|entry| entry.message.contains("stored answers are")).count();
    for (cuts, expected) in [(4, 2), (1, 4)] {
        for _ in 0..cuts {
            fleet.links[0].set(Way::Cut);
            sleep(ms(800)).await;
            fleet.links[0].set(Way::Open);
            fleet.in_step().await;
        }
        assert_eq!(told(), expected, "its beginning and its end each time");
        sleep(s(10)).await;
    }
    // What lasts is told when it may be told again.
    fleet.links[0].set(Way::Cut);
    sleep(s(1)).await;
    fleet.links[0].set(Way::Open);
    fleet.in_step().await;
    fleet.links[0].set(Way::Cut);
    sleep(s(30)).await;
    assert_eq!(told(), 7);
}

/// A client that hangs up while it is asked who leads leaves nobody waiting for it.
#[tokio::test(start_paused = true)]
async fn who_leaves_before_it_knows_that_it_leads_does_not_lead() {
    let fleet = Fleet::new(2).await;
    fleet.links[0].set(Way::Late(ms(50)));
    leave_after(ms(20), fleet.stages[0].ask("GET /a")).await;
    sleep(ms(100)).await;
    fleet.stages[1].will_answer("200 | max-age=60");
    let got = timeout(s(1), fleet.stages[1].ask("GET /a")).await;
    assert_eq!(got.expect("it waits for nobody").status(), 200);
}

/// One after the other would take as many round trips.
#[tokio::test(start_paused = true)]
async fn what_many_store_at_once_is_there_for_the_others_at_once() {
    let fleet = Fleet::new(2).await;
    fleet.links[0].set(Way::Slow(ms(20)));
    let asked: Vec<_> = (0..100)
        .map(|number| {
            fleet.stages[0].will_answer("200 | max-age=60");
            fleet.stages[0].spawn(&format!("GET /{number}"), 1)
        })
        .collect();
    for asked in asked {
        assert_eq!(asked.await.unwrap().status(), 200);
    }
    sleep(ms(500)).await;
    assert_eq!(fleet.commons.count(), 100);
}

/// However much is stored of one target, it is not kept for a server that takes it too slowly.
#[tokio::test(start_paused = true)]
async fn what_a_slow_server_does_not_take_is_not_kept_for_it() {
    let fleet = Fleet::new(1).await;
    fleet.links[0].set(Way::Slow(ms(90)));
    let asked: Vec<_> = (0..400)
        .map(|client| {
            fleet.stages[0].will_answer("200 | private, max-age=60");
            fleet.stages[0].spawn(&format!("GET /a | Authorization: {client}"), 1)
        })
        .collect();
    for asked in asked {
        assert_eq!(asked.await.unwrap().status(), 200);
    }
    let usage = fleet.stages[0].bench.cache.usage().commons.unwrap();
    assert!(usage.skipped > 0 && !usage.is_in_step, "{usage:?}");
    fleet.links[0].set(Way::Open);
    fleet.in_step().await;
}
