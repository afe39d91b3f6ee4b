//! What becomes of what a request says of its trace.

use sopan_core::policy::CachePolicy;
use sopan_core::trace::{Context, Sampler};
use sopan_engine::body::Source;
use sopan_fake::script::{self, Answer};

use crate::support::{Bench, get, s};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
const BROKEN: &str = "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn asking(fields: &[(&'static str, &str)]) -> http::Request<Source> {
    let mut request = get("/x");
    for (name, value) in fields {
        request.headers_mut().append(*name, value.parse().unwrap());
    }
    request
}

fn sampler(share: f64) -> Sampler {
    Sampler::new(share).unwrap()
}

fn parents(bench: &Bench) -> Vec<Option<String>> {
    bench.upstream.requests().iter().map(|request| request.field("traceparent").map(str::to_owned)).collect()
}

#[tokio::test(start_paused = true)]
async fn nobody_who_records_nothing_changes_it() {
    let bench = Bench::new(|_| Answer::json(200, "{}"), |_| {});
    for value in [PARENT, UNSAMPLED, BROKEN, "anything"] {
        bench.send(asking(&[("traceparent", value), ("tracestate", "a=1")])).await;
        let asked = bench.upstream.requests().pop().unwrap();
        assert_eq!((asked.field("traceparent"), asked.field("tracestate")), (Some(value), Some("a=1")));
    }
    bench.get("/x").await;
    assert_eq!(parents(&bench)[4], None);
    assert!(bench.seen.ended().iter().all(|ended| ended.trace.is_none()));
}

/// Each attempt is a span of its own, so that the upstream's own span has the right parent.
#[tokio::test(start_paused = true)]
async fn each_attempt_of_a_recorded_exchange_names_itself() {
    let script = |request: &script::Request| Answer::status(if request.number < 3 { 500 } else { 200 });
    let bench = Bench::traced(sampler(0.0), script, |_| {});
    bench.send(asking(&[("traceparent", PARENT), ("tracestate", "a=1"), ("tracestate", "b=2")])).await;
    let trace = bench.seen.ended()[0].trace.unwrap();
    let came = Context::parse(PARENT.as_bytes()).unwrap();
    assert_eq!((trace.id, trace.parent, trace.flags), (came.trace, Some(came.span), 1));
    let expected = [1, 2, 3].map(|attempt| Some(trace.told(attempt).value().to_str().unwrap().to_owned()));
    assert_eq!(parents(&bench), expected);
    for asked in bench.upstream.requests() {
        assert_eq!(asked.fields_named("tracestate"), ["a=1", "b=2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_recorded_is_told_so_and_what_says_so_already_is_left_alone() {
    let bench = Bench::traced(sampler(0.0), |_| Answer::json(200, "{}"), |_| {});
    bench.send(asking(&[("traceparent", UNSAMPLED), ("tracestate", "a=1")])).await;
    bench.send(asking(&[("traceparent", BROKEN), ("tracestate", "a=1")])).await;
    bench.send(asking(&[])).await;
    let asked = bench.upstream.requests();
    assert_eq!((asked[0].field("traceparent"), asked[0].field("tracestate")), (Some(UNSAMPLED), Some("a=1")));
    for asked in &asked[1..] {
        let told = Context::parse(asked.field("traceparent").unwrap().as_bytes()).unwrap();
        assert!(!told.is_sampled() && asked.field("tracestate").is_none(), "{asked:?}");
    }
    assert!(bench.seen.ended().iter().all(|ended| ended.trace.is_none()));
}

#[tokio::test(start_paused = true)]
async fn a_new_trace_is_begun_where_none_can_be_read() {
    let bench = Bench::traced(sampler(1.0), |_| Answer::json(200, "{}"), |_| {});
    for fields in [&[] as &[_], &[("traceparent", BROKEN), ("tracestate", "a=1")]] {
        bench.send(asking(fields)).await;
        let (trace, asked) =
            (bench.seen.ended().pop().unwrap().trace.unwrap(), bench.upstream.requests().pop().unwrap());
        assert_eq!(trace.parent, None);
        let told = trace.told(1).value();
        assert_eq!((asked.field("traceparent"), asked.field("tracestate")), (Some(told.to_str().unwrap()), None));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_store_is_recorded_too() {
    let bench = Bench::traced(
        sampler(0.0),
        |_| Answer::json(200, "{}"),
        |settings| {
            settings.cache = Some(CachePolicy { default_ttl: Some(s(60)), ..CachePolicy::default() });
        },
    );
    for expected in [&["connected in 0.0 ms", "attempt 1", "200", "stored"] as &[_], &["from store"]] {
        bench.send(asking(&[("traceparent", PARENT)])).await;
        let ended = bench.seen.ended().pop().unwrap();
        assert!(ended.trace.is_some());
        assert_eq!(ended.steps.into_iter().map(|(_, what)| what).collect::<Vec<_>>(), expected);
    }
}
