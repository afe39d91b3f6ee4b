//! The conformance suite judged by a proxy of which it is known what it does wrong.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use sopan_fake::conformance::{Case, Judge, Outcome, Suite, cases};
use tokio::net::{TcpListener, TcpStream};

/// Only what does not come is waited for as long.
const PATIENCE: Duration = Duration::from_secs(2);

/// The outcome of these cases against a proxy that copies bytes both ways and understands none.
async fn copied(ids: &[&str], judge: Judge) -> BTreeMap<&'static str, Outcome> {
    let suite = Suite::listen_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), PATIENCE, judge);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = listener.local_addr().unwrap();
    tokio::spawn(copy_all(listener, suite.upstream()));
    let mut outcomes = BTreeMap::new();
    for case in cases().iter().filter(|case: &&Case| ids.contains(&case.id)) {
        outcomes.insert(case.id, suite.run(case, proxy).await.unwrap());
    }
    assert_eq!(outcomes.len(), ids.len(), "no such case in {ids:?}");
    outcomes
}

async fn copy_all(listener: TcpListener, upstream: SocketAddr) {
    while let Ok((mut client, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut upstream = TcpStream::connect(upstream).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut client, &mut upstream).await;
        });
    }
}

#[tokio::test]
async fn a_proxy_that_copies_bytes_is_found_out() {
    let wrong = [
        ("hop-request", "X-Hop passed on"),
        ("hop-answer", "X-Back: \"1\""),
        ("host-is-the-upstreams", "Host: ["),
        ("via-request", "no Via"),
        ("absolute-form", "target \"http://"),
        ("cl-te", "sends both Content-Length and Transfer-Encoding"),
        ("name-space-colon", "sends a field name that is no token: \"X-A \""),
        ("answer-lf", "answers a line that ends in a bare LF"),
        ("answer-chunk-plus", "answers a bad chunk size: \"+2\""),
        ("interim-old-client", "interim answers [103]"),
        ("connect", "forwarded"),
    ];
    let outcomes = copied(&wrong.map(|(id, _)| id), Judge::Loose).await;
    for (id, fault) in wrong {
        let faults = &outcomes[id].faults;
        assert!(faults.iter().any(|known| known.starts_with(fault)), "{id}: {faults:?}");
    }
    assert_eq!(outcomes["cl-te"].unclean.len(), 1, "{:?}", outcomes["cl-te"].unclean);
}

#[tokio::test]
async fn what_copying_does_right_is_no_fault() {
    let right =
        ["coded-body", "large-upload", "head", "pipelined", "upgrade-both-ways", "answer-trailers", "expect-continue"];
    for (id, outcome) in copied(&right, Judge::Strict).await {
        assert_eq!(outcome.faults, [""; 0], "{id}: {}", outcome.seen);
    }
}

#[tokio::test]
async fn only_sopan_is_held_to_the_digit() {
    for (judge, is_fault) in [(Judge::Strict, true), (Judge::Loose, false)] {
        // A connection that ends without an answer is a failure, but not the 502 that sopan promises.
        let outcome = copied(&["status-empty"], judge).await.remove("status-empty").unwrap();
        assert_eq!(!outcome.faults.is_empty(), is_fault, "{judge:?}: {:?}", outcome.faults);
    }
}
