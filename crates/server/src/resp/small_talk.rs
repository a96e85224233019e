//! Commands of Redis that do not concern ids: at connect, and for information.

use std::fmt::Write as _;
use std::net::SocketAddr;

use super::reply::Reply;
use super::session::{Done, Refusal, Replies, Session, Words, err};
use super::table::COMMANDS;
use crate::listener::{Ends, Protocol};
use crate::names::SHOWN;
use crate::shared::Shared;

const PROTOCOL: Protocol = Protocol::Redis;

/// The greatest length of a client's name, in bytes.
const MAX_CLIENT_NAME: usize = 256;

/// Makes the lines of a section of `INFO`.
type Lines = fn(&Shared) -> String;

impl Session {
    /// `HELLO [2|3 [AUTH user password] [SETNAME name]]`
    pub fn hello(&mut self, words: &Words<'_>, out: &mut Vec<u8>) -> Done {
        let version = match words.len() {
            0 => Some(if self.is_3 { 3 } else { 2 }),
            _ => words.number(0).filter(|version| matches!(version, 2 | 3)),
        };
        let version = version
            .ok_or_else(|| Refusal::new("NOPROTO", "unsupported protocol version: it is 2 or 3"))?;
        let (mut at, mut client_name) = (1, None);
        while at < words.len() {
            if words.is(at, "AUTH") && at + 2 < words.len() {
                self.authenticate(words.get(at + 2))?;
                at += 3;
            } else if words.is(at, "SETNAME") && at + 1 < words.len() {
                client_name = words.get(at + 1);
                at += 2;
            } else {
                let text = "syntax error: HELLO [2|3 [AUTH user password] [SETNAME name]]";
                return Err(err(text));
            }
        }
        if !self.client.is_trusted {
            let text = "HELLO must be called with AUTH: Authentication required.";
            return Err(Refusal::new("NOAUTH", text));
        }
        client_name.map_or(Ok(()), |name| self.set_client_name(name))?;
        self.is_3 = version == 3;
        let mut reply = Reply::new(out, self.is_3);
        reply.map(7);
        reply.bulks(["server", "uidring", "version", env!("CARGO_PKG_VERSION"), "proto"]);
        reply.integer(version);
        reply.bulk("id");
        reply.integer(self.number);
        reply.bulks(["mode", "standalone", "role", "master", "modules"]);
        reply.array(0);
        Ok(())
    }

    /// Checks the password.
    pub fn authenticate(&mut self, password: Option<&[u8]>) -> Done {
        let (kind, text) = match self.client.authenticate(password.unwrap_or_default()) {
            Some(true) => return Ok(()),
            Some(false) => ("WRONGPASS", "invalid username-password pair or user is disabled."),
            None => ("ERR", "AUTH called without any password configured for the server"),
        };
        Err(Refusal::new(kind, text))
    }

    /// Sets the connection's name.
    fn set_client_name(&mut self, name: &[u8]) -> Done {
        // Names are part of a line of words.
        if name.len() > MAX_CLIENT_NAME || !name.iter().all(u8::is_ascii_graphic) {
            return Err(err(format!(
                "a client's name has at most {MAX_CLIENT_NAME} bytes, and no spaces or special characters"
            )));
        }
        self.client_name = name.to_vec();
        Ok(())
    }

    /// Describes this connection as a line of `CLIENT LIST`. Values that the server does not track are 0.
    fn client_line(&self) -> String {
        let text = |end: fn(Ends) -> SocketAddr| self.ends.map(|ends| end(ends).to_string());
        format!(
            "id={} addr={} laddr={} fd=0 name={} age={} idle=0 flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 watch=0 \
             qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r \
             cmd=client user=default redir=-1 resp={}\n",
            self.number,
            text(|ends| ends.there).unwrap_or_default(),
            text(|ends| ends.here).unwrap_or_default(),
            String::from_utf8_lossy(&self.client_name),
            self.since.elapsed().as_secs(),
            if self.is_3 { 3 } else { 2 },
        )
    }

    /// `CLIENT …`: what libraries send at connect.
    pub fn client(&mut self, words: &Words<'_>, mut reply: Reply<'_>) -> Done {
        let word = words.get(0).unwrap_or_default().to_ascii_uppercase();
        match (&*word, words.len()) {
            (b"SETNAME", 2) => {
                self.set_client_name(words.get(1).unwrap_or_default())?;
                reply.simple("OK");
            }
            (b"GETNAME", 1) if self.client_name.is_empty() => reply.null(),
            (b"GETNAME", 1) => reply.bulk(&self.client_name),
            (b"ID", 1) => reply.integer(self.number),
            (b"INFO", 1) | (b"LIST", _) => reply.bulk(self.client_line()),
            (b"REPLY", 2) if words.is(1, "ON") => {
                self.replies = Replies::On;
                reply.simple("OK");
            }
            (b"REPLY", 2) if words.is(1, "OFF") => self.replies = Replies::Off,
            (b"REPLY", 2) if words.is(1, "SKIP") => {
                // With answers off, there is nothing to skip.
                if self.replies == Replies::On {
                    self.replies = Replies::Skip;
                }
            }
            (b"SETINFO", 3) | (b"NO-EVICT" | b"NO-TOUCH", 2) => reply.simple("OK"),
            _ => {
                let text = "CLIENT knows SETNAME, GETNAME, ID, INFO, LIST, REPLY, SETINFO, NO-EVICT and NO-TOUCH";
                return Err(err(text));
            }
        }
        Ok(())
    }

