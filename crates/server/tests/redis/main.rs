//! Redis's protocol: the answers, and how clients of other projects handle them.
#![cfg(unix)]

mod clients;
mod limits;
mod support;
mod tags;
mod transactions;

use uidring::generator::CachedBuilder;
use uidring::{Layout, PerThreadGenerator, Uid, UidGenerator};
use uidring_server::{Issuer, Names, Protocol, Server};

use self::support::{generator, names, run, start};

#[test]
fn ids_by_name() {
    let server = start(names());
    let mut client = server.client();
    let first = client.integer(&["INCR", "uid"]);
    assert_eq!(client.integer(&["incr", "uid"]), first + 1);
    assert_eq!(client.say(&["GET", "uid"]), format!("${}\r\n{}\r\n", 18, first + 2));
    assert_eq!(client.integer(&["UID.NEXT"]), first + 3);
    assert_eq!(client.integer(&["UID.NEXT", "uid"]), first + 4);
    let many = client.integers(&["UID.NEXT", "uid", "COUNT", "1000"]);
    assert_eq!(many, (first + 5..first + 1005).collect::<Vec<_>>());
    assert_eq!(client.integers(&["UID.NEXT", "COUNT", "2"]).len(), 2);
    assert_eq!(client.integer(&["INCR", "orders"]), 1);
    assert_eq!(client.say(&["GET", "orders"]), "$1\r\n2\r\n");
    let error = client.say(&["INCR", "nothing"]);
    assert!(error.starts_with("-ERR there is no name 'nothing'"), "{error}");
    assert!(client.say(&["INCR", "a\r\nb"]).starts_with("-ERR there is no name 'a  b'"));
    assert_eq!(client.integer(&["INCR", "orders"]), 3);
    let info = client.say(&["INFO"]);
    assert!(info.contains("\r\nuid:ids=1007,errors=0,"), "{info}");
    assert!(info.contains("\r\norders:ids=3,errors=0,kind=segment\r\n"), "{info}");
}

#[test]
fn ids_in_a_row() {
    let server = start(names());
    let mut client = server.client();
    let mut last = 0;
    for count in [1, 100, 8_192, 5_000, 8_000] {
        let end = client.integer(&["INCRBY", "uid", &count.to_string()]);
        let fields = Layout::UID_GENERATOR.decode(Uid::new(end).expect("63 bits")).expect("a uid");
        assert!(fields.sequence + 1 >= count && end - count >= last, "{count}: {end}");
        last = end;
    }
    let error = client.say(&["INCRBY", "uid", "8193"]);
    assert!(
        error.starts_with("-ERR the number of ids is not an integer from 1 to 8192\r"),
        "{error}"
    );
    assert_eq!(client.integer(&["INCRBY", "orders", "25"]), 25);
    assert_eq!(client.integer(&["INCR", "orders"]), 26);
    for wrong in ["0", "-1", "1000000000", "x", ""] {
        let error = client.say(&["INCRBY", "orders", wrong]);
        assert!(error.starts_with("-ERR the number of ids is not an integer from 1 to"), "{error}");
    }
}

#[test]
fn a_uid_taken_apart() {
    let server = start(names());
    let mut client = server.client();
    let uid = client.integer(&["INCR", "uid"]).to_string();
    let parts = client.say(&["UID.PARSE", &uid]);
    assert!(parts.starts_with("*8\r\n$9\r\ntimestamp\r\n$"), "{parts}");
    assert!(parts.contains("\r\nworker_id\r\n:7\r\n"), "{parts}");
    assert!(client.say(&["HELLO", "3"]).starts_with("%7\r\n$6\r\nserver\r\n$7\r\nuidring\r\n"));
    assert!(client.say(&["UID.PARSE", &uid, "uid"]).starts_with("%4\r\n$9\r\ntimestamp\r\n$"));
    for wrong in ["x", "-1", "9223372036854775808", ""] {
        let error = client.say(&["UID.PARSE", wrong]);
        assert!(error.starts_with("-ERR the id is not an integer from 0 to"), "{error}");
    }
    assert!(client.say(&["UID.PARSE", "5", "orders"]).starts_with("-ERR a segment's ids"));
}

