//! The admin side, on a port of its own: what goes on, and what can be changed while it does.
//!
//! | module | question it answers |
//! |---|---|
//! | [`gate`] | who may ask, and for what? |
//! | [`api`] | what can be asked and done? |
//! | [`state`], [`gather`] | what goes on, and how is it found out? |
//! | [`recent`] | what happened last? |
//! | [`metrics`] | what is counted? |
//! | [`live`], [`past`] | what goes on, as it goes, and what was a little before? |
//! | [`dashboard`] | what does it look like? |
//! | [`problem`] | what is said instead? |

mod api;
mod dashboard;
mod gate;
mod gather;
mod live;
mod metrics;
mod past;
mod problem;
mod recent;
pub(crate) mod state;
mod token;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt::set_socket_send_buffer_size;
use sopan_core::policy::Limit;
use sopan_core::time::Instant;
use sopan_engine::clock::Clock;
use sopan_engine::shared::Shared;
use sopan_engine::{Cache, Upstream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub(crate) use gate::Gate;
use live::{Leash, Live, READERS_MAX};
pub(crate) use metrics::{Bounds, Metrics, Program, Trips};
pub(crate) use recent::Recent;
pub(crate) use token::Token;

use crate::config::Route;
use crate::serve::{Clients, Drain, Routes};

/// A scraper or two, and somebody who looks. Those who read all the time are counted apart.
const CONNECTIONS_MAX: usize = 64;
/// How long a connection may take in all, but for those who read all the time.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(10);
/// When no connection can be accepted (out of file descriptors, say), the next attempt comes after this.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// What is on its way to one who reads slowly, here and in the kernel each: what is told all the time should not be old.
const UNREAD_BYTES_MAX: usize = 64 * 1024;
/// The longest body of a request; the longest that makes sense has a URL in it.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// What is told of, and may be changed.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) gate: Gate,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) recent: Arc<Recent>,
    pub(crate) clients: Arc<Clients>,
    /// In the order of the settings.
    pub(crate) upstreams: Vec<Behind>,
    pub(crate) routes: Routes,
    pub(crate) cache: Option<Arc<Cache>>,
    pub(crate) shared: Option<Arc<Shared>>,
    /// Those for connections of clients that are free.
    pub(crate) places: Arc<Semaphore>,
    pub(crate) max_connections: usize,
    pub(crate) drain: Arc<Drain>,
    /// As they are in force, without secrets.
    pub(crate) settings: serde_json::Value,
    pub(crate) clock: Clock,
    pub(crate) began: Instant,
    pub(crate) started: SystemTime,
}

/// An upstream, and what its settings say of it.
#[derive(Debug)]
pub(crate) struct Behind {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) route: Route,
    /// Rates before quotas, the order in which a lane tells how full they are.
    pub(crate) limits: Vec<Limit>,
    pub(crate) has_cache: bool,
}

/// Serves until `stop` is ready, and then ends at once: whoever scrapes comes again.
pub(crate) async fn serve(listener: TcpListener, scene: Arc<Scene>, stop: impl Future<Output = ()>) {
    let live = Arc::<Live>::default();
    let router = router(&scene, &live);
    let (mut stop, mut telling) = (pin!(stop), pin!(live.run(&scene)));
    // Not `axum::serve`, which bounds neither connections nor how long they take, and leaves them behind.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = &mut stop => return,
            never = &mut telling => match never {},
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX + READERS_MAX => match accepted {
                Ok((socket, peer)) => drop(connections.spawn(serve_socket(socket, peer, router.clone()))),
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
            },
        }
    }
}

fn router(scene: &Arc<Scene>, live: &Arc<Live>) -> Router {
    let routes = api::routes().into_iter().chain(dashboard::routes());
    let router = routes.fold(Router::new(), |router, (path, methods)| router.route(path, methods));
    router
        .fallback(api::not_there)
        .method_not_allowed_fallback(api::not_so)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(Extension(Arc::clone(live)))
        .layer(from_fn_with_state(Arc::clone(scene), guard))
        .with_state(Arc::clone(scene))
}

/// Lets in whoever may ask, and has no answer be kept, framed, or taken for what it is not.
async fn guard(State(scene): State<Arc<Scene>>, request: axum::extract::Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let is_by_script = parts.headers.get("sec-fetch-dest").is_some_and(|dest| dest == "empty");
    let mut response = match scene.gate.admit(&parts) {
        Ok(()) => next.run(axum::extract::Request::from_parts(parts, body)).await,
        Err(problem) => problem.into_response(),
    };
    let fields = response.headers_mut();
    if is_by_script && fields.contains_key(WWW_AUTHENTICATE) {
        // The page asks for the secret itself; the browser would ask too, and first.
        fields.insert(WWW_AUTHENTICATE, HeaderValue::from_static(problem::BEARER));
    }
    for (name, value) in ALWAYS {
        // A page knows better what it needs.
        fields.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

const ALWAYS: [(HeaderName, &str); 6] = [
    (CACHE_CONTROL, "no-store"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

async fn serve_socket(socket: TcpStream, peer: SocketAddr, router: Router) {
    let mut http = http1::Builder::new();
    http.keep_alive(false).max_buf_size(UNREAD_BYTES_MAX);
    // One that is refused has another size, and works.
    let _ = set_socket_send_buffer_size(&socket, UNREAD_BYTES_MAX);
    let leash = Arc::<Leash>::default();
    let router = router.layer(Extension(api::Peer(peer))).layer(Extension(Arc::clone(&leash)));
    // A connection that breaks is the scraper's business; one that does not read its answer would keep others out.
    let served = http.serve_connection(TokioIo::new(socket), TowerToHyperService::new(router));
    tokio::select! {
        _ = served => {}
        () = leash.ends() => {}
    }
}

#[cfg(test)]
mod tests;
