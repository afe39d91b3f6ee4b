//! Spans on their way to the collector.
//!
//! They go out by the engine, which knows TLS, waits as long as it is asked to, and repeats what may be repeated. Its
//! warnings are for clients' requests, so what goes wrong here is told in words of our own, and not each time.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Uri};
use http_body::Body as _;
use sopan_core::queue::ClientId;
use sopan_core::time::Instant;
use sopan_engine::body::Source;
use sopan_engine::clock::Clock;
use sopan_engine::exchange::{self, Answer, End, Inbound};
use sopan_engine::{Settings, SetupError, Surroundings, Upstream};
use tracing::Dispatch;

use super::Counts;
use super::otlp::{Common, request};
use super::record::Record;
use super::spans::{Server, spans};
use crate::{config, version};

/// The longest that one delivery may take, its repetitions included.
const TIME_MAX: Duration = Duration::from_secs(10);
const RETRIES_MAX: u32 = 2;
/// That nothing can be delivered is told this far apart: it may take hours.
const TOLD_APART: Duration = Duration::from_secs(60);
/// What a collector says of it is read no further than this.
const ANSWER_MAX: u64 = 64 * 1024;
/// And no longer: its head has said all that counts, and others wait to be delivered.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

type Background = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The way to the collector.
pub(super) struct Delivery {
    collector: Arc<Upstream>,
    background: Option<Background>,
    path: PathAndQuery,
    fields: HeaderMap,
    common: Common,
    servers: HashMap<String, Server>,
    clock: Clock,
    trouble: Option<Trouble>,
}

/// What has gone wrong since it last went right.
struct Trouble {
    told: Instant,
    lost: u64,
}

impl Delivery {
    pub(super) fn new(settings: &config::Traces, upstreams: &[Arc<Upstream>]) -> Result<Self, SetupError> {
        let mut to = Settings::new(settings.to.target.clone());
        to.name = "traces".to_owned();
        to.lane.limits.clear();
        to.breaker.on = false;
        to.retry.max_retries = RETRIES_MAX;
        to.retry.total_timeout = Some(TIME_MAX);
        to.retry.attempt_timeout = TIME_MAX;
        let clock = Clock::system();
        let (collector, background) = Upstream::start(to, Surroundings { clock, ..Surroundings::default() })?;
        let server = |upstream: &Arc<Upstream>| {
            let target = upstream.target();
            (upstream.name().to_owned(), Server { address: target.host().to_owned(), port: target.port() })
        };
        let mut fields = settings.fields.clone();
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        fields.entry(USER_AGENT).or_insert(HeaderValue::from_static(concat!("sopan/", env!("CARGO_PKG_VERSION"))));
        fields.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        Ok(Self {
            collector,
            background: Some(Box::pin(background)),
            path: settings.to.path.clone(),
            fields,
            common: Common { service_name: settings.service_name.clone(), version: version::NUMBER },
            servers: upstreams.iter().map(server).collect(),
            clock,
            trouble: None,
        })
    }

    /// What must go on beside it; it is there once.
    pub(super) fn background(&mut self) -> Background {
        self.background.take().unwrap_or_else(|| Box::pin(std::future::pending()))
    }

    /// Delivers these, or counts them as lost.
    pub(super) async fn deliver(&mut self, batch: &[Record], counts: &Counts) {
        let made = |record: &Record| (record.trace, spans(record, self.servers.get(&*record.upstream)));
        let made: Vec<_> = batch.iter().map(made).collect();
        let count = made.iter().map(|(_, spans)| spans.len() as u64).sum();
        let body = request(&self.common, &made);
        drop(made);
        match self.send(body).await {
            Ok(()) => {
                counts.sent.inc_by(count);
                self.is_well();
            }
            Err(why) => {
                counts.lost.inc_by(count);
                self.is_ill(count, &why);
            }
        }
    }

    async fn send(&self, body: Vec<u8>) -> Result<(), String> {
        let mut request = Request::new(Source::Bytes(body.into()));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = Uri::from(self.path.clone());
        *request.headers_mut() = self.fields.clone();
        let inbound = Inbound { request, client: ClientId(0), weight: 1, interims: None, hop: None };
        // For this thread, on which nothing else runs.
        let _quiet = tracing::dispatcher::set_default(&Dispatch::none());
        let answer = exchange::call(&self.collector, inbound).await;
        judged(answer).await
    }

    fn is_well(&mut self) {
        let Some(Trouble { lost, .. }) = self.trouble.take() else { return };
        tracing::info!(lost, "traces are delivered again; spans that were lost meanwhile: {lost}");
    }

    fn is_ill(&mut self, lost: u64, why: &str) {
        let now = self.clock.now();
        let (told, before) = self.trouble.as_ref().map_or((None, 0), |trouble| (Some(trouble.told), trouble.lost));
        let lost = before.saturating_add(lost);
        let is_due = told.is_none_or(|told| now >= told.after(TOLD_APART));
        self.trouble = Some(Trouble { told: if is_due { now } else { told.unwrap_or(now) }, lost });
        if is_due {
            let to = self.collector.target().to_string();
            tracing::warn!(lost, to, why, "traces cannot be delivered to {to}: {why}; spans lost so far: {lost}");
        }
    }
}

/// Whether it was taken; and if not, why.
async fn judged(answer: Answer) -> Result<(), String> {
    let (status, mut body) = (answer.response.status(), answer.response.into_body());
    let why = match answer.end {
        End::Refused(refusal) => return Err(refusal.detail()),
        End::GaveUp { reason, .. } => Some(reason),
        End::Done | End::Own => None,
    };
    // Read to its end, so that the connection serves again.
    let rest = async {
        let mut read = 0;
        while read <= ANSWER_MAX
            && let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await
        {
            read += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
    };
    let _ = tokio::time::timeout(ANSWER_TIME_MAX, rest).await;
    match why {
        None if status.is_success() => Ok(()),
        why => Err(why.unwrap_or_else(|| format!("HTTP {}", status.as_u16()))),
    }
}
