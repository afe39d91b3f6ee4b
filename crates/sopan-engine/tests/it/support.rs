//! The engine in front of a scripted upstream, in memory and on a paused clock.
//!
//! A [`Bench`] has the settings that the cases agree on unless a test changes them: three attempts, a backoff of 200 ms to
//! 2 s without jitter, 30 s in all, no limits, no breaker. [`Bench::get`] and its kin call the engine as a program does;
//! [`Bench::door`] puts an HTTP server in front of it, for what only a client on a wire can do.

pub(crate) mod door;
pub(crate) mod http2;
pub(crate) mod lines;
pub(crate) mod log;
pub(crate) mod store;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use sopan_core::cache::status::Detail;
use sopan_core::lane::Snapshot;
use sopan_core::queue::ClientId;
use sopan_core::retry::Why;
use sopan_core::trace::{Sampler, Trace};
use sopan_engine::body::Source;
use sopan_engine::clock::Clock;
use sopan_engine::event::{Attempted, Cached, Event, Observed, Observer};
use sopan_engine::exchange::{self, Answer, End, Hop, Inbound};
use sopan_engine::jitter::Jitter;
use sopan_engine::refusal::Refusal;
use sopan_engine::shared::Shared;
use sopan_engine::{Cache, CacheSettings, Dial, Settings, StateHandle, Surroundings, Target, Upstream};
use sopan_fake::script;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use lines::{Line, Lines};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// What the calendar shows when a test begins: Tue, 10 Mar 2026 12:00:00 GMT.
pub(crate) const EPOCH: u64 = 1_773_144_000;

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// tokio's timers end on whole milliseconds, so what waits exactly so long may end one later.
pub(crate) const TICK: Duration = ms(1);

pub(crate) fn wall() -> SystemTime {
    SystemTime::UNIX_EPOCH + s(EPOCH)
}

/// The instant by which the upstream stamps what it sees.
#[allow(clippy::disallowed_methods, reason = "the upstream stamps with tokio's clock, and a test compares")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// An engine in front of a scripted upstream.
pub(crate) struct Bench {
    pub(crate) engine: Arc<Upstream>,
    pub(crate) upstream: Arc<script::Upstream>,
    pub(crate) lines: Arc<Lines>,
    pub(crate) seen: Arc<Seen>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) begun: Instant,
}

impl Bench {
    pub(crate) fn new(
        script: impl Fn(&script::Request) -> script::Answer + Send + Sync + 'static,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        Self::over(|_| Line::Open, script, change)
    }

    /// One whose connections are made as planned; the plan is told their number, from 1.
    pub(crate) fn over(
        plan: impl Fn(usize) -> Line + Send + Sync + 'static,
        script: impl Fn(&script::Request) -> script::Answer + Send + Sync + 'static,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        Self::storing(&CacheSettings::default(), plan, script, change)
    }

    /// One with a cache of this size, where the settings have a policy for it.
    pub(crate) fn storing(
        size: &CacheSettings,
        plan: impl Fn(usize) -> Line + Send + Sync + 'static,
        script: impl Fn(&script::Request) -> script::Answer + Send + Sync + 'static,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let upstream = Arc::new(script::Upstream::in_process(script));
        let lines = Arc::new(Lines::new(Arc::clone(&upstream), plan));
        Self::start(upstream, lines, Around { size: size.clone(), ..Around::default() }, change)
    }

    /// One whose connections are made in another way; its scripted upstream is never asked.
    fn dialling(dial: Option<Arc<dyn Dial>>, change: impl FnOnce(&mut Settings)) -> Self {
        let upstream = Arc::new(script::Upstream::in_process(|_| script::Answer::nothing().close()));
        let lines = Arc::new(Lines::new(Arc::clone(&upstream), |_| Line::Refused));
        Self::start(upstream, lines, Around { dial, ..Around::default() }, change)
    }

    /// One whose exchanges are recorded in traces, as far as the sampler wants that.
    pub(crate) fn traced(
        sampler: Sampler,
        script: impl Fn(&script::Request) -> script::Answer + Send + Sync + 'static,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let upstream = Arc::new(script::Upstream::in_process(script));
        let lines = Arc::new(Lines::new(Arc::clone(&upstream), |_| Line::Open));
        Self::start(upstream, lines, Around { sampler: Some(sampler), ..Around::default() }, change)
    }

