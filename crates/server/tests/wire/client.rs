//! `uidring-client` against the server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use uidring_client::{Client, ClientError, Options, Refusal};
use uidring_server::{Listener, Protocol, Server};

use crate::support::{Served, assert_increasing_and_distinct, segments, uids};

#[test]
fn ids_of_many_clients_are_distinct() {
    let served = Served::with(uids(), |server| server.threads(2));
    let (path, address) = (served.path(), served.batch);
    let take = |mut client: Client| {
        let mut ids = vec![0; 50_000];
        for part in ids.chunks_mut(999) {
            client.fill("", part).expect("ids");
        }
        let mut singly = client.prefetch("uid", 100);
        ids.extend((0..10_000).map(|_| singly.next_id().expect("an id")));
        assert_increasing_and_distinct(&ids);
        ids
    };
    let mut ids: Vec<u64> = thread::scope(|scope| {
        let takers: Vec<_> = (0..4)
            .map(|number| {
                let path = path.clone();
                scope.spawn(move || {
                    take(match number % 2 {
                        0 => Client::connect_unix(path).expect("a connection"),
                        _ => Client::connect_tcp(address).expect("a connection"),
                    })
                })
            })
            .collect();
        takers.into_iter().flat_map(|taker| taker.join().expect("ids")).collect()
    });
    ids.sort_unstable();
    assert_increasing_and_distinct(&ids);
}

#[test]
fn refusals_are_typed_and_do_not_touch_what_was_given() {
    let served = Served::new(segments());
    let mut client = Client::connect_unix(served.path()).expect("a connection");
    let mut ids = [9; 3];
    let kind = |error: &ClientError| match error {
        ClientError::Refused { kind, .. } => Some(*kind),
        _ => None,
    };
    let error = client.fill("none", &mut ids).expect_err("no such name");
    assert_eq!((kind(&error), ids), (Some(Refusal::UnknownName), [9; 3]), "{error}");
    let error = client.fill("orders", &mut vec![0; 100_001]).expect_err("too many");
    assert_eq!(kind(&error), Some(Refusal::BadRequest), "{error}");
    let long = "n".repeat(256);
    let error = client.fill(&long, &mut ids).expect_err("a long name");
    assert!(matches!(error, ClientError::LongName { length: 256 }), "{error}");
    client.fill("orders", &mut ids).expect("ids");
    assert_eq!(ids, [1, 2, 3]);

    let guarded = Served::with(uids(), |server| server.password("a secret"));
    let open = |password: &str| Options::new().password(password).connect_tcp(guarded.batch);
    open("a secret").expect("a connection").fill("uid", &mut ids).expect("ids");
    let error = open("another").expect_err("a wrong password");
    assert_eq!(kind(&error), Some(Refusal::NotAllowed), "{error}");
    let mut client = Client::connect_tcp(guarded.batch).expect("a connection");
    let error = client.fill("uid", &mut ids).expect_err("no password");
    assert_eq!(kind(&error), Some(Refusal::NotAllowed), "{error}");
}

#[test]
fn a_server_that_comes_back_is_connected_to_again() {
    let first = Served::new(uids());
    let address = first.batch;
    let mut client =
        Options::new().timeout(Duration::from_secs(20)).connect_tcp(address).expect("a connection");
    let mut ids = [0; 10];
    client.fill("uid", &mut ids).expect("ids");
    assert_eq!(first.running.stop(Duration::from_secs(10)), 0);
    let error = client.fill("uid", &mut ids).expect_err("nobody listens");
    assert!(matches!(error, ClientError::Connect { .. }), "{error:?}");
    assert!(error.may_pass());

    let socket = TcpListener::bind(address).expect("the port is free again");
    let listener = Listener::tcp(Protocol::Batch, socket);
    let second = Server::new().listen(listener).start(uids()).expect("a server");
    client.fill("uid", &mut ids).expect("ids");
    assert_increasing_and_distinct(&ids);
    drop(second);
}

/// Forwards connections to a server, and cuts off the first answer after this many bytes.
fn cutting_proxy(server: SocketAddr, after: usize) -> (SocketAddr, thread::JoinHandle<()>) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("an address");
    let forward = move || {
        for limit in [after, usize::MAX] {
            let (mut client, _) = socket.accept().expect("a client");
            let mut server = TcpStream::connect(server).expect("a connection");
            let mut request = [0; 11];
            client.read_exact(&mut request).expect("a request");
            server.write_all(&request).expect("it is sent on");
            let mut answer = [0; 8 + 8 * 4];
            server.read_exact(&mut answer).expect("an answer");
            client.write_all(&answer[..limit.min(answer.len())]).expect("it is sent back");
        }
    };
    (address, thread::spawn(forward))
}

#[test]
fn ids_of_a_broken_answer_are_dropped() {
    let served = Served::new(uids());
    let mut all = Vec::new();
    for after in 0..40 {
        let (address, proxy) = cutting_proxy(served.batch, after);
        let mut client = Client::connect_tcp(address).expect("a connection");
        let mut ids = [0; 4];
        client.fill("uid", &mut ids).expect("ids of the second answer");
        proxy.join().expect("two connections");
        all.extend(ids);
    }
    assert_increasing_and_distinct(&all);
    let [uid] = &served.running.names().list()[..] else { panic!("one name") };
    assert_eq!(uid.text(), "uid");
}

#[test]
fn a_server_that_does_not_answer_is_waited_for_until_the_timeout() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("an address");
    let timeout = Duration::from_millis(200);
    let mut client = Options::new().timeout(timeout).connect_tcp(address).expect("a connection");
    let error = client.fill("uid", &mut [0; 4]).expect_err("nobody answers");
    assert!(matches!(error, ClientError::TimedOut(_)), "{error:?}");
}
