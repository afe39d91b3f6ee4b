//! Runs cases against a proxy, one after the other, and says what did not hold.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};

use super::Judge;
use super::case::{Act, Case};
use super::line::Line;
use super::reply::Asked;
use super::want::Seen;
use crate::script::{Answer, Request, Step, Upstream};

/// A pause between two writes, after which they are read apart.
const PAUSE: Duration = Duration::from_millis(30);
/// So often a request that only asks whether the proxy is still there is repeated.
const FENCES_MAX: u32 = 40;

/// Where the proxy and its upstream are, and what the case is called; fills templates.
#[derive(Debug, Clone)]
pub(super) struct Place {
    proxy: SocketAddr,
    upstream: SocketAddr,
    id: &'static str,
}

impl Place {
    /// `{host}` is the proxy's address, `{upstream}` the upstream's, `{path}` the case's own path.
    pub(super) fn fill(&self, template: &[u8]) -> Vec<u8> {
        let values = [
            (&b"{host}"[..], self.proxy.to_string()),
            (b"{upstream}", self.upstream.to_string()),
            (b"{path}", format!("/{}", self.id)),
        ];
        let (mut filled, mut rest) = (Vec::with_capacity(template.len()), template);
        while let Some((byte, later)) = rest.split_first() {
            match values.iter().find(|(name, _)| rest.starts_with(name)) {
                Some((name, value)) => {
                    filled.extend_from_slice(value.as_bytes());
                    rest = &rest[name.len()..];
                }
                None => {
                    filled.push(*byte);
                    rest = later;
                }
            }
        }
        filled
    }

    pub(super) fn fill_text(&self, template: &str) -> String {
        String::from_utf8_lossy(&self.fill(template.as_bytes())).into_owned()
    }
}

/// How one case went.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What did not hold, each in few words; empty where all did.
    pub faults: Vec<String>,
    /// What malformed bytes reached the upstream or the client, in words. Part of `faults` too.
    pub unclean: Vec<String>,
    /// What was answered, how it ended, what arrived, in few words.
    pub summary: String,
    /// All bytes seen on both sides, for a person to read.
    pub seen: String,
}

/// A proxy under test, and the upstream that it has to be in front of.
#[derive(Debug)]
pub struct Suite {
    upstream: Upstream,
    stage: Arc<Mutex<Stage>>,
    patience: Duration,
    judge: Judge,
}

/// What the upstream does now.
#[derive(Debug, Default)]
struct Stage {
    place: Option<Place>,
    answers: Vec<Answer>,
    met: usize,
}

impl Suite {
    /// Begins to listen as the upstream. `patience` bounds every wait for something that ought to come.
    pub fn listen_on(listener: TcpListener, patience: Duration, judge: Judge) -> Self {
        let stage = Arc::<Mutex<Stage>>::default();
        let script = Arc::clone(&stage);
        let upstream = Upstream::listen_on(listener, move |request| answer(&script, request));
        Self { upstream, stage, patience, judge }
    }

    /// Where the proxy has to send what it forwards.
    pub fn upstream(&self) -> SocketAddr {
        self.upstream.address()
    }

    /// Runs one case.
    ///
    /// # Errors
    /// Where the proxy cannot be reached, or has stopped to serve after the case before.
    pub async fn run(&self, case: &Case, proxy: SocketAddr) -> io::Result<Outcome> {
        let place = Place { proxy, upstream: self.upstream(), id: case.id };
        *self.stage.lock() = Stage { place: Some(place.clone()), answers: case.answers.clone(), met: 0 };
        let known = self.upstream.arrivals();
        let mut seen = self.perform(case, &place, known).await?;
        let is_alive = self.fence(proxy).await?;
        seen.requests = self.since(known);
        Ok(self.outcome(case, &place, &seen, is_alive))
    }

    /// What has arrived after so many, without the requests that only ask whether the proxy is still there.
    fn since(&self, known: usize) -> Vec<Request> {
        self.upstream.requests().into_iter().skip(known).filter(|request| !is_fence(request)).collect()
    }