/// What libraries and tools send on connecting.
#[test]
fn small_talk() {
    let server = start(names());
    let mut client = server.client();
    for (words, answer) in [
        (&["PING"][..], "+PONG\r\n"),
        (&["ping", "hi"], "$2\r\nhi\r\n"),
        (&["ECHO", ""], "$0\r\n\r\n"),
        (&["SELECT", "0"], "+OK\r\n"),
        (&["CLIENT", "SETNAME", "me"], "+OK\r\n"),
        (&["CLIENT", "GETNAME"], "$2\r\nme\r\n"),
        (&["CLIENT", "SETINFO", "LIB-NAME", "x"], "+OK\r\n"),
        (&["CONFIG", "GET", "save"], "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"),
        (&["CONFIG", "GET", "appendonly"], "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n"),
        (&["CONFIG", "GET", "other"], "*0\r\n"),
        (&["COMMAND", "COUNT"], ":30\r\n"),
        (&["COMMAND", "DOCS"], "*0\r\n"),
        (&["COMMAND", "INFO", "nothing"], "*1\r\n$-1\r\n"),
        (
            &["COMMAND", "INFO", "ping"],
            "*1\r\n*10\r\n$4\r\nping\r\n:-1\r\n*1\r\n+fast\r\n:0\r\n:0\r\n:0\r\n*1\r\n+@fast\r\n*0\r\n*0\r\n*0\r\n",
        ),
        (&["EXISTS", "uid", "nothing", "uid"], ":2\r\n"),
        (&["TYPE", "nothing"], "+none\r\n"),
        (&["TTL", "uid"], ":-1\r\n"),
        (&["TTL", "nothing"], ":-2\r\n"),
        (&["KEYS", "u*"], "*1\r\n$3\r\nuid\r\n"),
        (&["SCAN", "0", "MATCH", "u*"], "*2\r\n$1\r\n0\r\n*1\r\n$3\r\nuid\r\n"),
        (&["SCAN", "0", "TYPE", "list"], "*2\r\n$1\r\n0\r\n*0\r\n"),
        (&["DBSIZE"], ":2\r\n"),
        (&["WATCH", "uid"], "+OK\r\n"),
        (&["UNWATCH"], "+OK\r\n"),
    ] {
        assert_eq!(client.say(words), answer, "{words:?}");
    }
    for (words, error) in [
        (&["SELECT", "1"][..], "-ERR DB index is out of range"),
        (&["SET", "uid", "1"], "-ERR unknown command 'SET'"),
        (&["EVAL", "return 1", "0"], "-ERR unknown command 'EVAL'"),
        (&["SCAN", "x"], "-ERR invalid cursor"),
        (&["SCAN", "0", "COUNT"], "-ERR syntax error"),
        (&["SCAN", "0", "COUNT", "0"], "-ERR syntax error"),
        (
            &["CLIENT", "SETNAME", "a b"],
            "-ERR a client's name has at most 256 bytes, and no spaces",
        ),
        (&["INCR"], "-ERR wrong number of arguments for 'incr' command"),
        (&["HELLO", "4"], "-NOPROTO "),
        (&["AUTH", "x"], "-ERR AUTH called without any password"),
        (&["CONFIG", "SET", "a", "b"], "-ERR CONFIG knows GET alone"),
        (&["CLIENT", "KILL", "x"], "-ERR CLIENT knows"),
        (&["UID.NEXT", "uid", "COUNT"], "-ERR syntax error"),
        (&["UID.NEXT", "uid", "COUNT", "0"], "-ERR the number of ids"),
    ] {
        let answer = client.say(words);
        assert!(answer.starts_with(error) && answer.ends_with("\r\n"), "{words:?}: {answer}");
    }
    // A typed line, and empty requests.
    client.send(b"\r\n*0\r\n  incr   orders \r\nPING\n");
    assert_eq!(client.reply(), ":1\r\n");
    assert_eq!(client.reply(), "+PONG\r\n");
    assert_eq!(client.say(&["QUIT"]), "+OK\r\n");
    assert!(client.is_closed());
}

