//! Transactions, unwanted answers, and reset connections.

use std::time::Duration;

use uidring_server::{Limits, Server};

use crate::support::{Client, names, run, start};

fn queued(client: &mut Client, commands: &[&[&str]]) {
    assert_eq!(client.say(&["MULTI"]), "+OK\r\n");
    for words in commands {
        assert_eq!(client.say(words), "+QUEUED\r\n", "{words:?}");
    }
}

#[test]
fn what_is_queued_is_answered_together() {
    let server = start(names());
    let mut client = server.client();
    queued(
        &mut client,
        &[&["INCR", "orders"], &["GET", "nothing"], &["PING"], &["INCRBY", "orders", "4"]],
    );
    let answers = client.say(&["EXEC"]);
    assert!(answers.starts_with("*4\r\n:1\r\n-ERR there is no name 'nothing'"), "{answers}");
    assert!(answers.ends_with("\r\n+PONG\r\n:5\r\n"), "{answers}");
    queued(&mut client, &[&["INCR", "orders"]]);
    assert_eq!(client.say(&["MULTI"]), "-ERR MULTI calls can not be nested\r\n");
    assert_eq!(client.say(&["WATCH", "uid"]), "-ERR WATCH inside MULTI is not allowed\r\n");
    assert_eq!(client.say(&["EXEC"]), "*1\r\n:6\r\n");
    queued(&mut client, &[&["INCR", "orders"]]);
    assert_eq!(client.say(&["DISCARD"]), "+OK\r\n");
    assert_eq!(client.say(&["EXEC"]), "-ERR EXEC without MULTI\r\n");
    assert_eq!(client.say(&["DISCARD"]), "-ERR DISCARD without MULTI\r\n");
    queued(&mut client, &[]);
    assert_eq!(client.say(&["EXEC"]), "*0\r\n");
    // Another connection is not affected.
    queued(&mut client, &[&["INCR", "orders"]]);
    assert_eq!(server.client().integer(&["INCR", "orders"]), 7);
    assert_eq!(client.say(&["EXEC"]), "*1\r\n:8\r\n");
}

#[test]
fn an_error_while_queuing_aborts() {
    let server = start(names());
    let mut client = server.client();
    for (words, error) in [
        (&["SET", "uid", "1"][..], "-ERR unknown command 'SET'"),
        (&["INCR"], "-ERR wrong number of arguments for 'incr' command"),
        (&["CLIENT", "REPLY", "OFF"], "-ERR CLIENT REPLY inside MULTI is not allowed"),
    ] {
        queued(&mut client, &[&["INCR", "orders"]]);
        assert!(client.say(words).starts_with(error), "{words:?}");
        assert_eq!(client.say(&["INCR", "orders"]), "+QUEUED\r\n");
        let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
        assert_eq!(client.say(&["EXEC"]), aborted);
    }
    assert_eq!(client.integer(&["INCR", "orders"]), 1);
}

#[test]
fn limits_hold_for_the_sum() {
    let mut limits = Limits::default();
    limits.batch = 10;
    let server = run(Server::new().limits(limits), names());
    let mut client = server.client();
    let commands: &[&[&str]] = &[
        &["INCRBY", "orders", "4"],
        &["MGET", "uid", "uid"],
        &["UID.NEXT", "COUNT", "3"],
        &["GET", "uid"],
    ];
    queued(&mut client, commands);
    assert!(client.say(&["EXEC"]).starts_with("*4\r\n:4\r\n"));
    queued(&mut client, commands);
    let error = client.say(&["INCR", "uid"]);
    assert!(error.starts_with("-ERR a transaction asks for at most 10 ids"), "{error}");
    assert!(client.say(&["EXEC"]).starts_with("-EXECABORT "));
    // Bytes are limited, too, even of commands that ask for no id.
    assert_eq!(client.say(&["MULTI"]), "+OK\r\n");
    let word = "x".repeat(60_000);
    let error = (0..100)
        .map(|_| client.say(&["ECHO", &word]))
        .find(|answer| !answer.starts_with("+QUEUED"));
    assert!(error.expect("a limit").starts_with("-ERR a transaction has at most 4194304 bytes"));
    assert!(client.say(&["EXEC"]).starts_with("-EXECABORT "));
}

