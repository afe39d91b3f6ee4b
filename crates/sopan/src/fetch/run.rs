//! How are collections got, one after the other?
//!
//! Jobs that ask the same upstream share one client, and with it the quota. One that fails does not keep the others from being
//! done. What becomes of a single one is for [`super::traversal`].

use std::sync::Arc;

use http::HeaderMap;
use sopan_core::headers::redact_url;
use sopan_engine::clock::Clock;
use sopan_engine::{ApiClient, Cache, CacheSettings, DiskSettings, Settings, Surroundings};
use tokio::runtime;
use tokio::sync::watch;

use super::Failure;
use super::single::interrupted;
use super::tally::Tally;
use super::telling::{Line, Teller};
use super::traversal::{Context, Stop};
use crate::config;

/// Gets them all, and answers with what failed.
pub(crate) fn run(settings: config::Jobs, line: Line) -> Vec<Failure> {
    let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return vec![Failure::Transient(format!("no runtime: {error}"))],
    };
    let failures = runtime.block_on(all(settings, line));
    // A name that is being looked up, or a pipe that nobody reads, must not keep the program.
    runtime.shutdown_background();
    failures
}

async fn all(settings: config::Jobs, line: Line) -> Vec<Failure> {
    let cache = match settings.store.as_ref().map(open_cache).transpose() {
        Ok(cache) => cache,
        Err(failure) => return vec![failure],
    };
    let (ask_to_stop, stop) = watch::channel(false);
    tokio::spawn(async move {
        interrupted().await;
        // Who does not wait for it has ended.
        let _ = ask_to_stop.send(true);
        ask_to_stop.closed().await;
    });
    let teller = Teller::new(settings.telling, Clock::system(), line);
    let mut clients: Vec<Option<(ApiClient, Arc<Tally>)>> = vec![None; settings.upstreams.len()];
    let mut failures = Vec::new();
    for job in &settings.jobs {
        let (api, tally) = match &mut clients[job.upstream] {
            Some(client) => client.clone(),
            none => match client(&settings, job.upstream, cache.clone()) {
                Ok(client) => none.insert(client).clone(),
                Err(failure) => {
                    failures.push(failure);
                    continue;
                }
            },
        };
        let (api, stop) = (api.with_headers(headers(&settings, job)), Stop(stop.clone()));
        let context = Context { job, settings: &settings, api, tally, teller: &teller, stop };
        match context.traverse().await {
            Ok(summary) => teller.done(&context, &summary),
            Err(failure) => {
                let is_over = matches!(failure, Failure::Interrupted(_));
                failures.push(failure.of(&job.name));
                if is_over {
                    break;
                }
            }
        }
    }
    teller.end();
    cache.iter().for_each(|cache| cache.close());
    failures
}

/// What the requests of a job carry: its own fields in place of those of all.
pub(super) fn headers(settings: &config::Jobs, job: &config::Job) -> HeaderMap {
    let mut headers = settings.headers.clone();
    for name in job.headers.keys() {
        headers.remove(name);
    }
    headers.extend(job.headers.clone());
    headers
}

/// A client of an upstream, and what it counts.
pub(super) fn client(
    settings: &config::Jobs,
    number: usize,
    cache: Option<Arc<Cache>>,
) -> Result<(ApiClient, Arc<Tally>), Failure> {
    let upstream: Settings = settings.upstreams[number].clone();
    let tally = Arc::new(Tally::default());
    let observer = Arc::clone(&tally) as _;
    let url = upstream.target.to_string();
    let builder =
        ApiClient::builder(&url).map_err(|error| Failure::Settings(format!("{}: {error}", redact_url(&url))))?;
    let api = builder
        .settings(|settings| *settings = upstream)
        .body_bytes_max(settings.page_bytes_max)
        .surroundings(Surroundings { observer, cache, ..Surroundings::default() })
        .build()
        .map_err(Failure::Setup)?;
    Ok((api, tally))
}

fn open_cache(store: &config::Store) -> Result<Arc<Cache>, Failure> {
    let config::Store { memory_bytes, disk } = store.clone();
    let disk = disk.map(|(directory, bytes_max)| DiskSettings { directory, bytes_max });
    Cache::open(&CacheSettings { memory_bytes, disk }).map_err(|error| Failure::Settings(error.to_string()))
}
