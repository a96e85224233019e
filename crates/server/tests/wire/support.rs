//! Servers, and raw connections to them.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use uidring::segment::{MemorySegments, SegmentTag};
use uidring::{CachedUidGenerator, Layout, SegmentGenerator};
use uidring_server::{Issuer, Limits, Listener, Names, Protocol, Running, Server};

/// Longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a generator in its own namespace, because tests of one process may share a worker id.
fn generator(layout: Layout, worker_id: u64) -> Names {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    let namespace = format!("test {}", NUMBERS.fetch_add(1, Ordering::Relaxed));
    let builder = CachedUidGenerator::builder().layout(layout).namespace(namespace);
    let generator = builder.worker_id(worker_id).build().expect("a generator");
    Names::new().with("uid", Issuer::Ordered(Arc::new(generator)))
}

pub fn uids() -> Names {
    generator(Layout::default(), 7)
}

pub fn twitters(worker_id: u64) -> Names {
    generator(Layout::SNOWFLAKE, worker_id)
}

/// Returns tags that start at 1, with `orders` as the default.
pub fn segments() -> Names {
    let table = MemorySegments::new();
    assert!(table.create(SegmentTag::new("orders").step(1_000)).expect("a tag"));
    let generator = Arc::new(SegmentGenerator::builder(table).build().expect("a generator"));
    let orders = generator.tag("orders").expect("a tag");
    Names::new().with("orders", Issuer::Segment(orders)).with_segments(generator)
}

/// A server of both protocols on TCP, and of batches on a Unix socket.
pub struct Served {
    pub running: Running,
    pub thrift: SocketAddr,
    pub batch: SocketAddr,
    folder: TempDir,
}

impl Served {
    pub fn new(names: Names) -> Self {
        Self::with(names, |server| server)
    }

    pub fn with(names: Names, set: impl FnOnce(Server) -> Server) -> Self {
        let folder = TempDir::new().expect("a folder");
        let bind = || TcpListener::bind("127.0.0.1:0").expect("a free port");
        let (thrift, batch) = (bind(), bind());
        let address = |socket: &TcpListener| socket.local_addr().expect("an address");
        let addresses = (address(&thrift), address(&batch));
        let path = folder.path().join("batch");
        let unix = UnixListener::bind(&path).expect("a socket");
        let server = Server::new()
            .listen(Listener::tcp(Protocol::Thrift, thrift))
            .listen(Listener::tcp(Protocol::Batch, batch))
            .listen(Listener::unix(Protocol::Batch, unix, &path));
        let running = set(server).start(names).expect("a server");
        Self { running, thrift: addresses.0, batch: addresses.1, folder }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("batch")
    }
}

pub fn limits(set: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    set(&mut limits);
    limits
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_nodelay(true).expect("an option");
    stream.set_read_timeout(Some(PATIENCE)).expect("an option");
    stream.set_write_timeout(Some(PATIENCE)).expect("an option");
    stream
}

pub fn read(stream: &mut impl Read, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).expect("an answer");
    bytes
}

/// Returns everything until the connection ends, which may be a reset.
pub fn read_to_end(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }
    bytes
}

pub fn send(stream: &mut impl Write, bytes: &[u8]) {
    stream.write_all(bytes).expect("the server takes requests");
}

pub fn hex(text: &str) -> Vec<u8> {
    let byte = |text| u8::from_str_radix(text, 16).expect("a byte in hex");
    text.split_whitespace().map(byte).collect()
}

pub fn assert_increasing_and_distinct(ids: &[u64]) {
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
}

pub fn clients() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients"))
}
