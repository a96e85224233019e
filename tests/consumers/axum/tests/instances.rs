//! Two instances of the service on one database. POSTGRES_URL_FILE names the file with its URL.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

struct Instance {
    process: Child,
    address: String,
}

impl Instance {
    fn start() -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orders"));
        let mut process = command.env("LISTEN", "127.0.0.1:0").stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on ").ok_or("it does not listen")?;
        Ok(Self { address: address.into(), process })
    }

    fn order(&self) -> Result<u64, Box<dyn Error>> {
        let mut connection = TcpStream::connect(&self.address)?;
        connection.write_all(b"POST /orders HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut response = String::new();
        connection.read_to_string(&mut response)?;
        let (_, json) = response.split_once("\r\n\r\n").ok_or("no body")?;
        let order: serde_json::Value = serde_json::from_str(json)?;
        Ok(order["id"].as_str().ok_or("no text")?.parse()?)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn each_instance_orders_its_ids_and_none_comes_twice() -> Result<(), Box<dyn Error>> {
    let instances = [Instance::start()?, Instance::start()?];
    let mut all = Vec::new();
    for instance in &instances {
        let ids = [instance.order()?, instance.order()?, instance.order()?];
        assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
        all.extend(ids);
    }
    all.sort_unstable();
    assert!(all.is_sorted_by(|one, next| one < next), "{all:?}");

    let [mut one, _other] = instances;
    Command::new("kill").args(["-TERM", &one.process.id().to_string()]).status()?;
    assert!(one.process.wait()?.success(), "SIGTERM ends it in an orderly way");
    Ok(())
}
