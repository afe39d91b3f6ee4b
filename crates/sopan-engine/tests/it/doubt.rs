//! What is stored after a write of which nobody knows whether it was done.

use sopan_core::policy::CachePolicy;
use sopan_engine::Settings;
use sopan_fake::script::{Answer, Request};

use crate::support::{Bench, get, leave_after, ms, request, s, settled};

fn storing(settings: &mut Settings) {
    settings.cache = Some(CachePolicy::default());
}

/// GETs are answered with how many requests there have been, for a minute, and writes as the test says.
fn write(answer: impl Fn(usize) -> Answer + Send + Sync + 'static) -> impl Fn(&Request) -> Answer + Send + Sync {
    move |asked| match asked.method.as_str() {
        "GET" => Answer::json(200, asked.number.to_string()).header("Cache-Control", "max-age=60"),
        _ => answer(asked.number),
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_client_has_left_is_taken_for_done() {
    for (method, expected) in [("PUT", "3"), ("DELETE", "3"), ("POST", "3"), ("OPTIONS", "1")] {
        let bench = Bench::new(write(|_| Answer::status(204).after(s(5))), storing);
        assert_eq!(bench.get("/x").await.text(), "1");
        leave_after(s(1), bench.send(request(method, "/x", "new"))).await;
        settled().await;
        assert_eq!(bench.get("/x").await.text(), expected, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn so_is_one_whose_answer_was_lost_or_did_not_come_in_time() {
    for lost in [Answer::nothing().close(), Answer::nothing().hang()] {
        let bench = Bench::new(write(move |_| lost.clone()), |settings| {
            storing(settings);
            settings.retry.max_retries = 0;
            settings.retry.attempt_timeout = s(2);
        });
        assert_eq!(bench.get("/x").await.text(), "1");
        assert!(bench.send(request("PUT", "/x", "new")).await.status() >= 502);
        assert_ne!(bench.get("/x").await.text(), "1");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_lost_attempt_has_done_the_next_ones_answer_does_not_deny() {
    let lost_then = |status| move |number| if number == 2 { Answer::nothing().close() } else { Answer::status(status) };
    for (status, retried, expected) in [(404, true, "4"), (204, true, "4"), (404, false, "1")] {
        let bench = match retried {
            true => Bench::new(write(lost_then(status)), storing),
            false => Bench::new(write(move |_| Answer::status(status)), storing),
        };
        assert_eq!(bench.get("/x").await.text(), "1");
        assert_eq!(bench.send(request("DELETE", "/x", "")).await.status(), status);
        assert_eq!(bench.get("/x").await.text(), expected, "{status}");
    }
    // One that was refused has done nothing.
    let refused =
        |number| if number == 2 { Answer::status(429).header("Retry-After", "1") } else { Answer::status(409) };
    let bench = Bench::new(write(refused), storing);
    assert_eq!(bench.get("/x").await.text(), "1");
    assert_eq!(bench.send(request("PUT", "/x", "new")).await.status(), 409);
    assert_eq!(bench.get("/x").await.text(), "1");
}

#[tokio::test(start_paused = true)]
async fn those_who_differ_in_what_an_answer_was_chosen_by_wait_for_their_own() {
    let script = |asked: &Request| {
        let language = asked.field("accept-language").unwrap_or_default().to_owned();
        let answer = Answer::json(200, language).header("Cache-Control", "max-age=60");
        answer.header("Vary", "Accept-Language").after(ms(500))
    };
    let bench = Bench::new(script, storing);
    let ask = |number: usize| {
        let mut asked = get("/x");
        let language = ["en", "de", "fr"][number.min(20) % 3];
        asked.headers_mut().insert("accept-language", language.parse().unwrap());
        (language, bench.spawn(asked))
    };
    let crowd: Vec<_> = (0..60).map(ask).collect();
    for (language, got) in crowd {
        assert_eq!(got.await.unwrap().text(), language);
    }
    assert_eq!(bench.upstream.arrivals(), 3);
    bench.is_at_rest();
}
