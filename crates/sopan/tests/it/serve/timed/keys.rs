//! What the time tells that it takes to refuse a key.

use std::time::{Duration, Instant};

use sopan_fake::script::Answer;

use crate::serve::door::{Scripted, Serve};
use crate::serve::wire::request;
use crate::support::sopan;

const ROUNDS: usize = 2_000;

/// How often the second of two is the longer one, if any of the first are held against any of the second; a half if nothing
/// tells them apart.
fn share_of_longer(first: &[Duration], second: &[Duration]) -> f64 {
    let mut sorted = first.to_vec();
    sorted.sort();
    let below = |time: &Duration| {
        let (lower, upper) = (sorted.partition_point(|it| it < time), sorted.partition_point(|it| it <= time));
        (lower + upper) as f64 / 2.0
    };
    second.iter().map(below).sum::<f64>() / (first.len() * second.len()) as f64
}

#[test]
fn it_does_not_tell_where_a_wrong_key_differs() {
    let told: serde_json::Value =
        serde_json::from_slice(&sopan(&["keys", "new", "etl", "--format", "json"]).out).unwrap();
    let (key, sha256) = (told["key"].as_str().unwrap(), told["key_sha256"].as_str().unwrap());
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let url = upstream.url();
    let proxy = Serve::start_with(&format!(
        "upstreams: {{ a: {{ url: '{url}' }} }}\nclients: {{ etl: {{ key_sha256: {sha256} }} }}"
    ));
    let mut client = proxy.connect();
    let mut ask = |key: &str| {
        let text = request("GET", "/x", &format!("X-Api-Key: {key}\r\n"));
        let begun = Instant::now();
        client.send(text);
        let reply = client.reply();
        (begun.elapsed(), reply.status())
    };
    let (rest, last) = key.split_at(key.len() - 1);
    let wrong = [format!("X{}", &key[1..]), format!("{rest}{}", if last == "A" { "B" } else { "A" })];
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        // In turn, so that what slows down both slows down both alike.
        for which in [round % 2, 1 - round % 2] {
            let (time, status) = ask(&wrong[which]);
            assert_eq!(status, 401);
            times[which].push(time);
        }
    }
    assert_eq!(ask(key).1, 200);
    let share = share_of_longer(&times[0], &times[1]);
    println!("the key that differs at its end took longer in {share:.3} of all pairs");
    // By chance alone it is within 0.03 of a half.
    assert!((0.4..0.6).contains(&share), "{share}");
}

#[test]
fn times_that_differ_are_told_apart() {
    let times = |from: u64| (from..from + 100).map(Duration::from_micros).collect::<Vec<_>>();
    assert_eq!(share_of_longer(&times(0), &times(0)), 0.5);
    assert!(share_of_longer(&times(0), &times(20)) > 0.65);
    assert_eq!(share_of_longer(&times(100), &times(0)), 0.0);
}
