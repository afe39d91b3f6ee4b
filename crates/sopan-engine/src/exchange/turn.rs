//! Waiting for a turn: a place in the queue, a connection before the turn comes, and the body read meanwhile.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{EXPECT, UPGRADE};
use sopan_core::cache::Failure;
use sopan_core::lane::{self, Visit};
use sopan_core::time::Instant;

use super::caching::Standby;
use super::{Exchange, Next};
use crate::body::{Body, BodyError};
use crate::clock::Timer;
use crate::dispatcher::{Entered, News, Ticket, Turn};
use crate::transport::{Conn, ConnectFailure, Transport, Wanted};

/// Why an exchange gets no turn.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stop {
    /// The lane will not have it.
    Refused(lane::Refusal),
    /// The client did not finish its request.
    Body(BodyError),
    /// The time for the whole exchange is over.
    TotalTimeout {
        /// Whether a request was under way.
        sent: bool,
    },
}

/// Why there is no turn with a connection to use it on.
pub(super) enum NoTurn {
    Stopped(Stop),
    Unconnected(ConnectFailure),
    /// What is stored is given instead, for this reason.
    Superseded(Failure),
}

impl From<Stop> for NoTurn {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

impl Exchange<'_> {
    /// Waits for a turn, and has a connection when it comes.
    pub(super) async fn turn(&mut self, next: Next) -> Result<(), NoTurn> {
        let Next { mut visit, since, fresh, .. } = next;
        let wanted = Wanted { fresh, switches: self.head.headers().contains_key(UPGRADE) };
        loop {
            let begun = self.now();
            if let Some(ticket) = self.enter(since, visit, begun)? {
                let standby = self.standby(since);
                let result = Waiting::new(ticket, &self.upstream.transport, wanted, begun, standby).wait(self).await;
                self.story.turn_comes(self.upstream.dispatcher.held(), self.now());
                self.waited(true);
                let (turn, conn) = result?;
                (self.turn, self.conn) = (Some(turn), conn);
            }
            if self.conn.is_none() {
                let conn = self.connect(wanted).await?;
                if !conn.is_reused() {
                    self.story.connected(self.upstream.clock.now());
                }
                self.conn = Some(conn);
            }
            if !self.turn.as_ref().is_some_and(Turn::is_revoked) {
                return Ok(());
            }
            // A hold came after the turn was granted: it takes its place again.
            self.put_back();
            visit = Visit::Again;
        }
    }

    /// Asks for a turn, at `begun`: it is there, or there is a ticket for it.
    // Not where the ticket waits, which would keep the place of a turn beside it for as long.
    fn enter(&mut self, since: Instant, visit: Visit, begun: Instant) -> Result<Option<Ticket>, Stop> {
        // What would have come from the cache would take no token.
        let from_store = self.story.observed.as_ref().is_some_and(|observed| observed.from_store);
        let foreseen = if from_store { Visit::Again } else { visit };
        match self.upstream.dispatcher.enter(self.entry(since), visit, foreseen) {
            Entered::Refused(refusal) => Err(Stop::Refused(refusal)),
            Entered::Go(turn) => {
                self.foresee(turn.foreseen());
                self.turn = Some(turn);
                Ok(None)
            }
            Entered::Wait(ticket, cause) => {
                self.foresee(ticket.foreseen());
                self.story.waits_for_turn(cause.into(), self.upstream.dispatcher.held(), begun);
                Ok(Some(ticket))
            }
        }
    }

    /// A connection for a turn that has come already.
    async fn connect(&self, wanted: Wanted) -> Result<Box<Conn>, NoTurn> {
        let conn = self.upstream.transport.connection(wanted, self.deadline).await;
        match conn {
            Ok(conn) => {
                self.note_connect_time(&conn);
                Ok(conn)
            }
            Err(ConnectFailure::Deadline) => Err(Stop::TotalTimeout { sent: false }.into()),
            Err(failure) => Err(NoTurn::Unconnected(failure)),
        }
    }

    fn note_connect_time(&self, conn: &Conn) {
        if !conn.is_reused() {
            self.upstream.dispatcher.set_connect_time(self.upstream.transport.connect_time());
        }
    }
}

type Connecting = Pin<Box<dyn Future<Output = Result<Box<Conn>, ConnectFailure>> + Send>>;

/// A ticket in the queue, with the connection that it gets before its turn.
struct Waiting<'a> {
    ticket: Ticket,
    transport: Arc<Transport>,
    wanted: Wanted,
    connecting: Option<Connecting>,
    conn: Option<Box<Conn>>,
    /// Since when it has the connection.
    held_since: Instant,
    /// For the ticket's own alarm.
    timer: Option<Box<Timer>>,
    /// Whether it waits in vain.
    standby: Option<Box<Standby<'a>>>,
}

