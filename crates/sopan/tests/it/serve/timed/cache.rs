//! What is stored on disk, however the program ends.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use sopan_fake::script::Answer;

use super::ms;
use crate::serve::door::{Scripted, Serve};
use crate::serve::wire::{Client, End, Reply, request};
use crate::support::until;

const TARGETS: usize = 12;
/// Those below are written to, the others never.
const WRITTEN: usize = 8;
const KILLS: usize = 5;

/// What the API says a target is in this version: some small, some in a file of its own.
fn body(target: usize, version: u64) -> Vec<u8> {
    let length = [10, 3_000, 70_000, 200_000][target % 4] + version as usize % 7;
    format!("{target} in version {version}; ").bytes().cycle().take(length).collect()
}

/// An API whose targets have a version, which a PUT raises.
fn versioned() -> (Scripted, Arc<[AtomicU64; TARGETS]>) {
    let versions: Arc<[AtomicU64; TARGETS]> = Arc::default();
    let known = Arc::clone(&versions);
    let upstream = Scripted::start(move |request| {
        let target: usize = request.target[1..].parse().unwrap();
        if request.method == "PUT" {
            return Answer::status(200).header("X-Version", (known[target].fetch_add(1, SeqCst) + 1).to_string());
        }
        let version = known[target].load(SeqCst);
        let answer = Answer::status(200).header("Cache-Control", "max-age=600").body(body(target, version));
        // Some answers are late, so that they were asked for before a write and come after it.
        let answer = if request.number % 3 == 0 { answer.after(ms(5)) } else { answer };
        answer.header("X-Version", version.to_string())
    });
    (upstream, versions)
}

fn exchange(address: SocketAddr, method: &str, target: usize) -> Option<Reply> {
    let mut client = Client::over(TcpStream::connect(address).ok()?);
    client.try_send(request(method, &format!("/{target}"), "Connection: close\r\n")).then_some(())?;
    client.try_reply().filter(|reply| reply.status() == 200 && reply.end == End::Whole)
}

fn version(reply: &Reply) -> u64 {
    reply.field("x-version").unwrap().parse().unwrap()
}

/// While eight threads read and write, it is killed five times. Nobody gets a byte that is not of the version that the answer
/// names, nor a version from before a write of which somebody was told that it was done.
#[test]
fn a_program_that_is_killed_under_load_gives_nothing_wrong_and_nothing_that_was_made_untrue() {
    let directory = tempfile::tempdir().unwrap();
    let cache_dir = format!("--cache-dir {}", directory.path().display());
    let (upstream, _) = versioned();
    // So little memory that much comes from the disk.
    let start = || {
        Serve::start(
            &upstream.url(),
            &["--rate unlimited", "--max-retries 0", "--breaker off", "--cache-size 1MiB", &cache_dir],
        )
    };
    let proxy = Mutex::new(start());
    let over = AtomicBool::new(false);
    let done: [AtomicU64; TARGETS] = Default::default();
    let (reads, hits) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let read = |address: SocketAddr, target: usize| {
        // What somebody was told before this was asked.
        let least = done[target].load(SeqCst);
        let reply = exchange(address, "GET", target)?;
        let version = version(&reply);
        assert!(version >= least, "{target}: version {version} after {least}: {reply:?}");
        assert!(reply.body == body(target, version), "{target}: not version {version}: {reply:?}");
        reads.fetch_add(1, SeqCst);
        let is_hit = reply.field("cache-status").is_some_and(|status| status.starts_with("sopan; hit"));
        Some(hits.fetch_add(is_hit.into(), SeqCst))
    };
    thread::scope(|threads| {
        let (over, proxy, read, done) = (&over, &proxy, &read, &done);
        for reader in 0..6 {
            threads.spawn(move || {
                for step in (0..).take_while(|_| !over.load(SeqCst)) {
                    let address = proxy.lock().unwrap().address;
                    if read(address, (reader * 5 + step * 7) % TARGETS).is_none() {
                        thread::sleep(ms(5));
                    }
                }
            });
        }
        for writer in 0..2 {
            threads.spawn(move || {
                for step in (0..).take_while(|_| !over.load(SeqCst)) {
                    let target = (writer + step * 2) % WRITTEN;
                    let address = proxy.lock().unwrap().address;
                    if let Some(reply) = exchange(address, "PUT", target) {
                        done[target].fetch_max(version(&reply), SeqCst);
                    }
                    thread::sleep(ms(10));
                }
            });
        }
        for _ in 0..KILLS {
            let before = hits.load(SeqCst);
            until(|| (hits.load(SeqCst) > before + 200).then_some(()));
            let mut proxy = proxy.lock().unwrap();
            proxy.program.0.kill().unwrap();
            proxy.program.wait();
            *proxy = start();
        }
        over.store(true, SeqCst);
    });
    // What was never written to has come through all of it, and nothing of that is asked for again.
    let proxy = proxy.into_inner().unwrap();
    let before = upstream.arrivals();
    for target in WRITTEN..TARGETS {
        read(proxy.address, target).unwrap();
    }
    assert_eq!(upstream.arrivals(), before, "{} of {} reads were hits", hits.load(SeqCst), reads.load(SeqCst));
    for target in 0..WRITTEN {
        read(proxy.address, target).unwrap();
    }
    let warned = proxy.logged("WARN");
    assert!(warned.is_empty(), "{warned:?}");
}