    /// One whose state is kept; its upstream may have known the process before.
    pub(crate) fn keeping(
        state: StateHandle,
        upstream: Arc<script::Upstream>,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let lines = Arc::new(Lines::new(Arc::clone(&upstream), |_| Line::Open));
        Self::start(upstream, lines, Around { state: Some(state), ..Around::default() }, change)
    }

    /// One whose limits are shared.
    pub(crate) fn sharing(
        shared: &Arc<Shared>,
        script: impl Fn(&script::Request) -> script::Answer + Send + Sync + 'static,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let upstream = Arc::new(script::Upstream::in_process(script));
        let lines = Arc::new(Lines::new(Arc::clone(&upstream), |_| Line::Open));
        Self::start(upstream, lines, Around { shared: Some(Arc::clone(shared)), ..Around::default() }, change)
    }

    fn start(
        upstream: Arc<script::Upstream>,
        lines: Arc<Lines>,
        around: Around,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        log::ask_each_time();
        let Around { dial, state, size, sampler, shared } = around;
        let (seen, cache) = (Arc::<Seen>::default(), Cache::open(&size).unwrap());
        let around = Surroundings {
            clock: Clock::paused(wall()),
            jitter: Jitter::seeded(1),
            observer: Arc::clone(&seen) as _,
            dial: Some(dial.unwrap_or_else(|| Arc::clone(&lines) as _)),
            state,
            // Of no effect where the settings have no policy for it.
            cache: Some(Arc::clone(&cache)),
            shared,
            sampler,
        };
        let mut settings = settings();
        change(&mut settings);
        let (engine, background) = Upstream::start(settings, around).unwrap();
        tokio::spawn(background);
        Self { engine, upstream, lines, seen, cache, begun: now() }
    }

    pub(crate) async fn get(&self, path: &str) -> Got {
        self.send(get(path)).await
    }

    pub(crate) async fn send(&self, request: Request<Source>) -> Got {
        self.calling(request, 1).await
    }

    /// A request in a task of its own, for client 1.
    pub(crate) fn spawn(&self, request: Request<Source>) -> JoinHandle<Got> {
        tokio::spawn(self.calling(request, 1))
    }

    /// So many GETs at once, in their order.
    pub(crate) fn crowd(&self, count: usize) -> Vec<JoinHandle<Got>> {
        (0..count).map(|i| self.spawn(get(&format!("/{i}")))).collect()
    }

    pub(crate) fn calling(&self, request: Request<Source>, client: u128) -> impl Future<Output = Got> + Send + 'static {
        self.weighed(request, client, 1)
    }

    pub(crate) fn weighed(
        &self,
        request: Request<Source>,
        client: u128,
        weight: u32,
    ) -> impl Future<Output = Got> + Send + 'static {
        self.handed(Inbound { request, client: ClientId(client), weight, interims: None, hop: None })
    }

    /// A request that came over this hop, for client 1.
    pub(crate) async fn send_over(&self, hop: Hop, request: Request<Source>) -> Got {
        self.handed(Inbound { request, client: ClientId(1), weight: 1, interims: None, hop: Some(hop) }).await
    }

    pub(crate) fn handed(&self, inbound: Inbound) -> impl Future<Output = Got> + Send + 'static {
        let (engine, begun) = (Arc::clone(&self.engine), self.begun);
        async move {
            within_patience(async move {
                let answer = exchange::call(&engine, inbound).await;
                drop(engine);
                Got::read(answer, begun).await
            })
            .await
        }
    }

    /// When the client's end of connection `number` was gone.
    pub(crate) async fn gone(&self, number: usize) -> Duration {
        within_patience(self.upstream.peer_gone(number)).await.at - self.begun
    }

    /// When the requests arrived, counted from the beginning.
    pub(crate) fn arrivals(&self) -> Vec<Duration> {
        self.upstream.requests().iter().map(|request| request.first_byte_at - self.begun).collect()
    }

    /// Which requests arrived, in their order.
    pub(crate) fn targets(&self) -> Vec<String> {
        self.upstream.requests().into_iter().map(|request| request.target).collect()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.engine.snapshot()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.snapshot().waiting
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.snapshot().in_flight
    }

    /// Nothing waits, nothing is under way, and all that was sent was clean.
    #[track_caller]
    pub(crate) fn is_at_rest(&self) {
        let Snapshot { waiting, waiting_bytes, in_flight, .. } = self.snapshot();
        assert_eq!((waiting, waiting_bytes, in_flight), (0, 0, 0), "waiting, their bytes, in flight");
        assert_eq!(self.upstream.unclean(), [""; 0]);
    }
}

