//! Nodes behind a router that loses, delays and repeats messages, cuts nodes off, and kills them. It stands for
//! Maelstrom, and is the service `lin-kv` as well: a map to which one request at a time is applied.

use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uidring::{Layout, Uid};

const NODES: [&str; 3] = ["n1", "n2", "n3"];

struct Node {
    child: Child,
    stdin: ChildStdin,
}

/// A message, in the order in which it arrives, the first one first.
struct Arrival {
    at: Instant,
    message: Value,
}

impl Ord for Arrival {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.at.cmp(&self.at)
    }
}

impl PartialOrd for Arrival {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Arrival {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Arrival {}

struct Router {
    workers: &'static str,
    random: fastrand::Rng,
    nodes: HashMap<&'static str, Node>,
    lines: Receiver<Value>,
    sender: Sender<Value>,
    arrivals: BinaryHeap<Arrival>,
    /// In this share of a hundred, a message is lost, and another one comes twice.
    faults: u32,
    /// Whose messages are lost, to and from everybody but clients.
    cut_off: Option<&'static str>,
    kv: BTreeMap<String, Value>,
    asked: u64,
    /// All that was ever answered, by node.
    ids: HashSet<u64>,
    issued: HashMap<String, usize>,
    refused: usize,
}

impl Router {
    fn start(workers: &'static str, seed: u64) -> Self {
        let (sender, lines) = mpsc::channel();
        let mut router = Self {
            workers,
            random: fastrand::Rng::with_seed(seed),
            nodes: HashMap::new(),
            lines,
            sender,
            arrivals: BinaryHeap::new(),
            faults: 0,
            cut_off: None,
            kv: BTreeMap::new(),
            asked: 0,
            ids: HashSet::new(),
            issued: HashMap::new(),
            refused: 0,
        };
        NODES.iter().for_each(|name| router.spawn(name));
        router
    }

    fn spawn(&mut self, name: &'static str) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_uidring-maelstrom"))
            .env("UIDRING_MAELSTROM_WORKERS", self.workers)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let sender = self.sender.clone();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // A line that a kill has cut off was not sent.
                let Ok(message) = serde_json::from_str(&line) else { continue };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        self.nodes.insert(name, Node { child, stdin });
        let body = json!({ "type": "init", "msg_id": 1, "node_id": name, "node_ids": NODES });
        // Maelstrom loses no init.
        self.deliver(&json!({ "src": "c0", "dest": name, "body": body }));
    }

    fn kill(&mut self, name: &str) {
        if let Some(mut node) = self.nodes.remove(name) {
            node.child.kill().expect("it is killed");
            node.child.wait().expect("it ends");
        }
    }

    /// Has the network carry a message, or not.
    fn carry(&mut self, message: &Value) {
        let is_cut_off = self.cut_off.is_some_and(|name| {
            let ends = [&message["src"], &message["dest"]];
            ends.iter().any(|end| **end == name) && ends.iter().any(|end| **end == "lin-kv")
        });
        if is_cut_off || self.random.u32(..100) < self.faults {
            return;
        }
        let copies = if self.random.u32(..100) < self.faults { 2 } else { 1 };
        for _ in 0..copies {
            // Few are slow, and come after those that were sent later.
            let slowness = if self.random.u32(..100) < self.faults { 700 } else { 5 };
            let at = Instant::now() + Duration::from_millis(self.random.u64(..=slowness));
            self.arrivals.push(Arrival { at, message: message.clone() });
        }
    }

    fn deliver(&mut self, message: &Value) {
        let to = message["dest"].as_str().expect("somebody");
        if to == "lin-kv" {
            let mut body = self.apply(&message["body"]);
            body["in_reply_to"] = message["body"]["msg_id"].clone();
            self.carry(&json!({ "src": "lin-kv", "dest": message["src"], "body": body }));
        } else if let Some(node) = self.nodes.get_mut(to) {
            // It may be dead.
            let _ = node.stdin.write_all(format!("{message}\n").as_bytes());
        }
    }

    /// `lin-kv`: whatever it is asked, it does at once.
    fn apply(&mut self, body: &Value) -> Value {
        let key = body["key"].as_str().expect("a key").to_owned();
        let error = |code: u64| json!({ "type": "error", "code": code, "text": "as asked" });
        match (body["type"].as_str(), self.kv.get(&key)) {
            (Some("read"), Some(value)) => json!({ "type": "read_ok", "value": value }),
            (Some("cas"), Some(value)) if *value != body["from"] => error(22),
            (Some("cas"), None) if body["create_if_not_exists"] != true => error(20),
            (Some("cas"), _) => {
                self.kv.insert(key, body["to"].clone());
                json!({ "type": "cas_ok" })
            }
            (Some("read"), None) => error(20),
            other => panic!("no node asks {other:?}"),
        }
    }

