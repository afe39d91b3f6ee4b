//! What goes on, told as it goes: `/events`, for the page and for whoever else reads server-sent events.
//!
//! Twice a second the state is made, once for all who read, and only if anybody does; what they read are the same bytes. Of those a
//! reader who is slow gets the newest, and never what came between: it asks for one when there is room for it, and the room on
//! the way is small. Beside that a little is remembered of the last five minutes, so that a plot does not begin empty.
//! What is told is [`state`](super::state)'s business, and how it looks the page's.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body::Frame;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::past::Past;
use super::problem::Problem;
use super::{CONNECTION_TIME_MAX, Scene};

/// How often the state is told.
const EVERY: Duration = Duration::from_millis(500);
/// Of so many of these one is remembered.
const REMEMBERED: u64 = 2;
/// Who may read at the same time: some screens, and some forgotten tabs.
pub(super) const READERS_MAX: usize = 16;
/// A reader for whom nothing can be sent for so long has gone, and keeps others out.
const SILENCE_MAX: Duration = CONNECTION_TIME_MAX;
/// How long a reader that was cut off should wait before it comes again, in milliseconds.
const COME_AGAIN: u32 = 1_000;

/// Tells all who read.
#[derive(Debug)]
pub(super) struct Live {
    /// The newest event.
    newest: watch::Sender<Bytes>,
    places: Arc<Semaphore>,
    past: Mutex<Past>,
}

impl Default for Live {
    fn default() -> Self {
        let places = Arc::new(Semaphore::new(READERS_MAX));
        Self { newest: watch::Sender::new(Bytes::new()), places, past: Mutex::default() }
    }
}

impl Live {
    /// Tells and remembers for as long as it is polled.
    pub(super) async fn run(&self, scene: &Scene) -> Infallible {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut number = 0_u64;
        loop {
            ticks.tick().await;
            if number.is_multiple_of(REMEMBERED) {
                self.past.lock().remember(scene.loads());
            }
            number += 1;
            if self.newest.receiver_count() > 0 {
                self.newest.send_replace(event("state", Some(number), &scene.state()));
            }
        }
    }

    /// What a reader gets first: what was before.
    fn first(&self, scene: &Scene) -> Bytes {
        let past = self.past.lock().told(scene.upstreams.iter().map(|behind| behind.upstream.name()));
        let history = event("history", None, &past);
        [format!("retry: {COME_AGAIN}\n").as_bytes(), &history].concat().into()
    }
}

/// An event, as it is written.
fn event(name: &str, id: Option<u64>, data: &impl Serialize) -> Bytes {
    // Of our own making, with keys that are texts; JSON without blanks has no line breaks.
    let data = serde_json::to_string(data).unwrap_or_default();
    let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
    format!("event: {name}\n{id}data: {data}\n\n").into()
}

/// Answers with all events from now on.
pub(super) async fn events(
    State(scene): State<Arc<Scene>>,
    Extension(live): Extension<Arc<Live>>,
    Extension(leash): Extension<Arc<Leash>>,
) -> Result<Response<Body>, Problem> {
    let Ok(place) = Arc::clone(&live.places).try_acquire_owned() else {
        let detail =
            format!("{READERS_MAX} read it already, and there may be no more; close a page that nobody looks at");
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too-many-readers", detail));
    };
    leash.lengthen();
    let newest = live.newest.subscribe();
    let (to, pieces) = mpsc::channel(1);
    tokio::spawn(feed(place, live.first(&scene), newest, to, leash));
    let mut response = Response::new(Body::new(Feed(pieces)));
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // nginx, where somebody puts it in front, would keep events back until there are many.
    fields.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Ok(response)
}

/// Gives a reader what is newest whenever there is room for it, until it goes or takes nothing any more.
async fn feed(
    _place: OwnedSemaphorePermit,
    first: Bytes,
    mut newest: watch::Receiver<Bytes>,
    to: mpsc::Sender<Bytes>,
    leash: Arc<Leash>,
) {
    let mut next = first;
    while let Ok(Ok(())) = timeout(SILENCE_MAX, to.send(next)).await {
        if newest.changed().await.is_err() {
            return;
        }
        next = newest.borrow_and_update().clone();
    }
    leash.cut();
}

/// The body of an answer that has no end.
struct Feed(mpsc::Receiver<Bytes>);

impl http_body::Body for Feed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// How long a connection may go on.
#[derive(Debug, Default)]
pub(super) struct Leash {
    has_asked: AtomicBool,
    is_long: AtomicBool,
    cut: Notify,
}

impl Leash {
    /// It has said what it wants.
    pub(super) fn asks(&self) {
        self.has_asked.store(true, Relaxed);
    }

    /// Whether it has said what it wants.
    pub(super) fn has_asked(&self) -> bool {
        self.has_asked.load(Relaxed)
    }

    /// It may go on until it is cut.
    fn lengthen(&self) {
        self.is_long.store(true, Relaxed);
    }

    fn cut(&self) {
        self.cut.notify_one();
    }

    /// Ends when the connection must.
    pub(super) async fn ends(&self) {
        tokio::time::sleep(CONNECTION_TIME_MAX).await;
        if self.is_long.load(Relaxed) {
            self.cut.notified().await;
        }
    }
}
