//! Worker ids from a ZooKeeper registry, laid out as Meituan's Leaf does.

mod cache;
mod error;
mod instance;
mod keeper;
mod link;
mod list;
mod live;
mod nodes;
mod original;
mod peers;
mod problem;
mod servers;
mod session;
mod start;
mod thread;
mod tree;

#[cfg(test)]
mod model;
/// What the model of the protocol plays, and what it drives.
#[cfg(test)]
pub(crate) mod modelled {
    pub(crate) use super::cache::{Cached, LocalFile};
    pub(crate) use super::keeper::end_of;
    pub(crate) use super::link::Link;
    pub(crate) use super::nodes::Reserved;
    pub(crate) use super::problem::Problem;
    pub(crate) use super::session::{Applicant, Claim, Mark, Past, Session};
    pub(crate) use super::start::begin;
    pub(crate) use super::tree::{Ensemble, Failure, Kind, Stat, Tree, Write, Written};
}

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use uidring::clock::{Clock, SystemClock};
use uidring::worker::Lease;
use uidring::{Error, Layout, StoreErrorKind, Worker, WorkerRequest, WorkerSource};

pub use self::error::ZooKeeperError;
pub use self::instance::Instance;
use self::instance::check_name;
pub use self::list::LeafNode;
use self::nodes::{BOUNDED, Paths};
pub use self::servers::ZooKeeperServers;
pub use uidring_store::TableError;

/// Leaf's registry in ZooKeeper: whoever comes by the same [`Instance`] name gets the same worker id
/// again, and a new name gets the next one.
///
/// Nothing is issued that the registry does not hold: how far an instance may issue is reserved
/// there beforehand, with what it needs while ZooKeeper is away ([`max_outage`](Self::max_outage)).
/// If it is away for longer, the lease is lost. So uids are unique whatever clocks, pauses, crashes
/// and partitions do, as long as the registry forgets nothing.
///
/// It is the registry of Meituan's Leaf in snowflake mode, so that Java Leafs can have numbers in it
/// too; what Leaf lacks is kept in nodes of its own beside. An instance can also do as Leaf does
/// itself, at its [own risk](Self::risk_repeats_in_outages). `docs/worker-ids.md` has the details.
///
/// ```no_run
/// use uidring::LeafSnowflakeGenerator;
/// use uidring_zookeeper::{Instance, LeafZooKeeper, ZooKeeperServers};
///
/// let servers = ZooKeeperServers::new("zk1:2181,zk2:2181,zk3:2181")?;
/// let registry = LeafZooKeeper::new(servers, "orders", Instance::new("web-0")?)?;
/// let generator = LeafSnowflakeGenerator::builder().worker_from(registry).build()?;
/// # Ok::<(), uidring::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LeafZooKeeper {
    registry: Registry,
    address: Option<(String, String)>,
    cache: CachePlace,
    max_start_wait: Option<Duration>,
    max_clock_difference: Option<Duration>,
    clock: Arc<dyn Clock>,
}

/// Where the local file is.
#[derive(Clone, Debug)]
enum CachePlace {
    DataDirectory,
    At(PathBuf),
    Nowhere,
}

/// The registry of one name, as one instance sees it. It prints as its servers and path.
#[derive(Clone, Debug)]
pub(crate) struct Registry {
    servers: ZooKeeperServers,
    name: String,
    paths: Paths,
    instance: Instance,
    outages: Outages,
}

/// What an instance does while the registry is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outages {
    /// It issues what was reserved, for as long as this, or as the session allows for.
    Bounded(Option<Duration>),
    /// It goes on by its local file, as Leaf does.
    Unbounded,
}

impl WorkerSource for LeafZooKeeper {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        self.lease(&request.layout).map(Worker::from)
    }
}

impl LeafZooKeeper {
    /// The registry of this name (Leaf's `leaf.name`) on these servers, for this instance.
    ///
    /// # Errors
    ///
    /// [`ZooKeeperError::LeafName`] for a name that cannot be one
    /// of a node and of a file.
    pub fn new(servers: ZooKeeperServers, name: &str, instance: Instance) -> Result<Self, Error> {
        check_name("registry", name)?;
        Ok(Self {
            registry: Registry {
                servers,
                name: name.into(),
                paths: Paths::new(name),
                instance,
                outages: Outages::default(),
            },
            address: None,
            cache: CachePlace::DataDirectory,
            max_start_wait: None,
            max_clock_difference: None,
            clock: Arc::new(SystemClock),
        })
    }

    /// Address and port for people who look into the registry. By default they are those in the
    /// instance's name, if it has the form `ip:port`; else those in `UIDRING_HOST` and
    /// `UIDRING_PORT`; else an address of this machine, and port 0.
    #[must_use]
    pub fn address(mut self, ip: &str, port: u16) -> Self {
        self.address = Some((ip.into(), port.to_string()));
        self
    }

