//! Who is behind the page: a sopan with several upstreams, and programs that ask it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::serve::door::Serve;
use crate::serve::wire::Client;
use crate::support::{Fake, nobody};

/// `sopan serve` with these upstreams, on these two addresses, with more flags.
pub(super) fn serve(upstreams: &str, (listen, admin): (&str, &str), more: &[&str]) -> Serve {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(&file, format!("upstreams:\n{upstreams}")).unwrap();
    let args = ["--config", file.path().to_str().unwrap(), "--listen", listen, "--admin", admin];
    Serve::run(&[&args, more].concat())
}

pub(super) const ANY: (&str, &str) = ("127.0.0.1:0", "127.0.0.1:0");

/// Three upstreams: one that is busy and has a quota and a cache, one that is down, and one that nobody uses.
pub(super) fn three(fake: &Fake) -> String {
    format!(
        "  shop: {{ url: \"{0}\", route: /shop, limits: [20/s burst 5, 1000 per 1h], cache: {{ default_ttl: 1s }}, queue: {{ waiting_max: 3 }} }}\n  \
         bank: {{ url: \"http://{1}\", route: /bank, limits: 5/s, retry: {{ max_retries: 0 }}, breaker: {{ failures: 2, min_span: 1ms, open_for: 1h }} }}\n  \
         geo: {{ url: \"{0}\", route: /geo, limits: unlimited, cache: off, observe: on }}\n",
        fake.url(""),
        nobody()
    )
}

/// Programs that ask one thing after the other until they are dropped.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub(super) fn start() -> Self {
        Self { stop: Arc::default(), asked: Arc::default(), threads: Vec::new() }
    }

    /// So many more, at 127.0.0.`client`, with a pause after each answer. Targets are numbered from 0 up to `targets`.
    pub(super) fn add(
        &mut self,
        proxy: &Serve,
        count: u64,
        client: u8,
        path: &'static str,
        targets: u64,
        pause: Duration,
    ) {
        for number in 0..count {
            let (stop, asked, address) = (Arc::clone(&self.stop), Arc::clone(&self.asked), proxy.address);
            self.threads.push(thread::spawn(move || {
                let mut connection = Client::connect_from(client, address);
                // Each begins at another one.
                let mut page = number * targets.div_ceil(8);
                while !stop.load(Relaxed) {
                    page += 1;
                    connection.get(&format!("{path}?page={}", page % targets + 1));
                    asked.fetch_add(1, Relaxed);
                    thread::sleep(pause);
                }
            }));
        }
    }

    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Relaxed)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // One whose proxy has gone has panicked.
            let _ = thread.join();
        }
    }
}
