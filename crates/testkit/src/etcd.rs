//! Private etcd servers, of Debian's package `etcd-server`: one, or a cluster of three, with all files in
//! a folder of their own, gone when the last handle is.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::certificates::{Authority, Certificate};
use crate::network::Network;
use crate::process::Process;

/// How long a start, a stop and a request may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Shorter than by default, so that a new leader is there within a second or two.
const ELECTION: [&str; 2] = ["--heartbeat-interval=50", "--election-timeout=500"];

/// A server, or a cluster of them. What goes wrong panics, with the servers' logs where that may help.
pub struct Etcd {
    members: Vec<Member>,
    arguments: Vec<String>,
    scheme: &'static str,
    /// After the members, whose processes are in it.
    network: Option<Network>,
    folder: TempDir,
}

struct Member {
    name: String,
    client: SocketAddr,
    peer: SocketAddr,
    /// `None` while it is down.
    process: Mutex<Option<Process>>,
}

impl Etcd {
    /// One server.
    pub fn start() -> Arc<Self> {
        Self::start_with(&[])
    }

    /// One server with these arguments.
    pub fn start_with(arguments: &[&str]) -> Arc<Self> {
        Self::launch("http", 1, arguments.iter().map(|&one| one.into()).collect())
    }

    /// One server that shows this certificate and, if it is to, asks clients for one of the authority.
    pub fn start_with_tls(authority: &Authority, shown: &Certificate, asks: bool) -> Arc<Self> {
        let mut arguments = vec![
            format!("--cert-file={}", shown.certificate.display()),
            format!("--key-file={}", shown.key.display()),
            format!("--trusted-ca-file={}", authority.certificate().display()),
        ];
        arguments.extend(asks.then(|| "--client-cert-auth".to_owned()));
        Self::launch("https", 1, arguments)
    }

    /// A cluster of three on the loopback.
    pub fn cluster() -> Arc<Self> {
        Self::launch("http", 3, Vec::new())
    }

    /// A cluster of three, each in a network namespace of its own. Needs root.
    pub fn cluster_in_namespaces() -> Arc<Self> {
        let network = Network::new(3);
        let hosts: Vec<_> = (0..3).map(|number| network.address(number)).collect();
        let mut cluster = Self::new(
            "http",
            Vec::new(),
            |number| {
                (SocketAddr::from((hosts[number], 2379)), SocketAddr::from((hosts[number], 2380)))
            },
            3,
        );
        cluster.network = Some(network);
        cluster.start_all().unwrap_or_else(|error| panic!("{error}"));
        Arc::new(cluster)
    }

