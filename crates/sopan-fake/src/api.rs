//! The fake rate-limited API: what an order API of a small shop would be, and a language model's, with limits and faults on
//! order.
//!
//! One lock decides about a request at the instant at which its head is in: which fault it meets, whether the limits
//! grant it, how long it is delayed, and its place in the log. Everything after that is straight: read the body, find
//! the answer, wait, send. So what the log says is what the limits counted, in the same order and at the same instants.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{EXPECT, IF_NONE_MATCH, LOCATION, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::chat::{self, COMPLETIONS_PATH, Completion, Form, MODELS_PATH};
use crate::clock::Clock;
use crate::collection;
use crate::dice::Dice;
use crate::etag::Etag;
use crate::http_date;
use crate::io::{Io, Knife, Place};
use crate::limits::{Limiter, Standing, Take};
use crate::log::{Entry, EntryId, Log};
use crate::orders::{CREATED_MAX, ORDERS_PATH, PAGE_SIZE_MAX, Shop};
use crate::profile::Wrong;
use crate::query::{Asked, parse_whole};
use crate::reply::{Body, Reply};
use crate::settings::{RetryAfter, Settings};

const HEALTH_PATH: &str = "/api/v1/health";
/// Everything below it talks about the fake itself and is never counted.
const FAKE_PREFIX: &str = "/_fake/";
const LOG_PATH: &str = "/_fake/log";

/// A longer request body is not read to its end.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// What a planned 429 asks to wait.
const PLANNED_WAIT: Duration = Duration::from_secs(1);

/// When no connection can be accepted (out of file descriptors, say), the next attempt comes after this.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// The fake API.
///
/// - `GET /api/v1/health`
/// - `GET /api/v1/orders?page=N&size=M`: a collection in pages. `next` is path and query of the next page, relative to
///   the server, and null on the last one. With `since=2026-01-02T03:04:05Z` what came in before is left out.
/// - `GET /api/v1/collection/WAY?size=M&since=…`: the same orders, by `numbered` (`page`), `offset` (`offset`), `next` (a URL in
///   the body), `link` (one in a field), `cursor` (in the body), `header` (a cursor in a field), `last` (`after` the last id).
/// - `GET /api/v1/orders/ID`: one order.
/// - `POST /api/v1/orders` with `{"client_id": "…"}`: creates an order and answers 201 with it. Twice the same client
///   id makes two orders, see [`FakeApi::orders_created`].
/// - `POST /v1/chat/completions`, `GET /v1/models`: a language model in OpenAI's form, which says the last message again;
///   with `"stream": true` in server-sent events, one for each word.
/// - `GET /_fake/log`, `DELETE /_fake/log`: the log. Not counted by limits, faults or itself.
///
/// Settings with a [`Profile`](crate::Profile) add that vendor's paths; then all errors are in that vendor's form, and answers
/// tell of the limit as it does.
///
/// Where GET is allowed, HEAD is too. A request that is no HTTP/1 gets a bare 400 and counts nowhere; what exactly was
/// wrong with it is a question for [`script`](crate::script).
#[derive(Debug)]
pub struct FakeApi {
    settings: Settings,
    clock: Clock,
    state: Mutex<State>,
}

/// What requests change.
#[derive(Debug)]
struct State {
    /// So many requests are spared what is planned.
    spared: u64,
    /// When it opens again, if it was closed.
    closed_until: Duration,
    /// Planned for the next requests, and for how many.
    planned: VecDeque<(Planned, u64)>,
    limiter: Limiter,
    dice: Dice,
    log: Log,
    shop: Shop,
    completions: u64,
}

/// What the settings want for the first requests.
#[derive(Debug, Clone, Copy)]
enum Planned {
    RateLimit,
    Fail,
    Cut(Fault),
}

/// What happens to the answer of a request that was served.
#[derive(Debug, Clone, Copy)]
enum Fault {
    DropBeforeHead,
    DropInHead,
    DropAfterHead,
    Truncate,
    Slow,
}

/// What was decided about a request when its head was in.
#[derive(Debug)]
struct Decided {
    verdict: Verdict,
    entry: EntryId,
    at: Duration,
    delay: Duration,
    /// What is left of the limit, where that is told.
    standing: Option<Standing>,
}

