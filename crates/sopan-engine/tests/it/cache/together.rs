//! Equal requests at once: one goes to the upstream, and all get what it brings, if it is for them.

use sopan_core::policy::{CachePolicy, Revalidate};
use sopan_engine::event::Cached;
use sopan_engine::{CacheSettings, Settings};
use tokio::time::sleep;

use super::{Stage, answer, caching, inbound};
use crate::support::{Bench, Got, TICK, is_within, ms, noise, s, settled};

/// One a second, of which the first has been used.
fn one_a_second(settings: &mut Settings) {
    caching(|_| {})(settings);
    settings.lane.limits = vec!["1/s".parse().unwrap()];
    settings.lane.rate_margin = "0%".parse().unwrap();
    settings.lane.wait_max = None;
}

async fn paced() -> Stage {
    let stage = Stage::with(&CacheSettings::default(), one_a_second);
    stage.line("GET /first", "200").await;
    stage
}

/// How many exchanges ended so.
fn count(stage: &Stage, cached: Cached) -> usize {
    stage.bench.seen.ended().iter().filter(|ended| ended.cache == Some(cached)).count()
}

#[tokio::test(start_paused = true)]
async fn five_hundred_who_ask_for_one_cold_target_cost_one_request() {
    let body = noise(300_000);
    let sent = body.clone();
    let script = move |request: &sopan_fake::script::Request| match &*request.target {
        "/cold" => answer("200 | max-age=60 | after 2", "").body(sent.clone()),
        _ => answer("200", "x"),
    };
    let bench = Bench::new(script, one_a_second);
    bench.get("/first").await;
    let crowd: Vec<_> = (0..500).map(|client| tokio::spawn(bench.handed(inbound("GET /cold", client)))).collect();
    settled().await;
    // One waits for a turn; the others need none.
    assert_eq!((bench.waiting(), bench.upstream.arrivals()), (1, 1));
    // Some come while the answer is under way.
    sleep(s(2)).await;
    let late: Vec<_> = (0..50).map(|client| tokio::spawn(bench.handed(inbound("GET /cold", client)))).collect();
    for asking in crowd.into_iter().chain(late) {
        let got = asking.await.unwrap();
        assert_eq!((got.status(), got.field("content-length")), (200, Some("300000")));
        assert!(got.body.unwrap() == body);
        is_within(got.head_at, s(3), s(3) + TICK * 5);
    }
    assert_eq!(bench.targets(), ["/first", "/cold"]);
    let ended = bench.seen.ended();
    let coalesced: Vec<_> = ended.iter().filter(|ended| ended.cache == Some(Cached::Coalesced)).collect();
    assert_eq!(coalesced.len(), 549);
    assert!(coalesced.iter().all(|ended| ended.saved_a_token && ended.attempts == 0 && ended.bytes == 300_000));
    bench.is_at_rest();
}

/// Its followers do not begin anew: the one that has waited longest takes its place.
#[tokio::test(start_paused = true)]
async fn a_leader_that_leaves_while_it_waits_hands_its_request_over() {
    let stage = paced().await;
    stage.will_answer("200 | max-age=60");
    let mut crowd: Vec<_> = (0..20).map(|client| stage.spawn("GET /cold", client)).collect();
    settled().await;
    for leader in crowd.drain(..10) {
        leader.abort();
        settled().await;
        assert_eq!(stage.bench.waiting(), 1);
    }
    for asking in crowd {
        let got = asking.await.unwrap();
        assert_eq!((got.status(), got.text()), (200, "v2"));
        is_within(got.head_at, s(1), s(1) + TICK * 5);
    }
    assert_eq!(stage.bench.upstream.arrivals(), 2);
    stage.bench.is_at_rest();
}

