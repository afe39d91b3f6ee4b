//! An upstream that speaks HTTP/2, in memory: each request is answered by a function of the test.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream};
use http::{HeaderMap, Method, Request, Response};
use parking_lot::Mutex;
use sopan_engine::{Dial, Settings, Stream, Target};
use sopan_fake::script;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Bench, now};

/// A request, and how it is answered.
pub(crate) struct Asked {
    /// Which connection it came on, and which request it is of all, from 1.
    pub(crate) connection: usize,
    pub(crate) number: usize,
    pub(crate) request: Request<RecvStream>,
    pub(crate) respond: SendResponse<Bytes>,
}

/// What the connection does when a request has been answered.
pub(crate) enum Then {
    GoesOn,
    /// It says goodbye, with this request as the last.
    Leaves(Reason),
    /// It is gone without a word.
    Closes,
}

/// What a new connection is.
#[derive(Clone, Copy)]
pub(crate) enum Line {
    Open,
    /// It says these bytes once it has been spoken to, and nothing more.
    Says(&'static [u8]),
    /// It begins well, and says these bytes when it has been asked.
    Answers(&'static [u8]),
}

/// What is kept of a request.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    pub(crate) connection: usize,
    pub(crate) method: Method,
    pub(crate) uri: String,
    pub(crate) fields: HeaderMap,
    pub(crate) at: Instant,
}

type Answering = Pin<Box<dyn Future<Output = Then> + Send>>;

pub(crate) struct Http2 {
    script: Box<dyn Fn(Asked) -> Answering + Send + Sync>,
    plan: Box<dyn Fn(usize) -> Line + Send + Sync>,
    builder: server::Builder,
    http_1: script::Upstream,
    dialled: AtomicUsize,
    dialled_http_1: AtomicUsize,
    arrived: Mutex<Vec<Arrived>>,
    me: std::sync::Weak<Self>,
}

impl Http2 {
    pub(crate) fn new<F>(script: impl Fn(Asked) -> F + Send + Sync + 'static) -> Arc<Self>
    where
        F: Future<Output = Then> + Send + 'static,
    {
        Self::over(|_| Line::Open, server::Builder::new(), script)
    }

    /// One whose connections are as planned by their numbers, from 1.
    pub(crate) fn over<F>(
        plan: impl Fn(usize) -> Line + Send + Sync + 'static,
        builder: server::Builder,
        script: impl Fn(Asked) -> F + Send + Sync + 'static,
    ) -> Arc<Self>
    where
        F: Future<Output = Then> + Send + 'static,
    {
        let http_1 = |_: &script::Request| script::Answer::json(200, "\"1.1\"");
        Arc::new_cyclic(|me| Self {
            script: Box::new(move |asked| Box::pin(script(asked))),
            plan: Box::new(plan),
            builder,
            http_1: script::Upstream::in_process(http_1),
            dialled: AtomicUsize::new(0),
            dialled_http_1: AtomicUsize::new(0),
            arrived: Mutex::default(),
            me: me.clone(),
        })
    }

    /// How many connections of HTTP/2 were made, and of HTTP/1.1.
    pub(crate) fn dialled(&self) -> (usize, usize) {
        (self.dialled.load(Relaxed), self.dialled_http_1.load(Relaxed))
    }

    pub(crate) fn arrived(&self) -> Vec<Arrived> {
        self.arrived.lock().clone()
    }

    /// On which connections the requests came.
    pub(crate) fn connections(&self) -> Vec<usize> {
        self.arrived().iter().map(|arrived| arrived.connection).collect()
    }

    async fn serve(self: Arc<Self>, connection: usize, mut io: DuplexStream) {
        let said = match (self.plan)(connection) {
            Line::Open => None,
            Line::Says(bytes) => Some((&[][..], bytes)),
            // SETTINGS that leave everything as it is.
            Line::Answers(bytes) => Some((&[0, 0, 0, 4, 0, 0, 0, 0, 0][..], bytes)),
        };
        if let Some((first, then)) = said {
            let _ = io.read(&mut [0; 4096]).await;
            let _ = io.write_all(first).await;
            // By then there is a request.
            tokio::time::sleep(Duration::from_millis(10)).await;
            let _ = io.write_all(then).await;
            let _ = tokio::io::copy(&mut io, &mut tokio::io::sink()).await;
            return;
        }
        let Ok(mut served) = self.builder.handshake::<_, Bytes>(io).await else { return };
        let (then, mut thens) = mpsc::unbounded_channel();
        loop {
            tokio::select! {
                // What has been decided comes first, before anything else is said.
                biased;
                Some(then) = thens.recv() => match then {
                    Then::GoesOn => {}
                    Then::Leaves(reason) => served.abrupt_shutdown(reason),
                    Then::Closes => return,
                },
                accepted = served.accept() => {
                    let Some(Ok((request, respond))) = accepted else { return };
                    let number = self.note(connection, &request);
                    let answering = (self.script)(Asked { connection, number, request, respond });
                    let then = then.clone();
                    tokio::spawn(async move { drop(then.send(answering.await)) });
                }
            }
        }
    }

    fn note<B>(&self, connection: usize, request: &Request<B>) -> usize {
        let (method, uri) = (request.method().clone(), request.uri().to_string());
        let mut arrived = self.arrived.lock();
        arrived.push(Arrived { connection, method, uri, fields: request.headers().clone(), at: now() });
        arrived.len()
    }
}

impl Dial for Http2 {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>> {
        let number = self.dialled.fetch_add(1, Relaxed) + 1;
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tokio::spawn(self.me.upgrade().expect("it dials").serve(number, theirs));
        Box::pin(async { Ok(Stream::Http2(Box::new(ours))) })
    }

    fn dial_http_1(&self) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>> {
        self.dialled_http_1.fetch_add(1, Relaxed);
        Box::pin(async { Ok(Stream::Other(Box::new(self.http_1.connect()))) })
    }
}

impl fmt::Debug for Http2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Http2({:?} dialled)", self.dialled())
    }
}

impl Bench {
    /// An engine in front of an upstream that speaks HTTP/2.
    pub(crate) fn shared(upstream: &Arc<Http2>, change: impl FnOnce(&mut Settings)) -> Self {
        Self::dialling(Some(Arc::clone(upstream) as _), |settings| {
            settings.target = Target::parse("https://upstream.test/v2").unwrap();
            change(settings);
        })
    }
}

impl Asked {
    /// Reads the request's body to its end; answers its length, and its trailers.
    pub(crate) async fn read(&mut self) -> (usize, Option<HeaderMap>) {
        let body = self.request.body_mut();
        let mut length = 0;
        while let Some(piece) = body.data().await {
            let Ok(piece) = piece else { break };
            length += piece.len();
            let _ = body.flow_control().release_capacity(piece.len());
        }
        (length, body.trailers().await.ok().flatten())
    }

    /// Answers whole.
    pub(crate) fn answer(mut self, response: http::response::Builder, body: impl Into<Bytes>) -> Then {
        let body = body.into();
        let sent = self.respond.send_response(response.body(()).unwrap(), body.is_empty());
        if let (Ok(mut sending), false) = (sent, body.is_empty()) {
            let _ = sending.send_data(body, true);
        }
        Then::GoesOn
    }

    /// Reads what there is, and answers well.
    pub(crate) async fn fine(mut self) -> Then {
        self.read().await;
        self.answer(Response::builder(), "{}")
    }

    /// Answers well after a while.
    pub(crate) async fn slow(self, wait: Duration) -> Then {
        tokio::time::sleep(wait).await;
        self.fine().await
    }
}
