//! A server for a test, and requests to it.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use uidring::segment::{MemorySegments, SegmentTag};
use uidring::{CachedUidGenerator, SegmentGenerator};
use uidring_server::{Issuer, Limits, Listener, Names, Protocol, Running, Server};

/// Longer than anything that works takes.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Returns a generator with this worker id, which no other test uses.
pub fn generator(worker_id: u64) -> Arc<CachedUidGenerator> {
    let builder = CachedUidGenerator::builder().worker_id(worker_id);
    Arc::new(builder.namespace(format!("http {worker_id}")).build().expect("a generator"))
}

pub fn uids(worker_id: u64) -> Names {
    Names::new().with("uid", Issuer::Ordered(generator(worker_id)))
}

/// A table with the tag `orders`, and one that must be escaped everywhere.
pub fn table() -> MemorySegments {
    let table = MemorySegments::new();
    for tag in ["orders", "<ä> & \"b\"/c"] {
        table.create(SegmentTag::new(tag).step(1_000)).expect("a tag");
    }
    table
}

pub fn segments() -> Arc<SegmentGenerator> {
    Arc::new(SegmentGenerator::builder(table()).build().expect("a generator"))
}

pub struct Served {
    pub running: Running,
    pub address: SocketAddr,
}

impl Served {
    pub fn start(names: Names) -> Self {
        Self::with(names, |server| server)
    }

    pub fn limited(names: Names, change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = Limits::default();
        change(&mut limits);
        Self::with(names, |server| server.limits(limits))
    }

    pub fn with(names: Names, settings: impl FnOnce(Server) -> Server) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = socket.local_addr().expect("an address");
        let server = Server::new().listen(Listener::tcp(Protocol::Http, socket));
        Self { running: settings(server).start(names).expect("it starts"), address }
    }

    /// Asks by curl, with more arguments.
    pub fn curl_with(&self, path: &str, arguments: &[&str]) -> Answer {
        let url = format!("http://{}{path}", self.address);
        let mut curl = Command::new("curl");
        curl.args(["-q", "-s", "-S", "-i", "--noproxy", "*", "--max-time"]);
        let output = curl.arg(PATIENCE.as_secs().to_string()).args(arguments).arg(url).output();
        let output = output.expect("curl runs; `scripts/install curl curl` installs it");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "curl {arguments:?} {path}: {error}");
        let (answer, rest) = Answer::split(&output.stdout).expect("a whole answer");
        assert!(rest.is_empty() || answer.body.is_empty(), "one answer");
        answer
    }

    pub fn curl(&self, path: &str) -> Answer {
        self.curl_with(path, &[])
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    /// Sends these bytes, and returns everything until the server closes.
    pub fn send(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        // The server may close while it refuses this.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        read_all(&mut stream)
    }

    /// Waits until there are this many connections.
    pub fn wait_for_connections(&self, count: usize) {
        let begin = Instant::now();
        while self.running.connections() != count {
            assert!(begin.elapsed() < PATIENCE, "{} connections", self.running.connections());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Returns everything until the end, which may be a reset.
pub fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => all,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => all,
        Err(error) => panic!("{error} after {} bytes", all.len()),
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl Answer {
    /// Returns the first answer, and what follows it; `None` if the answer is incomplete.
    pub fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let end = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).expect("a head of text");
        let mut lines = head.split("\r\n");
        let status = lines.next().expect("a line").split(' ').nth(1).expect("a status");
        let status = status.parse().expect("a number");
        let headers: HashMap<_, _> = lines
            .map(|line| line.split_once(": ").expect("a header"))
            .map(|(key, value)| (key.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let length = headers.get("content-length");
        let length = length.map_or(0, |length| length.parse().expect("a length"));
        let body = bytes[end + 4..].get(..length)?.to_vec();
        Some((Self { status, headers, body }, &bytes[end + 4 + length..]))
    }

    pub fn split_all(mut bytes: &[u8]) -> Vec<Self> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let (answer, rest) = Self::split(bytes).expect("a whole answer");
            all.push(answer);
            bytes = rest;
        }
        all
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub fn json(&self) -> Value {
        assert_eq!(self.headers["content-type"], "application/json");
        serde_json::from_slice(&self.body).expect("JSON")
    }

    /// Returns the id that is the whole body.
    pub fn id(&self) -> u64 {
        assert_eq!(self.status, 200, "{}", self.text());
        self.text().parse().expect("digits alone")
    }

    pub fn error(&self) -> String {
        self.json()["error"].as_str().expect("a text").to_owned()
    }
}