/// One that leaves when the request is out has it sent again, for those who are left.
#[tokio::test(start_paused = true)]
async fn a_leader_that_leaves_before_the_answer_costs_another_request() {
    let stage = Stage::new(|_| {});
    stage.will_answer("200 | max-age=60 | after 5 || 200 | max-age=60");
    let leader = stage.spawn("GET /cold", 1);
    settled().await;
    let follower = stage.spawn("GET /cold", 2);
    sleep(s(1)).await;
    leader.abort();
    let got = follower.await.unwrap();
    assert_eq!((got.text(), stage.bench.upstream.arrivals()), ("v2", 2));
    is_within(got.head_at, s(1), s(1) + TICK * 5);
    stage.bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_leaves_in_the_middle_of_a_body_leaves_it_to_the_others() {
    let script = |_: &sopan_fake::script::Request| {
        let begun = sopan_fake::script::Answer::status(200).header("Cache-Control", "max-age=60");
        begun.header("Content-Length", "10").send("01234").sleep(s(5)).send("56789")
    };
    let bench = Bench::new(script, caching(|_| {}));
    let leader = tokio::spawn(bench.handed(inbound("GET /cold", 1)));
    settled().await;
    let follower = tokio::spawn(bench.handed(inbound("GET /cold", 2)));
    sleep(s(2)).await;
    leader.abort();
    // And one who comes when it is gone.
    settled().await;
    let late = bench.handed(inbound("GET /cold", 3));
    for got in [follower.await.unwrap(), late.await] {
        assert_eq!((got.status(), got.text()), (200, "0123456789"));
        is_within(got.body_at, s(5), s(5) + TICK * 5);
    }
    assert_eq!(bench.upstream.arrivals(), 1);
    let got = bench.handed(inbound("GET /cold", 4)).await;
    assert_eq!((got.text(), bench.upstream.arrivals()), ("0123456789", 1));
    bench.is_at_rest();
}

/// Twenty who ask at once, twice; how many requests each time cost, and how long the second took.
async fn two_rounds(stage: &Stage, answer: &str) -> ([usize; 2], std::time::Duration) {
    let mut costs = [0; 2];
    let mut took = ms(0);
    for cost in &mut costs {
        let (before, begun) = (stage.bench.upstream.arrivals(), crate::support::now());
        (0..40).for_each(|_| stage.will_answer(answer));
        let crowd: Vec<_> = (0..20).map(|client| stage.spawn("GET /cold", client)).collect();
        let mut bodies = Vec::new();
        for asking in crowd {
            bodies.push(asking.await.unwrap().text().to_owned());
        }
        *cost = stage.bench.upstream.arrivals() - before;
        took = begun.elapsed();
        // Each has an answer of its own, where each was asked for.
        bodies.sort();
        bodies.dedup();
        assert_eq!(bodies.len(), (*cost).max(1), "{answer}");
        stage.plan.lock().next.clear();
    }
    stage.bench.is_at_rest();
    (costs, took)
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_for_nobody_else_is_not_waited_for_twice() {
    for answer in [
        "200 | no-store | after 1",
        "200 | private, max-age=60 | after 1",
        "200 | max-age=60 | Set-Cookie: s=1 | after 1",
        "200 | max-age=60 | Vary: * | after 1",
        "200 | after 1",
        "404 | after 1",
    ] {
        let stage = Stage::new(|_| {});
        let (costs, took) = two_rounds(&stage, answer).await;
        assert_eq!(costs, [20, 20], "{answer}");
        // Nobody waits for another any more.
        assert!(took < ms(1_100), "{answer}: {took:?}");
    }
    let stage = Stage::new(|_| {});
    assert_eq!(two_rounds(&stage, "200 | max-age=60 | after 1").await.0, [1, 0]);
}

/// A failure says nothing of the next answer.
#[tokio::test(start_paused = true)]
async fn after_a_failure_everybody_tries_and_the_next_are_together_again() {
    for answer in ["500 | after 1", "503 | after 1"] {
        let stage = Stage::new(|_| {});
        let (costs, took) = two_rounds(&stage, answer).await;
        assert_eq!(costs, [20, 20], "{answer}");
        assert!(took >= s(2), "{answer}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_answer_was_chosen_by_tells_them_apart() {
    let stage = Stage::new(|_| {});
    stage.will_answer("200 | max-age=60 | Vary: Accept-Language | = en | after 1");
    stage.will_answer("200 | max-age=60 | Vary: Accept-Language | = de | after 1");
    let ask = |language: &str| stage.spawn(&format!("GET /cold | Accept-Language: {language}"), 1);
    let english: Vec<_> = (0..3).map(|_| ask("en")).collect();
    settled().await;
    let german = ask("de");
    for asking in english {
        assert_eq!(asking.await.unwrap().text(), "en");
    }
    assert_eq!((german.await.unwrap().text(), stage.bench.upstream.arrivals()), ("de", 2));
    // Which are which is known now.
    for language in ["en", "de"] {
        assert_eq!(
            stage.line(&format!("GET /cold | Accept-Language: {language}"), "-").await.split(' ').nth(1),
            Some(language)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn those_with_other_secrets_or_another_question_are_not_together() {
    let stage = Stage::new(|_| {});
    let different = [
        "GET /cold",
        "GET /cold | Authorization: A",
        "GET /cold | Authorization: B",
        "GET /cold | Cookie: s=1",
        "GET /cold | Host: other.test",
        "GET /cold | Range: bytes=0-1",
        "GET /cold | If-None-Match: \"x\"",
        "GET /cold | Cache-Control: no-cache",
        "GET /cold | Cache-Control: no-store",
        "HEAD /cold",
        "POST /cold",
        "GET /cold?",
    ];
    let crowd: Vec<_> = different
        .iter()
        .flat_map(|asked| {
            stage.will_answer("200 | max-age=60 | after 5 || 200 | max-age=60 | after 5");
            [stage.spawn(asked, 1), stage.spawn(asked, 2)]
        })
        .collect();
    settled().await;
    let is_together = ["GET /cold", "Authorization: A", "Authorization: B", "Cookie", "Host", "GET /cold?"].len();
    assert_eq!(stage.bench.upstream.arrivals(), 2 * different.len() - is_together);
    for asking in crowd {
        assert_eq!(asking.await.unwrap().status(), 200);
    }
    stage.bench.is_at_rest();
}

/// The lane turns the leader away, and then each of them for itself.
#[tokio::test(start_paused = true)]
async fn a_leader_that_is_refused_leaves_the_others_to_themselves() {
    let stage = Stage::with(&CacheSettings::default(), |settings| {
        one_a_second(settings);
        settings.lane.wait_max = Some(ms(500));
    });
    stage.line("GET /first", "200").await;
    let refused: Vec<_> = (0..10).map(|client| stage.spawn("GET /cold", client)).collect();
    for asking in refused {
        let got = asking.await.unwrap();
        assert_eq!((got.status(), got.refused()), (503, "wait-too-long".to_owned()));
        assert!(got.head_at < ms(50));
    }
    sleep(s(1)).await;
    assert_eq!(stage.line("GET /cold", "200").await, "200 v2 miss");
    stage.bench.is_at_rest();
}

/// What a follower may wait is its own affair.
#[tokio::test(start_paused = true)]
async fn a_follower_waits_no_longer_than_its_time_in_all() {
    let stage = Stage::with(&CacheSettings::default(), |settings| {
        caching(|_| {})(settings);
        settings.retry.total_timeout = Some(s(10));
    });
    stage.will_answer("200 | max-age=60 | after 100");
    let leader = stage.spawn("GET /cold", 1);
    sleep(s(1)).await;
    stage.will_answer("200 | max-age=60 | after 100");
    let follower = stage.spawn("GET /cold", 2);
    let (leader, follower): (Got, Got) = (leader.await.unwrap(), follower.await.unwrap());
    assert_eq!([leader.status(), follower.status()], [504, 504]);
    is_within(leader.head_at, s(10), s(10) + TICK * 5);
    is_within(follower.head_at, s(11), s(11) + TICK * 5);
    // It did not hang on a request that could not be answered in time.
    assert_eq!((leader.refused(), follower.refused()), ("total-timeout".to_owned(), "total-timeout".to_owned()));
    stage.bench.is_at_rest();
}

/// One asks whether it is still good, and all get that it is.
#[tokio::test(start_paused = true)]
async fn those_who_find_it_stale_ask_about_it_together() {
    for (word, expected) in [("304 | max-age=60 | after 2", "v1"), ("200 | max-age=60 | after 2", "v2")] {
        let stage = Stage::new(|_| {});
        stage.play(&[(0, "GET /a", "200 | max-age=10 | ETag: \"a\"", "200 v1 miss")]).await;
        sleep(s(20)).await;
        stage.will_answer(word);
        let crowd: Vec<_> = (0..20).map(|client| stage.spawn("GET /a", client)).collect();
        for asking in crowd {
            let got = asking.await.unwrap();
            assert_eq!((got.status(), got.text()), (200, expected), "{word}");
            is_within(got.head_at, s(22), s(22) + TICK * 5);
        }
        assert_eq!(stage.bench.upstream.arrivals(), 2);
        assert_eq!(count(&stage, Cached::Coalesced), 19, "{word}");
        stage.bench.is_at_rest();
    }
}

/// What must be asked about each time is asked for all who are there before that, and for the others together once more: so
/// nobody gets what was true only before it came.
#[tokio::test(start_paused = true)]
async fn those_who_must_ask_each_time_ask_together_if_they_come_before_it_is_sent() {
    for (fields, word, change) in [
        ("no-cache", "304", (|_| {}) as fn(&mut CachePolicy)),
        ("no-cache", "200 | no-cache | ETag: \"b\" | = new", |_| {}),
        ("max-age=0", "304 | max-age=0", |_| {}),
        ("max-age=60", "304", |policy| policy.revalidate = Revalidate::Always),
        ("max-age=60", "200 | max-age=60 | ETag: \"b\" | = new", |policy| policy.revalidate = Revalidate::Always),
    ] {
        let stage = Stage::with(&CacheSettings::default(), |settings| {
            one_a_second(settings);
            change(settings.cache.as_mut().unwrap());
        });
        stage.line("GET /a", &format!("200 | {fields} | ETag: \"a\" | = old")).await;
        let expected = if word.starts_with("304") { "old" } else { "new" };
        stage.will_answer(&format!("{word} | after 3 || {word} | after 3"));
        // One waits for its turn until 1; what it asks is answered at 4.
        let before: Vec<_> = (0..10).map(|client| stage.spawn("GET /a", client)).collect();
        sleep(s(2)).await;
        let after: Vec<_> = (0..10).map(|client| stage.spawn("GET /a", client)).collect();
        for (crowd, answered) in [(before, s(4)), (after, s(7))] {
            for asking in crowd {
                let got = asking.await.unwrap();
                assert_eq!((got.status(), got.text()), (200, expected), "{fields}, {word}");
                is_within(got.head_at, answered, answered + ms(10));
            }
        }
        assert_eq!(stage.bench.upstream.arrivals(), 3, "{fields}, {word}");
        assert_eq!(count(&stage, Cached::Coalesced), 18, "{fields}, {word}");
        stage.bench.is_at_rest();
    }
}

/// It may not be stored any more, and is for nobody else.
#[tokio::test(start_paused = true)]
async fn what_is_confirmed_for_one_alone_is_given_to_nobody_else() {
    let stage = paced().await;
    stage.line("GET /a", "200 | max-age=1 | ETag: \"a\"").await;
    sleep(s(5)).await;
    stage.will_answer("200 || 304 | no-store || 200 | no-store || 200 | no-store");
    let busy = stage.spawn("GET /first", 1);
    let crowd: Vec<_> = (0..3).map(|client| stage.spawn("GET /a", client)).collect();
    let mut bodies = Vec::new();
    for asking in crowd {
        bodies.push(asking.await.unwrap().text().to_owned());
    }
    assert_eq!((bodies, busy.await.unwrap().text()), (vec!["v2".into(), "v5".into(), "v6".into()], "v3"));
}