#[test]
fn a_password() {
    let server = run(Server::new().password("open sesame"), names());
    let mut client = server.client();
    for words in [&["PING"][..], &["INCR", "uid"], &["INFO"]] {
        assert_eq!(client.say(words), "-NOAUTH Authentication required.\r\n");
    }
    assert!(client.say(&["AUTH", "open sesam"]).starts_with("-WRONGPASS "));
    assert!(client.say(&["HELLO", "3"]).starts_with("-NOAUTH "));
    assert!(client.say(&["HELLO", "3", "AUTH", "default", "x"]).starts_with("-WRONGPASS "));
    assert_eq!(client.say(&["AUTH", "open sesame"]), "+OK\r\n");
    assert_eq!(client.say(&["PING"]), "+PONG\r\n");
    let mut other = server.client();
    let hello = other.say(&["HELLO", "3", "AUTH", "default", "open sesame", "SETNAME", "me"]);
    assert!(hello.starts_with("%7\r\n"), "{hello}");
    assert_eq!(other.say(&["CLIENT", "GETNAME"]), "$2\r\nme\r\n");
}

/// Pipelines of all lengths. The ids of a connection increase, and none repeats across connections.
#[test]
fn pipelines_of_many_connections() {
    for threads in [1, 3] {
        for per_thread in [false, true] {
            let issuer = match per_thread {
                false => Issuer::Ordered(generator(|builder| builder)),
                true => Issuer::PerThread(PerThreadGenerator::new(generator(|builder| builder))),
            };
            let server = run(Server::new().threads(threads), Names::new().with("uid", issuer));
            let mut all: Vec<u64> = std::thread::scope(|scope| {
                let connections: Vec<_> = (0..8)
                    .map(|number| {
                        let mut client = server.client();
                        scope.spawn(move || {
                            let mut ids = Vec::new();
                            for length in [1, 2, 3, 50, 700, 20_000] {
                                client.send(&b"INCR uid\r\n".repeat(length + number));
                                ids.extend((0..length + number).map(|_| client.read_integer()));
                            }
                            assert!(ids.is_sorted_by(|a, b| a < b), "{threads} {per_thread}");
                            ids
                        })
                    })
                    .collect();
                connections.into_iter().flat_map(|ids| ids.join().expect("no panic")).collect()
            });
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), count, "an id came twice");
        }
    }
}

/// A name whose generator waits for the clock gives errors. Others go on, even on the same connection.
#[test]
fn a_name_that_has_nothing() {
    let wait = std::time::Duration::from_millis(20);
    let tiny = generator(|builder: CachedBuilder| {
        let bits = uidring::Bits { time: 31, worker: 22, sequence: 2 };
        let epoch = Layout::UID_GENERATOR.epoch();
        builder
            .layout(Layout::new(bits, uidring::Tick::Second, epoch).expect("possible"))
            .max_borrow(std::time::Duration::from_secs(2))
            .take_policy(uidring::policy::TakePolicy::WaitFor(wait))
    });
    let closed = generator(|builder| builder);
    closed.close();
    let names = names().with("tiny", Issuer::Ordered(tiny)).with("closed", Issuer::Ordered(closed));
    let server = start(names);
    let mut client = server.client();
    assert!(client.say(&["INCR", "closed"]).starts_with("-ERR the generator is closed"));
    client.send(&b"INCR tiny\r\nINCR uid\r\n".repeat(40));
    let answers: Vec<String> = (0..80).map(|_| client.reply()).collect();
    assert!(answers.iter().skip(1).step_by(2).all(|answer| answer.starts_with(':')), "{answers:?}");
    assert!(
        answers.iter().step_by(2).any(|answer| answer.starts_with("-TRYAGAIN ")),
        "{answers:?}"
    );
    let info = client.say(&["INFO"]);
    assert!(info.contains("\r\nclosed:ids=0,errors=1,"), "{info}");
    let stats = server.running().stats(Protocol::Redis);
    assert!(stats.requests >= 81 && stats.errors > 1, "{stats:?}");
    assert!(stats.time_of(0.5).expect("requests") > std::time::Duration::ZERO);
}
