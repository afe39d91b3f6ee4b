//! Many limits, spread over the nodes of a Cluster.

use std::collections::BTreeSet;
use std::thread;

use sopan_fake::script::Answer;

use crate::serve::door::{Scripted, Serve};
use crate::serve::instances::warned;
use crate::support::redis::{self, Cluster};

/// As many as the slots of three nodes are surely met by.
const LANES: usize = 200;
/// So many are asked one after the other, by each of those who ask at the same time.
const EACH: usize = 20;

/// What has a meaning in keys of a Cluster, and what of one name could be taken for another's.
fn path(lane: usize) -> String {
    match lane % 8 {
        0 => format!("/{{{lane}}}"),
        1 => format!("/{{a}}:{lane}"),
        2 => format!("/a:{lane}:ledger"),
        3 => format!("/}}{lane}{{"),
        4 => format!("/{{}}{lane}"),
        5 => format!("/{{a}}{{{lane}}}"),
        6 => format!("/:{lane}"),
        _ => format!("/{{{{{lane}}}"),
    }
}

fn settings(upstream: &str, redis: &str) -> String {
    let lane = |lane| {
        format!(
            "  l{lane}: {{ url: '{upstream}{}', route: /r{lane}, limits: [1 per 1h], queue: {{ wait_max: 500ms }} }}\n",
            path(lane)
        )
    };
    let lanes: String = (0..LANES).map(lane).collect();
    format!("workers: 1\nupstreams:\n{lanes}redis: {{ url: '{redis}', prefix: 'team:a' }}\n")
}

/// What the first asks of it become: 200 where there was a turn, 503 where there was none.
fn asked(proxies: &[Serve; 2], lane: usize) -> [u16; 2] {
    // By turns, so that neither has more to do with a limit than the other.
    let order = if lane.is_multiple_of(2) { [0, 1] } else { [1, 0] };
    order.map(|at| proxies[at].get(&format!("/r{lane}/x")).status())
}

#[test]
fn two_hundred_limits_in_a_cluster_are_each_kept_by_itself() {
    if !redis::is_there() {
        return;
    }
    let cluster = Cluster::start();
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let proxies = [(); 2].map(|()| Serve::start_with(&settings(&upstream.url(), &cluster.url())));
    thread::scope(|threads| {
        // Who gets no turn waits for it as long as it may.
        for first in 0..LANES / EACH {
            let proxies = &proxies;
            threads.spawn(move || {
                for lane in first * EACH..(first + 1) * EACH {
                    assert_eq!(asked(proxies, lane), [200, 503], "{}", path(lane));
                }
            });
        }
    });
    let arrived: BTreeSet<_> = upstream.requests().into_iter().map(|request| request.target).collect();
    assert_eq!((arrived.len(), upstream.requests().len()), (LANES, LANES), "each got its one");

    let ledgers: Vec<_> = cluster.keys().into_iter().filter(|key| key.ends_with(":ledger")).collect();
    assert_eq!(ledgers.iter().collect::<BTreeSet<_>>().len(), LANES, "{ledgers:?}");
    for key in &ledgers {
        // The slot of a key comes from what stands in its braces, and that from nobody's settings.
        let tag = key.strip_prefix("team:a:{").and_then(|rest| rest.strip_suffix("}:ledger"));
        assert!(tag.is_some_and(|tag| tag.len() == 16 && tag.bytes().all(|byte| byte.is_ascii_hexdigit())), "{key}");
    }
    assert!(cluster.nodes.iter().all(|node| !node.keys().is_empty()), "all nodes have some");
    for proxy in &proxies {
        assert_eq!(warned(proxy), [""; 0]);
    }
}
