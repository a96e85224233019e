//! Servers that are a cluster, and what may happen to it.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::network::Network;
use crate::server::{Kind, Server};
use crate::storm::{Fault, Servers};

/// Servers that belong together, of which one leads.
pub trait Leads: Kind {
    /// How long an election may take.
    const ELECTION: Duration;

    /// Returns the server that leads, if one does, and a majority follows.
    fn leader(servers: &[Arc<Server<Self>>]) -> Option<usize>;
}

/// Servers that belong together.
pub struct Cluster<K: Kind> {
    servers: Vec<Arc<Server<K>>>,
    network: Option<Arc<Network>>,
}

impl<K: Kind> Cluster<K> {
    pub fn new(servers: Vec<Arc<Server<K>>>, network: Option<Arc<Network>>) -> Self {
        Self { servers, network }
    }

    /// All of them.
    pub fn servers(&self) -> &[Arc<Server<K>>] {
        &self.servers
    }

    /// One of them.
    pub fn server(&self, number: usize) -> &Arc<Server<K>> {
        &self.servers[number]
    }

    /// The network that they are in, each on a host of its own.
    pub fn network(&self) -> &Network {
        self.network.as_ref().expect("servers in namespaces")
    }

    /// Returns what `name` says of each, separated by commas.
    pub fn join(&self, name: impl Fn(&Server<K>) -> String) -> String {
        self.servers.iter().map(|server| name(server)).collect::<Vec<_>>().join(",")
    }
}

impl<K: Leads> Cluster<K> {
    /// Returns the server that leads, as soon as one does, and a majority follows.
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

/// Faults are about the leader.
impl<K: Leads> Servers for &Cluster<K> {
    fn choose(&self) -> usize {
        self.leader()
    }
}

/// What every cluster of three has to live through.
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

/// Another server of three than this one.
pub fn next(server: usize) -> usize {
    (server + 1) % 3
}
