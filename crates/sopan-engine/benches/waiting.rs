//! What a waiting request costs: memory for each of 100,000, and the processor while nothing happens.
//!
//! `cargo bench -p sopan-engine --bench waiting [-- COUNT]`. No sockets: the exchanges stand in the lane, behind a hold.

#![allow(clippy::print_stdout, reason = "it is there to be read")]

use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use http::Request;
use http::header::HOST;
use sopan_core::policy::CachePolicy;
use sopan_core::queue::ClientId;
use sopan_engine::body::Source;
use sopan_engine::exchange::{self, Hop, Inbound};
use sopan_engine::{Cache, CacheSettings, Dial, Settings, Stream, Surroundings, Target, Upstream};

/// Nobody is ever connected to.
struct Nowhere;

impl fmt::Debug for Nowhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nowhere")
    }
}

impl Dial for Nowhere {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

fn main() {
    let count = std::env::args().find_map(|a| a.parse().ok()).unwrap_or(100_000);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure(count));
}

async fn measure(count: usize) {
    let mut settings = Settings::new(Target::parse("http://upstream.test").expect("a URL"));
    settings.lane.limits = vec!["1/d".parse().expect("a limit")];
    settings.lane.waiting_max = u32::MAX;
    settings.lane.queue_bytes_max = u64::MAX;
    settings.lane.wait_max = None;
    settings.retry.total_timeout = None;
    // As `sopan serve` has it.
    settings.cache = Some(CachePolicy::default());
    let cache = Cache::open(&CacheSettings::default()).expect("a cache in memory");
    let around = Surroundings { dial: Some(Arc::new(Nowhere)), cache: Some(cache), ..Surroundings::default() };
    let (upstream, background) = Upstream::start(settings, around).expect("settings that are allowed");
    tokio::spawn(background);

    let before = memory();
    let mut waiting = Vec::with_capacity(count);
    for number in 0..count {
        let request = request(number);
        let base = request.headers().get(HOST).cloned();
        let hop = Hop { peer: Some(IpAddr::from([127, 0, 0, 1])), base, takes_lines: true };
        let inbound =
            Inbound { request, client: ClientId(number as u128 % 100), weight: 1, interims: None, hop: Some(hop) };
        let mut exchange = Box::pin(exchange::call(&upstream, inbound));
        let mut cx = Context::from_waker(Waker::noop());
        // The first one takes the token and waits for a connection; all others wait for a turn.
        assert!(exchange.as_mut().poll(&mut cx).is_pending());
        waiting.push(exchange);
    }
    let after = memory();
    println!("{} wait in the lane", upstream.snapshot().waiting);
    println!("size of an exchange's future: {} bytes", std::mem::size_of_val(&*waiting[0]));
    println!("memory of each, all told: {:.2} KiB", (after - before) as f64 / 1024.0 / count as f64);
    let busy = processor();
    tokio::time::sleep(Duration::from_secs(5)).await;
    println!("processor while they wait: {:.2} % of a core", (processor() - busy) / 5.0 * 100.0);
}

/// A request with a head of about 500 bytes, each field in memory of its own.
fn request(number: usize) -> Request<Source> {
    Request::get(format!("/api/v1/orders/{number}?expand=customer,lines"))
        .header("host", "127.0.0.1:8000")
        .header("user-agent", "python-requests/2.32.3 (a data pipeline; nightly job 17)")
        .header("accept", "application/json, application/problem+json;q=0.9, */*;q=0.1")
        .header("accept-encoding", "gzip, deflate, br, zstd")
        .header("authorization", format!("Bearer {number:0>64}"))
        .header("x-request-id", format!("{number:0>36}"))
        .header("cache-control", "no-cache")
        .header("traceparent", format!("00-{number:0>32}-{number:0>16}-01"))
        .body(Source::Empty)
        .expect("a request")
}

/// Bytes of memory that this process holds.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|kib| kib.parse::<usize>().ok()).unwrap_or(0) * 1024
}

/// Seconds of processor time that this process has used.
fn processor() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}
