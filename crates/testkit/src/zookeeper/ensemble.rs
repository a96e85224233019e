//! An ensemble of three servers, each in its own network namespace.

use std::fs;
use std::future::Future;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use zookeeper_client::{Acls, Client, CreateMode, Error, Stat};

use super::{ask, find, java_arguments, run_at};
use crate::cluster::{Cluster, Leads};
use crate::network::Network;
use crate::process::Process;
use crate::server::{Kind, LIMIT, Server, folder_for};

const SERVERS: usize = 3;

/// The port of each server, on its own host.
const PORT: u16 = 2181;

/// Sessions last 0.5 to 20 s. A peer that is silent for 2 s is dropped, even a leader.
const SETTINGS: &str = "tickTime=250\nmaxSessionTimeout=20000\ninitLimit=40\nsyncLimit=8\n\
    maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=srvr,cons\n";

/// Three servers, of which two are a majority. Needs root. Failures panic, with the servers' logs where they may help.
pub type Ensemble = Cluster<Peer>;

impl Ensemble {
    /// Starts all servers, and waits for a leader.
    pub fn start() -> Self {
        let network = Network::new(SERVERS as u8);
        let server = |number| {
            let server =
                Server::down(Peer, folder_for("")).at(Some(network.host(number)), [PORT, 0]);
            configure(&server, number, &network);
            server.spawn();
            Arc::new(server)
        };
        let ensemble = Self::new((0..SERVERS).map(server).collect(), Some(Arc::clone(&network)));
        ensemble.leader();
        ensemble
    }

    /// Returns the addresses of all servers, separated by commas.
    pub fn hosts(&self) -> String {
        self.join(|server| server.address().to_string())
    }

    /// Returns the server that a session is connected to, if any.
    pub fn server_of(&self, session: i64) -> Option<usize> {
        let session = format!("sid=0x{session:x},");
        let has = |server: &Arc<Server<Peer>>| {
            ask(server.address(), "cons").is_ok_and(|text| text.contains(&session))
        };
        self.servers().iter().position(has)
    }

    /// Returns the current data and metadata of a node, or `None` if it is missing.
    pub fn stat(&self, path: &str) -> Option<(String, Stat)> {
        self.run(async |client| {
            // A server may lag, and a leader that is cut off answers a sync by itself. A write needs a majority.
            let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
            client.create("/now-", &[], &options).await?;
            match client.get_data(path).await {
                Err(Error::NoNode) => Ok(None),
                read => {
                    read.map(|(data, stat)| Some((String::from_utf8(data).expect("a text"), stat)))
                }
            }
        })
    }

    /// Does some work in its own session. Retries while there is no leader.
    pub fn run<T, F: Future<Output = Result<T, Error>>>(&self, work: impl Fn(Client) -> F) -> T {
        let deadline = Instant::now() + LIMIT;
        loop {
            match run_at(&self.hosts(), &work) {
                Ok(done) => return done,
                Err(error) => {
                    assert!(Instant::now() < deadline, "{error}\n{}", self.server(0).log());
                    thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }
}

pub struct Peer;

impl Kind for Peer {
    fn command(server: &Server<Self>) -> Command {
        let mut command = Command::new(find("java"));
        command
            // A longer wait for an unreachable server would keep this one out of elections.
            .arg("-Dzookeeper.cnxTimeout=500")
            .args(java_arguments(&[]))
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(server.folder().join("zoo.cfg"));
        command
    }

    fn is_ready(server: &Server<Self>, _: &Process, _: Duration) -> Result<(), String> {
        if server.is_serving() { Ok(()) } else { Err("it has no majority".into()) }
    }
}

impl Leads for Peer {
    /// Includes the starts of three JVMs on a busy machine.
    const ELECTION: Duration = Duration::from_secs(120);

    /// A leader counts once another server follows it.
    fn leader(servers: &[Arc<Server<Self>>]) -> Option<usize> {
        let all: Vec<_> = servers.iter().map(|server| server.mode()).collect();
        let is = |mode: &str| all.iter().filter(|one| one.as_deref() == Some(mode)).count();
        let position = all.iter().position(|one| one.as_deref() == Some("leader"));
        position.filter(|_| is("leader") == 1 && is("follower") >= 1)
    }
}

impl Server<Peer> {
    /// Whether it leads or follows, so has a majority as far as it knows.
    pub fn is_serving(&self) -> bool {
        self.mode().is_some_and(|mode| mode == "leader" || mode == "follower")
    }

    fn mode(&self) -> Option<String> {
        let answer = ask(self.address(), "srvr").ok()?;
        answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned)
    }
}

fn configure(server: &Server<Peer>, number: usize, network: &Network) {
    let data = server.folder().join("data");
    fs::create_dir_all(&data).expect("a folder");
    fs::write(data.join("myid"), number.to_string()).expect("it writes");
    let mut settings = format!(
        "{SETTINGS}clientPort={PORT}\ndataDir={}\nclientPortAddress={}\n",
        data.display(),
        server.address().ip()
    );
    for number in 0..SERVERS {
        settings += &format!("server.{number}={}:2888:3888\n", network.address(number));
    }
    fs::write(server.folder().join("zoo.cfg"), settings).expect("it writes");
}
