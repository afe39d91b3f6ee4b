//! The inputs that the fuzz target of the whole path keeps, through the real program.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::thread;

use crate::request_path::{self, FLAGS, Upstream};
use crate::support::{Running, command, get, nobody, until};

/// What came from clients and upstreams that meant harm, or were broken, reaches neither side as something else, and the
/// program goes on.
#[test]
fn no_input_that_is_kept_passes_as_something_else() {
    let upstream = Upstream::start();
    let (proxy, url) = (nobody(), format!("http://{}", upstream.address));
    let (mut running, complaints) = start(proxy, &url);
    crate::corpus_files::check("request_path", |input| request_path::check(proxy, &upstream, input));
    // Most of them arrive; on a busy machine a client may leave before its turn.
    let arrived = upstream.arrived();
    assert!(arrived > 10, "only {arrived} requests have arrived");
    // From here on the upstream gives plain answers.
    request_path::check(proxy, &upstream, b"GET /last HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(get(proxy, "/last").status(), 200, "the program serves as before");
    running.signal("TERM");
    assert!(running.wait().success());
    let panics: Vec<_> = complaints.join().unwrap().into_iter().filter(|line| line.contains("panicked")).collect();
    assert!(panics.is_empty(), "{panics:#?}");
}

/// The program, and what it will have said when it has ended.
fn start(proxy: SocketAddr, upstream: &str) -> (Running, thread::JoinHandle<Vec<String>>) {
    let listen = proxy.to_string();
    let args: Vec<_> = ["serve", "--upstream", upstream, "--listen", &listen].into_iter().chain(FLAGS).collect();
    let mut child = command(&args).stdout(Stdio::null()).spawn().unwrap();
    let said = BufReader::new(child.stderr.take().unwrap());
    let complaints = thread::spawn(move || said.lines().map_while(Result::ok).collect());
    until(|| TcpStream::connect(proxy).ok());
    (Running(child), complaints)
}