/// What is not the same for all benches.
#[derive(Default)]
struct Around {
    dial: Option<Arc<dyn Dial>>,
    state: Option<StateHandle>,
    size: CacheSettings,
    sampler: Option<Sampler>,
    shared: Option<Arc<Shared>>,
}

/// What the cases agree on.
fn settings() -> Settings {
    let mut settings = Settings::new(Target::parse("http://upstream.test").unwrap());
    settings.lane.limits.clear();
    settings.breaker.on = false;
    settings.retry.max_retries = 2;
    settings.retry.backoff_base = ms(200);
    settings.retry.backoff_cap = s(2);
    settings.retry.jitter = 0.0;
    settings.retry.total_timeout = Some(s(30));
    settings
}

pub(crate) fn get(path: &str) -> Request<Source> {
    request("GET", path, "")
}

pub(crate) fn request(method: &str, path: &str, body: impl Into<Bytes>) -> Request<Source> {
    let body: Bytes = body.into();
    let source = if body.is_empty() { Source::Empty } else { Source::Bytes(body) };
    Request::builder().method(method).uri(path).body(source).unwrap()
}

/// Bytes that no accident repeats.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Waits until all that can happen at this instant has happened.
pub(crate) async fn settled() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// Nothing takes longer than this: with the clock paused, what never comes would else be waited for without end.
async fn within_patience<T>(future: impl Future<Output = T>) -> T {
    const PATIENCE: Duration = s(40 * 86_400);
    tokio::time::timeout(PATIENCE, future).await.expect("something that never comes")
}

/// Lets a future go after so long, as a client that hangs up does.
pub(crate) async fn leave_after<T: fmt::Debug>(patience: Duration, future: impl Future<Output = T>) {
    let over = tokio::time::timeout(patience, future).await;
    assert!(over.is_err(), "it was over before its client left: {over:?}");
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) response: Response<()>,
    pub(crate) body: Result<Bytes, String>,
    pub(crate) end: End,
    /// When the head was there, counted from the beginning of the test.
    pub(crate) head_at: Duration,
    /// When the body was there.
    pub(crate) body_at: Duration,
}

impl Got {
    pub(crate) async fn read(answer: Answer, begun: Instant) -> Self {
        let head_at = now() - begun;
        let (parts, body) = answer.response.into_parts();
        let body = body.collect().await.map(|b| b.to_bytes()).map_err(|e| e.to_string());
        Self { response: Response::from_parts(parts, ()), body, end: answer.end, head_at, body_at: now() - begun }
    }

    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name).map(|value| std::str::from_utf8(value.as_bytes()).unwrap())
    }

    /// The body, or why it broke off.
    pub(crate) fn text(&self) -> &str {
        match &self.body {
            Ok(bytes) => std::str::from_utf8(bytes).unwrap(),
            Err(error) => error,
        }
    }

    #[track_caller]
    pub(crate) fn retry_after(&self) -> u64 {
        self.field("retry-after").expect("a Retry-After").parse().expect("whole seconds")
    }

    /// The kind of a refusal, as its body names it.
    #[track_caller]
    pub(crate) fn refused(&self) -> String {
        assert!(matches!(self.end, End::Refused(_)), "not refused: {self:?}");
        self.problem()["type"].as_str().unwrap().strip_prefix("urn:sopan:").unwrap().to_owned()
    }

    /// What an answer of sopan's own says.
    #[track_caller]
    pub(crate) fn problem(&self) -> serde_json::Value {
        assert_eq!(self.field("content-type"), Some("application/problem+json"), "{self:?}");
        serde_json::from_str(self.text()).unwrap()
    }

    #[track_caller]
    pub(crate) fn detail(&self) -> String {
        self.problem()["detail"].as_str().unwrap().to_owned()
    }

    /// Why there was no further attempt.
    #[track_caller]
    pub(crate) fn why(&self) -> Why {
        match &self.end {
            End::GaveUp { why, .. } => *why,
            other => panic!("not given up: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn refusal(&self) -> Refusal {
        match &self.end {
            End::Refused(refusal) => *refusal,
            other => panic!("not refused: {other:?}"),
        }
    }
}

/// What an observer was told.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    outcomes: Mutex<Vec<String>>,
    ended: Mutex<Vec<Ended>>,
}