    /// The local file; by default it is `uidring/leaf/NAME/INSTANCE@bounded.json` in the user's data
    /// directory, without `@bounded` for an instance that
    /// [risks repeats](Self::risk_repeats_in_outages). Each instance needs one of its own, on a disk
    /// of its host.
    ///
    /// It refuses a second process of this host at once, and lets the next one after a crash start
    /// without waiting for the session to end. It grants nothing.
    #[must_use]
    pub fn cache_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.cache = CachePlace::At(path.into());
        self
    }

    /// Does without a local file.
    #[must_use]
    pub fn no_cache_file(mut self) -> Self {
        self.cache = CachePlace::Nowhere;
        self
    }

    /// How long the start of a generator on the clock waits for the clock to pass what was reserved
    /// before. By default it is long enough for what an instance with the same options has reserved
    /// when it crashes: about 20 s for the default of [`max_outage`](Self::max_outage). Beyond that
    /// the start is refused.
    #[must_use]
    pub fn max_start_wait(mut self, limit: Duration) -> Self {
        self.max_start_wait = Some(limit);
        self
    }

    /// How long an instance may go on without a word from ZooKeeper, 1 s at least; nine tenths of
    /// the session timeout that the servers grant by default, 9 s of 10 s. No later than that it
    /// stops, for good, with [`TakeError::LeaseLost`](uidring::TakeError::LeaseLost); time in which
    /// the machine is suspended counts, where the system tells.
    ///
    /// Until then it issues what the registry holds for it: each renewal reserves so much ahead. A
    /// crash leaves it reserved, and the next start begins above it.
    ///
    /// A start is refused where it is more than nine tenths of the session: another host could have
    /// the name before this one has stopped.
    #[must_use]
    pub fn max_outage(mut self, limit: Duration) -> Self {
        self.registry.outages = Outages::Bounded(Some(limit));
        self
    }

    /// Goes on without ZooKeeper for any time, and starts without it, by the local file alone, as
    /// Leaf does: **uids come twice** if the instance is cut off, and another process of the same
    /// instance name starts where it cannot see that file.
    ///
    /// It is for those who take over the numbers of Java Leafs, and can live with what these do. Its
    /// nodes are Leaf's by name, so that it has the number of the Java Leaf of the same name. An
    /// instance that does not risk it has another number. This and
    /// [`max_outage`](Self::max_outage) exclude each other: the last one counts.
    #[must_use]
    pub fn risk_repeats_in_outages(mut self) -> Self {
        self.registry.outages = Outages::Unbounded;
        self
    }

    /// How far this host's clock and the median of the live instances' may be apart at the start; by
    /// default nobody looks.
    #[must_use]
    pub fn max_clock_difference(mut self, limit: Duration) -> Self {
        self.max_clock_difference = Some(limit);
        self
    }

    /// The wall clock; the operating system's if not set. It should be the generator's.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Takes the instance's worker id. It is the instance's for as long as the lease, or the
    /// generator that it is given to, is there.
    ///
    /// It blocks: for about 5 s while ZooKeeper is away ([`ZooKeeperServers::connect_deadline`]),
    /// and where a process of the same name has died just now, for as long as the servers take to
    /// notice ([`ZooKeeperServers::session_timeout`]). It has a thread of its own do the work, so that
    /// it may be called within a runtime, whose thread it blocks.
    ///
    /// # Errors
    ///
    /// [`ZooKeeperError::Registry`] where ZooKeeper is away, where
    /// it refuses, or holds what cannot be used;
    /// [`ZooKeeperError::SessionTooShort`] where its
    /// sessions are too short for [`max_outage`](Self::max_outage);
    /// [`ZooKeeperError::InstanceInUse`] where another
    /// process has the name; [`ZooKeeperError::RegistryFull`]
    /// where the number is over the layout's greatest worker id;
    /// [`ZooKeeperError::ClockBehindStored`],
    /// [`ZooKeeperError::PeerClocksDiffer`];
    /// [`Error::ClockBeforeEpoch`] and [`Error::LayoutExhausted`] where the layout cannot express
    /// the present time; [`ZooKeeperError::CacheFile`],
    /// [`TableError::NoDataDirectory`],
    /// [`TableError::NodeIdentity`];
    /// [`Error::OptionOutOfRange`].
    pub fn lease(&self, layout: &Layout) -> Result<Lease, Error> {
        start::acquire(self, layout)
    }
}

impl Default for Outages {
    fn default() -> Self {
        Self::Bounded(None)
    }
}

impl Outages {
    fn is_bounded(self) -> bool {
        matches!(self, Self::Bounded(_))
    }

    /// The longest one that was asked for.
    fn asked(self) -> Option<Duration> {
        match self {
            Self::Bounded(asked) => asked,
            Self::Unbounded => None,
        }
    }

    /// The longest one that a session allows for: the servers end it no earlier than its timeout
    /// after they have heard of it, and this host's clock may be slower than theirs by a tenth.
    fn longest(self, session_timeout: Duration) -> Option<Duration> {
        self.is_bounded().then(|| session_timeout * 9 / 10)
    }
}

impl Registry {
    /// What the instance's nodes are called.
    fn node_name(&self) -> String {
        let end = if self.outages.is_bounded() { BOUNDED } else { "" };
        format!("{}{end}", self.instance)
    }

    /// The node with the instance's number, without the number.
    fn number_prefix(&self) -> String {
        format!("{}/{}-", self.paths.forever(), self.node_name())
    }

    /// The node that lives as long as the instance.
    fn temporary_node(&self) -> String {
        format!("{}/{}", self.paths.temporary(), self.node_name())
    }

    /// The node of what the instance has reserved.
    fn reserved_node(&self) -> String {
        format!("{}/{}", self.paths.reserved(), self.node_name())
    }

    fn error(&self, kind: StoreErrorKind, problem: String) -> Error {
        Error::from(ZooKeeperError::Registry { registry: self.to_string(), problem, kind })
    }
}

impl fmt::Display for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/snowflake/{}", self.servers, self.name)
    }
}