    /// `INFO [section …]`: the named sections, or all.
    pub fn info(&mut self, words: &Words<'_>) -> String {
        const SECTIONS: [(&str, Lines); 4] = [
            ("Server", of_server),
            ("Clients", of_clients),
            ("Stats", of_stats),
            ("Names", of_names),
        ];
        self.client.count_issued();
        let has = |word: &&str| (0..words.len()).any(|index| words.is(index, word));
        let is_all = words.len() == 0 || ["all", "default", "everything"].iter().any(has);
        let asked = SECTIONS.iter().filter(|(name, _)| is_all || has(name));
        let texts =
            asked.map(|(name, lines)| format!("# {name}\r\n{}", lines(&self.client.shared)));
        texts.collect::<Vec<_>>().join("\r\n")
    }
}

/// `COMMAND`, `COMMAND COUNT`, `COMMAND DOCS …`, `COMMAND INFO …`
pub fn command(words: &Words<'_>, mut reply: Reply<'_>) -> Done {
    if words.len() == 0 {
        reply.array(COMMANDS.len());
        COMMANDS.iter().for_each(|command| describe(&mut reply, command));
    } else if words.is(0, "COUNT") {
        reply.integer(COMMANDS.len() as u64);
    } else if words.is(0, "DOCS") {
        reply.map(0);
    } else if words.is(0, "INFO") {
        reply.array(words.len() - 1);
        for index in 1..words.len() {
            match COMMANDS.iter().find(|(name, ..)| words.is(index, name)) {
                Some(command) => describe(&mut reply, command),
                None => reply.null(),
            }
        }
    } else {
        return Err(err("COMMAND knows COUNT, DOCS and INFO"));
    }
    Ok(())
}

/// `CONFIG GET …`: the settings that benchmarks ask for.
pub fn config(words: &Words<'_>, mut reply: Reply<'_>) {
    let is_asked = |name| (1..words.len()).any(|index| words.is(index, name));
    let mut settings = vec![["save", ""], ["appendonly", "no"]];
    settings.retain(|[name, _]| is_asked(name));
    reply.map(settings.len());
    reply.bulks(settings.into_iter().flatten());
}

fn of_server(shared: &Shared) -> String {
    let uptime = shared.start.elapsed().as_secs();
    let version = env!("CARGO_PKG_VERSION");
    format!("server:uidring\r\nuidring_version:{version}\r\nuptime_in_seconds:{uptime}\r\n")
}

fn of_clients(shared: &Shared) -> String {
    format!("connected_clients:{}\r\n", shared.seats.count())
}

fn of_stats(shared: &Shared) -> String {
    let stats = shared.counters(PROTOCOL).stats();
    format!(
        "total_connections_received:{}\r\nrejected_connections:{}\r\n\
         total_commands_processed:{}\r\ntotal_error_replies:{}\r\n",
        stats.connections, stats.refused, stats.requests, stats.errors,
    )
}

fn of_names(shared: &Shared) -> String {
    let mut text = String::new();
    let names = shared.names.list();
    for name in names.iter().take(SHOWN) {
        let (mut ids, mut errors) = (0, 0);
        for protocol in Protocol::ALL {
            let (more_ids, more_errors) = name.counters.get(protocol);
            (ids, errors) = (ids + more_ids, errors + more_errors);
        }
        let kind = name.issuer().layout().map_or("segment".into(), ToString::to_string);
        // Writing to a string cannot fail.
        let _ = write!(text, "{}:ids={ids},errors={errors},kind={kind}\r\n", name.text());
    }
    if names.len() > SHOWN {
        let _ = write!(text, "names_not_shown:{}\r\n", names.len() - SHOWN);
    }
    text
}

/// Describes a command in the ten parts of Redis 7. Libraries count them.
fn describe(reply: &mut Reply<'_>, (name, arity, last): &(&str, i64, i64)) {
    reply.array(10);
    reply.bulk(name);
    reply.signed(*arity);
    reply.set(1);
    reply.simple("fast");
    let has_key = i64::from(*last != 0);
    for number in [has_key, *last, has_key] {
        reply.signed(number);
    }
    reply.set(1);
    reply.simple("@fast");
    // No tips, key specifications or subcommands.
    (0..3).for_each(|_| reply.set(0));
}
