//! An upstream that goes away and comes back.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use sopan_fake::script::Answer;

use super::ms;
use crate::serve::door::{Port, Scripted, Serve};
use crate::serve::wire::Client;
use crate::support::Fake;

/// Whether the client gets the whole answer.
fn is_good(client: &mut Client) -> bool {
    let reply = client.get("/api/v1/health");
    let is_good = reply.whole() == Some((200, 16));
    if !is_good {
        println!("{reply:?}");
    }
    is_good
}

/// 64 clients that ask again and again, and 50 new ones every second, over an upstream that is away for a second.
#[test]
fn a_restart_of_a_second_under_load_costs_no_get_an_error() {
    let mut fake = Fake::start(&[]);
    let proxy = Serve::start(&fake.url(""), &["--rate unlimited"]);
    let (over, good, bad) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let count = |is_good: bool| if is_good { good.fetch_add(1, Relaxed) } else { bad.fetch_add(1, Relaxed) };
    thread::scope(|threads| {
        let (over, count, proxy) = (&over, &count, &proxy);
        for _ in 0..64 {
            threads.spawn(move || {
                let mut client = proxy.connect();
                while !over.load(Relaxed) {
                    count(is_good(&mut client));
                    // So that the machine has time for all of them.
                    thread::sleep(ms(10));
                }
            });
        }
        let arriving = threads.spawn(move || {
            while !over.load(Relaxed) {
                threads.spawn(move || count(is_good(&mut proxy.connect())));
                thread::sleep(ms(20));
            }
        });
        thread::sleep(ms(1000));
        let before = good.load(Relaxed);
        fake.program.signal("KILL");
        fake.program.wait();
        thread::sleep(ms(1000));
        fake = Fake::start_at(fake.address);
        thread::sleep(ms(1500));
        over.store(true, Relaxed);
        arriving.join().unwrap();
        assert!(before > 64, "{before}");
    });
    assert_eq!(bad.load(Relaxed), 0, "{} were good", good.load(Relaxed));
    // Everybody had to wait for it, and nobody was answered by anything but the upstream.
    let failed = proxy.metric("sopan_attempts_total{upstream=\"default\",outcome=\"not_sent\"}");
    assert!(failed >= 64.0, "{failed}");
    assert_eq!(proxy.metric("sopan_exchanges_total{upstream=\"default\",status=\"5xx\"}"), 0.0);
    assert_eq!(proxy.metric("sopan_breaker{upstream=\"default\",state=\"closed\"}"), 1.0);
}

// rt-5
#[test]
fn failed_connections_are_spaced_by_the_backoff() {
    let port = Port::closed();
    let flags = ["--rate unlimited", "--max-retries 4", "--backoff-base 200ms", "--jitter 0", "--breaker off"];
    let proxy = Serve::start(&port.url(), &flags);
    let mut client = proxy.connect();
    let begun = Instant::now();
    thread::scope(|threads| {
        let asking = threads.spawn(|| (client.get("/x").status(), begun.elapsed()));
        thread::sleep(ms(600).saturating_sub(begun.elapsed()));
        let upstream = Scripted::start_at(port, |_| Answer::json(200, "{}"));
        let (status, took) = asking.join().unwrap();
        assert_eq!((status, upstream.arrivals()), (200, 1));
        assert!((ms(600)..ms(2000)).contains(&took), "{took:?}");
    });
    let waits: Vec<_> = proxy.logged("WARN").iter().map(|line| wait_in(line)).collect();
    // Two, or three where the second came a little before the upstream did.
    assert!(waits == [0.2, 0.4] || waits == [0.2, 0.4, 0.8], "{waits:?}");
}

/// `…; waiting 0.20 s before retrying`
fn wait_in(line: &str) -> f64 {
    line.split("waiting ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap()
}

/// Closes one after the other, for as long as the proxy is asked.
#[test]
fn an_upstream_that_accepts_and_closes_at_once_is_not_asked_without_a_pause() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let accepted = std::sync::Arc::new(AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&accepted);
    thread::spawn(move || {
        for socket in listener.incoming() {
            count.fetch_add(1, Relaxed);
            drop(socket);
        }
    });
    let proxy = Serve::start(&url, &["--rate 5/s", "--backoff-base 100ms", "--jitter 0"]);
    let begun = Instant::now();
    let statuses = thread::scope(|threads| {
        let asking: Vec<_> = (0..5).map(|_| threads.spawn(|| proxy.get("/x").status())).collect();
        asking.into_iter().map(|asking| asking.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(statuses, [502; 5]);
    assert!(begun.elapsed() < ms(15_000), "{:?}", begun.elapsed());
    // Five requests, four attempts each, and a connection more for one that was closed just as it was used.
    let connections = accepted.load(Relaxed);
    assert!(connections <= 40, "{connections} connections");
    let used = proxy.processor_time();
    assert!(used < Duration::from_millis(500), "{used:?}");
}
