//! Which spellings of a target share an answer: those that every upstream must take for the same, and no others.

use super::Stage;

#[tokio::test(start_paused = true)]
async fn a_target_is_what_its_bytes_say() {
    let first = "GET /a/b?x=1&y=2 | Host: proxy.test:8000";
    for (asked, is_same) in [
        (first, true),
        ("GET /a/b?x=1&y=2 | Host: Proxy.TEST:8000", true),
        ("GET http://ignored.test/a/b?x=1&y=2 | Host: proxy.test:8000", true),
        ("GET /a/b?x=1&y=2 | Host: proxy.test:8001", false),
        ("GET /a/b?x=1&y=2 | Host: other.test:8000", false),
        ("GET /a/./b?x=1&y=2 | Host: proxy.test:8000", false),
        ("GET /a/c/../b?x=1&y=2 | Host: proxy.test:8000", false),
        ("GET /a//b?x=1&y=2 | Host: proxy.test:8000", false),
        ("GET /a/b/?x=1&y=2 | Host: proxy.test:8000", false),
        ("GET /A/b?x=1&y=2 | Host: proxy.test:8000", false),
        ("GET /a/%62?x=1&y=2 | Host: proxy.test:8000", false),
        ("GET /a%2Fb?x=1&y=2 | Host: proxy.test:8000", false),
        ("GET /a/b?y=2&x=1 | Host: proxy.test:8000", false),
        ("GET /a/b?x=1&y=2& | Host: proxy.test:8000", false),
        ("GET /a/b?x=1&y=2#z | Host: proxy.test:8000", true),
        ("GET /a/b | Host: proxy.test:8000", false),
    ] {
        let stage = Stage::new(|_| {});
        stage.line(first, "200 | max-age=60").await;
        assert_eq!(stage.has(asked).await, is_same, "{asked}");
    }
    for (one, other) in [("/a", "/a?"), ("/%c3%a9", "/%C3%A9"), ("/", "/?"), ("/a;v=1", "/a"), ("/a", "//a")] {
        let stage = Stage::new(|_| {});
        for (asked, body) in [(one, "v1"), (other, "v2")] {
            assert_eq!(stage.line(&format!("GET {asked}"), "200 | max-age=60").await, format!("200 {body} miss"));
        }
        for (asked, body) in [(one, "v1"), (other, "v2")] {
            assert_eq!(stage.line(&format!("GET {asked}"), "-").await, format!("200 {body} hit age=0"), "{asked}");
        }
    }
}

/// Links lead each client back to where it asked, also out of one that was stored for another of the same name.
#[tokio::test(start_paused = true)]
async fn links_of_a_stored_answer_lead_back_to_the_host_that_was_asked() {
    let stage = Stage::new(|_| {});
    let answer = "200 | max-age=60 | Link: <http://upstream.test/p?page=2>; rel=next";
    for (host, how) in
        [("proxy.test:8000", "miss"), ("proxy.test:8000", "hit"), ("10.0.0.7", "miss"), ("10.0.0.7", "hit")]
    {
        if how == "miss" {
            stage.will_answer(answer);
        }
        let got = stage.ask(&format!("GET /p | Host: {host}")).await;
        assert!(stage.told(&got).contains(how), "{host}");
        assert_eq!(got.field("link"), Some(&*format!("<http://{host}/p?page=2>; rel=next")));
    }
}
