//! Serves uids over HTTP: `curl http://127.0.0.1:8080/api/snowflake/get/x`.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use uidring::CachedUidGenerator;
use uidring_server::{Issuer, Listener, Names, Protocol, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let generator = Arc::new(CachedUidGenerator::builder().worker_id(7).build()?);
    let names = Names::new().with("uid", Issuer::Ordered(generator));
    let socket = TcpListener::bind("127.0.0.1:8080")?;
    let running = Server::new(names).listen(Listener::tcp(Protocol::Http, socket)).start()?;
    println!("Enter ends it");
    io::stdin().read_line(&mut String::new())?;
    println!("{} connections were cut off", running.stop(std::time::Duration::from_secs(5)));
    Ok(())
}
