//! A client as a service of tower: any request, and every answer of the API.

use std::future::poll_fn;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use sopan_engine::{ApiClient, Error};
use sopan_fake::script::Answer;
use tower_service::Service;

use crate::client::scripted;

/// As a layer would: ready first, then the call.
async fn call(client: &ApiClient, request: Request<Bytes>) -> Result<(StatusCode, Bytes), Error> {
    let mut client = client.clone();
    poll_fn(|cx| client.poll_ready(cx)).await?;
    let (head, body) = client.call(request).await?.into_parts();
    Ok((head.status, body.collect().await.unwrap().to_bytes()))
}

fn request(method: Method, uri: &str, body: &'static str) -> Request<Bytes> {
    let request = Request::builder().method(method).uri(uri).header("X-Tag", "its own").header("Host", "elsewhere");
    request.body(Bytes::from_static(body.as_bytes())).unwrap()
}

#[tokio::test(start_paused = true)]
async fn any_request_goes_to_the_api_with_the_fields_of_the_client() {
    let script = |request: &sopan_fake::script::Request| match request.number {
        1 => Answer::status(500),
        _ => Answer::json(201, request.target.clone()),
    };
    let (upstream, client) = scripted(script, |builder| {
        builder.header("Authorization", "Bearer 7").unwrap().header("X-Tag", "the client's").unwrap()
    });
    let answer = call(&client, request(Method::PUT, "/a?b=%20", "{}")).await.unwrap();
    assert_eq!(answer, (StatusCode::CREATED, Bytes::from_static(b"/a?b=%20")));
    let answer = call(&client, request(Method::GET, "http://api.test:80/c", "")).await.unwrap();
    assert_eq!(answer.1, "/c");
    for seen in upstream.requests() {
        assert_eq!((seen.field("host"), seen.field("authorization")), (Some("api.test"), Some("Bearer 7")));
        assert_eq!(seen.fields_named("x-tag"), ["its own"]);
        assert!(seen.fields_named("content-length").len() <= 1);
    }
    let sent: Vec<_> = upstream.requests().into_iter().map(|seen| (seen.method, seen.body)).collect();
    let put = || ("PUT".to_owned(), b"{}".to_vec());
    assert_eq!(sent, [put(), put(), ("GET".to_owned(), Vec::new())]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_an_answer_and_an_error_is_that_there_is_none() {
    let script = |request: &sopan_fake::script::Request| match &*request.target {
        "/lost" => Answer::raw("HTTP/1.1 2").close(),
        "/limited" => Answer::status(429).header("Retry-After", "1").body("slowly"),
        target => Answer::status(target[1..4].parse().unwrap()),
    };
    let (upstream, client) = scripted(script, |builder| builder);
    for (path, status, arrivals) in [("/404", 404, 1), ("/500", 500, 4), ("/limited", 429, 4)] {
        let before = upstream.arrivals();
        let (answer, _) = call(&client, request(Method::GET, path, "")).await.unwrap();
        assert_eq!((answer.as_u16(), upstream.arrivals() - before), (status, arrivals), "{path}");
    }
    let before = upstream.arrivals();
    let lost = call(&client, request(Method::POST, "/lost", "{}")).await.unwrap_err();
    assert!(matches!(&lost, Error::Transient { status: None, .. }), "{lost}");
    assert_eq!(upstream.arrivals() - before, 1, "a POST that may have been processed");
    for uri in ["https://api.test/x?key=secret", "http://evil.test/x"] {
        let error = call(&client, request(Method::GET, uri, "")).await.unwrap_err();
        assert!(
            matches!(&error, Error::Permanent { message, .. } if message.contains("is not beneath http://api.test"))
        );
        assert!(!error.to_string().contains("secret"));
    }
    assert_eq!(upstream.arrivals() - before, 1);
}
