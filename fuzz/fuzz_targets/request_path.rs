//! Any bytes from a client and from an upstream, through a listening proxy in this process.
#![no_main]

#[path = "../properties/request_path.rs"]
#[allow(dead_code, reason = "a test also counts what arrives")]
mod request_path;
#[path = "../properties/strict.rs"]
mod strict;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use request_path::{FLAGS, Upstream};

static PATH: LazyLock<(SocketAddr, Upstream)> = LazyLock::new(start);

// A panic on any thread ends the process: the fuzzer's own hook sees to that.
libfuzzer_sys::fuzz_target!(|input: &[u8]| request_path::check(PATH.0, &PATH.1, input));

fn start() -> (SocketAddr, Upstream) {
    // Thousands of broken inputs a minute make lines that nobody reads.
    let _ = tracing::subscriber::set_global_default(tracing::subscriber::NoSubscriber::default());
    let upstream = Upstream::start();
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let proxy = free.expect("a port of 127.0.0.1 is free");
    let (url, listen) = (format!("http://{}", upstream.address), proxy.to_string());
    thread::spawn(move || {
        let args = ["sopan", "serve", "--upstream", &url, "--listen", &listen];
        let code = sopan::run(args.into_iter().chain(FLAGS));
        panic!("the proxy ended: {code:?}");
    });
    while TcpStream::connect(proxy).is_err() {
        thread::sleep(Duration::from_millis(10));
    }
    (proxy, upstream)
}
