//! Connections to the upstream: kept, used again, replaced when they are gone.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::Poll;

use sopan_engine::Settings;
use sopan_fake::script::{Answer, Request};
use tokio::task::coop;
use tokio::time::sleep;

use crate::support::lines::Line;
use crate::support::log::Log;
use crate::support::{Bench, SECOND, get, is_just, is_within, leave_after, ms, noise, request, s, settled};

fn fine() -> Answer {
    Answer::json(200, "{}")
}

/// What a stale connection looks like: it takes the request and ends without a word.
fn silent() -> Answer {
    Answer::nothing().close()
}

/// On which connections the requests came.
fn connections(bench: &Bench) -> Vec<usize> {
    bench.upstream.requests().iter().map(|request| request.connection).collect()
}

#[tokio::test(start_paused = true)]
async fn a_connection_carries_one_request_after_the_other_whatever_the_answers() {
    let script = |request: &Request| match request.number {
        1 => Answer::status(200).body("body"),
        2 => Answer::chunked(200).chunk("body").end(),
        3 => Answer::status(200),
        4 => Answer::status(204),
        5 => Answer::status(200).header("Content-Length", "0"),
        6 => Answer::json(404, "none"),
        7 => Answer::json(500, "kept"),
        8 => Answer::chunked(503).chunk("kept").end(),
        9 => Answer::chunked(200).chunk("body").send("0\r\nX-Sum: 7\r\n\r\n"),
        _ => fine(),
    };
    let bench = Bench::new(script, |_| {});
    for method in ["GET", "GET", "GET", "GET", "HEAD", "GET", "GET", "PUT", "POST"] {
        bench.send(request(method, "/x", "")).await;
    }
    assert_eq!(connections(&bench), [1; 11]);
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn each_has_its_own_while_there_are_many_and_all_are_used_again() {
    let bench = Bench::new(|_| fine().after(ms(100)), |_| {});
    for _ in 0..3 {
        for got in bench.crowd(5) {
            assert_eq!(got.await.unwrap().status(), 200);
        }
    }
    assert_eq!((bench.upstream.arrivals(), bench.lines.dialled()), (15, 5));
}

#[tokio::test(start_paused = true)]
async fn one_that_was_closed_is_not_used_again() {
    for first in [
        fine().header("Connection", "close"),
        // Without a word.
        fine().close(),
        fine().reset(),
        Answer::raw("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
        Answer::raw("HTTP/1.1 200 OK\r\n\r\n{}").close(),
        // Much later.
        fine().sleep(s(20)).close(),
    ] {
        let log = Log::keep();
        let bench = Bench::new(move |request| if request.number == 1 { first.clone() } else { fine() }, |_| {});
        assert_eq!(bench.get("/x").await.text(), "{}");
        sleep(s(30)).await;
        for method in ["GET", "POST"] {
            let got = bench.send(request(method, "/x", "")).await;
            assert_eq!((got.status(), got.head_at), (200, s(30)));
        }
        assert_eq!(connections(&bench), [1, 2, 2]);
        assert_eq!(log.warnings(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_was_closed_is_seen_also_by_a_task_that_has_used_up_its_share_of_time() {
    let script = |request: &Request| if request.number == 1 { fine().sleep(s(1)).close() } else { fine() };
    let bench = Bench::new(script, |_| {});
    bench.get("/x").await;
    sleep(s(2)).await;
    let post = bench.send(request("POST", "/x", ""));
    let mut post = pin!(post);
    let mut is_spent = false;
    let got = poll_fn(|cx| {
        while !is_spent && let Poll::Ready(step) = coop::poll_proceed(cx) {
            step.made_progress();
        }
        is_spent = true;
        post.as_mut().poll(cx)
    });
    assert_eq!(got.await.status(), 200);
    assert_eq!(connections(&bench), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn one_that_speaks_unasked_is_not_listened_to() {
    let other = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    for first in [
        // Two answers to one question.
        Answer::raw(format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{{}}{other}")),
        fine().sleep(ms(100)).send(other),
        fine().sleep(ms(100)).send("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
        fine().sleep(ms(100)).send("\r\n"),
    ] {
        let bench = Bench::new(move |request| if request.number == 1 { first.clone() } else { fine() }, |_| {});
        assert_eq!(bench.get("/x").await.text(), "{}");
        sleep(SECOND).await;
        let got = bench.send(request("POST", "/x", "")).await;
        assert_eq!((got.status(), got.text()), (200, "{}"));
        assert_eq!(connections(&bench), [1, 2]);
    }
}

/// Nothing tells whose it is once a request is on its way. It fails that one request, as what is no HTTP does, and no other.
#[tokio::test(start_paused = true)]
async fn what_comes_behind_an_answer_too_late_fails_one_request_at_most() {
    for late in ["\r\n", "evil", "HTTP/1.1 200"] {
        for (method, status, seen) in [("GET", 200, vec![1, 2, 2]), ("POST", 502, vec![1, 2])] {
            let first = fine().sleep(ms(100)).send(late).close();
            let bench = Bench::new(move |request| if request.number == 1 { first.clone() } else { fine() }, |_| {});
            assert_eq!(bench.get("/x").await.text(), "{}");
            // It is on its way while the upstream still speaks, which never looks at it.
            let got = bench.send(request(method, "/x", "")).await;
            assert_eq!((got.status(), bench.get("/next").await.status()), (status, 200), "{method} {late:?}");
            assert_eq!(connections(&bench), seen, "{method} {late:?}");
            bench.is_at_rest();
        }
    }
}

/// An engine with an idle connection that will turn out to be stale, and one more that would too.
async fn with_stale_ones(change: impl FnOnce(&mut Settings)) -> Bench {
    let script = |request: &Request| match request.number {
        1 | 2 => fine().after(ms(10)),
        _ if request.connection <= 2 => silent(),
        _ => fine(),
    };
    let bench = Bench::new(script, |settings| {
        settings.retry.max_retries = 0;
        settings.breaker.on = true;
        (settings.breaker.failures, settings.breaker.min_span) = (1, s(0));
        change(settings);
    });
    for got in bench.crowd(2) {
        assert_eq!(got.await.unwrap().status(), 200);
    }
    bench
}

#[tokio::test(start_paused = true)]
async fn a_stale_connection_is_no_failure_where_it_is_safe_to_ask_again() {
    let mut with_key = request("POST", "/x", "body");
    with_key.headers_mut().insert("Idempotency-Key", "7".parse().unwrap());
    let put = request("PUT", "/x", noise(100_000));
    for (request, body) in [(get("/x"), vec![]), (put, noise(100_000)), (with_key, b"body".to_vec())] {
        let log = Log::keep();
        let bench = with_stale_ones(|_| {}).await;
        let got = bench.send(request).await;
        // At once, on a new connection rather than another idle one, and nothing was counted.
        is_within(got.head_at, ms(10), ms(11));
        assert_eq!((got.status(), connections(&bench).split_off(2)), (200, vec![2, 3]));
        assert!(got.field("server-timing").unwrap().contains("attempts;desc=\"1\""));
        assert_eq!(bench.seen.outcomes(), ["HTTP 200", "HTTP 200", "Stale", "HTTP 200"]);
        assert_eq!(log.warnings(), [""; 0]);
        assert!(bench.upstream.requests()[2..].iter().all(|request| request.body == body));
        bench.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn a_post_is_not_sent_twice_for_a_stale_connection() {
    for method in ["POST", "PATCH"] {
        let bench = with_stale_ones(|_| {}).await;
        let got = bench.send(request(method, "/x", "body")).await;
        assert_eq!((got.status(), connections(&bench)), (502, vec![1, 2, 2]));
        assert!(got.detail().contains("whether it acted on the request is not known"), "{}", got.detail());
    }
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_breaks_off_after_a_while_has_worked_on_the_request() {
    for (wait, attempts) in [(ms(900), 1), (s(5), 2)] {
        let script = move |request: &Request| match request.number {
            2 => Answer::nothing().sleep(wait).close(),
            _ => fine(),
        };
        let bench = Bench::new(script, |_| {});
        bench.get("/x").await;
        let got = bench.get("/x").await;
        assert_eq!((got.status(), connections(&bench)), (200, vec![1, 1, 2]));
        let timing = got.field("server-timing").unwrap();
        assert!(timing.contains(&format!("attempts;desc=\"{attempts}\"")), "{wait:?}: {timing}");
        bench.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn asking_again_on_a_fresh_connection_takes_a_turn() {
    let bench = with_stale_ones(|settings| settings.lane.limits = vec!["1/s burst 3".parse().unwrap()]).await;
    let got = bench.get("/x").await;
    assert_eq!(got.status(), 200);
    let arrivals = bench.arrivals();
    // Two at once, the third and what it took to repeat it one after the other.
    is_within(arrivals[2], s(1), ms(1_002));
    is_within(arrivals[3], s(2), ms(2_004));
}

#[tokio::test(start_paused = true)]
async fn one_connection_that_is_stale_and_one_that_fails_are_two_things() {
    // On a new connection the same silence is a failure.
    let bench = Bench::new(
        |request| if request.number == 1 { fine() } else { silent() },
        |settings| {
            settings.retry.max_retries = 1;
        },
    );
    bench.get("/x").await;
    let got = bench.get("/x").await;
    assert_eq!((got.status(), connections(&bench)), (502, vec![1, 1, 2, 3]));
    is_just(got.head_at, ms(200));
}

#[tokio::test(start_paused = true)]
async fn one_that_was_put_back_unused_can_be_stale_too() {
    let script = |request: &Request| match request.connection {
        1 => fine().header("Connection", "close"),
        2 => silent(),
        _ => fine(),
    };
    let log = Log::keep();
    let bench = Bench::new(script, |settings| {
        settings.lane.limits = vec!["1/s".parse().unwrap()];
        settings.retry.max_retries = 0;
    });
    bench.get("/first").await;
    // It has its connection before its turn, and leaves it to whoever comes next.
    leave_after(ms(500), bench.get("/leaves")).await;
    assert_eq!(bench.lines.dialled(), 2);
    sleep(s(20)).await;
    assert_eq!(bench.get("/x").await.status(), 200);
    assert_eq!(connections(&bench), [1, 2, 3]);
    assert_eq!(log.warnings(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_made_for_one_who_leaves_serves_the_next() {
    let bench = Bench::new(
        |request| if request.number == 1 { fine().header("Connection", "close") } else { fine() },
        |settings| settings.lane.limits = vec!["1/s".parse().unwrap()],
    );
    bench.get("/first").await;
    leave_after(ms(500), bench.get("/leaves")).await;
    assert_eq!(bench.get("/x").await.status(), 200);
    assert_eq!((connections(&bench), bench.lines.dialled()), (vec![1, 2], 2));
}

#[tokio::test(start_paused = true)]
async fn one_that_closes_while_its_ticket_waits_is_replaced_before_the_turn() {
    // The second request takes the idle connection 1 s before its turn; half a second later that is closed.
    let script = |request: &Request| if request.number == 1 { fine().sleep(ms(1_500)).close() } else { fine() };
    let log = Log::keep();
    let bench = Bench::new(script, |settings| settings.lane.limits = vec!["0.5/s".parse().unwrap()]);
    bench.get("/first").await;
    let got = bench.get("/second").await;
    assert_eq!((got.status(), connections(&bench)), (200, vec![1, 2]));
    is_within(bench.arrivals()[1], s(2), ms(2_005));
    assert_eq!(log.warnings(), [""; 0]);
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_closes_what_it_has_just_accepted_is_not_asked_for_ever() {
    let plan = |number| if number == 1 { Line::Open } else { Line::Dead };
    let bench = Bench::over(
        plan,
        |_| fine().header("Connection", "close"),
        |settings| {
            settings.lane.limits = vec!["1/s".parse().unwrap()];
        },
    );
    bench.get("/first").await;
    let got = bench.get("/second").await;
    assert_eq!((got.status(), bench.upstream.arrivals()), (502, 1));
    // Three attempts, and another connection for one that was closed in the moment of its turn.
    assert!((4..=6).contains(&bench.lines.dialled()), "{}", bench.lines.dialled());
    assert_eq!(got.detail(), "the upstream closed the connection before it answered");
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn one_that_is_idle_for_too_long_is_closed() {
    let bench = Bench::new(|_| fine(), |settings| settings.idle_timeout = s(10));
    bench.get("/x").await;
    sleep(s(9)).await;
    bench.get("/x").await;
    assert_eq!(connections(&bench), [1, 1]);
    is_within(bench.gone(1).await, s(19), ms(21_600));
    bench.get("/x").await;
    assert_eq!(connections(&bench), [1, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn one_whose_answer_was_not_read_to_its_end_is_closed() {
    let bench = Bench::new(
        |request| {
            if request.number == 1 {
                Answer::chunked(200).chunk("half").sleep(s(5)).chunk("rest").end()
            } else {
                fine()
            }
        },
        |_| {},
    );
    leave_after(SECOND, bench.get("/x")).await;
    is_just(bench.gone(1).await, SECOND);
    assert_eq!(bench.get("/x").await.text(), "{}");
    assert_eq!(connections(&bench), [1, 2]);
    settled().await;
    bench.is_at_rest();
}
