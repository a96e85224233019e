//! Clusters of servers, and their faults.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::network::Network;
use crate::server::{Kind, Server};
use crate::storm::{Fault, Servers};

/// Servers of a cluster with a leader.
pub trait Leads: Kind {
    /// How long an election may take.
    const ELECTION: Duration;

    /// Returns the leader, if there is one and a majority follows it.
    fn leader(servers: &[Arc<Server<Self>>]) -> Option<usize>;
}

pub struct Cluster<K: Kind> {
    servers: Vec<Arc<Server<K>>>,
    network: Option<Arc<Network>>,
}

impl<K: Kind> Cluster<K> {
    pub fn new(servers: Vec<Arc<Server<K>>>, network: Option<Arc<Network>>) -> Self {
        Self { servers, network }
    }

    pub fn servers(&self) -> &[Arc<Server<K>>] {
        &self.servers
    }

    pub fn server(&self, number: usize) -> &Arc<Server<K>> {
        &self.servers[number]
    }

    /// Returns the network of the servers, each on its own host.
    pub fn network(&self) -> &Network {
        self.network.as_ref().expect("servers in namespaces")
    }

    /// Joins what `name` returns for each server with commas.
    pub fn join(&self, name: impl Fn(&Server<K>) -> String) -> String {
        self.servers.iter().map(|server| name(server)).collect::<Vec<_>>().join(",")
    }
}

impl<K: Leads> Cluster<K> {
    /// Waits until a server leads and a majority follows, and returns it.
    pub fn leader(&self) -> usize {
        let deadline = Instant::now() + K::ELECTION;
        loop {
            if let Some(number) = K::leader(&self.servers) {
                return number;
            }
            assert!(Instant::now() < deadline, "no leader\n{}", self.servers[0].log());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Faults hit the leader.
impl<K: Leads> Servers for &Cluster<K> {
    fn choose(&self) -> usize {
        self.leader()
    }
}

/// Faults that every cluster of three must survive.
pub fn faults<'a, K: Leads>() -> Vec<Fault<&'a Cluster<K>>> {
    vec![
        Fault {
            what: "the leader is killed",
            act: |c, n| c.server(n).kill(),
            undo: |c, n| c.server(n).spawn(),
        },
        Fault {
            what: "the leader is cut off from the others, and not from clients",
            act: |c, n| c.network().isolate(n),
            undo: |c, n| c.network().rejoin(n),
        },
        Fault {
            what: "the leader's link is down",
            act: |c, n| c.network().unplug(n),
            undo: |c, n| c.network().plug_in(n),
        },
        Fault {
            what: "the leader stands still",
            act: |c, n| c.server(n).freeze(),
            undo: |c, n| c.server(n).thaw(),
        },
        Fault {
            what: "a follower's link is down",
            act: |c, n| c.network().unplug(next(n)),
            undo: |c, n| c.network().plug_in(next(n)),
        },
        Fault {
            what: MAJORITY_IS_KILLED,
            act: |c, n| [n, next(n)].iter().for_each(|n| c.server(*n).kill()),
            undo: |c, n| [n, next(n)].iter().for_each(|n| c.server(*n).spawn()),
        },
    ]
}

/// The name of the only fault that leaves no majority.
pub const MAJORITY_IS_KILLED: &str = "a majority is killed";

/// Returns another server of three.
pub fn next(server: usize) -> usize {
    (server + 1) % 3
}
