//! The core's decisions, timed: bucket, queue, Retry-After, a request's way through a lane where nobody waits, and what a
//! stored answer costs.
//!
//! `cargo bench -p sopan-core`. Compare with a run of your own machine only.

use std::hint::black_box;
use std::time::{Duration, UNIX_EPOCH};

use criterion::{Criterion, criterion_group, criterion_main};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use sopan_core::breaker::{Breaker, Health};
use sopan_core::bucket::{Bucket, Take};
use sopan_core::cache::directives::{RequestDirectives, ResponseDirectives};
use sopan_core::cache::vary::Selecting;
use sopan_core::cache::{Asked, Lookup, Received, Stored, Times, lookup};
use sopan_core::hints::{Reader, retry_after};
use sopan_core::lane::{Enter, Lane, Visit};
use sopan_core::policy::{BreakerPolicy, CachePolicy, LanePolicy, Limit, Margin};
use sopan_core::queue::{ClientId, Entry, Queue};
use sopan_core::retry::Budget;
use sopan_core::time::Instant;

fn limits(limits: &[&str]) -> Vec<Limit> {
    limits.iter().map(|limit| limit.parse().expect("a limit")).collect()
}

fn bucket(c: &mut Criterion) {
    for written in [&["1000000/s burst 1000"][..], &["1000000 per 1s"], &["1000000/s burst 1000", "900000 per 1s"]] {
        let mut bucket = Bucket::new(&limits(written), 1, Margin::default());
        let mut now = Instant::ORIGIN;
        c.bench_function(&format!("bucket: take and charge, {}", written.join(" and ")), |b| {
            b.iter(|| {
                now = now.after(Duration::from_micros(2));
                let taken = bucket.take(1, now);
                assert!(matches!(taken, Take::Taken { .. }));
                bucket.charge(1, None, now);
            });
        });
    }
}

fn entry(client: u128, arrival: u64) -> Entry {
    let deadline = Some(Instant::from_nanos(arrival));
    Entry { client: ClientId(client), weight: 1, arrival, cost: 1, bytes: 500, since: Instant::ORIGIN, deadline }
}

fn queue(c: &mut Criterion) {
    for (waiting, clients) in [(1_000, 1), (1_000, 100), (100_000, 10_000)] {
        let mut queue = Queue::new();
        let mut arrival = 0;
        for _ in 0..waiting {
            arrival += 1;
            queue.insert(entry(u128::from(arrival) % clients, arrival));
        }
        c.bench_function(&format!("queue: insert and grant, {waiting} waiting of {clients} clients"), |b| {
            b.iter(|| {
                arrival += 1;
                queue.insert(entry(u128::from(arrival) % clients, arrival));
                let first = queue.first().expect("somebody waits");
                black_box(queue.grant(first));
            });
        });
        c.bench_function(&format!("queue: cost ahead, {waiting} waiting of {clients} clients"), |b| {
            b.iter(|| black_box(queue.cost_ahead(ClientId(1), 1, arrival + 1)));
        });
    }
}

fn retry_after(c: &mut Criterion) {
    let received = UNIX_EPOCH + Duration::from_secs(1_792_584_000);
    for value in ["90", "1.5", "Wed, 21 Oct 2026 12:01:30 GMT", "Wednesday, 21-Oct-26 12:01:30 GMT", "not-a-date"] {
        c.bench_function(&format!("retry-after: {value}"), |b| {
            b.iter(|| retry_after::read_value(black_box(value.as_bytes()), received, Reader::Lenient));
        });
    }
}

fn lane(c: &mut Criterion) {
    for (name, limits) in [("unlimited", limits(&[])), ("1000000/s burst 1000", limits(&["1000000/s burst 1000"]))] {
        let policy = LanePolicy { limits, ..LanePolicy::default() };
        let mut lane = Lane::new(policy, Breaker::new(BreakerPolicy::default()), Budget::new(true));
        let (mut now, mut arrival) = (Instant::ORIGIN, 0);
        c.bench_function(&format!("lane: enter, written, settle, finish, {name}"), |b| {
            b.iter(|| {
                now = now.after(Duration::from_micros(2));
                arrival += 1;
                let Enter::Go(mut turn) = lane.enter(entry(1, arrival), Visit::First, now) else {
                    panic!("nothing is in the way")
                };
                lane.written(&mut turn, now);
                lane.settle(&mut turn, Health::Success, None, now);
                lane.finish(turn, now);
            });
        });
    }
}

fn fields(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    lines.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
}

fn cache(c: &mut Criterion) {
    let plain = [("host", "api.test"), ("user-agent", "curl/8"), ("accept", "*/*"), ("accept-encoding", "gzip, br")];
    let (request, answer) =
        (fields(&plain), fields(&[("vary", "accept-encoding"), ("cache-control", "public, max-age=60")]));
    let asking = fields(&[&plain[..], &[("cache-control", "max-age=0, stale-if-error=60")]].concat());
    for (what, request) in [("without any", &request), ("with two", &asking)] {
        c.bench_function(&format!("cache: directives of a request {what}"), |b| {
            b.iter(|| RequestDirectives::read(black_box(request)));
        });
    }
    let targeted = ["sopan-cache-control", "cdn-cache-control"].map(HeaderName::from_static);
    c.bench_function("cache: directives of an answer", |b| {
        b.iter(|| ResponseDirectives::read(black_box(&answer), &targeted));
    });
    let selecting = Selecting::of(&answer, &request);
    for (what, encoding) in [("the same", "gzip, br"), ("the same otherwise", "GZip,br"), ("another", "gzip, zstd")] {
        let request = fields(&[("accept-encoding", encoding)]);
        c.bench_function(&format!("cache: is an answer for {what}"), |b| {
            b.iter(|| selecting.is_for(black_box(&request)))
        });
    }
}

fn hit(c: &mut Criterion) {
    let policy = CachePolicy::default();
    let noon = UNIX_EPOCH + Duration::from_secs(1_792_584_000);
    let request = fields(&[("user-agent", "curl/8"), ("accept", "*/*"), ("accept-encoding", "gzip, br")]);
    let times = Times { requested: noon, received: noon };
    for (what, vary) in [("without Vary", None), ("with Vary", Some(("vary", "accept-encoding, accept")))] {
        let headers = fields(&[("cache-control", "max-age=60")].into_iter().chain(vary).collect::<Vec<_>>());
        let ask = || Asked::new(&policy, &Method::GET, "/v1/orders?page=2", b"api.test", &request);
        let received = Received { status: StatusCode::OK, headers: &headers, times };
        let stored = Stored::of(&policy, &ask(), received).expect("it is fresh");
        c.bench_function(&format!("cache: read a request and find a fresh answer {what}"), |b| {
            b.iter(|| {
                let found = lookup(&policy, &black_box(ask()), &[&stored], noon + Duration::from_secs(1));
                assert!(matches!(found, Lookup::Reuse(_)));
            });
        });
    }
}

criterion_group!(benches, bucket, queue, retry_after, lane, cache, hit);
criterion_main!(benches);
