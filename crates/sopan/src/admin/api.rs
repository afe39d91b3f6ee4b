//! What can be asked of the admin port, and done there.
//!
//! Whoever comes here was let in by the [gate](super::gate). A change is done at once, told in the log with the address that asked
//! for it, and answered with what is in force then; what is asked for and cannot be is a [`Problem`]. What each answer looks like
//! is in `openapi.json`, which a test holds against what is here.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderValue, Request, Response, StatusCode, Uri};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get, post};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sopan_core::policy::parse_duration;
use sopan_engine::{CannotChange, Purge, Upstream};

use super::problem::Problem;
use super::{Scene, live};

/// As the specification of OpenMetrics 1.0 wants it.
pub(super) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

type There = State<Arc<Scene>>;
type Done = Result<Response<Body>, Problem>;
type Sent = Result<Bytes, BytesRejection>;
/// The name of an upstream, in the path.
type Named = Result<Path<String>, PathRejection>;

/// All that there is.
pub(super) fn routes() -> Vec<(&'static str, MethodRouter<Arc<Scene>>)> {
    vec![
        ("/healthz", get(|| async { show(TEXT, "ok\n") })),
        ("/readyz", get(ready)),
        ("/metrics", get(|State(scene): There| async move { show(OPEN_METRICS, scene.metrics.text()) })),
        ("/state", get(|State(scene): There| async move { told(&scene.state()) })),
        ("/events", get(live::events)),
        ("/settings", get(|State(scene): There| async move { told(&scene.settings) })),
        ("/openapi.json", get(|| async { show(JSON, OPENAPI) })),
        ("/cache/purge", post(purge)),
        ("/upstreams/{name}/hold", post(hold)),
        ("/upstreams/{name}/release", post(release)),
        ("/upstreams/{name}/breaker", post(breaker)),
        ("/drain", post(drain)),
    ]
}

/// What is here, for programs that read such files.
pub(super) const OPENAPI: &str = include_str!("openapi.json");

pub(super) async fn not_there(uri: Uri) -> Problem {
    let detail = format!("there is nothing at {}; /openapi.json lists what there is", uri.path());
    Problem::new(StatusCode::NOT_FOUND, "not-found", detail)
}

pub(super) async fn not_so() -> Problem {
    let detail = "it is asked in another way; the field Allow says how";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", detail)
}

fn show(kind: &'static str, text: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(text.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn told(what: &impl Serialize) -> Response<Body> {
    // Of our own making, with keys that are texts.
    let text = serde_json::to_string(what).unwrap_or_default();
    show(JSON, text + "\n")
}

async fn ready(State(scene): There) -> Done {
    if scene.drain.has_begun() {
        let detail = "it drains: what has begun is finished, and nothing new is taken";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "draining", detail));
    }
    Ok(show(TEXT, "ready\n"))
}

/// What is thrown away. One of the first three.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Purging {
    /// A whole URL, or a path with its query, as clients ask sopan for it.
    url: Option<String>,
    /// A path, of which all below goes.
    prefix: Option<String>,
    all: Option<bool>,
    /// Whose; else that which takes such requests.
    upstream: Option<String>,
}

async fn purge(State(scene): There, Extension(peer): Extension<Peer>, sent: Sent) -> Done {
    let asked: Purging = read(sent)?;
    let Some(cache) = &scene.cache else {
        let detail = "there is no cache; no upstream has one";
        return Err(Problem::new(StatusCode::CONFLICT, "no-cache", detail));
    };
    let named = asked.upstream.as_deref().map(|name| scene.upstream(name)).transpose()?.map(|it| it.name());
    let (what, shown) = match (&asked.url, &asked.prefix, asked.all) {
        (Some(url), None, None) => {
            let (upstream, target) = scene.place_of(url, named)?;
            let shown = format!("the answers for {} of `{upstream}`", target.path());
            (purged(cache.purge(Purge::Url { upstream, target: target.as_str() }).await), shown)
        }
        (None, Some(prefix), None) => {
            let (upstream, target) = scene.place_of(prefix, named)?;
            if target.query().is_some() {
                return Err(Problem::bad(
                    "`prefix` is the beginning of a path, and has no query; take it off, or say `url`",
                ));
            }
            let shown = format!("all below {} of `{upstream}`", target.path());
            (purged(cache.purge(Purge::Prefix { upstream, path: target.path() }).await), shown)
        }
        (None, None, Some(true)) => match named {
            Some(upstream) => {
                let shown = format!("all of `{upstream}`");
                (purged(cache.purge(Purge::Prefix { upstream, path: "" }).await), shown)
            }
            None => (purged(cache.purge(Purge::All).await), "all".to_owned()),
        },
        _ => return Err(Problem::bad("say one of `url`, `prefix` and `\"all\": true`")),
    };
    tracing::info!(by = %peer.0, "by hand: purged from the cache: {shown}");
    Ok(told(&what))
}

fn purged(purged: sopan_engine::Purged) -> serde_json::Value {
    let mut told = json!({"purged": {"memory": purged.memory, "disk": purged.disk}});
    if let Some(is_told) = purged.is_told {
        told["others_told"] = is_told.into();
    }
    told
}

/// A span as it is written in settings, or a number of seconds.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Span {
    Seconds(f64),
    Written(String),
}

