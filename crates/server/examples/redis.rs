//! Serves uids to clients of Redis: `redis-cli -p 6380 incr uid`.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use uidring::CachedUidGenerator;
use uidring_server::{Issuer, Listener, Names, Protocol, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let generator = Arc::new(CachedUidGenerator::builder().worker_id(7).build()?);
    let names = Names::new().with("uid", Issuer::Ordered(generator));
    let socket = TcpListener::bind("127.0.0.1:6380")?;
    let running = Server::new().listen(Listener::tcp(Protocol::Redis, socket)).start(names)?;
    println!("Enter ends it");
    io::stdin().read_line(&mut String::new())?;
    println!("{} connections were cut off", running.stop(std::time::Duration::from_secs(5)));
    Ok(())
}
