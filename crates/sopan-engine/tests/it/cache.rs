//! Answers that are given again: whole situations, over an upstream that answers as the story has it.
//!
//! A [`Line`] says when a client asks what, what the upstream answers, if it is asked, and what the client gets.
//! What `sopan_core::cache` decides of a request is held to tables of its own; here is seen what the engine makes of it.

mod account;
mod ages;
mod better;
mod bodies;
mod chosen;
mod common;
mod confirmed;
mod files;
mod kept;
mod keys;
mod owners;
mod parts;
mod stale;
mod together;
mod tokens;
mod told;
mod writes;

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request};
use parking_lot::Mutex;
use sopan_core::policy::CachePolicy;
use sopan_core::queue::ClientId;
use sopan_engine::body::Source;
use sopan_engine::exchange::{Hop, Inbound};
use sopan_engine::{CacheSettings, Interims, Settings};
use sopan_fake::script;
use tokio::task::JoinHandle;
use tokio::time::sleep_until;

use crate::support::commons::Link;
use crate::support::lines;
use crate::support::{Bench, Got, s, settled, wall};

/// The second; what a client asks; what the upstream answers; what the client gets.
///
/// `GET /a | Accept: text/html` is a request, to the host `proxy.test` unless it names another. `200 | max-age=60 | ETag: "a"`
/// is an answer: what has no name is its `Cache-Control`; behind `=` stands its body, else that is `v` and its number; it comes
/// `after 2` seconds, or all of it but the head with `body after 2`. Several answers stand apart by `||`. The upstream is not asked where there is `-`, and nobody listens
/// there where there is `down`.
///
/// `200 v1 hit age=3` is what the client gets: the status, the body, or why it was refused, what the cache did, and the `Age`.
type Line<'a> = (u64, &'a str, &'a str, &'a str);

/// An engine with a cache, without retries, in front of an upstream that answers each request with the next of its answers.
struct Stage {
    bench: Bench,
    plan: Arc<Mutex<Plan>>,
}

/// What the upstream does.
#[derive(Default)]
struct Plan {
    next: VecDeque<String>,
    answered: usize,
    is_down: bool,
}

/// A cache in front of an upstream that is asked once.
fn caching(change: impl FnOnce(&mut CachePolicy)) -> impl FnOnce(&mut Settings) {
    move |settings| {
        settings.retry.max_retries = 0;
        let mut policy = CachePolicy::default();
        change(&mut policy);
        settings.cache = Some(policy);
    }
}

impl Stage {
    fn new(change: impl FnOnce(&mut CachePolicy)) -> Self {
        Self::with(&CacheSettings::default(), caching(change))
    }

    fn with(size: &CacheSettings, change: impl FnOnce(&mut Settings)) -> Self {
        let plan = Arc::<Mutex<Plan>>::default();
        let (answering, dialled) = (Arc::clone(&plan), Arc::clone(&plan));
        let script = move |request: &script::Request| answering.lock().answer(request);
        let line = move |_| if dialled.lock().is_down { lines::Line::Refused } else { lines::Line::Open };
        Self { bench: Bench::storing(size, line, script, change), plan }
    }

    /// One of several instances that have their answers in common by this link, with a calendar that is so far ahead.
    fn in_common(
        link: Arc<Link>,
        instance: u64,
        ahead: Duration,
        size: &CacheSettings,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let plan = Arc::<Mutex<Plan>>::default();
        let answering = Arc::clone(&plan);
        let script = move |request: &script::Request| answering.lock().answer(request);
        Self { bench: Bench::in_common(link, instance, wall() + ahead, size, script, change), plan }
    }

