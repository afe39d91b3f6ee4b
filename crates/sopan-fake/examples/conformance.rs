//! Runs the conformance cases, or mutated requests, against any proxy, and prints what came of them as JSON.
//!
//! ```text
//! conformance --upstream 127.0.0.1:9000 --proxy 127.0.0.1:8000 [--strict] [--patience-ms 2000] [--only ID]
//! conformance --upstream 127.0.0.1:9000 --proxy 127.0.0.1:8000 --mutants 20000
//! ```
//!
//! It is the upstream at the first address, so the proxy at the second has to pass on to there. With `--only` it runs one
//! case and prints all that was seen.
#![allow(clippy::print_stdout, reason = "the result is what it is for")]

use std::collections::HashMap;
use std::io::{self, Error, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sopan_fake::conformance::{Heard, Judge, Suite, cases, hear, mutate, unclean};
use sopan_fake::script::{Answer, Upstream};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// So many mutated requests are under way at once.
const AT_ONCE: usize = 200;
/// The seed of the mutated requests, the one of the program's tests.
const SEED: u64 = 1;

fn main() -> io::Result<()> {
    let flags = Flags::read(std::env::args().skip(1))?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(&flags))
}

async fn run(flags: &Flags) -> io::Result<()> {
    let listener = TcpListener::bind(flags.address("--upstream")?).await?;
    let proxy = flags.address("--proxy")?;
    let patience = Duration::from_millis(flags.number("--patience-ms")?.unwrap_or(2000));
    let told = match flags.number("--mutants")? {
        Some(count) => send_mutants(listener, proxy, patience, usize::try_from(count).unwrap_or(usize::MAX)).await?,
        None => run_cases(flags, listener, proxy, patience).await?,
    };
    println!("{told}");
    Ok(())
}

async fn run_cases(flags: &Flags, listener: TcpListener, proxy: SocketAddr, patience: Duration) -> io::Result<Value> {
    let judge = if flags.has("--strict") { Judge::Strict } else { Judge::Loose };
    let suite = Suite::listen_on(listener, patience, judge);
    let only = flags.text("--only");
    let mut told = Vec::new();
    for case in cases().into_iter().filter(|case| only.is_none_or(|id| id == case.id)) {
        let outcome = suite.run(&case, proxy).await?;
        if only.is_some() {
            println!("{}\n{:#?}\n{}", case.claim, outcome.faults, outcome.seen);
        }
        told.push(json!({
            "id": case.id, "group": case.group.name(), "section": case.section, "claim": case.claim,
            "kind": case.kind.name(), "faults": outcome.faults, "unclean": outcome.unclean, "summary": outcome.summary,
        }));
    }
    Ok(told.into())
}

/// What came of each: whether it was passed on, refused, or neither.
async fn send_mutants(listener: TcpListener, proxy: SocketAddr, patience: Duration, count: usize) -> io::Result<Value> {
    let upstream = Upstream::listen_on(listener, |_| Answer::status(200).header("X-Upstream", "1").body("ok"));
    let (places, mut running) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
    let mutants: Vec<_> = mutate::requests(SEED, &proxy.to_string()).take(count).collect();
    let mut told = vec![Value::Null; mutants.len()];
    for (at, mutant) in mutants.into_iter().enumerate() {
        let place = Arc::clone(&places).acquire_owned().await.map_err(Error::other)?;
        running.spawn(async move {
            let heard = hear(proxy, &mutant.bytes, None, patience).await;
            drop(place);
            heard.map(|heard| (at, json!([saw(&heard), mutant.how, mutant.bytes.escape_ascii().to_string()])))
        });
    }
    while let Some(done) = running.join_next().await {
        let (at, value) = done.map_err(Error::other)??;
        told[at] = value;
    }
    let mut notes = HashMap::<String, usize>::new();
    for note in upstream.requests().iter().flat_map(unclean) {
        // The words before the colon say what it is, those behind it which bytes.
        *notes.entry(note.split(':').next().unwrap_or_default().to_owned()).or_default() += 1;
    }
    Ok(json!({ "mutants": told, "unclean": notes }))
}

fn saw(heard: &Heard) -> String {
    let first = heard.replies.first();
    match first {
        Some(reply) if !reply.fields_named("x-upstream").is_empty() => "forwarded".to_owned(),
        Some(reply) => reply.status.to_string(),
        None if heard.ended.is_some() => "closed".to_owned(),
        None => "waits".to_owned(),
    }
}

/// `--name value` and `--name`.
struct Flags(Vec<String>);

impl Flags {
    fn read(args: impl Iterator<Item = String>) -> io::Result<Self> {
        let known = ["--upstream", "--proxy", "--patience-ms", "--only", "--mutants", "--strict"];
        let flags: Vec<_> = args.collect();
        match flags.iter().find(|flag| flag.starts_with("--") && !known.contains(&flag.as_str())) {
            Some(flag) => Err(Error::new(ErrorKind::InvalidInput, format!("{flag} is not known; there are {known:?}"))),
            None => Ok(Self(flags)),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|flag| flag == name)
    }

    fn text(&self, name: &str) -> Option<&str> {
        let at = self.0.iter().position(|flag| flag == name)?;
        self.0.get(at + 1).map(String::as_str)
    }

    fn number(&self, name: &str) -> io::Result<Option<u64>> {
        let wrong = |_| Error::new(ErrorKind::InvalidInput, format!("{name} wants a number"));
        self.text(name).map(|text| text.parse().map_err(wrong)).transpose()
    }

    fn address(&self, name: &str) -> io::Result<SocketAddr> {
        let wrong = || Error::new(ErrorKind::InvalidInput, format!("{name} wants an address such as 127.0.0.1:9000"));
        self.text(name).and_then(|text| text.parse().ok()).ok_or_else(wrong)
    }
}