    async fn perform(&self, case: &Case, place: &Place, known: usize) -> io::Result<Seen> {
        let mut seen = Seen::default();
        let mut line = Line::connect(place.proxy).await?;
        for act in &case.acts {
            let by = Instant::now() + self.patience;
            match act {
                Act::Send(bytes) => drop(line.send(&place.fill(bytes)).await),
                Act::Pause => tokio::time::sleep(PAUSE).await,
                // What was not done is told by what must hold.
                Act::Done(count) => drop(timeout(self.patience, self.upstream.answered(known + count)).await),
                Act::Interim(status) => seen.interims.push((*status, line.interim(*status, by).await)),
                Act::Answer(asked) => seen.replies.push(line.answer(*asked, by).await),
                Act::Take(bytes) => seen.taken.push(line.take(bytes.len(), by).await),
                Act::Finish => line.finish().await,
                Act::End => seen.ended = line.end(by).await,
                Act::Reconnect => {
                    seen.rest.extend_from_slice(line.rest());
                    seen.heard.push(line.heard());
                    line = Line::connect(place.proxy).await?;
                }
            }
        }
        seen.rest.extend_from_slice(line.rest());
        seen.heard.push(line.heard());
        Ok(seen)
    }

    /// Asks for something plain, after which all that the case set off has arrived. False where something else is
    /// answered.
    async fn fence(&self, proxy: SocketAddr) -> io::Result<bool> {
        let request = format!("GET {FENCE} HTTP/1.1\r\nHost: {proxy}\r\nConnection: close\r\n\r\n");
        for _ in 0..FENCES_MAX {
            let mut line = Line::connect(proxy).await?;
            line.send(request.as_bytes()).await;
            let reply = line.answer(Asked::Plain, Instant::now() + self.patience).await;
            match reply {
                Some(reply) if reply.status == 200 => return Ok(reply.body == b"fence"),
                // A proxy may leave an upstream alone for a while that behaved badly.
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
        Ok(false)
    }

    fn outcome(&self, case: &Case, place: &Place, seen: &Seen, is_alive: bool) -> Outcome {
        let at_upstream = seen.requests.iter().flat_map(judged).map(|what| format!("sends {what}"));
        let at_client = seen.replies.iter().flatten().flat_map(|reply| &reply.unclean);
        let unclean: Vec<_> = at_upstream.chain(at_client.map(|what| format!("answers {what}"))).collect();
        let mut faults: Vec<_> = case.wants.iter().filter_map(|want| want.judge(seen, place, self.judge)).collect();
        faults.extend(unclean.iter().cloned());
        let hangs = seen.replies.iter().flatten().any(|reply| reply.hangs);
        faults.extend(hangs.then(|| "an answer does not come to its end".to_owned()));
        if !seen.rest.is_empty() {
            let what =
                if seen.replies.iter().any(Option::is_none) { "that are no answer" } else { "that nobody asked for" };
            faults.push(format!("{} bytes come {what}", seen.rest.len()));
        }
        if !is_alive {
            faults.push("the next request gets another answer".to_owned());
        }
        Outcome { faults, unclean, summary: seen.summary(), seen: seen.shown() }
    }
}

/// What only asks whether the proxy is still there.
const FENCE: &str = "/-fence";

fn is_fence(request: &Request) -> bool {
    request.target == FENCE
}

/// Every departure from RFC 9112 but one: raw UTF-8 in a target goes on as it came, by intent.
pub(super) fn judged(request: &Request) -> Vec<String> {
    let notes = request.unclean.iter().filter(|note| !note.starts_with(crate::script::BEYOND_ASCII));
    notes.cloned().collect()
}

/// What the case in hand says, with its templates filled in.
fn answer(stage: &Mutex<Stage>, request: &Request) -> Answer {
    if is_fence(request) {
        return Answer::status(200).body("fence");
    }
    let mut stage = stage.lock();
    let at = stage.met.min(stage.answers.len().saturating_sub(1));
    stage.met += 1;
    let plain = || Answer::status(200).body("ok");
    let answer = stage.answers.get(at).cloned().unwrap_or_else(plain);
    // An upstream says 100 only to who asked for it, and not every proxy passes the question on.
    let is_asked = request.field("expect").is_some();
    let is_meant = |step: &Step| is_asked || !matches!(step, Step::Send(bytes) if bytes.starts_with(b"HTTP/1.1 100 "));
    let steps = answer.into_steps(request).into_iter().filter(is_meant).map(|step| match (step, &stage.place) {
        (Step::Send(bytes), Some(place)) => Step::Send(place.fill(&bytes).into()),
        (step, _) => step,
    });
    // The steps say by themselves when the body is read.
    Answer::steps(steps).early()
}
