//! A node of [Maelstrom](https://github.com/jepsen-io/maelstrom), for its workload `unique-ids`: it speaks the
//! node protocol on stdin and stdout, and issues uids of the library.
//!
//! Its worker id is its place in the list of nodes. With `UIDRING_MAELSTROM_WORKERS=list`, the default, that is
//! taken for granted, as for nodes that start once. With `lin-kv` it is held by a lease in Maelstrom's service
//! `lin-kv`: what a node may issue is stored there first, and one that starts again goes on above.

mod leases;
mod lin_kv;
mod wire;

use std::env;
use std::io::{self, BufRead};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use uidring::worker::FixedWorkerId;
use uidring::{CachedUidGenerator, Error, WorkerSource};

use self::leases::LinKvLeases;
use self::lin_kv::LinKv;
use self::wire::Wire;

/// The environment variable that says where worker ids come from: Maelstrom starts a program without arguments.
const WORKERS: &str = "UIDRING_MAELSTROM_WORKERS";

/// How long a start that failed waits before it is tried again.
const PAUSE: Duration = Duration::from_millis(200);

/// Maelstrom's codes of errors.
const NOT_SUPPORTED: u64 = 10;
const TEMPORARILY_UNAVAILABLE: u64 = 11;

fn main() -> ExitCode {
    let with_leases = match env::var(WORKERS).as_deref() {
        Err(env::VarError::NotPresent) | Ok("list") => false,
        Ok("lin-kv") => true,
        other => {
            eprintln!("error: {WORKERS} is list or lin-kv, not {other:?}");
            return ExitCode::from(2);
        }
    };
    let node = Node { wire: Arc::default(), generator: Arc::default(), with_leases };
    match node.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Node {
    wire: Arc<Wire>,
    /// Set once it is built.
    generator: Arc<OnceLock<CachedUidGenerator>>,
    with_leases: bool,
}

impl Node {
    /// Answers until the input ends.
    fn run(&self) -> io::Result<()> {
        for line in io::stdin().lock().lines() {
            let message: Value = serde_json::from_str(&line?)?;
            let body = &message["body"];
            if body["in_reply_to"].is_u64() {
                self.wire.answered(body);
                continue;
            }
            match body["type"].as_str() {
                Some("init") => self.init(&message)?,
                Some("generate") => self.generate(&message)?,
                other => {
                    let text = format!("this node does not know {other:?}");
                    self.wire.refuse(&message, NOT_SUPPORTED, &text)?;
                }
            }
        }
        Ok(())
    }

    /// Learns who this node is, and starts to build its generator.
    fn init(&self, message: &Value) -> io::Result<()> {
        let body = &message["body"];
        let (name, nodes) = (body["node_id"].as_str(), body["node_ids"].as_array());
        let place = nodes.and_then(|nodes| nodes.iter().position(|node| node.as_str() == name));
        let (Some(name), Some(place)) = (name, place) else {
            return Err(io::Error::other(format!("init says not which node this is: {body}")));
        };
        self.wire.set_node(name);
        let (wire, generator) = (Arc::clone(&self.wire), Arc::clone(&self.generator));
        let with_leases = self.with_leases;
        // What is built may have to ask `lin-kv`, whose answers come through this thread.
        thread::spawn(move || {
            loop {
                let worker_id = place as u64;
                let built = if with_leases {
                    build(LinKvLeases::new(LinKv::new(Arc::clone(&wire)), worker_id))
                } else {
                    build(FixedWorkerId(worker_id))
                };
                match built {
                    Ok(built) => return generator.set(built).is_ok(),
                    Err(error) => eprintln!("the generator is not built: {error}"),
                }
                thread::sleep(PAUSE);
            }
        });
        self.wire.answer(message, json!({ "type": "init_ok" }))
    }

    /// Answers with a uid, or why there is none: without waiting, since answers of `lin-kv` come through this
    /// thread.
    fn generate(&self, message: &Value) -> io::Result<()> {
        let Some(generator) = self.generator.get() else {
            return self.wire.refuse(message, TEMPORARILY_UNAVAILABLE, "the node is starting");
        };
        match generator.try_next_uid() {
            Ok(uid) => self.wire.answer(message, json!({ "type": "generate_ok", "id": uid.get() })),
            Err(error) => self.wire.refuse(message, TEMPORARILY_UNAVAILABLE, &error.to_string()),
        }
    }
}

/// A horizon is as far ahead of the clock as the generator may be: not far, so that a node that is cut off stops
/// soon, and one that starts again need not wait long.
fn build(source: impl WorkerSource + Send + 'static) -> Result<CachedUidGenerator, Error> {
    CachedUidGenerator::builder().max_borrow(Duration::from_secs(2)).worker_from(source).build()
}