#[derive(Debug)]
enum Verdict {
    Closed { wait: Duration },
    RateLimited { wait: Duration },
    Failed,
    Serve(Option<Fault>),
}

impl FakeApi {
    /// An API that starts now: its limits are full and its windows begin.
    ///
    /// # Panics
    /// Where a limit holds a zero.
    pub fn new(settings: Settings) -> Arc<Self> {
        let planned = [
            (Planned::RateLimit, settings.rate_limit_first),
            (Planned::Fail, settings.fail_first),
            (Planned::Cut(Fault::DropBeforeHead), settings.drop_before_head_first),
            (Planned::Cut(Fault::DropInHead), settings.drop_in_head_first),
            (Planned::Cut(Fault::DropAfterHead), settings.drop_after_head_first),
            (Planned::Cut(Fault::Truncate), settings.truncate_first),
            (Planned::Cut(Fault::Slow), settings.slow_first),
        ];
        let state = State {
            spared: settings.faults_after,
            closed_until: Duration::ZERO,
            planned: planned.into(),
            limiter: Limiter::new(&settings.limits, settings.window),
            dice: Dice::new(settings.seed),
            log: Log::new(settings.log_entries_max),
            shop: Shop::new(settings.orders_total),
            completions: 0,
        };
        let clock = Clock::start(settings.wall_start.unwrap_or_else(SystemTime::now));
        Arc::new(Self { settings, clock, state: Mutex::new(state) })
    }