impl Span {
    fn read(&self) -> Result<Duration, Problem> {
        let span = match self {
            Self::Seconds(seconds) => Duration::try_from_secs_f64(*seconds).map_err(|error| error.to_string()),
            Self::Written(text) => parse_duration(text).map_err(|error| error.to_string()),
        };
        let span = span.map_err(|why| Problem::bad(format!("`for`: {why}")))?;
        if span.is_zero() {
            return Err(Problem::bad("`for` is zero; write for example \"30s\""));
        }
        Ok(span)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Holding {
    r#for: Span,
}

async fn hold(State(scene): There, named: Named, Extension(peer): Extension<Peer>, sent: Sent) -> Done {
    let upstream = scene.named(named)?;
    let wait = read::<Holding>(sent)?.r#for.read()?;
    let held_s = upstream.hold(wait).map_err(|why| cannot(upstream, why))?.as_secs_f64();
    tracing::info!(upstream = upstream.name(), held_s, by = %peer.0, "by hand: nothing is sent for {held_s:.2} s");
    Ok(told(&json!({"held_s": held_s})))
}

async fn release(State(scene): There, named: Named, Extension(peer): Extension<Peer>) -> Done {
    let upstream = scene.named(named)?;
    let was_held = upstream.release().map_err(|why| cannot(upstream, why))?;
    if was_held {
        tracing::info!(upstream = upstream.name(), by = %peer.0, "by hand: the pause is over, requests go again");
    }
    Ok(told(&json!({"released": was_held})))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Switching {
    state: Switched,
    r#for: Option<Span>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Switched {
    Open,
    Closed,
}

async fn breaker(State(scene): There, named: Named, Extension(peer): Extension<Peer>, sent: Sent) -> Done {
    let upstream = scene.named(named)?;
    let asked: Switching = read(sent)?;
    let span = asked.r#for.as_ref().map(Span::read).transpose()?;
    match asked.state {
        Switched::Open => {
            let open_s = upstream.open_breaker(span).map_err(|why| cannot(upstream, why))?.as_secs_f64();
            tracing::info!(
                upstream = upstream.name(),
                open_s,
                by = %peer.0,
                "by hand: the breaker is open, nothing is sent for {open_s:.2} s"
            );
            Ok(told(&json!({"state": "open", "half_open_in_s": open_s})))
        }
        Switched::Closed if span.is_some() => Err(Problem::bad("a breaker is closed for good; take `for` away")),
        Switched::Closed => {
            upstream.close_breaker().map_err(|why| cannot(upstream, why))?;
            tracing::info!(upstream = upstream.name(), by = %peer.0, "by hand: the breaker is closed");
            Ok(told(&json!({"state": "closed", "half_open_in_s": null})))
        }
    }
}

async fn drain(State(scene): There, Extension(peer): Extension<Peer>) -> Response<Body> {
    tracing::info!(by = %peer.0, "by hand: it is to drain");
    scene.drain.ask();
    let mut response = told(&json!({"draining": true}));
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

fn cannot(upstream: &Upstream, why: CannotChange) -> Problem {
    let reason = match why {
        CannotChange::OnlyObserved => "only-observed",
        CannotChange::NoBreaker => "no-breaker",
    };
    Problem::new(StatusCode::CONFLICT, reason, format!("`{}`: {why}", upstream.name()))
}

/// What was sent, as JSON.
fn read<T: for<'de> Deserialize<'de>>(sent: Sent) -> Result<T, Problem> {
    let sent = sent.map_err(|rejected| match rejected.into_response().status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            let detail = format!("the body is longer than {} bytes", super::BODY_BYTES_MAX);
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", detail)
        }
        _ => Problem::bad("the body did not come to its end"),
    })?;
    serde_json::from_slice(&sent).map_err(|error| Problem::bad(format!("the body is not what is expected: {error}")))
}

impl Scene {
    /// The upstream that a path names. What is no text is no name.
    fn named(&self, named: Named) -> Result<&Arc<Upstream>, Problem> {
        self.upstream(&named.map_or_else(|_| String::new(), |Path(name)| name))
    }

    /// The upstream of this name.
    fn upstream(&self, name: &str) -> Result<&Arc<Upstream>, Problem> {
        let mut upstreams = self.upstreams.iter().map(|behind| &behind.upstream);
        upstreams.find(|upstream| upstream.name() == name).ok_or_else(|| {
            let names: Vec<_> = self.upstreams.iter().map(|behind| behind.upstream.name()).collect();
            let detail = format!("no upstream is called that; there is {}", names.join(", "));
            Problem::new(StatusCode::NOT_FOUND, "no-such-upstream", detail)
        })
    }

    /// Whose answers those are that are asked for by a URL or a path, and by which target they are known.
    fn place_of<'s>(&'s self, url: &str, named: Option<&'s str>) -> Result<(&'s str, PathAndQuery), Problem> {
        let unread =
            |_| Problem::bad("that is no URL and no path; write it as clients ask for it, such as /shop/orders?page=1");
        let request = Request::get(url).body(()).map_err(unread)?;
        let (parts, ()) = request.into_parts();
        let target = parts.uri.path_and_query().filter(|target| target.path().starts_with('/')).cloned();
        let target = target.ok_or_else(|| Problem::bad("it has no path; write for example /shop/orders"))?;
        let of_route = || self.upstreams.get(self.routes.find(&parts)?).map(|behind| behind.upstream.name());
        let upstream = named.or_else(of_route).ok_or_else(|| {
            let detail = "no upstream takes requests for that; name one with `upstream`";
            Problem::new(StatusCode::NOT_FOUND, "no-route", detail)
        })?;
        Ok((upstream, target))
    }
}
