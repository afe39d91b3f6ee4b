//! Whom a pause stops that the upstream asked for, and at what cost.

use std::thread;
use std::time::Instant;

use sopan_fake::script::Answer;

use super::ms;
use crate::serve::door::{Scripted, Serve};
use crate::serve::wire::request;

#[test]
fn who_was_told_to_wait_goes_first_when_the_hold_ends() {
    let upstream = Scripted::start(|request| match request.number {
        1 => Answer::json(429, "{}").header("Retry-After", "1"),
        _ => Answer::json(200, "{}"),
    });
    let proxy = Serve::start(&upstream.url(), &["--rate 50/s burst 1", "--workers 2"]);
    let targets: Vec<_> = (0..6).map(|n| format!("/{n}")).collect();
    let mut clients: Vec<_> = targets
        .iter()
        .map(|target| {
            let mut client = proxy.connect();
            client.send(request("GET", target, ""));
            // The first is answered before the others come, and they come one after the other.
            thread::sleep(ms(100));
            client
        })
        .collect();
    proxy.await_waiting(targets.len());
    clients.iter_mut().for_each(|client| assert_eq!(client.reply().status(), 200));
    let arrived: Vec<_> = upstream.requests().into_iter().map(|request| request.target).collect();
    assert_eq!((&arrived[..1], &arrived[1..]), (&targets[..1], &targets[..]));
    // The upstream may be a little late to note that it has answered.
    assert!(upstream.gap(1) >= ms(980), "{:?}", upstream.gap(1));
}

#[test]
fn two_hundred_that_wait_for_a_hold_to_end_take_no_processor_time() {
    let upstream = Scripted::start(|request| match request.number {
        1 => Answer::json(429, "{}").header("Retry-After", "5"),
        _ => Answer::json(200, "{}"),
    });
    let proxy = Serve::start(&upstream.url(), &["--rate 1000/s burst 100"]);
    let mut clients: Vec<_> = (0..200).map(|_| proxy.connect()).collect();
    // Each for something else: equal ones would wait for the first of them.
    let mut asking = clients.iter_mut().zip(0..).map(|(client, n)| client.send(request("GET", &format!("/{n}"), "")));
    asking.next();
    proxy.await_logged("WARN", 1);
    let held = Instant::now();
    asking.for_each(drop);
    proxy.await_waiting(clients.len());
    let (begun, used) = (Instant::now(), proxy.processor_time());
    thread::sleep(ms(3500));
    let (span, used) = (begun.elapsed(), proxy.processor_time() - used);
    assert!(held.elapsed() < ms(4900) && upstream.arrivals() == 1, "the hold was not over: {:?}", held.elapsed());
    assert!(used < span / 100, "{used:?} in {span:?}");
    clients.iter_mut().for_each(|client| assert_eq!(client.reply().status(), 200));
    assert!(held.elapsed() >= ms(4900), "{:?}", held.elapsed());
}
