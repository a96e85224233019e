//! A server with names, and a client that speaks to it byte by byte.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use uidring::generator::CachedBuilder;
use uidring::segment::{MemorySegments, SegmentTag};
use uidring::{CachedUidGenerator, SegmentGenerator};
use uidring_server::{Issuer, Listener, Names, Protocol, Server};

/// Nothing here takes this long.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Returns a generator in its own namespace, because tests of one process may share a worker id.
pub fn generator(set: impl FnOnce(CachedBuilder) -> CachedBuilder) -> Arc<CachedUidGenerator> {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    let namespace = format!("test {}", NUMBERS.fetch_add(1, Ordering::Relaxed));
    let builder = CachedUidGenerator::builder().worker_id(7).namespace(namespace);
    Arc::new(set(builder).build().expect("built"))
}

/// Returns `uid`, and `orders` in steps of 10.
pub fn names() -> Names {
    let table = MemorySegments::new();
    table.create(SegmentTag::new("orders").step(10)).expect("created");
    let segments = SegmentGenerator::builder(table).build().expect("built");
    Names::new()
        .with("uid", Issuer::Ordered(generator(|builder| builder.max_lag(None))))
        .with_segments(Arc::new(segments))
}

pub struct Running {
    running: Option<uidring_server::Running>,
    address: SocketAddr,
}

pub fn start(names: Names) -> Running {
    run(Server::new(), names)
}

/// Starts a server on a free port.
pub fn run(server: Server, names: Names) -> Running {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("bound");
    let server = server.listen(Listener::tcp(Protocol::Redis, socket));
    Running { running: Some(server.start(names).expect("started")), address }
}

impl Running {
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn running(&self) -> &uidring_server::Running {
        self.running.as_ref().expect("it runs")
    }

    pub fn client(&self) -> Client {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        stream.set_nodelay(true).expect("set");
        Client(BufReader::new(stream))
    }

    /// Stops it, and returns how many connections were cut off.
    pub fn stop(mut self, patience: Duration) -> usize {
        self.running.take().expect("it runs").stop(patience)
    }
}

pub struct Client(BufReader<TcpStream>);

impl Client {
    pub fn stream(&self) -> &TcpStream {
        self.0.get_ref()
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("sent");
    }

    /// Sends a command, and returns the raw answer.
    pub fn say(&mut self, words: &[&str]) -> String {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.send(request.as_bytes());
        self.reply()
    }

    /// Returns the next raw answer.
    pub fn reply(&mut self) -> String {
        let mut text = String::new();
        self.0.read_line(&mut text).expect("an answer");
        let number: i64 = text[1..].trim_end().parse().unwrap_or(0);
        let parts = match &text[..1] {
            "$" if number >= 0 => {
                let mut bytes = vec![0; number as usize + 2];
                self.0.read_exact(&mut bytes).expect("the rest");
                text.push_str(str::from_utf8(&bytes).expect("UTF-8"));
                0
            }
            "*" => number,
            "%" => 2 * number,
            _ => 0,
        };
        (0..parts).for_each(|_| text.push_str(&self.reply()));
        text
    }

    pub fn integer(&mut self, words: &[&str]) -> u64 {
        let answer = self.say(words);
        integer(&answer)
    }

    pub fn read_integer(&mut self) -> u64 {
        integer(&self.reply())
    }

    pub fn integers(&mut self, words: &[&str]) -> Vec<u64> {
        let answer = self.say(words);
        let mut lines = answer.lines();
        let count: usize = lines.next().and_then(|line| line[1..].parse().ok()).expect("an array");
        let ids: Vec<u64> = lines.map(integer).collect();
        assert_eq!(ids.len(), count);
        ids
    }

    /// Returns everything until the server closes.
    pub fn rest(&mut self) -> String {
        let mut text = String::new();
        self.0.read_to_string(&mut text).expect("until the end");
        text
    }

    /// As [`rest`](Self::rest), for bytes that may not be text.
    pub fn rest_of_bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.0.read_to_end(&mut bytes) {
            Ok(_) => {}
            // A connection that is cut off has ended, too.
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
        }
        bytes
    }

    /// Whether the server closes without another answer.
    pub fn is_closed(&mut self) -> bool {
        self.rest().is_empty()
    }
}

fn integer(answer: &str) -> u64 {
    let digits = answer.strip_prefix(':').unwrap_or_else(|| panic!("{answer}"));
    digits.trim_end().parse().expect("an integer")
}
