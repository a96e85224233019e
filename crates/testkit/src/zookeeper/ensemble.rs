//! An ensemble of three servers, each in a network namespace of its own.

use std::fs;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use zookeeper_client::{Client, Error, Stat};

use super::{ask, find, java_arguments, run_at};
use crate::network::Network;
use crate::process::Process;
use crate::server::{LIMIT, Slot, folder_for};

/// The number of servers.
const SERVERS: usize = 3;

/// How long an election may take, with the starts of three JVMs on a busy machine.
const ELECTION: Duration = Duration::from_secs(120);

/// Sessions last 0.5 to 20 s; who is silent for 2 s is dropped, a leader too.
const SETTINGS: &str = "clientPort=2181\ntickTime=250\nmaxSessionTimeout=20000\ninitLimit=40\nsyncLimit=8\n\
    maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=srvr,cons\n";

/// Three servers, of which two are a majority. Needs root. What goes wrong panics, with the servers'
/// logs where that may help.
pub struct Ensemble {
    processes: [Slot; SERVERS],
    /// After the servers, which are in it.
    network: Network,
    folder: TempDir,
}

impl Ensemble {
    /// Starts all servers, and waits until they have a leader.
    pub fn start() -> Arc<Self> {
        let servers = u8::try_from(SERVERS).expect("few");
        let ensemble = Self {
            processes: Default::default(),
            network: Network::new(servers),
            folder: folder_for(""),
        };
        for number in 0..SERVERS {
            ensemble.configure(number);
            ensemble.start_server(number);
        }
        ensemble.leader();
        Arc::new(ensemble)
    }

    /// All servers, separated by commas.
    pub fn hosts(&self) -> String {
        (0..SERVERS).map(|number| self.host(number)).collect::<Vec<_>>().join(",")
    }

    /// One server.
    pub fn host(&self, number: usize) -> String {
        self.address(number).to_string()
    }

    /// Ends a server in the midst of whatever it does, and waits.
    pub fn kill(&self, number: usize) {
        self.processes[number].kill();
    }

    /// Starts a server that was killed, with the same files, and does not wait for it.
    pub fn start_server(&self, number: usize) {
        let mut command = self.network.command(number);
        command
            .arg(find("java"))
            // A server that waits longer for one that is cut off takes no part in an election.
            .arg("-Dzookeeper.cnxTimeout=500")
            .args(java_arguments(&[]))
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(self.folder_of(number).join("zoo.cfg"));
        let folder = self.folder_of(number);
        let log = folder.with_extension("log");
        let started = self.processes[number].start(|| Ok(Process::spawn(&command, &folder, &log)));
        started.expect("a process");
    }

    /// Sends a server a signal: `STOP` or `CONT`.
    pub fn signal(&self, number: usize, name: &str) {
        self.processes[number].signal(name);
    }

    /// Cuts a server off from all others and from clients, by its link.
    pub fn unplug(&self, number: usize) {
        self.network.unplug(number);
    }

    /// Undoes it.
    pub fn plug_in(&self, number: usize) {
        self.network.plug_in(number);
    }

    /// Cuts a server off from the other servers alone: clients reach it.
    pub fn isolate(&self, number: usize) {
        self.network.isolate(number);
    }

    /// Undoes it.
    pub fn rejoin(&self, number: usize) {
        self.network.rejoin(number);
    }

    /// Drops what a server sends to another one, which still reaches it.
    pub fn mute(&self, from: usize, to: usize) {
        self.network.mute(from, to);
    }

    /// Undoes it.
    pub fn unmute(&self, from: usize, to: usize) {
        self.network.unmute(from, to);
    }

    /// Returns the server that leads, as soon as one does, and another one follows.
    pub fn leader(&self) -> usize {
        let deadline = Instant::now() + ELECTION;
        loop {
            let all: Vec<_> = (0..SERVERS).map(|number| self.mode(number)).collect();
            let is = |mode: &str| all.iter().filter(|one| one.as_deref() == Some(mode)).count();
            if is("leader") == 1 && is("follower") >= 1 {
                return all
                    .iter()
                    .position(|one| one.as_deref() == Some("leader"))
                    .expect("it was counted");
            }
            assert!(Instant::now() < deadline, "no leader: {all:?}\n{}", self.log(0));
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether the server leads or follows: it has a majority as far as it knows.
    pub fn is_serving(&self, number: usize) -> bool {
        self.mode(number).is_some_and(|mode| mode == "leader" || mode == "follower")
    }

    /// The server that a session is connected to, if there is one.
    pub fn server_of(&self, session: i64) -> Option<usize> {
        let session = format!("sid=0x{session:x},");
        let has = |number: &usize| {
            ask(self.address(*number), "cons").is_ok_and(|text| text.contains(&session))
        };
        (0..SERVERS).find(has)
    }

    /// What a node holds, and what else is known of it, as of now; `None` if it is not there.
    pub fn stat(&self, path: &str) -> Option<(String, Stat)> {
        self.run(async |client| {
            // A server may be behind.
            client.sync("/").await?;
            match client.get_data(path).await {
                Err(Error::NoNode) => Ok(None),
                read => {
                    read.map(|(data, stat)| Some((String::from_utf8(data).expect("a text"), stat)))
                }
            }
        })
    }

    /// One session with some work, which is tried again while the ensemble has no leader.
    pub fn run<T, F: Future<Output = Result<T, Error>>>(&self, work: impl Fn(Client) -> F) -> T {
        let deadline = Instant::now() + LIMIT;
        loop {
            match run_at(&self.hosts(), &work) {
                Ok(done) => return done,
                Err(error) => {
                    assert!(Instant::now() < deadline, "{error}\n{}", self.log(0));
                    thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }

    /// What a server, over all its starts, said about itself.
    pub fn log(&self, number: usize) -> String {
        let path = self.folder_of(number).with_extension("log");
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    }

    fn configure(&self, number: usize) {
        let folder = self.folder_of(number);
        let data = folder.join("data");
        fs::create_dir_all(&data).expect("a folder");
        fs::write(data.join("myid"), number.to_string()).expect("it writes");
        let mut settings = format!(
            "{SETTINGS}dataDir={}\nclientPortAddress={}\n",
            data.display(),
            self.network.address(number)
        );
        for server in 0..SERVERS {
            settings += &format!("server.{server}={}:2888:3888\n", self.network.address(server));
        }
        fs::write(folder.join("zoo.cfg"), settings).expect("it writes");
    }

    fn mode(&self, number: usize) -> Option<String> {
        let answer = ask(self.address(number), "srvr").ok()?;
        answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned)
    }

    fn address(&self, number: usize) -> SocketAddr {
        (self.network.address(number), 2181).into()
    }

    fn folder_of(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("server-{number}"))
    }
}
