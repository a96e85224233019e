//! Private etcd servers, of Debian's package `etcd-server`: one, or a cluster of three, with all files in
//! a folder of their own, gone when the last handle is.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::certificates::{Authority, Certificate};
use crate::network::Network;
use crate::process::Process;
use crate::server::{
    self, LIMIT, Slot, folder_for, free_ports, read, shared, start_again, start_on_free_ports,
};

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
    process: Slot,
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
        cluster.start_all(Instant::now() + LIMIT).unwrap_or_else(|error| panic!("{error}"));
        Arc::new(cluster)
    }

    /// The server that this binary's tests share. It ends with the process.
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Option<Arc<Etcd>>> = Mutex::new(None);
        shared(&SHARED, Self::start)
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
        start_again(|deadline| {
            let started = self.start_all(deadline);
            if started.is_err() {
                self.members.iter().for_each(|member| member.process.clear());
            }
            started
        });
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
        self.members[number].process.kill();
    }

    /// Starts a member that was killed, and does not wait for it.
    pub fn start_member(&self, number: usize) {
        self.members[number].process.start(|| Ok(self.spawn(number))).expect("a process");
    }

    /// Sends a member a signal: `STOP` or `CONT`.
    pub fn signal(&self, number: usize, name: &str) {
        self.members[number].process.signal(name);
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
        read(&self.folder_of(number).with_extension("log"))
    }

    fn launch(scheme: &'static str, count: usize, arguments: Vec<String>) -> Arc<Self> {
        Arc::new(start_on_free_ports(|deadline| {
            let ports = free_ports(2 * count);
            let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let cluster = Self::new(
                scheme,
                arguments.clone(),
                |number| (local(ports[2 * number]), local(ports[2 * number + 1])),
                count,
            );
            cluster.start_all(deadline)?;
            Ok(cluster)
        }))
    }

    fn new(
        scheme: &'static str,
        arguments: Vec<String>,
        addresses: impl Fn(usize) -> (SocketAddr, SocketAddr),
        count: usize,
    ) -> Self {
        let member = |number| {
            let (client, peer) = addresses(number);
            Member { name: format!("m{number}"), client, peer, process: Slot::default() }
        };
        Self {
            members: (0..count).map(member).collect(),
            arguments,
            scheme,
            network: None,
            folder: folder_for(""),
        }
    }

    fn start_all(&self, deadline: Instant) -> Result<(), String> {
        (0..self.members.len()).for_each(|number| self.start_member(number));
        for member in &self.members {
            // It says so once it has a leader.
            let ready = "ready to serve client requests";
            member.process.wait_until_ready(deadline, |process, _| match process.log() {
                log if log.contains(ready) => Ok(()),
                _ => Err("it is not ready".into()),
            })?;
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
        // Of a cluster's members, each removes its own files.
        let files = if self.members.len() == 1 { self.folder.path() } else { &*folder };
        Process::spawn(&command, files, &folder.with_extension("log"))
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
}

fn program() -> PathBuf {
    server::find("etcd", ["/usr/bin".into()], "etcd-server")
}
