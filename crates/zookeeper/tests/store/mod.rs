//! The registry in ZooKeeper: a new instance has a worker id that nobody else has, and one that is started
//! again has its worker id again, as by a lease.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use uidring::worker::Lease;
use uidring::{Error, StoreErrorKind, WorkerRequest, WorkerSource};
use uidring_testkit::suite::{Cause, Place, Server, Site, Store, Terms, tables};
use uidring_testkit::zookeeper::ZooKeeper;
use uidring_zookeeper::{Instance, LeafZooKeeper, ZooKeeperServers};

pub struct Leaf;

/// A registry's name, and the folder of local files.
struct Registry {
    server: Arc<ZooKeeper>,
    name: String,
    folder: TempDir,
}

/// So many processes use one name of a registry, in which every new instance leaves a node.
const ROUNDS: usize = 30;

/// The longest is a compromise: a start waits as long for a name that is in use, and a server whose JVM has no
/// processor for longer ends its holder's session.
const SESSIONS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(20)];

impl Registry {
    fn on(server: Arc<ZooKeeper>) -> Box<dyn Site> {
        let name = server.name();
        Box::new(Self { server, name, folder: tempfile::tempdir().expect("a folder") })
    }

    fn at(&self, port: u16, round: usize) -> String {
        let Self { name, folder, .. } = self;
        format!("127.0.0.1:{port} {name} {name}_{} {}", round / ROUNDS, folder.path().display())
    }
}

/// The registries of leases and of worker ids at an address.
#[derive(Clone, Copy)]
enum Kind {
    Leases,
    Workers,
}

fn open(place: &Place, kind: Kind, name: &str, session: Duration) -> Result<LeafZooKeeper, Error> {
    let parts: Vec<_> = place.address.splitn(4, ' ').collect();
    let [hosts, leases, workers, folder] = parts.try_into().expect("four parts");
    let registry = match kind {
        Kind::Leases => leases,
        Kind::Workers => workers,
    };
    let servers = ZooKeeperServers::new(hosts)?.session_timeout(session);
    let servers = servers.connect_deadline(place.deadline);
    // Each host has local files of its own.
    let file = Path::new(folder).join(format!("{}-{registry}-{name}.json", place.slot));
    Ok(LeafZooKeeper::new(servers, registry, Instance::new(name)?)?.cache_file(file))
}

impl Store for Leaf {
    fn start(&self) -> Box<dyn Site> {
        Registry::on(ZooKeeper::start())
    }

    fn share(&self) -> Box<dyn Site> {
        Registry::on(ZooKeeper::shared())
    }

    fn worker_ids(&self, place: &Place) -> Result<Box<dyn WorkerSource>, Error> {
        Ok(Box::new(open(place, Kind::Workers, &place.unique, SESSIONS[1])?))
    }

    /// Of one of few instances.
    fn lease(&self, place: &Place, request: &WorkerRequest, terms: &Terms) -> Result<Lease, Error> {
        let session = terms.lasts.clamp(SESSIONS[0], SESSIONS[1]);
        let instances = (request.layout.workers() / 4).max(1);
        let begin = Instant::now();
        loop {
            let name = format!("instance_{}", fastrand::u64(..instances));
            let lease = open(place, Kind::Leases, &name, session)?.lease(&request.layout);
            let is_held = |error: &Error| matches!(error, Error::Store(error) if error.kind() == StoreErrorKind::Held);
            // The client gives up with its session's timeout, which a busy machine may need for a start.
            let is_away = |error: &Error| matches!(error, Error::Store(error) if error.kind() == StoreErrorKind::Unreachable);
            let goes_on = match &lease {
                Err(error) if is_held(error) => begin.elapsed() < terms.wait_for,
                Err(error) if is_away(error) => begin.elapsed() < place.deadline,
                _ => false,
            };
            if !goes_on {
                return lease;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn cause(&self, error: &str) -> Option<Cause> {
        let is_in_use = error.contains("is in use: ");
        let away = ["no answer", "onnection", "session", "timeout"];
        let is_away = away.iter().any(|text| error.contains(text));
        let other = if is_in_use { Some(Cause::NoneFree) } else { is_away.then_some(Cause::Away) };
        tables::lease_cause(error).or(other)
    }
}

impl Site for Registry {
    fn address(&self, round: usize) -> String {
        self.at(self.server.port(), round)
    }

    fn server(&self) -> Option<&dyn Server> {
        Some(&*self.server)
    }

    fn port(&self) -> Option<u16> {
        Some(self.server.port())
    }

    fn address_at(&self, port: u16) -> String {
        self.at(port, 0)
    }
}