    /// Plays these lines; nothing is left over then.
    async fn play(&self, lines: &[Line<'_>]) -> &Self {
        for (at, asked, answers, expected) in lines {
            sleep_until(self.bench.begun + s(*at)).await;
            let told = self.line(asked, answers).await;
            assert_eq!(told, *expected, "at {at}: {asked}");
        }
        self.bench.is_at_rest();
        self
    }

    /// Plays one line now; answers what the client gets.
    async fn line(&self, asked: &str, answers: &str) -> String {
        self.plan.lock().is_down = answers == "down";
        self.will_answer(answers);
        let told = self.told(&self.ask(asked).await);
        // What goes on in the background is over, too.
        settled().await;
        let mut plan = self.plan.lock();
        assert!(plan.next.is_empty(), "{asked}: the upstream was not asked for {:?}", plan.next);
        plan.is_down = false;
        told
    }

    /// What the upstream answers from now on, one after the other.
    fn will_answer(&self, answers: &str) {
        let answers = answers.split(" || ").filter(|answer| !matches!(*answer, "-" | "down"));
        self.plan.lock().next.extend(answers.map(str::to_owned));
    }

    fn ask(&self, asked: &str) -> impl Future<Output = Got> + Send + 'static {
        self.bench.handed(inbound(asked, 1))
    }

    /// One of several who ask at the same time.
    fn spawn(&self, asked: &str, client: u128) -> JoinHandle<Got> {
        tokio::spawn(self.bench.handed(inbound(asked, client)))
    }

    /// What a client got in the exchange that has ended last.
    fn told(&self, got: &Got) -> String {
        let ended = self.bench.seen.ended().pop().unwrap();
        let age = got.field("age").map(|age| format!("age={age}"));
        let body = ended.refused.unwrap_or_else(|| got.text());
        let parts = [body, ended.cache.map_or("", |cache| cache.word()), age.as_deref().unwrap_or_default()];
        parts.iter().filter(|part| !part.is_empty()).fold(got.status().to_string(), |told, part| told + " " + part)
    }

    /// Whether there is an answer in store that is good for this request.
    async fn has(&self, asked: &str) -> bool {
        let got = self.ask(&format!("{asked} | Cache-Control: only-if-cached")).await;
        got.status() != 504
    }

    /// A field of the request that arrived last.
    fn last_asked_with(&self, field: &str) -> Option<String> {
        let asked = self.bench.upstream.requests().pop()?;
        asked.field(field).map(str::to_owned)
    }
}

impl Plan {
    fn answer(&mut self, request: &script::Request) -> script::Answer {
        // On a connection from before. Nobody listens for another one.
        if self.is_down {
            return script::Answer::nothing().close();
        }
        let Some(text) = self.next.pop_front() else {
            return script::Answer::status(599).body(format!("nobody expected {} {}", request.method, request.target));
        };
        self.answered += 1;
        answer(&text, &format!("v{}", self.answered))
    }
}

/// As [`Line`] has it.
fn answer(text: &str, body: &str) -> script::Answer {
    let mut parts = text.split(" | ");
    let mut answer = script::Answer::status(parts.next().unwrap().parse().unwrap()).body(body.to_owned());
    for part in parts {
        answer = if let Some(body) = part.strip_prefix("= ") {
            answer.body(body.to_owned())
        } else if let Some(seconds) = part.strip_prefix("body after ") {
            let begun = answer.body("").header("Content-Length", body.len().to_string());
            begun.sleep(s(seconds.parse().unwrap())).send(body.to_owned())
        } else if let Some(seconds) = part.strip_prefix("after ") {
            answer.after(s(seconds.parse().unwrap()))
        } else if let Some((name, value)) = part.split_once(": ") {
            answer.header(name, value)
        } else {
            answer.header("Cache-Control", part)
        };
    }
    answer
}

/// As [`Line`] has it; it came over a hop, as those do that `serve` takes.
fn inbound(asked: &str, client: u128) -> Inbound {
    let mut parts = asked.split(" | ");
    let (method, target) = parts.next().unwrap().split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(target);
    let mut base = "proxy.test";
    for part in parts {
        let (name, value) = part.split_once(": ").unwrap();
        match name {
            "Host" => base = value,
            _ => request = request.header(name, value),
        }
    }
    let hop = Hop { peer: None, base: Some(HeaderValue::from_str(base).unwrap()), takes_lines: false };
    let request = request.body(Source::Empty).unwrap();
    let interims = Some(Interims::default());
    Inbound { request, client: ClientId(client), weight: 1, interims, hop: Some(hop) }
}
