//! Private servers restart on the port that their clients know, even if another process uses it for a while.

use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use uidring_testkit::etcd::Etcd;
use uidring_testkit::mariadb::MariaDb;
use uidring_testkit::postgres::Postgres;
use uidring_testkit::zookeeper::ZooKeeper;

const LIMIT: Duration = Duration::from_secs(60);

/// Takes the port of a stopped server, and gives it back once a start has failed.
fn while_the_port_is_taken(port: u16, start_again: impl FnOnce() + Send, log: impl Fn() -> String) {
    let before = log().len();
    let taken = TcpListener::bind(("127.0.0.1", port)).expect("the server is down");
    thread::scope(|scope| {
        let start = scope.spawn(start_again);
        let begin = Instant::now();
        while !log()[before..].contains("ddress already in use") {
            assert!(begin.elapsed() < LIMIT && !start.is_finished(), "it finds the port free");
            thread::sleep(Duration::from_millis(10));
        }
        drop(taken);
    });
    TcpStream::connect(("127.0.0.1", port)).expect("it is up");
}

#[test]
fn mariadb() {
    let server = MariaDb::start();
    server.kill();
    while_the_port_is_taken(server.port(), || server.start_again(), || server.log());
    assert_eq!(server.query::<u64>("SELECT 1"), [1]);
}

#[test]
fn postgres() {
    let server = Postgres::start();
    server.kill();
    while_the_port_is_taken(server.port(), || server.start_again(), || server.log());
    assert_eq!(server.query("SELECT 1"), [["1"]]);
}

#[test]
fn etcd() {
    let server = Etcd::start();
    server.kill();
    while_the_port_is_taken(server.port(), || server.start_again(), || server.log());
    assert!(server.ask("maintenance/status", &json!({})).is_ok());
}

#[test]
fn zookeeper() {
    let server = ZooKeeper::start();
    server.kill();
    while_the_port_is_taken(server.port(), || server.start_again(), || server.log());
    server.put("/node", "data");
}
