//! Private etcd servers from Debian's package `etcd-server`: one, or a cluster of three.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::certificates::{Authority, Certificate};
use crate::cluster::{self, Leads};
use crate::network::Network;
use crate::process::Process;
use crate::server::{self, Kind, LIMIT, Server, folder_for, free_ports, start_on_free_ports};

/// Shorter than the default, so that a new leader is elected within a second or two.
const ELECTION: [&str; 2] = ["--heartbeat-interval=50", "--election-timeout=500"];

const MEMBERS: usize = 3;

/// A server, alone or in a cluster.
pub type Etcd = Server<Member>;

pub struct Member {
    scheme: &'static str,
    arguments: Vec<String>,
    /// The peer addresses of its cluster; empty if it is alone.
    peers: Vec<SocketAddr>,
}

impl Etcd {
    pub fn start() -> Arc<Self> {
        Self::start_with(&[])
    }

    /// Starts one server with more arguments.
    pub fn start_with(arguments: &[&str]) -> Arc<Self> {
        Self::alone("http", arguments.iter().map(|&one| one.into()).collect())
    }

    /// Starts one server that shows this certificate. If `asks`, clients must show one of the authority.
    pub fn start_with_tls(authority: &Authority, shown: &Certificate, asks: bool) -> Arc<Self> {
        let mut arguments = vec![
            format!("--cert-file={}", shown.certificate.display()),
            format!("--key-file={}", shown.key.display()),
            format!("--trusted-ca-file={}", authority.certificate().display()),
        ];
        arguments.extend(asks.then(|| "--client-cert-auth".to_owned()));
        Self::alone("https", arguments)
    }

    fn alone(scheme: &'static str, arguments: Vec<String>) -> Arc<Self> {
        Self::down(Member { scheme, arguments, peers: Vec::new() }, folder_for("")).start_new()
    }

    /// Returns the server that the tests of this binary share. It ends with the process.
    pub fn shared() -> Arc<Self> {
        static SHARED: OnceLock<Arc<Etcd>> = OnceLock::new();
        Arc::clone(SHARED.get_or_init(Self::start))
    }

    pub fn endpoints(&self) -> String {
        format!("{}://{}", self.kind().scheme, self.address())
    }

    /// Returns the URL of the keys with this prefix.
    pub fn url(&self, prefix: &str) -> String {
        format!("etcd://{}/{prefix}", self.address())
    }

    /// Returns the answer to a request of its gateway, such as `kv/put`.
    pub fn post(&self, path: &str, body: &Value) -> Value {
        self.ask(path, body).unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
    }

    /// Like [`post`](Self::post), but returns an unsuccessful answer as an error.
    ///
    /// # Errors
    ///
    /// The answer's text unless its status is 200, or the text of another failure.
    pub fn ask(&self, path: &str, body: &Value) -> Result<Value, String> {
        let body = body.to_string();
        let request = format!(
            "POST /v3/{path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n\
             {body}",
            body.len()
        );
        let answer = self.exchange(&request).map_err(|error| error.to_string())?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        if !head.lines().next().unwrap_or_default().contains(" 200 ") {
            return Err(answer);
        }
        serde_json::from_str(body).map_err(|error| format!("{error}: {answer}"))
    }

    /// Returns the sum of the metrics whose lines have this beginning.
    pub fn metric(&self, begin: &str) -> f64 {
        let page = self.exchange("GET /metrics HTTP/1.0\r\n\r\n").expect("an answer");
        let lines = page.lines().filter(|line| line.starts_with(begin));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// HTTP 1.0, so that the answer comes in one piece.
    fn exchange(&self, request: &str) -> std::io::Result<String> {
        let patience = Duration::from_secs(1);
        let mut stream = TcpStream::connect_timeout(&self.address(), patience)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

impl Kind for Member {
    fn command(server: &Etcd) -> Command {
        let Self { arguments, peers, .. } = server.kind();
        let (url, peer) = (server.endpoints(), server.second_address());
        let name = |peer: &SocketAddr| format!("{peer}=http://{peer}");
        let all: Vec<_> =
            if peers.is_empty() { vec![name(&peer)] } else { peers.iter().map(name).collect() };
        let all = all.join(",");
        let mut command = Command::new(program());
        command
            .arg(format!("--name={peer}"))
            .arg(format!("--data-dir={}", server.folder().join("data").display()))
            .arg(format!("--listen-client-urls={url}"))
            .arg(format!("--advertise-client-urls={url}"))
            .arg(format!("--listen-peer-urls=http://{peer}"))
            .arg(format!("--initial-advertise-peer-urls=http://{peer}"))
            .arg(format!("--initial-cluster-token={all}"))
            .arg(format!("--initial-cluster={all}"))
            .args(ELECTION)
            .args(arguments);
        command
    }

    fn is_ready(server: &Etcd, process: &Process, _: Duration) -> Result<(), String> {
        // It logs this once it has a leader. It may accept connections a moment later.
        if !process.log().contains("ready to serve client requests") {
            return Err("it is not ready".into());
        }
        TcpStream::connect(server.address()).map(drop).map_err(|error| error.to_string())
    }
}

/// Three servers, of which two are a majority.
pub type Cluster = cluster::Cluster<Member>;

impl Cluster {
    /// Starts a cluster on the loopback.
    pub fn start() -> Self {
        start_on_free_ports(|deadline| {
            Self::launch(None, [free_ports(), free_ports(), free_ports()], deadline)
        })
    }

    /// Starts a cluster with a network namespace for each server. Needs root.
    pub fn start_in_namespaces() -> Self {
        let network = Network::new(MEMBERS as u8);
        let started = Self::launch(Some(network), [[2379, 2380]; MEMBERS], Instant::now() + LIMIT);
        started.unwrap_or_else(|error| panic!("{error}"))
    }

    fn launch(
        network: Option<Arc<Network>>,
        ports: [[u16; 2]; MEMBERS],
        deadline: Instant,
    ) -> Result<Self, String> {
        let host = |number| network.as_ref().map(|network| network.host(number));
        let address = |number| host(number).map_or(Ipv4Addr::LOCALHOST, |host| host.address());
        let peers: Vec<_> = (0..MEMBERS)
            .map(|number| SocketAddr::from((address(number), ports[number][1])))
            .collect();
        let member = |number: usize| {
            let kind = Member { scheme: "http", arguments: Vec::new(), peers: peers.clone() };
            Arc::new(Server::down(kind, folder_for("")).at(host(number), ports[number]))
        };
        let cluster = Self::new((0..MEMBERS).map(member).collect(), network);
        cluster.servers().iter().for_each(|member| member.spawn());
        cluster.servers().iter().try_for_each(|member| member.wait_until_ready(deadline))?;
        Ok(cluster)
    }

    /// Returns the endpoints of all members, separated by commas.
    pub fn endpoints(&self) -> String {
        self.join(Etcd::endpoints)
    }
}

impl Leads for Member {
    const ELECTION: Duration = LIMIT;

    fn leader(members: &[Arc<Etcd>]) -> Option<usize> {
        let status = |member: &Arc<Etcd>| member.ask("maintenance/status", &json!({})).ok();
        let all: Vec<_> = members.iter().map(status).collect();
        all.iter().position(|status| {
            status.as_ref().is_some_and(|status| {
                let leader = &status["leader"];
                let follow = all.iter().flatten().filter(|one| one["leader"] == *leader);
                status["header"]["member_id"] == *leader && follow.count() * 2 > all.len()
            })
        })
    }
}

fn program() -> PathBuf {
    server::find("etcd", ["/usr/bin".into()], "etcd-server")
}
