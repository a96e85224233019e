//! A program that serves ids besides what else it does.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use uidring::CachedUidGenerator;
use uidring_server::{Issuer, Listener, Names, Protocol, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let generator = Arc::new(CachedUidGenerator::builder().worker_id(7).build()?);
    let names = Names::new().with("uid", Issuer::Ordered(generator));
    let socket = TcpListener::bind("127.0.0.1:0")?;
    let address = socket.local_addr()?;
    let running = Server::new().listen(Listener::tcp(Protocol::Redis, socket)).start(names)?;

    // A client of Redis would say so.
    let mut client = BufReader::new(TcpStream::connect(address)?);
    client.get_mut().write_all(b"INCR uid\r\n")?;
    let mut answer = String::new();
    client.read_line(&mut answer)?;
    println!("{}", answer.trim_start_matches(':').trim_end());

    drop(client);
    assert_eq!(running.stop(Duration::from_secs(5)), 0, "connections that were cut off");
    Ok(())
}