    /// Serves what the listener accepts until `stop` is ready; then all connections are closed where they stand.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                () = &mut stop => return,
                Some(_) = connections.join_next() => continue,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((socket, _)) => {
                    // A cut must not depend on when the kernel thinks it worth sending a small segment.
                    let _ = socket.set_nodelay(true);
                    let reset = |socket: &TcpStream| drop(socket.set_zero_linger());
                    connections.spawn(Arc::clone(&self).serve_socket(socket, reset));
                }
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
            }
        }
    }

    /// Serves one connection to its end. With one half of a [`tokio::io::duplex`] a test needs no socket and can pause
    /// the clock.
    pub async fn serve_io(self: Arc<Self>, io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        self.serve_socket(io, |_| ()).await;
    }

    /// What was asked since the start or since the log was cleared, in order of arrival.
    pub fn log(&self) -> Vec<Entry> {
        self.state.lock().log.entries()
    }

    /// Forgets what was asked so far. Limits and planned faults go on.
    pub fn clear_log(&self) {
        self.state.lock().log.clear();
    }

    /// Closes it from now on for so long, as for repairs: every request gets 503 with `Retry-After`, costs nothing and uses
    /// up nothing that is planned.
    pub fn close_for(&self, span: Duration) {
        let mut state = self.state.lock();
        state.closed_until = self.clock.elapsed().saturating_add(span);
    }

    /// How many orders each client id has created: more than one means that a request was sent twice.
    pub fn orders_created(&self) -> BTreeMap<String, u64> {
        self.state.lock().shop.created_by()
    }

    async fn serve_socket<T>(self: Arc<Self>, socket: T, prepare_reset: fn(&T))
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let knife = Knife::default();
        let io = Io::new(socket, knife.clone(), prepare_reset);
        let service = service_fn(|request| {
            let (api, knife) = (Arc::clone(&self), knife.clone());
            async move { Ok::<_, Infallible>(api.answer(request, &knife).await) }
        });
        // A client that sends its request and closes its half still gets the answer. The date is ours, because hyper's
        // would not follow a paused clock.
        let served = http1::Builder::new()
            .half_close(true)
            .title_case_headers(true)
            .auto_date_header(false)
            .serve_connection(io, service)
            .await;
        // Broken connections are ordinary here: clients leave, and cuts are made on purpose.
        drop(served);
    }

    /// The whole life of one request.
    async fn answer(&self, request: Request<Incoming>, knife: &Knife) -> Response<Body> {
        if request.uri().path().starts_with(FAKE_PREFIX) {
            return self.answer_about_itself(&request).into_response(self.wall_now());
        }
        let decided = self.decide(&request);
        let (head, body) = request.into_parts();
        // Whoever asks first whether to send a body is refused before it, as by any server that means it.
        let body_is_wanted = matches!(decided.verdict, Verdict::Serve(_)) || !head.headers.contains_key(EXPECT);
        let body = if body_is_wanted { read(body).await } else { Ok(Bytes::new()) };
        let (reply, fault) = match decided.verdict {
            Verdict::Closed { wait } => {
                let closed = Reply::error(503, "unavailable", "Sedang dalam perbaikan.");
                (self.come_again(closed, decided.at, wait), None)
            }
            Verdict::RateLimited { wait } => (self.come_again(self.wrong(Wrong::Limited), decided.at, wait), None),
            Verdict::Failed => (self.wrong(Wrong::Failed), None),
            Verdict::Serve(fault) => {
                let reply = self.route(&head.method, &head.uri, &head.headers, body);
                (self.tagged(reply, &head.method, &head.headers), fault)
            }
        };
        let reply = self.told_of_limit(reply, &decided);
        if !matches!(fault, Some(Fault::DropBeforeHead | Fault::DropInHead)) {
            self.state.lock().log.answered(decided.entry, reply.status());
        }
        if !decided.delay.is_zero() {
            tokio::time::sleep(decided.delay).await;
        }
        let body_bytes = if head.method == Method::HEAD { 0 } else { reply.body_bytes() };
        if let Some(place) = fault.and_then(|fault| fault.place(body_bytes)) {
            knife.set(place, self.settings.cut);
        }
        let reply = if let Some(Fault::Slow) = fault { reply.in_halves(self.settings.slow) } else { reply };
        reply.into_response(self.wall_now())
    }

    /// Decides about a request whose head has just come in, and logs it.
    fn decide(&self, request: &Request<Incoming>) -> Decided {
        let path = request.uri().path_and_query().map_or("*", |path| path.as_str()).to_owned();
        let costs = !self.is_free(request);
        let mut state = self.state.lock();
        // The clock is read under the lock, so that instants come in the order of the log and of the limits.
        let at = self.clock.elapsed();
        let verdict = state.verdict(at, costs);
        let standing = self.settings.profile.and_then(|_| state.limiter.standing(at));
        let entry = Entry {
            status: None,
            method: request.method().as_str().to_owned(),
            path,
            at_us: self.clock.wall_micros(at),
        };
        let entry = state.log.push(entry);
        let delay = self.settings.delay.saturating_add(state.dice.up_to(self.settings.delay_jitter));
        Decided { verdict, entry, at, delay, standing }
    }

    /// Whether it asks for nothing but that it has already, and that is for nothing.
    fn is_free(&self, request: &Request<Incoming>) -> bool {
        if self.settings.etag != Etag::Free || !request.headers().contains_key(IF_NONE_MATCH) {
            return false;
        }
        // A GET changes nothing, so it can be answered once more.
        let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
        let (method, uri, fields) = (request.method(), request.uri(), request.headers());
        let answer = || self.route(method, uri, fields, Ok(Bytes::new())).tagged(fields);
        is_get && answer().status() == 304
    }

    fn tagged(&self, reply: Reply, method: &Method, request: &HeaderMap) -> Reply {
        let is_get = matches!(*method, Method::GET | Method::HEAD);
        if is_get && self.settings.etag != Etag::Off { reply.tagged(request) } else { reply }
    }

    fn answer_about_itself(&self, request: &Request<Incoming>) -> Reply {
        match (request.uri().path(), request.method()) {
            (LOG_PATH, &Method::GET | &Method::HEAD) => Reply::json(200, &self.log()),
            (LOG_PATH, &Method::DELETE) => {
                self.clear_log();
                Reply::empty(204)
            }
            (LOG_PATH, _) => Reply::method_not_allowed("GET, HEAD, DELETE"),
            _ => Reply::not_found(),
        }
    }

    /// The answer of a healthy API. `body` is what was sent, unless it was too long or broke off.
    fn route(&self, method: &Method, uri: &Uri, fields: &HeaderMap, body: Result<Bytes, Unread>) -> Reply {
        let is_get = matches!(*method, Method::GET | Method::HEAD);
        let asked = Asked::new(uri, fields);
        if let Some(reply) = self.collection(&asked) {
            return if is_get { reply } else { Reply::method_not_allowed("GET, HEAD") };
        }
        match uri.path() {
            HEALTH_PATH if is_get => Reply::json(200, &json!({"status": "ok"})),
            HEALTH_PATH => Reply::method_not_allowed("GET, HEAD"),
            ORDERS_PATH if is_get => self.list_orders(&asked),
            ORDERS_PATH if *method == Method::POST => self.create_order(body),
            ORDERS_PATH => Reply::method_not_allowed("GET, HEAD, POST"),
            COMPLETIONS_PATH if *method == Method::POST => self.complete(body),
            COMPLETIONS_PATH => Reply::method_not_allowed("POST"),
            MODELS_PATH if is_get => Reply::json(200, &chat::models()),
            MODELS_PATH => Reply::method_not_allowed("GET, HEAD"),
            path => match path.strip_prefix(ORDERS_PATH).and_then(|rest| rest.strip_prefix('/')) {
                Some(id) if is_get => self.show_order(id),
                Some(_) => Reply::method_not_allowed("GET, HEAD"),
                None => Reply::not_found(),
            },
        }
    }

    /// A page in one of the ways of the collection, or as the vendor that is played would give it.
    fn collection(&self, asked: &Asked<'_>) -> Option<Reply> {
        let (state, size) = (self.state.lock(), self.settings.page_size);
        match (asked.path.strip_prefix(collection::PREFIX), self.settings.profile) {
            (Some(way), _) => collection::page(way, asked, &state.shop, size),
            (None, Some(profile)) => profile.answer(asked, &state.shop, size),
            (None, None) => None,
        }
    }

    fn list_orders(&self, asked: &Asked<'_>) -> Reply {
        let (number, size) = (asked.number("page", 1), asked.number("size", self.settings.page_size));
        match (number, size, asked.time("since")) {
            (Some(number @ 1..), Some(size @ 1..=PAGE_SIZE_MAX), Some(since)) => {
                Reply::json(200, &self.state.lock().shop.page(number, size, since))
            }
            (_, _, None) => Reply::bad_request("since harus waktu UTC, misalnya 2026-01-02T03:04:05Z."),
            (Some(1..), _, _) => {
                Reply::bad_request(&format!("size harus bilangan bulat dari 1 sampai {PAGE_SIZE_MAX}."))
            }
            _ => Reply::bad_request("page harus bilangan bulat mulai dari 1."),
        }
    }

    fn show_order(&self, id: &str) -> Reply {
        let order = parse_whole(id).and_then(|id| self.state.lock().shop.single(id));
        order.map_or_else(Reply::not_found, |order| Reply::json(200, &order))
    }

    fn create_order(&self, body: Result<Bytes, Unread>) -> Reply {
        let body = match body {
            Ok(body) => body,
            Err(unread) => return unread.reply(),
        };
        let client_id = serde_json::from_slice::<serde_json::Value>(&body)
            .ok()
            .and_then(|sent| Some(sent.get("client_id")?.as_str()?.to_owned()));
        let Some(client_id) = client_id else {
            return Reply::bad_request("Isi permintaan harus objek JSON dengan client_id berupa teks.");
        };
        let created = self.state.lock().shop.create(client_id, self.wall_now());
        let Some(order) = created else {
            return Reply::error(507, "store_full", &format!("Paling banyak {CREATED_MAX} pesanan baru."));
        };
        let location = format!("{ORDERS_PATH}/{}", order.id());
        Reply::json(201, &order).with(LOCATION, &location)
    }

    fn complete(&self, body: Result<Bytes, Unread>) -> Reply {
        let body = match body {
            Ok(body) => body,
            Err(unread) => return unread.reply(),
        };
        let number = {
            let mut state = self.state.lock();
            state.completions += 1;
            state.completions
        };
        let created = self.clock.wall_micros(self.clock.elapsed()) / 1_000_000;
        match Completion::of(&body, number, created).map(|completion| completion.form()) {
            Some(Form::Whole(completion)) => Reply::json(200, &completion),
            Some(Form::Events(events)) => Reply::events(events),
            None => Reply::bad_request("Isi permintaan harus objek JSON dengan model dan messages."),
        }
    }

    fn wrong(&self, wrong: Wrong) -> Reply {
        match (self.settings.profile, wrong) {
            (Some(profile), _) => profile.error(wrong),
            (None, Wrong::Limited) => Reply::error(429, "rate_limited", "Terlalu banyak permintaan."),
            (None, _) => Reply::error(500, "server_error", "Terjadi kesalahan pada server."),
        }
    }

    fn told_of_limit(&self, reply: Reply, decided: &Decided) -> Reply {
        let Some((profile, standing)) = self.settings.profile.zip(decided.standing) else { return reply };
        let now = self.clock.wall_micros(decided.at) / 1_000_000;
        let fields = profile.fields(standing, now).into_iter();
        fields.fold(reply, |reply, (name, value)| reply.with(name, &value))
    }

    /// A refusal that says to come again `wait` after the request came in, which was at `at`.
    fn come_again(&self, reply: Reply, at: Duration, wait: Duration) -> Reply {
        let whole_second = |at: SystemTime| {
            let since_epoch = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            SystemTime::UNIX_EPOCH + Duration::from_secs(seconds_up(since_epoch))
        };
        let date = whole_second(self.clock.wall(at.saturating_add(wait)));
        match self.settings.retry_after {
            RetryAfter::Seconds => {
                let seconds = seconds_up(wait);
                let written = self.settings.profile.map(|profile| profile.seconds(seconds));
                reply.with(RETRY_AFTER, &written.unwrap_or_else(|| seconds.to_string()))
            }
            RetryAfter::Imf => reply.with(RETRY_AFTER, &http_date::imf(date)),
            RetryAfter::Rfc850 => reply.with(RETRY_AFTER, &http_date::rfc850(date)),
            RetryAfter::Asctime => reply.with(RETRY_AFTER, &http_date::asctime(date)),
            RetryAfter::Garbage => reply.with(RETRY_AFTER, "not-a-date"),
            RetryAfter::None => reply,
        }
    }

    fn wall_now(&self) -> SystemTime {
        self.clock.wall(self.clock.elapsed())
    }
}

