//! Between whom turns are shared fairly.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use sopan_fake::script::Answer;

use super::door::{Scripted, Serve};
use super::wire::{Client, request};
use crate::support::until;

/// A crowd of five connections and a single one, told apart, or not, by address and by field.
struct Case {
    flags: &'static [&'static str],
    crowd: (u8, &'static str),
    single: (u8, &'static str),
    /// How many of 48 turns the single one gets, the ones that it misses because its thread did not run included.
    turns: std::ops::RangeInclusive<usize>,
}

const CROWD: usize = 5;
const TURNS: usize = 48;
/// 24 and 8 on an idle machine.
const HALF: std::ops::RangeInclusive<usize> = 17..=31;
const A_SIXTH: std::ops::RangeInclusive<usize> = 4..=12;
/// Who has been answered has 25 ms or more to ask again before it misses a turn.
const RATE: &str = "--rate 40/s burst 1";

const CASES: [Case; 8] = [
    Case { flags: &[], crowd: (2, ""), single: (3, ""), turns: HALF },
    Case { flags: &["--client-by ip", "--workers 1"], crowd: (2, ""), single: (3, ""), turns: HALF },
    Case { flags: &["--client-by ip", "--workers 4"], crowd: (2, ""), single: (3, ""), turns: HALF },
    Case { flags: &["--client-by ip"], crowd: (2, ""), single: (2, ""), turns: A_SIXTH },
    Case { flags: &["--client-by connection", "--workers 4"], crowd: (2, ""), single: (3, ""), turns: A_SIXTH },
    Case {
        flags: &["--client-by header:X-Team"],
        crowd: (2, "X-Team: a\r\n"),
        single: (2, "x-team: b\r\n"),
        turns: HALF,
    },
    Case {
        flags: &["--client-by header:x-team"],
        crowd: (2, "X-Team: a\r\n"),
        single: (3, "X-Team: a\r\n"),
        turns: A_SIXTH,
    },
    // Who does not send it is told apart by address.
    Case { flags: &["--client-by header:X-Team"], crowd: (2, ""), single: (3, ""), turns: HALF },
];

#[track_caller]
fn check(case: &Case) {
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let proxy = Serve::start(&upstream.url(), &[&[RATE], case.flags].concat());
    let over = Arc::new(AtomicBool::new(false));
    let mut asking = Vec::new();
    let mut ask = |target: &'static str, (host, fields): (u8, &'static str), address: SocketAddr| {
        let over = Arc::clone(&over);
        asking.push(thread::spawn(move || {
            let mut client = Client::connect_from(host, address);
            while !over.load(Relaxed) {
                client.send(request("GET", target, fields));
                assert_eq!(client.reply().status(), 200);
            }
        }));
    };
    (0..CROWD).for_each(|_| ask("/crowd", case.crowd, proxy.address));
    ask("/single", case.single, proxy.address);
    // From when all of them wait.
    let single_waits = || upstream.requests().iter().position(|request| request.target == "/single");
    let from = until(single_waits) + CROWD;
    until(|| (upstream.arrivals() >= from + TURNS).then_some(()));
    over.store(true, Relaxed);
    asking.into_iter().for_each(|asking| asking.join().unwrap());
    let requests = upstream.requests();
    let turns = requests[from..from + TURNS].iter().filter(|request| request.target == "/single").count();
    assert!(case.turns.contains(&turns), "{turns} of {TURNS} turns: {:?}", case.flags);
}

#[test]
fn clients_share_turns_equally_and_are_told_apart_as_the_flag_says() {
    thread::scope(|threads| {
        for case in &CASES {
            threads.spawn(|| check(case));
        }
    });
}

#[test]
fn it_listens_on_ipv6_too() {
    let Ok(listener) = std::net::TcpListener::bind("[::1]:0") else {
        return crate::support::skipped("this system has no IPv6");
    };
    drop(listener);
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    for client_by in ["ip", "connection"] {
        let flags = ["--rate unlimited", &format!("--client-by {client_by}")];
        let proxy = Serve::start_at("[::1]:0", &upstream.url(), &flags);
        assert!(proxy.address.is_ipv6());
        assert_eq!((proxy.get("/x").status(), proxy.get("/x").status()), (200, 200));
    }
}
