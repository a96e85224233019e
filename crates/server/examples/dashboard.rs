//! Serves uids and segments over HTTP, with clients of its own that ask for them, so that there is something to
//! see: `cargo run -p uidring-server --example dashboard [PORT]`, then a browser at the address it prints.
//!
//! It ends with its standard input.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use uidring::segment::{MemorySegments, SegmentStore, SegmentTag};
use uidring::{CachedUidGenerator, Layout, SegmentGenerator, UidGenerator};
use uidring_server::{Issuer, Listener, Names, Protocol, Server};
use uidring_sqlite::SqliteStore;

fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args().nth(1).map_or(Ok(0), |port| port.parse())?;
    let uids = Arc::new(CachedUidGenerator::builder().worker_id(7).build()?);
    let folder = tempfile::tempdir()?;
    let leases = SqliteStore::new(folder.path().join("uidring.db")).create(true).leases();
    let snowflake =
        CachedUidGenerator::builder().layout(Layout::SNOWFLAKE).worker_from(leases).build()?;
    let broken = Arc::new(CachedUidGenerator::builder().worker_id(8).build()?);
    broken.close();
    let table = MemorySegments::new();
    table.create(SegmentTag::new("orders").step(1_000))?;
    table.create(SegmentTag::new("<b>invoices</b> & \"more\"").max_id(1_000_000).step(200))?;
    let segments = Arc::new(SegmentGenerator::builder(table.clone()).build()?);
    let names = Names::new()
        .with("uid", Issuer::Ordered(uids))
        .with_origin("uid", "fixed by the example")
        .with("snowflake", Issuer::Ordered(Arc::new(snowflake)))
        .with_origin("snowflake", "leased from uidring.db")
        .with("broken", Issuer::Ordered(broken))
        .with_segments(segments)
        .with_rows(move || table.clone().tags());
    let socket = TcpListener::bind(("127.0.0.1", port))?;
    let address = socket.local_addr()?;
    let mut server = Server::new().listen(Listener::tcp(Protocol::Http, socket));
    if let Ok(password) = std::env::var("PASSWORD") {
        server = server.password(password);
    }
    let running = server.start(names)?;
    println!("http://{address}/");
    thread::spawn(move || (0_u32..).take_while(|round| ask(address, *round).is_ok()).count());
    // Until whoever started it ends, too.
    io::stdin().read_to_end(&mut Vec::new())?;
    running.stop(Duration::from_secs(5));
    Ok(())
}

/// What clients may ask, over a connection each time.
fn ask(address: SocketAddr, round: u32) -> io::Result<()> {
    let count = 500 + 50 * (round % 70).abs_diff(35);
    let many = format!("/v1/ids?name=snowflake&count={count}");
    for path in [
        "/api/snowflake/get/x",
        &many,
        "/api/segment/get/orders",
        "/v1/ids?name=%3Cb%3Einvoices%3C/b%3E%20%26%20%22more%22&count=3",
        "/v1/ids?name=nobody",
    ] {
        let mut stream = TcpStream::connect(address)?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        stream.read_to_end(&mut Vec::new())?;
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