    /// The server of all tests of this binary that need none of their own. It ends with the last
    /// test that holds it, since nothing is dropped at the end of a process.
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Etcd>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Self::start();
            *shared = Arc::downgrade(&server);
            server
        })
    }

    /// The endpoints of all members, separated by commas.
    pub fn endpoints(&self) -> String {
        let all: Vec<_> = (0..self.members.len()).map(|number| self.endpoint(number)).collect();
        all.join(",")
    }

    /// The endpoint of one member.
    pub fn endpoint(&self, number: usize) -> String {
        format!("{}://{}", self.scheme, self.members[number].client)
    }

    /// The port of the only server.
    pub fn port(&self) -> u16 {
        self.members[0].client.port()
    }

    /// Ends all members in the midst of whatever they do, and waits.
    pub fn kill(&self) {
        (0..self.members.len()).for_each(|number| self.kill_member(number));
    }

    /// Starts all members again: with the same files, on the same ports.
    pub fn start_again(&self) {
        self.start_all().unwrap_or_else(|error| panic!("{error}"));
    }

    /// Lets all members stand still: they take connections, and answer nothing.
    pub fn freeze(&self) {
        (0..self.members.len()).for_each(|number| self.signal(number, "STOP"));
    }

    /// Lets frozen members go on.
    pub fn thaw(&self) {
        (0..self.members.len()).for_each(|number| self.signal(number, "CONT"));
    }

    /// Ends a member in the midst of whatever it does, and waits.
    pub fn kill_member(&self, number: usize) {
        let mut process = self.process(number).take().expect("the member is up");
        process.signal("KILL");
        let status = process.wait_until(Instant::now() + LIMIT);
        assert!(status.is_some(), "the member survives SIGKILL\n{}", self.log(number));
    }

    /// Starts a member that was killed, and does not wait for it.
    pub fn start_member(&self, number: usize) {
        let mut process = self.process(number);
        assert!(process.is_none(), "the member is up");
        *process = Some(self.spawn(number));
    }

    /// Sends a member a signal: `STOP` or `CONT`.
    pub fn signal(&self, number: usize, name: &str) {
        self.process(number).as_mut().expect("the member is up").signal(name);
    }

    /// Cuts a member off from all others and from clients, by its link.
    pub fn unplug(&self, number: usize) {
        self.network().unplug(number);
    }

    /// Undoes it.
    pub fn plug_in(&self, number: usize) {
        self.network().plug_in(number);
    }

    /// Cuts a member off from the other members alone, by blackhole routes: clients reach it.
    pub fn isolate(&self, number: usize) {
        self.network().isolate(number);
    }

    /// Undoes it.
    pub fn rejoin(&self, number: usize) {
        self.network().rejoin(number);
    }

    /// The member that leads, as soon as one does and a majority follows.
    pub fn leader(&self) -> usize {
        let deadline = Instant::now() + LIMIT;
        loop {
            let status = |number| self.try_post(number, "maintenance/status", &json!({})).ok();
            let all: Vec<_> = (0..self.members.len()).map(status).collect();
            let leads = |status: &Option<Value>| {
                status.as_ref().is_some_and(|status| {
                    let leader = &status["leader"];
                    let follow = all.iter().flatten().filter(|one| one["leader"] == *leader);
                    status["header"]["member_id"] == *leader && follow.count() * 2 > all.len()
                })
            };
            if let Some(number) = all.iter().position(leads) {
                return number;
            }
            assert!(Instant::now() < deadline, "no leader\n{}", self.log(0));
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// What a server answers to a request of its gateway, such as `kv/put`.
    pub fn post(&self, path: &str, body: &Value) -> Value {
        self.try_post(0, path, body).unwrap_or_else(|error| panic!("{error}\n{}", self.log(0)))
    }

    /// The same; the answer is the error if it is none of success.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub fn ask(&self, path: &str, body: &Value) -> Result<Value, String> {
        self.try_post(0, path, body)
    }

    /// The sum of a server's metrics whose lines begin so.
    pub fn metric(&self, begin: &str) -> f64 {
        let page = self.exchange(0, "GET /metrics HTTP/1.0\r\n\r\n").expect("an answer");
        let lines = page.lines().filter(|line| line.starts_with(begin));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// What a member, over all its starts, said about itself.
    pub fn log(&self, number: usize) -> String {
        let path = self.folder_of(number).with_extension("log");
        // There is none before the first start.
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    }

    fn launch(scheme: &'static str, count: usize, arguments: Vec<String>) -> Arc<Self> {
        // Between looking for a free port and using it, somebody else may come by.
        let mut failure = String::new();
        for _ in 0..3 {
            let ports = free_ports(2 * count);
            let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let cluster = Self::new(
                scheme,
                arguments.clone(),
                |number| (local(ports[2 * number]), local(ports[2 * number + 1])),
                count,
            );
            match cluster.start_all() {
                Ok(()) => return Arc::new(cluster),
                Err(error) => failure = error,
            }
        }
        panic!("{failure}");
    }

    fn new(
        scheme: &'static str,
        arguments: Vec<String>,
        addresses: impl Fn(usize) -> (SocketAddr, SocketAddr),
        count: usize,
    ) -> Self {
        let folder = tempfile::Builder::new().prefix("uidring-").tempdir();
        let member = |number| {
            let (client, peer) = addresses(number);
            Member { name: format!("m{number}"), client, peer, process: Mutex::new(None) }
        };
        Self {
            members: (0..count).map(member).collect(),
            arguments,
            scheme,
            network: None,
            folder: folder.expect("a temporary folder"),
        }
    }

    fn start_all(&self) -> Result<(), String> {
        let known: Vec<_> = (0..self.members.len()).map(|number| self.log(number).len()).collect();
        (0..self.members.len()).for_each(|number| self.start_member(number));
        let deadline = Instant::now() + LIMIT;
        for (number, known) in known.into_iter().enumerate() {
            // It says so once it has a leader.
            while !self.log(number)[known..].contains("ready to serve client requests") {
                let ended = self.process(number).as_mut().map(|p| p.wait_until(Instant::now()));
                if let Some(Some(status)) = ended {
                    return Err(format!("etcd ended with {status}\n{}", self.log(number)));
                }
                if Instant::now() >= deadline {
                    return Err(format!("etcd is not ready\n{}", self.log(number)));
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
        // A connection may come a moment later.
        while TcpStream::connect_timeout(&self.members[0].client, LIMIT).is_err() {
            if Instant::now() >= deadline {
                return Err(format!("etcd does not listen\n{}", self.log(0)));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn spawn(&self, number: usize) -> Process {
        let Member { name, client, peer, .. } = &self.members[number];
        let all: Vec<_> =
            self.members.iter().map(|m| format!("{}=http://{}", m.name, m.peer)).collect();
        let mut command = match &self.network {
            Some(network) => network.command(number),
            None => Command::new(program()),
        };
        if self.network.is_some() {
            command.arg(program());
        }
        let folder = self.folder_of(number);
        let url = format!("{}://{client}", self.scheme);
        command
            .arg(format!("--name={name}"))
            .arg(format!("--data-dir={}", folder.display()))
            .arg(format!("--listen-client-urls={url}"))
            .arg(format!("--advertise-client-urls={url}"))
            .arg(format!("--listen-peer-urls=http://{peer}"))
            .arg(format!("--initial-advertise-peer-urls=http://{peer}"))
            .arg(format!("--initial-cluster={}", all.join(",")))
            .arg(format!("--initial-cluster-token={}", self.folder.path().display()))
            .args(ELECTION)
            .args(&self.arguments);
        Process::spawn(&command, &folder, &folder.with_extension("log"))
    }

    fn try_post(&self, number: usize, path: &str, body: &Value) -> Result<Value, String> {
        let body = body.to_string();
        let request = format!(
            "POST /v3/{path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n\
             {body}",
            body.len()
        );
        let answer = self.exchange(number, &request).map_err(|error| error.to_string())?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        if !head.lines().next().unwrap_or_default().contains(" 200 ") {
            return Err(answer);
        }
        serde_json::from_str(body).map_err(|error| format!("{error}: {answer}"))
    }

    /// With HTTP 1.0, so that the answer comes in one piece.
    fn exchange(&self, number: usize, request: &str) -> std::io::Result<String> {
        let patience = Duration::from_secs(1);
        let mut stream = TcpStream::connect_timeout(&self.members[number].client, patience)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    fn folder_of(&self, number: usize) -> PathBuf {
        self.folder.path().join(&self.members[number].name)
    }

    fn network(&self) -> &Network {
        self.network.as_ref().expect("members in namespaces")
    }

    fn process(&self, number: usize) -> MutexGuard<'_, Option<Process>> {
        self.members[number].process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// So many, none twice.
fn free_ports(count: usize) -> Vec<u16> {
    let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let bound: Vec<_> = (0..count).map(bind).collect();
    bound.iter().map(|one| one.local_addr().expect("it is bound").port()).collect()
}

fn program() -> &'static Path {
    let path = Path::new("/usr/bin/etcd");
    assert!(
        path.is_file(),
        "no {}, which these tests need: apt-get install etcd-server",
        path.display()
    );
    path
}
