//! A client of the engine, in front of a scripted upstream or the fake API, in memory.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use sopan_core::queue::ClientId;
use sopan_engine::body::Source;
use sopan_engine::clock::Clock;
use sopan_engine::event::Unobserved;
use sopan_engine::exchange::{self, Answer, End, Inbound};
use sopan_engine::jitter::Jitter;
use sopan_engine::{Dial, Settings, Stream, Surroundings, Target, Upstream};
use sopan_fake::script;

/// Connects to a scripted upstream in memory.
pub(crate) struct InProcess(pub(crate) Arc<script::Upstream>);

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcess")
    }
}

impl Dial for InProcess {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>> {
        let stream = self.0.connect();
        Box::pin(async move { Ok(Stream::Memory(stream)) })
    }
}

/// An engine in front of a scripted upstream.
pub(crate) struct Bench {
    pub(crate) engine: Arc<Upstream>,
    pub(crate) upstream: Arc<script::Upstream>,
    pub(crate) clock: Clock,
}

impl Bench {
    pub(crate) fn new(upstream: script::Upstream, change: impl FnOnce(&mut Settings)) -> Self {
        let upstream = Arc::new(upstream);
        let clock = Clock::paused(SystemTime::UNIX_EPOCH + Duration::from_secs(1_773_144_000));
        let mut settings = Settings::new(Target::parse("http://upstream.test").unwrap());
        settings.lane.limits.clear();
        settings.breaker.on = false;
        settings.retry.jitter = 0.0;
        change(&mut settings);
        let around = Surroundings {
            clock,
            jitter: Jitter::seeded(1),
            observer: Arc::new(Unobserved),
            dial: Some(Arc::new(InProcess(Arc::clone(&upstream)))),
        };
        let (engine, background) = Upstream::start(settings, around).unwrap();
        tokio::spawn(background);
        Self { engine, upstream, clock }
    }

    pub(crate) async fn get(&self, path: &str) -> Got {
        self.send(Request::get(path).body(Source::Empty).unwrap()).await
    }

    pub(crate) async fn send(&self, request: Request<Source>) -> Got {
        let inbound = Inbound { request, client: ClientId(1), weight: 1 };
        let Answer { response, end } = exchange::call(&self.engine, inbound).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map(|b| b.to_bytes()).map_err(|e| e.to_string());
        Got { response: Response::from_parts(parts, ()), body, end }
    }
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) response: Response<()>,
    pub(crate) body: Result<Bytes, String>,
    pub(crate) end: End,
}

impl Got {
    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }
}