/// Transactions share the memory limit of all answers.
#[test]
fn transactions_share_a_memory() {
    let server = start(names());
    let words = ["ECHO", &"x".repeat(60_000)];
    let mut full = Vec::new();
    let refused = loop {
        let mut client = server.client();
        client.say(&["MULTI"]);
        let refused =
            (0..60).map(|_| client.say(&words)).find(|answer| !answer.starts_with("+QUEUED"));
        full.push(client);
        if let Some(refused) = refused {
            break refused;
        }
        assert!(full.len() < 20, "it takes all");
    };
    assert!(refused.starts_with("-ERR too many ids are on their way"), "{refused}");
    // Small ones go on.
    let mut client = server.client();
    queued(&mut client, &[&["INCR", "orders"]]);
    assert_eq!(client.say(&["EXEC"]), "*1\r\n:1\r\n");
}

#[test]
fn one_that_stays_idle_has_to_go() {
    let mut limits = Limits::default();
    limits.slow = Duration::from_secs(1);
    let server = run(Server::new().limits(limits), names());
    let mut client = server.client();
    queued(&mut client, &[&["INCR", "orders"]]);
    assert_eq!(client.rest(), "-ERR the request or transaction did not end in time\r\n");
    let mut client = server.client();
    queued(&mut client, &[]);
    assert_eq!(client.say(&["EXEC"]), "*0\r\n");
}

#[test]
fn a_long_one_in_one_piece() {
    let server = start(names());
    let mut client = server.client();
    let mut requests = b"MULTI\r\n".to_vec();
    requests.extend(b"INCR uid\r\n".repeat(100_000));
    requests.extend(b"EXEC\r\n");
    let mut stream = client.stream().try_clone().expect("cloned");
    let sends = std::thread::spawn(move || std::io::Write::write_all(&mut stream, &requests));
    assert_eq!(client.reply(), "+OK\r\n");
    assert!((0..100_000).all(|_| client.reply() == "+QUEUED\r\n"));
    sends.join().expect("no panic").expect("sent");
    client.send(b"PING\r\n");
    let answers = client.reply();
    let ids: Vec<u64> =
        answers.lines().skip(1).map(|line| line[1..].parse().expect("an id")).collect();
    assert!(ids.len() == 100_000 && ids.is_sorted_by(|a, b| a < b), "{}", ids.len());
    assert_eq!(client.reply(), "+PONG\r\n");
}

#[test]
fn answers_that_are_not_wanted() {
    let server = start(names());
    let mut client = server.client();
    client.send(b"CLIENT REPLY SKIP\r\nINCR orders\r\nINCR orders\r\n");
    assert_eq!(client.reply(), ":2\r\n");
    client.send(b"CLIENT REPLY OFF\r\nINCR orders\r\nnonsense\r\nMULTI\r\nINCR orders\r\nEXEC\r\n");
    assert_eq!(client.say(&["CLIENT", "REPLY", "ON"]), "+OK\r\n");
    assert_eq!(client.integer(&["INCR", "orders"]), 5);
}

#[test]
fn a_connection_begins_anew() {
    let server = run(Server::new().password("open sesame"), names());
    let mut client = server.client();
    client.say(&["HELLO", "3", "AUTH", "default", "open sesame", "SETNAME", "me"]);
    let line = client.say(&["CLIENT", "LIST"]);
    assert!(line.contains(" name=me ") && line.contains(" resp=3\n"), "{line}");
    queued(&mut client, &[&["INCR", "orders"]]);
    assert_eq!(client.say(&["RESET"]), "+RESET\r\n");
    assert_eq!(client.say(&["EXEC"]), "-NOAUTH Authentication required.\r\n");
    assert_eq!(client.say(&["AUTH", "open sesame"]), "+OK\r\n");
    assert_eq!(client.say(&["EXEC"]), "-ERR EXEC without MULTI\r\n");
    assert_eq!(client.say(&["CLIENT", "GETNAME"]), "$-1\r\n");
    client.send(b"CLIENT REPLY OFF\r\nPING\r\n");
    assert_eq!(client.say(&["RESET"]), "+RESET\r\n");
}
