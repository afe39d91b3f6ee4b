//! Three redis-servers that make a Cluster.

use super::{Kind, Redis, free_port};
use crate::support::until;

/// How many slots a Cluster has.
const SLOTS: usize = 16_384;

pub(crate) struct Cluster {
    pub(crate) nodes: [Redis; 3],
}

impl Cluster {
    /// Runs them, and waits until each knows who has which slots.
    pub(crate) fn start() -> Self {
        let nodes = [(); 3].map(|()| Redis::start_as(Kind::Server, node));
        let bounds = [0, SLOTS / 3, 2 * SLOTS / 3, SLOTS];
        for (node, bounds) in nodes.iter().zip(bounds.windows(2)) {
            let (first, last) = (bounds[0].to_string(), (bounds[1] - 1).to_string());
            node.ask(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
        }
        for other in &nodes[1..] {
            let bus = other.ask(&["CONFIG", "GET", "cluster-port"]).texts().remove(1);
            let port = other.address.port().to_string();
            nodes[0].ask(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        let is_whole = |node: &Redis| {
            let told = node.ask(&["CLUSTER", "INFO"]).text();
            told.contains("cluster_state:ok") && told.contains("cluster_known_nodes:3")
        };
        until(|| nodes.iter().all(is_whole).then_some(()));
        Self { nodes }
    }

    /// As the settings of sopan have it.
    pub(crate) fn url(&self) -> String {
        let hosts = self.nodes.each_ref().map(|node| node.address.to_string());
        format!("redis-cluster://{}", hosts.join(","))
    }

    /// All keys, of all nodes.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.nodes.iter().flat_map(Redis::keys).collect()
    }
}

fn node() -> String {
    format!("cluster-enabled yes\ncluster-port {}\ncluster-node-timeout 1000\n", free_port())
}