/// An exchange that has ended.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    /// Method, target and status.
    pub(crate) what: String,
    pub(crate) refused: Option<&'static str>,
    pub(crate) observed: Option<Observed>,
    pub(crate) cache: Option<Cached>,
    pub(crate) cache_detail: Option<Detail>,
    pub(crate) saved_a_token: bool,
    pub(crate) wait: Duration,
    pub(crate) attempts: u32,
    pub(crate) upstream: Duration,
    pub(crate) total: Duration,
    pub(crate) bytes: u64,
    pub(crate) whole: bool,
    /// When each step was, in milliseconds, and what.
    pub(crate) steps: Vec<(u128, String)>,
    pub(crate) steps_left_out: u32,
    pub(crate) trace: Option<Trace>,
}

impl Seen {
    /// The attempts, in the words of the log.
    pub(crate) fn outcomes(&self) -> Vec<String> {
        self.outcomes.lock().clone()
    }

    pub(crate) fn ended(&self) -> Vec<Ended> {
        self.ended.lock().clone()
    }
}

impl Observer for Seen {
    fn attempted(&self, attempted: Attempted<'_>) {
        let what = match attempted {
            Attempted::Ended(outcome) => outcome.to_string(),
            other => format!("{other:?}"),
        };
        self.outcomes.lock().push(what);
    }

    fn ended(&self, event: &Event<'_>) {
        self.ended.lock().push(Ended {
            what: format!("{} {} {}", event.method, event.uri, event.status.map_or(0, |status| status.as_u16())),
            refused: event.refused,
            observed: event.observed.copied(),
            cache: event.cache,
            cache_detail: event.cache_detail,
            saved_a_token: event.saved_a_token(),
            wait: event.wait,
            attempts: event.attempts,
            upstream: event.upstream,
            total: event.total,
            bytes: event.bytes,
            whole: event.whole,
            steps: event.steps.iter().map(|step| (step.at.as_millis(), step.what.to_string())).collect(),
            steps_left_out: event.steps_left_out,
            trace: event.trace.copied(),
        });
    }
}

/// At most `burst + rate · (T + 20 ms)` in any span T: the rule by which the cases judge arrivals.
#[track_caller]
pub(crate) fn keeps_to(arrivals: &[Duration], burst: u32, rate: f64) {
    for (i, first) in arrivals.iter().enumerate() {
        for (j, last) in arrivals.iter().enumerate().skip(i) {
            let span = (*last - *first).as_secs_f64() + 0.02;
            let (count, allowed) = ((j - i + 1) as f64, f64::from(burst) + rate * span);
            assert!(count <= allowed, "{count} arrivals from {first:?} to {last:?}, {allowed:.2} allowed");
        }
    }
}

/// Not before `expected` and at most a tick later.
#[track_caller]
pub(crate) fn is_just(actual: Duration, expected: Duration) {
    assert!(actual >= expected && actual <= expected + TICK, "{actual:?} instead of {expected:?}");
}

/// Within these bounds, both included.
#[track_caller]
pub(crate) fn is_within(actual: Duration, from: Duration, to: Duration) {
    assert!(actual >= from && actual <= to, "{actual:?} is not within {from:?} and {to:?}");
}