    /// What a node has sent. An id is issued as soon as that, whether it arrives or not.
    fn sent(&mut self, message: &Value) {
        let body = &message["body"];
        match body["type"].as_str() {
            Some("generate_ok") => {
                let id = body["id"].as_u64().expect("an id");
                assert!(self.ids.insert(id), "{id} comes twice");
                let node = message["src"].as_str().expect("a node");
                self.is_covered(id);
                *self.issued.entry(node.to_owned()).or_default() += 1;
            }
            Some("error") => self.refused += 1,
            Some("init_ok") => {}
            _ => self.carry(message),
        }
    }

    /// Whether `lin-kv` holds the tick of an id.
    fn is_covered(&self, id: u64) {
        if self.workers != "lin-kv" {
            return;
        }
        let layout = Layout::default();
        let decoded = layout.decode(Uid::new(id).expect("63 bits")).expect("a uid");
        let horizon = &self.kv[&format!("uidring/{}", decoded.worker_id)]["horizon"];
        assert!(Some(decoded.tick) <= horizon.as_u64(), "{decoded:?} is above {horizon}");
    }

    /// Asks all the while for ids.
    fn run(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            for node in NODES {
                self.asked += 1;
                let body = json!({ "type": "generate", "msg_id": self.asked });
                self.carry(&json!({ "src": "c1", "dest": node, "body": body }));
            }
            let pause = Instant::now() + Duration::from_micros(500);
            loop {
                let now = Instant::now();
                while self.arrivals.peek().is_some_and(|arrival| arrival.at <= now) {
                    let Arrival { message, .. } = self.arrivals.pop().expect("one");
                    self.deliver(&message);
                }
                match self.lines.recv_timeout(pause.saturating_duration_since(now)) {
                    Ok(message) => self.sent(&message),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => unreachable!("this has a sender"),
                }
            }
        }
    }

    /// Goes on until every node has issued so many more, which it has to.
    fn all_issue(&mut self, more: usize) {
        let before = self.issued.clone();
        let begin = Instant::now();
        let count = |issued: &HashMap<String, usize>, node| issued.get(node).copied().unwrap_or(0);
        while NODES.iter().any(|node| count(&self.issued, *node) < count(&before, *node) + more) {
            assert!(begin.elapsed() < Duration::from_secs(60), "since then: {:?}", self.issued);
            self.run(Duration::from_millis(20));
        }
    }

    /// Goes on until a node issues nothing more, which it has to.
    fn stops(&mut self, node: &str) {
        let begin = Instant::now();
        loop {
            let before = self.issued[node];
            self.run(Duration::from_secs(1));
            if self.issued[node] == before {
                return;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "it goes on");
        }
    }

    fn signal(&self, signal: &str, name: &str) {
        let pid = self.nodes[name].child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill").success());
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        NODES.iter().for_each(|name| self.kill(name));
    }
}

#[test]
fn nodes_with_worker_ids_of_the_list() {
    let mut router = Router::start("list", 1);
    router.all_issue(100);
    router.faults = 5;
    router.run(Duration::from_secs(1));
    router.all_issue(1_000);
}

#[test]
fn nodes_with_leases_in_lin_kv() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut router = Router::start("lin-kv", seed);
    router.all_issue(100);
    for round in 0..6 {
        router.faults = 5;
        router.run(Duration::from_millis(300));
        let one = router.random.choice(NODES).expect("one");
        let other = router.random.choice(NODES).expect("one");
        match round % 3 {
            0 => router.cut_off = Some(one),
            1 => router.kill(one),
            _ => {
                router.cut_off = Some(one);
                router.kill(other);
            }
        }
        router.run(Duration::from_millis(500));
        for name in NODES {
            if !router.nodes.contains_key(name) {
                router.spawn(name);
            }
        }
        router.run(Duration::from_millis(200));
        router.cut_off = None;
        router.all_issue(50);
    }
    router.faults = 0;
    router.all_issue(500);
    println!("{} ids, {} refused, {:?}", router.ids.len(), router.refused, router.kv);
}

/// A node that is cut off for long issues no more than it has stored.
#[test]
fn a_node_that_is_cut_off_stops() {
    let mut router = Router::start("lin-kv", 3);
    router.all_issue(100);
    router.cut_off = Some("n2");
    let begin = Instant::now();
    router.stops("n2");
    assert!(begin.elapsed() > Duration::from_secs(1), "what is stored is not used up at once");
    router.cut_off = None;
    router.all_issue(100);
}

/// A node that stands still while a later start of it has the lease.
#[test]
fn a_node_that_stood_still() {
    let mut router = Router::start("lin-kv", 4);
    router.all_issue(100);
    router.signal("-STOP", "n2");
    let old = router.nodes.remove("n2").expect("it runs");
    router.spawn("n2");
    router.all_issue(1_000);
    router.kill("n2");
    // What was under way to the other one is gone.
    router.arrivals.clear();
    router.nodes.insert("n2", old);
    router.signal("-CONT", "n2");
    router.stops("n2");
    router.kill("n2");
    router.spawn("n2");
    router.all_issue(100);
}
