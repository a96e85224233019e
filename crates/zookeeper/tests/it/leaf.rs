//! A registry of a test's own, and the files of the instances in it.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use uidring::clock::{Clock, SystemClock};
use uidring::worker::Lease;
use uidring::{ClockedUidGenerator, Error};
use uidring_testkit::namespace::fresh;
use uidring_testkit::zookeeper::ZooKeeper;
use uidring_zookeeper::{Instance, LeafZooKeeper, ZooKeeperServers};

/// How long to wait for servers that are there.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Site {
    pub server: Arc<ZooKeeper>,
    pub name: String,
    pub folder: TempDir,
    session: Duration,
}

impl Site {
    /// On a server whose sessions the test lets expire: they are short.
    pub fn new(server: Arc<ZooKeeper>) -> Self {
        Self::with_session(server, Duration::from_secs(2))
    }

    /// On the server of all tests, with sessions that outlive the pauses of a server on a busy machine.
    pub fn shared() -> Self {
        Self::with_session(ZooKeeper::shared(), Duration::from_secs(40))
    }

    pub fn with_session(server: Arc<ZooKeeper>, session: Duration) -> Self {
        let name = server.name();
        Self { server, name, folder: tempfile::tempdir().expect("a folder"), session }
    }

    /// The registry for an instance, which has its file in the site's folder.
    pub fn registry(&self, instance: &str) -> LeafZooKeeper {
        self.registry_at(&self.server.hosts(), instance)
    }

    /// The same for one that goes on by its file, as Leaf does.
    pub fn original(&self, instance: &str) -> LeafZooKeeper {
        self.original_at(&self.server.hosts(), instance)
    }

    pub fn original_at(&self, hosts: &str, instance: &str) -> LeafZooKeeper {
        self.registry_at(hosts, instance).risk_repeats_in_outages()
    }

    /// By another way to the server.
    pub fn registry_at(&self, hosts: &str, instance: &str) -> LeafZooKeeper {
        let instance = Instance::new(instance).expect("a name");
        let file = self.file(&instance);
        LeafZooKeeper::new(self.servers_at(hosts), &self.name, instance)
            .expect("a name")
            .cache_file(file)
    }

    /// By a way that is there, and may take long on a busy machine.
    pub fn patient_at(&self, hosts: &str, instance: &str) -> LeafZooKeeper {
        let servers = self.servers_at(hosts).connect_deadline(PATIENCE);
        let instance = Instance::new(instance).expect("a name");
        let file = self.file(&instance);
        LeafZooKeeper::new(servers, &self.name, instance).expect("a name").cache_file(file)
    }

    pub fn servers_at(&self, hosts: &str) -> ZooKeeperServers {
        let servers = ZooKeeperServers::new(hosts).expect("servers");
        // Where there is none, nobody should wait for one for long.
        let deadline = if hosts.starts_with(&self.server.hosts()) { 20_000 } else { 1_500 };
        servers.session_timeout(self.session).connect_deadline(Duration::from_millis(deadline))
    }

    pub fn file(&self, instance: &Instance) -> PathBuf {
        self.folder.path().join(format!("{instance}.json"))
    }

    /// A path below the registry's name.
    pub fn path(&self, rest: &str) -> String {
        format!("/snowflake/{}/{rest}", self.name)
    }

    /// The names of Leaf's nodes.
    pub fn forever(&self) -> Vec<String> {
        self.server.children(&self.path("forever"))
    }

    pub fn is_live(&self, instance: &str) -> bool {
        self.server.get(&self.path(&format!("temporary/{instance}"))).is_some()
    }

    /// The timestamp that an instance has uploaded last, by its name in the nodes.
    pub fn timestamp(&self, instance: &str) -> i64 {
        let nodes = self.forever();
        let own = nodes.iter().find(|node| node.starts_with(&format!("{instance}-")));
        let own = own.unwrap_or_else(|| panic!("{instance} in {nodes:?}"));
        self.number(&format!("forever/{own}"), "timestamp")
    }

    /// How far an instance has reserved.
    pub fn reserved(&self, instance: &str) -> i64 {
        self.number(&format!("reserved/{instance}"), "until")
    }

    fn number(&self, rest: &str, field: &str) -> i64 {
        let json = self.server.get(&self.path(rest)).expect("the node is there");
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        json[field].as_i64().expect("a number")
    }
}

pub fn acquired(registry: &LeafZooKeeper) -> Lease {
    let start = Instant::now();
    loop {
        match registry.lease(&uidring::Layout::SNOWFLAKE) {
            // On a busy machine a session may be over before it is used.
            Err(error) if error.may_pass() && start.elapsed() < Duration::from_secs(60) => {}
            done => return done.expect("acquired"),
        }
    }
}

pub fn generator(registry: &LeafZooKeeper) -> ClockedUidGenerator {
    let layout = uidring::Layout::SNOWFLAKE;
    let lease = acquired(registry);
    ClockedUidGenerator::leaf_snowflake()
        .layout(layout)
        .worker(lease)
        .namespace(fresh())
        .build()
        .expect("built")
}

/// What a start is refused with that must not succeed.
pub fn refused(registry: &LeafZooKeeper) -> Error {
    let start = Instant::now();
    loop {
        let error = registry.lease(&uidring::Layout::SNOWFLAKE).expect_err("refused");
        // On a busy machine a session may be over before it is used.
        if !error.may_pass() || start.elapsed() > Duration::from_secs(60) {
            return error;
        }
    }
}

/// The same with the causes.
pub fn refusal(registry: &LeafZooKeeper) -> String {
    chain(&refused(registry))
}

/// The error and its causes, as the program shows them.
pub fn chain(error: &dyn std::error::Error) -> String {
    let (mut text, mut next) = (error.to_string(), error.source());
    while let Some(cause) = next {
        text += &format!(": {cause}");
        next = cause.source();
    }
    text
}

pub fn now() -> i64 {
    SystemClock.now().as_millis()
}

pub fn wait_until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(90), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}
