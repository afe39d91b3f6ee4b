//! What was used of a quota outlives the program, however it ends.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use sopan_fake::script::Answer;

use super::ms;
use crate::serve::door::{Scripted, Serve};
use crate::support::{skipped, sopan, until};

/// One request; nobody cares what becomes of it.
fn ask(address: SocketAddr) -> Option<()> {
    let mut socket = TcpStream::connect(address).ok()?;
    socket.set_read_timeout(Some(ms(2_000))).ok()?;
    write!(socket, "GET /x HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok()?;
    answer.starts_with("HTTP/1.1 200").then_some(())
}

#[test]
fn a_program_that_is_killed_in_the_middle_of_a_quota_spends_it_once() {
    const SPAN: Duration = Duration::from_secs(60);
    const KILLS: usize = 3;
    let dir = tempfile::tempdir().unwrap();
    let state = format!("--state {}", dir.path().join("state").display());
    // Slow enough that some are under way whenever it is killed.
    let upstream = Scripted::start(|_| Answer::json(200, "{}").after(ms(50)));
    let start = || {
        Serve::start(
            &upstream.url(),
            &["--rate 100 per 1min", "--rate 60/s", "--wait-max 1s", "--max-retries 0", &state],
        )
    };
    let arrivals = || upstream.requests().iter().map(|request| request.first_byte_at).collect::<Vec<_>>();
    let proxy = Mutex::new(start());
    let over = AtomicBool::new(false);
    let arrivals = thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                while !over.load(Relaxed) {
                    let address = proxy.lock().unwrap().address;
                    if ask(address).is_none() {
                        thread::sleep(ms(20));
                    }
                }
            });
        }
        for kill in 1..=KILLS {
            until(|| (arrivals().len() >= kill * 22).then_some(()));
            let mut proxy = proxy.lock().unwrap();
            proxy.program.0.kill().unwrap();
            proxy.program.wait();
            *proxy = start();
            assert!(proxy.logged("INFO").iter().any(|line| line.contains("used of 100 per 1m")), "{:?}", proxy.lines());
        }
        let first = arrivals()[0];
        thread::sleep((SPAN + ms(6_000)).saturating_sub(Instant::now().saturating_duration_since(first.into_std())));
        over.store(true, Relaxed);
        arrivals()
    });
    let within = |from: usize| arrivals[from..].iter().filter(|at| **at - arrivals[from] < SPAN).count();
    let most = (0..arrivals.len()).map(within).max().unwrap();
    assert!(most <= 100, "{most} within a minute");
    // What was granted and not written when it was killed is lost for the span.
    assert!(within(0) >= 100 - 3 * KILLS, "only {} of 100 could be used", within(0));
    assert!(arrivals.len() > 110, "it goes on after the minute: {}", arrivals.len());
}

#[test]
fn an_orderly_end_leaves_a_state_that_two_programs_cannot_use_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state").display().to_string();
    let state = format!("--state {path}");
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let flags = ["--rate 3 per 1h", "--wait-max 0s", &state];
    let mut proxy = Serve::start(&upstream.url(), &flags);
    assert_eq!([(); 2].map(|()| proxy.get("/x").status()), [200, 200]);
    let url = upstream.url();
    let other = ["serve", "--listen", "127.0.0.1:0", "--admin", "off", "--upstream", &url, "--state", &path];
    let run = sopan(&other);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.complained()[0].contains("is used by another sopan"), "{run:?}");
    proxy.program.signal("TERM");
    assert!(proxy.wait().0.success());
    let proxy = Serve::start(&upstream.url(), &flags);
    assert_eq!([(); 2].map(|()| proxy.get("/x").status()), [200, 503]);
    drop(proxy);
    // With other limits it starts full, and says so.
    let proxy = Serve::start(&upstream.url(), &["--rate 4 per 1h", &state]);
    assert_eq!(proxy.get("/x").status(), 200);
    let said = proxy.logged("INFO");
    assert!(said.iter().any(|line| line.contains("what was used of 3 per 1h is forgotten")), "{said:?}");
}

#[test]
fn a_state_that_may_not_grow_ends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state").display().to_string();
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let proxy = Serve::start(&upstream.url(), &["--rate 100 per 1h", "--wait-max 0s", "--state", &state]);
    let pid = proxy.program.0.id().to_string();
    let done = std::process::Command::new("prlimit").args(["--pid", &pid, "--fsize=100"]).status();
    if !done.is_ok_and(|done| done.success()) {
        return skipped("prlimit, of the package util-linux, cannot be had");
    }
    for _ in 0..50 {
        assert_eq!(proxy.get("/x").status(), 200);
    }
    until(|| proxy.logged("WARN").iter().any(|line| line.contains("File too large")).then_some(()));
}
