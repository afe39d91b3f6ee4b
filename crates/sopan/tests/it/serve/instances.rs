//! Several instances that share their limits through a real redis-server, and an API that counts what arrives.
//!
//! What is asked of them as they go on together, and when they cannot, is in `timed/instances.rs`.

mod cluster;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use std::{io, mem};

use sopan_fake::{FakeApi, Settings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::door::{Background, Serve};
use super::wire::request;
use crate::support::{get, until};

/// An API without limits, and instances before it.
pub(super) struct Group {
    pub(super) proxies: Vec<Serve>,
    pub(super) api: Arc<FakeApi>,
    settings: String,
    _background: Background,
}

/// A request that arrived at the API: when, and by which instance.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) at: SystemTime,
    pub(super) by: usize,
}

impl Group {
    /// So many that keep these limits together: `100/s burst 10`. `redis` is what stands in that section.
    pub(super) fn start(count: usize, limits: &str, redis: &str) -> Self {
        let background = Background::start();
        let api = FakeApi::new(Settings::default());
        let listener = background.run(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        background.spawn(Arc::clone(&api).serve(listener, std::future::pending()));
        let settings = format!(
            "workers: 1\n\
             upstreams: {{ api: {{ url: '{url}', limits: [{limits}], queue: {{ wait_max: 60s }} }} }}\n\
             redis: {{ {redis} }}\n"
        );
        let mut group = Self { proxies: Vec::new(), api, settings, _background: background };
        (0..count).for_each(|_| group.join());
        group
    }

    /// One more.
    pub(super) fn join(&mut self) {
        self.proxies.push(Serve::start_with(&self.settings));
    }

    /// What has arrived, in its order.
    pub(super) fn arrivals(&self) -> Vec<Arrival> {
        let entries = self.api.log();
        let by = |path: &str| path.split("i=").nth(1)?.split('&').next()?.parse().ok();
        let at = |entry: &sopan_fake::Entry| SystemTime::UNIX_EPOCH + Duration::from_micros(entry.at_us);
        entries.iter().filter_map(|entry| Some(Arrival { at: at(entry), by: by(&entry.path)? })).collect()
    }

    /// How many have arrived within this span.
    pub(super) fn count(&self, from: SystemTime, to: SystemTime) -> usize {
        self.arrivals().iter().filter(|arrival| (from..to).contains(&arrival.at)).count()
    }
}

/// How an instance stands to Redis, as it tells.
pub(super) fn mode(proxy: &Serve) -> String {
    let state: serde_json::Value = serde_json::from_str(&get(proxy.admin, "/state").body).unwrap();
    state["store"]["mode"].as_str().unwrap_or_else(|| panic!("{state}")).to_owned()
}

#[track_caller]
pub(super) fn await_mode(proxy: &Serve, wanted: &str) {
    until(|| (mode(proxy) == wanted).then_some(()));
}

/// What its log warns of Redis, and not of settings or refusals.
pub(super) fn warned(proxy: &Serve) -> Vec<String> {
    proxy.logged("WARN").into_iter().filter(|line| line.starts_with("Redis")).collect()
}

/// How many of these a bucket of exactly that limit would have refused, if nobody cared.
pub(super) fn refused(arrivals: &[Arrival], rate: f64, burst: f64) -> usize {
    let (mut tokens, mut last) = (burst, None);
    let is_refused = |arrival: &&Arrival| {
        let since = last.replace(arrival.at).map_or(Duration::ZERO, |last| arrival.at.duration_since(last).unwrap());
        tokens = burst.min(tokens + since.as_secs_f64() * rate);
        let has_one = tokens >= 1.0;
        tokens -= if has_one { 1.0 } else { 0.0 };
        !has_one
    };
    arrivals.iter().filter(is_refused).count()
}

/// Connections that ask as fast as they are answered.
pub(super) struct Load {
    over: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<Seen>>>,
    asking: Vec<JoinHandle<()>>,
    background: Background,
}

/// What became of a request.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// At which instance, by its number.
    pub(super) by: usize,
    pub(super) took: Duration,
    /// Head and body; none if no answer came.
    pub(super) answer: Option<String>,
}

impl Seen {
    pub(super) fn is_good(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.starts_with("HTTP/1.1 200 "))
    }
}

impl Load {
    /// So many connections to each.
    pub(super) fn start(proxies: &[Serve], connections: &[usize]) -> Self {
        let mut load =
            Self { over: Arc::default(), seen: Arc::default(), asking: Vec::new(), background: Background::start() };
        for (by, (proxy, count)) in proxies.iter().zip(connections).enumerate() {
            for _ in 0..*count {
                let (address, over, seen) = (proxy.address, Arc::clone(&load.over), Arc::clone(&load.seen));
                load.asking.push(load.background.spawn(ask_again(address, by, over, seen)));
            }
        }
        load
    }

    /// What was seen so far.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Ends it, and waits for what was asked.
    pub(super) fn end(mut self) -> Vec<Seen> {
        self.over.store(true, Relaxed);
        for asking in mem::take(&mut self.asking) {
            self.background.run(asking).unwrap();
        }
        self.seen()
    }
}

async fn ask_again(address: SocketAddr, by: usize, over: Arc<AtomicBool>, seen: Arc<Mutex<Vec<Seen>>>) {
    let mut socket = None;
    while !over.load(Relaxed) {
        let begun = Instant::now();
        let answer = ask(&mut socket, address, &format!("/api/v1/health?i={by}&")).await.ok();
        let one = Seen { by, took: begun.elapsed(), answer };
        let is_good = one.is_good();
        seen.lock().unwrap().push(one);
        if !is_good {
            // Whoever cannot be asked is not asked without a pause.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Asks once, on the same connection if it is still good.
async fn ask(kept: &mut Option<TcpStream>, address: SocketAddr, target: &str) -> io::Result<String> {
    let mut socket = match kept.take() {
        Some(socket) => socket,
        None => TcpStream::connect(address).await?,
    };
    socket.write_all(request("GET", target, "").as_bytes()).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") && !answer.ends_with(b"}\n") {
        if socket.read_buf(&mut answer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let answer = String::from_utf8(answer).map_err(io::Error::other)?;
    if !answer.to_ascii_lowercase().contains("\r\nconnection: close") {
        *kept = Some(socket);
    }
    Ok(answer)
}
