//! What may be printed: nothing that a program hands over or gets shows the secrets in it, however it is formatted.

use std::time::Duration;

use http::{Method, Request, Uri};
use sopan_core::queue::ClientId;
use sopan_engine::body::Source;
use sopan_engine::event::Event;
use sopan_engine::exchange::{self, Inbound};
use sopan_engine::{ApiClient, Credential, CredentialPlace, Purge, Settings, Stream, Target};
use sopan_fake::script::Answer;
use tokio::io::AsyncWriteExt as _;

use crate::support::Bench;

const TARGET: &str = "/orders?page=2&key=SECRET";

fn inbound() -> Inbound {
    let request = Request::put(TARGET)
        .header("Authorization", "Bearer SECRET")
        .header("Cookie", "id=SECRET")
        .header("X-Api-Key", "SECRET")
        .header("Referer", "https://me:SECRET@app.test/?token=SECRET")
        .header("Accept", "text/html");
    Inbound {
        request: request.body(Source::Bytes("SECRET".into())).unwrap(),
        client: ClientId(1),
        weight: 1,
        interims: None,
        hop: None,
    }
}

fn event() -> String {
    let (method, uri) = (Method::GET, Uri::from_static(TARGET));
    let event = Event {
        ended: sopan_core::time::Instant::ORIGIN,
        method: &method,
        uri: &uri,
        client: ClientId(1),
        status: None,
        refused: None,
        observed: None,
        cache: None,
        cache_detail: None,
        wait: Duration::ZERO,
        attempts: 1,
        upstream: Duration::ZERO,
        total: Duration::ZERO,
        bytes: 0,
        whole: true,
        steps: &[],
        steps_left_out: 0,
        trace: None,
    };
    format!("{event:#?}")
}

/// An answer with this status, as the caller gets it; to further attempts there is none.
async fn answer(status: u16) -> String {
    let script = move |request: &sopan_fake::script::Request| {
        if request.number > 1 {
            return Answer::nothing().close();
        }
        let answer = Answer::chunked(status).header("Set-Cookie", "id=SECRET").header("X-Page", "2");
        answer.header("Location", "/orders?key=SECRET").send("6\r\nSECRET\r\n0\r\n\r\n")
    };
    let bench = Bench::new(script, |settings| settings.retry.max_retries = 1);
    format!("{:#?}", exchange::call(&bench.engine, inbound()).await)
}

fn client_builder() -> String {
    let builder = ApiClient::builder("http://api.test").unwrap();
    format!("{:#?}", builder.header("Authorization", "SECRET").unwrap().header("X-Tag", "SECRET").unwrap())
}

fn settings() -> String {
    let mut settings = Settings::new(Target::parse("http://api.test").unwrap());
    let place = CredentialPlace::query("key");
    settings.credential = Some(Credential::new(place, b"SECRET").unwrap());
    format!("{settings:#?}")
}

async fn stream() -> String {
    let (ours, mut theirs) = tokio::io::duplex(100);
    theirs.write_all(b"SECRET").await.unwrap();
    format!("{:#?}", Stream::Other(Box::new(ours)))
}

#[tokio::test(start_paused = true)]
async fn nothing_that_is_printed_shows_a_secret() {
    for (shown, explains) in [
        (format!("{:#?}", inbound()), "/orders?page=…&key=…"),
        (format!("{:#?}", inbound()), "\"accept\": \"text/html\""),
        (format!("{:#?}", inbound()), "Bytes(6 bytes)"),
        (event(), "/orders?page=…&key=…"),
        // Passed on as it comes; and one that was kept.
        (answer(200).await, "\"x-page\": \"2\""),
        (answer(500).await, "Full(6 bytes)"),
        (stream().await, "Other"),
        (client_builder(), "\"x-tag\": Sensitive"),
        (settings(), "Credential(?key)"),
        (format!("{:#?}", Purge::Url { upstream: "shop", target: TARGET }), "Url(shop /orders?page=…&key=…)"),
        (format!("{:#?}", Target::parse("http://me:SECRET@api.test/?key=SECRET")), "api.test/?key=…"),
    ] {
        assert!(shown.contains(explains) && !shown.contains("SECRET"), "{shown}");
    }
}
