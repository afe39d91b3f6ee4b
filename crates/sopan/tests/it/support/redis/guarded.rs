//! A redis-server, a replica of it, and three sentinels that make the replica the master when the master is gone.

use std::net::SocketAddr;

use super::{Kind, Redis, Reply};
use crate::support::until;

/// What the sentinels call them.
const NAME: &str = "main";

pub(crate) struct Guarded {
    /// The first one is the master at first.
    pub(crate) servers: [Redis; 2],
    sentinels: [Redis; 3],
}

impl Guarded {
    /// Runs them, and waits until all know of each other.
    pub(crate) fn start() -> Self {
        let first = Redis::start_as(Kind::Server, || REPLICATES.to_owned());
        let port = first.address.port();
        let second = Redis::start_as(Kind::Server, || format!("{REPLICATES}replicaof 127.0.0.1 {port}\n"));
        let sentinels = [(); 3].map(|()| Redis::start_as(Kind::Sentinel, || watches(port)));
        let guarded = Self { servers: [first, second], sentinels };
        until(|| {
            let in_sync = guarded.servers[1].ask(&["INFO", "replication"]).text().contains("master_link_status:up");
            (in_sync && guarded.sentinels.iter().all(knows_all)).then_some(())
        });
        guarded
    }

    /// As the settings of sopan have it.
    pub(crate) fn url(&self) -> String {
        let hosts = self.sentinels.each_ref().map(|sentinel| sentinel.address.to_string());
        format!("redis-sentinel://{}/{NAME}", hosts.join(","))
    }

    /// Who is the master now, as the sentinels have it.
    pub(crate) fn master(&self) -> SocketAddr {
        let told = self.sentinels[0].ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]).texts();
        told.join(":").parse().unwrap()
    }

    /// Kills the master; waits until the other one has taken its place.
    pub(crate) fn fail_over(&mut self) {
        self.servers[0].kill();
        let next = &self.servers[1];
        until(|| {
            let is_master = next.ask(&["INFO", "replication"]).text().contains("role:master");
            (is_master && self.master() == next.address).then_some(())
        });
    }
}

/// Without waiting for more replicas.
const REPLICATES: &str = "repl-diskless-sync yes\nrepl-diskless-sync-delay 0\n";

/// Two of three must find that the master does not answer.
fn watches(port: u16) -> String {
    format!(
        "sentinel monitor {NAME} 127.0.0.1 {port} 2\nsentinel down-after-milliseconds {NAME} 500\n\
         sentinel failover-timeout {NAME} 3000\n"
    )
}

/// Whether it has heard of the others and of the replica.
fn knows_all(sentinel: &Redis) -> bool {
    let Reply::List(told) = sentinel.ask(&["SENTINEL", "MASTER", NAME]) else { return false };
    let told: Vec<_> = told.iter().map(Reply::text).collect();
    let is = |name: &str, value: &str| told.chunks(2).any(|pair| pair == [name, value]);
    is("num-other-sentinels", "2") && is("num-slaves", "1")
}