/// A connection that the upstream closes sooner than this, before a request was sent on it, is a failed one: connecting
/// anew at once would go on for ever.
const CLOSED_TOO_SOON: Duration = Duration::from_secs(1);

impl<'a> Waiting<'a> {
    fn new(
        ticket: Ticket,
        transport: &Arc<Transport>,
        wanted: Wanted,
        now: Instant,
        standby: Option<Standby<'a>>,
    ) -> Self {
        let (transport, standby) = (Arc::clone(transport), standby.map(Box::new));
        Self { ticket, transport, wanted, connecting: None, conn: None, held_since: now, timer: None, standby }
    }

    async fn wait(mut self, exchange: &Exchange<'_>) -> Result<(Turn, Option<Box<Conn>>), NoTurn> {
        let reads_ahead = !exchange.head.headers().contains_key(EXPECT);
        poll_fn(|cx| {
            if reads_ahead && self.body_broke(&exchange.body, cx) {
                return Poll::Ready(Err(Stop::Body(exchange.body.error().unwrap_or(BodyError::Broken)).into()));
            }
            loop {
                match self.ticket.poll_news(cx) {
                    // It may have been closed meanwhile, before this task was told; then it gets another.
                    Poll::Ready(News::Go(turn)) => {
                        return Poll::Ready(Ok((
                            turn,
                            self.conn.take().and_then(|mut conn| conn.is_surely_alive(cx).then_some(conn)),
                        )));
                    }
                    Poll::Ready(News::Refused(refusal)) => return Poll::Ready(Err(Stop::Refused(refusal).into())),
                    Poll::Ready(News::Prepare) => self.prepare(),
                    Poll::Pending => {}
                }
                // Being ready may bring the turn at once, so the news is asked for again.
                match self.poll_connection(exchange, cx) {
                    Poll::Ready(Ok(())) => continue,
                    Poll::Ready(Err(failure)) => {
                        self.ticket.unconnected();
                        return Poll::Ready(Err(NoTurn::Unconnected(failure)));
                    }
                    Poll::Pending => {}
                }
                match self.poll_alarm(exchange, cx) {
                    Poll::Ready(()) => self.ticket.look(),
                    Poll::Pending => return self.poll_standby(exchange, cx).map(|why| Err(NoTurn::Superseded(why))),
                }
            }
        })
        .await
    }

    /// Ready when what is stored is to be given instead.
    fn poll_standby(&mut self, exchange: &Exchange<'_>, cx: &mut Context<'_>) -> Poll<Failure> {
        match &mut self.standby {
            Some(standby) => standby.poll(exchange, cx),
            None => Poll::Pending,
        }
    }

    fn body_broke(&self, body: &Body, cx: &mut Context<'_>) -> bool {
        body.poll_read_ahead(cx, |bytes| self.ticket.grow(bytes)).is_ready()
    }

    /// Ready when the ticket must look whether its turn has come.
    fn poll_alarm(&mut self, exchange: &Exchange<'_>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(alarm) = self.ticket.alarm() else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::new(exchange.upstream.clock.timer()));
        timer.poll_until(alarm, cx)
    }

    fn prepare(&mut self) {
        let (transport, wanted) = (Arc::clone(&self.transport), self.wanted);
        self.connecting = Some(Box::pin(async move { transport.connection(wanted, None).await }));
    }

    /// Ready when the connection has come, or has gone; whether it gets another now is for the lane to say.
    fn poll_connection(&mut self, exchange: &Exchange<'_>, cx: &mut Context<'_>) -> Poll<Result<(), ConnectFailure>> {
        if let Some(connecting) = &mut self.connecting {
            let Poll::Ready(result) = connecting.as_mut().poll(cx) else { return Poll::Pending };
            self.connecting = None;
            let conn = result?;
            exchange.note_connect_time(&conn);
            self.held_since = exchange.now();
            self.conn = Some(conn);
            self.ticket.ready(true);
            return Poll::Ready(Ok(()));
        }
        let Some(conn) = &mut self.conn else { return Poll::Pending };
        if conn.is_alive(cx) {
            return Poll::Pending;
        }
        let too_soon = !conn.is_reused() && exchange.now().since(self.held_since) < CLOSED_TOO_SOON;
        let fault = conn.take_fault();
        self.conn = None;
        self.ticket.ready(false);
        if too_soon {
            return Poll::Ready(Err(ConnectFailure::Io(
                fault.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into()),
            )));
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // A connection that was not needed serves another.
        if let Some(conn) = self.conn.take() {
            self.transport.put(conn);
        }
    }
}
