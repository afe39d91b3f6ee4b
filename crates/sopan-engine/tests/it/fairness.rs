//! Shares of the turns between clients.

use std::time::Duration;

use sopan_core::policy::ClientLimits;
use sopan_core::queue::ClientId;
use sopan_engine::Settings;
use sopan_fake::script::{Answer, Request};
use tokio::task::JoinHandle;

use crate::support::{Bench, Got, get, is_within, ms, s, settled};

fn ten_a_second(settings: &mut Settings) {
    settings.lane.limits = vec!["10/s".parse().unwrap()];
    settings.lane.wait_max = None;
    settings.retry.total_timeout = None;
}

fn fine(_: &Request) -> Answer {
    Answer::json(200, "{}")
}

/// So many requests of a client at once; their targets begin with its number.
fn asks(bench: &Bench, client: u128, weight: u32, count: usize) -> Vec<JoinHandle<Got>> {
    let one = |i| tokio::spawn(bench.weighed(get(&format!("/{client}/{i}")), client, weight));
    (0..count).map(one).collect()
}

/// How many of these arrivals are of a client.
fn share(targets: &[String], client: u128) -> usize {
    targets.iter().filter(|target| target.starts_with(&format!("/{client}/"))).count()
}

async fn all_fine(asked: Vec<JoinHandle<Got>>) {
    for got in asked {
        assert_eq!(got.await.unwrap().status(), 200);
    }
}

#[tokio::test(start_paused = true)]
async fn one_client_with_a_hundred_requests_does_not_keep_another_waiting() {
    let bench = Bench::new(fine, ten_a_second);
    let many = asks(&bench, 1, 1, 100);
    tokio::time::sleep(s(1)).await;
    let before = bench.upstream.arrivals();
    let few = asks(&bench, 2, 1, 10);
    all_fine(few).await;
    let targets = bench.targets();
    let meanwhile = targets.len() - before;
    assert!((19..=21).contains(&meanwhile), "{meanwhile}: {:?}", &targets[before..]);
    all_fine(many).await;
    // Neither lost its own order.
    for client in [1, 2] {
        let own: Vec<_> = bench.targets().into_iter().filter(|t| t.starts_with(&format!("/{client}/"))).collect();
        let expected: Vec<_> = (0..own.len()).map(|i| format!("/{client}/{i}")).collect();
        assert_eq!(own, expected);
    }
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn shares_follow_the_weights() {
    let bench = Bench::new(fine, ten_a_second);
    let asked = [asks(&bench, 1, 3, 60), asks(&bench, 2, 1, 60), asks(&bench, 3, 2, 60)];
    tokio::time::sleep(s(6)).await;
    let targets = bench.targets();
    let shares = [1, 2, 3].map(|client| share(&targets, client));
    let total = targets.len();
    for (share, weight) in shares.into_iter().zip([3, 1, 2]) {
        assert!(share.abs_diff(total * weight / 6) <= 1, "{shares:?} of {total}");
    }
    for asked in asked {
        all_fine(asked).await;
    }
}

#[tokio::test(start_paused = true)]
async fn equal_clients_get_equal_shares_however_much_they_ask_for() {
    let bench = Bench::new(fine, ten_a_second);
    let asked: Vec<_> = (1..=20).map(|client| asks(&bench, client, 1, 10 + client as usize)).collect();
    tokio::time::sleep(ms(10_100)).await;
    let targets = bench.targets();
    let shares: Vec<_> = (1..=20).map(|client| share(&targets, client)).collect();
    assert!(targets.len() >= 100 && shares.iter().all(|share| (5..=6).contains(share)), "{shares:?}");
    asked.into_iter().flatten().for_each(|asked| asked.abort());
    settled().await;
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn nobody_saves_up_turns_by_keeping_quiet() {
    let bench = Bench::new(fine, ten_a_second);
    all_fine(asks(&bench, 2, 1, 1)).await;
    let busy = asks(&bench, 1, 1, 120);
    tokio::time::sleep(s(5)).await;
    let before = bench.targets().len();
    let back = asks(&bench, 2, 1, 20);
    tokio::time::sleep(s(2)).await;
    let since = &bench.targets()[before..];
    assert!(share(since, 1).abs_diff(share(since, 2)) <= 1, "{since:?}");
    all_fine(busy).await;
    all_fine(back).await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_never_used_is_not_held_against_its_client() {
    let bench = Bench::new(fine, ten_a_second);
    let held = asks(&bench, 1, 1, 30);
    let other = asks(&bench, 2, 1, 30);
    tokio::time::sleep(ms(50)).await;
    // The first twenty of client 1 leave; its other ten still alternate with client 2.
    held[..20].iter().for_each(JoinHandle::abort);
    tokio::time::sleep(s(1)).await;
    let targets = bench.targets();
    assert!(share(&targets[1..], 1).abs_diff(share(&targets[1..], 2)) <= 1, "{targets:?}");
    let last = other.into_iter().next_back().unwrap().await.unwrap();
    is_within(last.head_at, ms(3_900), Duration::from_millis(4_200));
    all_fine(held.into_iter().skip(20).collect()).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_at_its_own_limit_leaves_the_lane_to_others_and_gets_no_more_than_its_own() {
    let bench = Bench::new(fine, |settings| {
        ten_a_second(settings);
        let limits = vec!["2/s".parse().unwrap()];
        settings.lane.clients = vec![ClientLimits { client: ClientId(1), name: "etl".to_owned(), limits }];
    });
    let limited = asks(&bench, 1, 1, 12);
    let other = asks(&bench, 2, 1, 40);
    tokio::time::sleep(ms(5_050)).await;
    let (targets, arrivals) = (bench.targets(), bench.arrivals());
    let of = |client: u128| targets.iter().zip(&arrivals).filter(move |(t, _)| t.starts_with(&format!("/{client}/")));
    for (i, (_, at)) in of(1).enumerate() {
        let due = ms(500) * i as u32;
        is_within(*at, due, due + ms(110));
    }
    assert!((9..=11).contains(&of(1).count()), "{targets:?}");
    assert!((50..=51).contains(&targets.len()), "the lane is used whole: {targets:?}");
    // Alone it has its own limits all the same, and wakes by itself when its turn comes.
    all_fine(other).await;
    all_fine(limited).await;
    let last = bench.arrivals()[51];
    is_within(last, ms(5_500), ms(6_500));
    bench.is_at_rest();
}