impl State {
    /// What one request meets at `now`; the limits are not asked about one that costs nothing. What the order is, and what costs a token, is written at [`Settings`].
    fn verdict(&mut self, now: Duration, costs: bool) -> Verdict {
        if now < self.closed_until {
            return Verdict::Closed { wait: self.closed_until - now };
        }
        while self.planned.front().is_some_and(|(_, left)| *left == 0) {
            self.planned.pop_front();
        }
        let spared = self.spared > 0;
        self.spared = self.spared.saturating_sub(1);
        match self.planned.front_mut().filter(|_| !spared) {
            Some((Planned::RateLimit, left)) => {
                *left -= 1;
                Verdict::RateLimited { wait: PLANNED_WAIT }
            }
            Some((Planned::Fail, left)) => {
                *left -= 1;
                self.limiter.take(now);
                Verdict::Failed
            }
            later => match (costs.then(|| self.limiter.take(now)), later) {
                (Some(Take::RetryAfter(wait)), _) => Verdict::RateLimited { wait },
                (Some(Take::Granted) | None, Some((Planned::Cut(fault), left))) => {
                    *left -= 1;
                    Verdict::Serve(Some(*fault))
                }
                (Some(Take::Granted) | None, _) => Verdict::Serve(None),
            },
        }
    }
}

impl Fault {
    /// Where the answer is cut; none where it is whole.
    fn place(self, body_bytes: u64) -> Option<Place> {
        match self {
            Self::DropBeforeHead => Some(Place::BeforeHead),
            Self::DropInHead => Some(Place::InHead),
            Self::DropAfterHead => Some(Place::AfterHead),
            Self::Truncate => Some(Place::InBody(body_bytes / 2)),
            Self::Slow => None,
        }
    }
}

/// Why a request's body is not there.
#[derive(Debug)]
enum Unread {
    TooLong,
    BrokeOff,
}

impl Unread {
    fn reply(self) -> Reply {
        match self {
            Self::TooLong => Reply::error(413, "too_large", "Isi permintaan terlalu besar."),
            Self::BrokeOff => Reply::bad_request("Isi permintaan terputus."),
        }
    }
}

async fn read(body: Incoming) -> Result<Bytes, Unread> {
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(Unread::TooLong),
        Err(_) => Err(Unread::BrokeOff),
    }
}

fn seconds_up(span: Duration) -> u64 {
    span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0))
}
