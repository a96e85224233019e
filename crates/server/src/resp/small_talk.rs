//! Commands of Redis that do not concern ids: at connect, and for information.

use std::fmt::Write as _;
use std::net::SocketAddr;

use super::reply::Reply;
use super::session::{Replies, Session, Words};
use super::table::COMMANDS;
use crate::listener::{Ends, Protocol};
use crate::names::SHOWN;
use crate::shared::Shared;

const PROTOCOL: Protocol = Protocol::Redis;

/// The greatest length of a client's name, in bytes.
const MAX_CLIENT_NAME: usize = 256;

impl Session {
    /// `HELLO [2|3 [AUTH user password] [SETNAME name]]`
    pub(super) fn hello(&mut self, words: &Words<'_>, out: &mut Vec<u8>) {
        let version = match words.len() {
            0 => Some(if self.is_3 { 3 } else { 2 }),
            _ => words.number(0).filter(|version| matches!(version, 2 | 3)),
        };
        let Some(version) = version else {
            return self.error(out, "NOPROTO", "unsupported protocol version: it is 2 or 3");
        };
        let (mut at, mut client_name) = (1, None);
        while at < words.len() {
            if words.is(at, "AUTH") && at + 2 < words.len() {
                if !self.authenticate(words, at + 2, out) {
                    return;
                }
                at += 3;
            } else if words.is(at, "SETNAME") && at + 1 < words.len() {
                client_name = words.get(at + 1);
                at += 2;
            } else {
                return self.error(
                    out,
                    "ERR",
                    "syntax error: HELLO [2|3 [AUTH user password] [SETNAME name]]",
                );
            }
        }
        if !self.client.is_trusted {
            return self.error(
                out,
                "NOAUTH",
                "HELLO must be called with AUTH: Authentication required.",
            );
        }
        if let Some(name) = client_name
            && !self.set_client_name(name, out)
        {
            return;
        }
        self.is_3 = version == 3;
        let mut reply = Reply::new(out, self.is_3);
        reply.map(7);
        for (key, text) in [("server", "uidring"), ("version", env!("CARGO_PKG_VERSION"))] {
            reply.bulk(key);
            reply.bulk(text);
        }
        for (key, number) in [("proto", version), ("id", self.number)] {
            reply.bulk(key);
            reply.integer(number);
        }
        for (key, text) in [("mode", "standalone"), ("role", "master")] {
            reply.bulk(key);
            reply.bulk(text);
        }
        reply.bulk("modules");
        reply.array(0);
    }

    /// Checks the password, and answers if it is wrong.
    pub(super) fn authenticate(
        &mut self,
        words: &Words<'_>,
        index: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let (kind, text) = match self.client.authenticate(words.get(index).unwrap_or_default()) {
            Some(true) => return true,
            Some(false) => ("WRONGPASS", "invalid username-password pair or user is disabled."),
            None => ("ERR", "AUTH called without any password configured for the server"),
        };
        self.error(out, kind, text);
        false
    }

    /// Sets the connection's name, or answers why it cannot.
    fn set_client_name(&mut self, name: &[u8], out: &mut Vec<u8>) -> bool {
        // Names are part of a line of words.
        let is_name = name.len() <= MAX_CLIENT_NAME && name.iter().all(u8::is_ascii_graphic);
        if is_name {
            self.client_name = name.to_vec();
        } else {
            let text = format!(
                "a client's name has at most {MAX_CLIENT_NAME} bytes, and no spaces or special characters"
            );
            self.error(out, "ERR", &text);
        }
        is_name
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
    pub(super) fn client(&mut self, words: &Words<'_>, out: &mut Vec<u8>) {
        let mut reply = Reply::new(out, self.is_3);
        if words.is(0, "SETNAME") && words.len() == 2 {
            if self.set_client_name(words.get(1).unwrap_or_default(), out) {
                Reply::new(out, self.is_3).simple("OK");
            }
        } else if words.is(0, "GETNAME") && words.len() == 1 {
            match self.client_name.is_empty() {
                true => reply.null(),
                false => reply.bulk(&self.client_name),
            }
        } else if words.is(0, "ID") && words.len() == 1 {
            reply.integer(self.number);
        } else if words.is(0, "INFO") && words.len() == 1 || words.is(0, "LIST") {
            reply.bulk(self.client_line());
        } else if words.is(0, "REPLY") && words.len() == 2 && words.is(1, "ON") {
            self.replies = Replies::On;
            reply.simple("OK");
        } else if words.is(0, "REPLY") && words.len() == 2 && words.is(1, "OFF") {
            self.replies = Replies::Off;
        } else if words.is(0, "REPLY") && words.len() == 2 && words.is(1, "SKIP") {
            // Without answers, there is none to skip.
            if self.replies == Replies::On {
                self.replies = Replies::Skip;
            }
        } else if words.is(0, "SETINFO") && words.len() == 3
            || (words.is(0, "NO-EVICT") || words.is(0, "NO-TOUCH")) && words.len() == 2
        {
            reply.simple("OK");
        } else {
            self.error(
                out,
                "ERR",
                "CLIENT knows SETNAME, GETNAME, ID, INFO, LIST, REPLY, SETINFO, NO-EVICT and NO-TOUCH",
            );
        }
    }

    /// `COMMAND`, `COMMAND COUNT`, `COMMAND DOCS …`, `COMMAND INFO …`
    pub(super) fn command(&mut self, words: &Words<'_>, out: &mut Vec<u8>) {
        let mut reply = Reply::new(out, self.is_3);
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
            self.error(out, "ERR", "COMMAND knows COUNT, DOCS and INFO");
        }
    }

    /// `CONFIG GET …`: the settings that benchmarks ask for.
    pub(super) fn config(&mut self, words: &Words<'_>, out: &mut Vec<u8>) {
        const SETTINGS: [(&str, &str); 2] = [("save", ""), ("appendonly", "no")];
        let asked = |name: &str| (1..words.len()).any(|index| words.is(index, name));
        let settings: Vec<_> = SETTINGS.iter().filter(|(name, _)| asked(name)).collect();
        let mut reply = Reply::new(out, self.is_3);
        reply.map(settings.len());
        for (name, value) in settings {
            reply.bulk(name);
            reply.bulk(value);
        }
    }

    /// `INFO [section …]`: the named sections, or all.
    pub(super) fn info(&mut self, words: &Words<'_>) -> String {
        self.client.count_issued();
        let asks_all =
            |index| ["all", "default", "everything"].iter().any(|all| words.is(index, all));
        let is_all = words.len() == 0 || (0..words.len()).any(asks_all);
        let is_asked = |name: &str| is_all || (0..words.len()).any(|index| words.is(index, name));
        let asked =
            ["Server", "Clients", "Stats", "Names"].into_iter().filter(|name| is_asked(name));
        let texts = asked.map(|name| {
            let lines = match name {
                "Server" => of_server(&self.client.shared),
                "Clients" => of_clients(&self.client.shared),
                "Stats" => of_stats(&self.client.shared),
                _ => of_names(&self.client.shared),
            };
            format!("# {name}\r\n{lines}")
        });
        texts.collect::<Vec<_>>().join("\r\n")
    }
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
    // Access categories, then tips for clients.
    reply.set(1);
    reply.simple("@fast");
    reply.set(0);
    // The positions of the names, as in the three numbers.
    reply.set(usize::from(*last != 0));
    if *last != 0 {
        reply.map(3);
        reply.bulk("flags");
        reply.set(1);
        reply.simple("RW");
        let index = [("index", 1)];
        // From the first name: no more, or up to the last word.
        let range = [("lastkey", (*last).min(0)), ("keystep", 1), ("limit", 0)];
        for (key, kind, numbers) in
            [("begin_search", "index", &index[..]), ("find_keys", "range", &range)]
        {
            reply.bulk(key);
            reply.map(2);
            reply.bulk("type");
            reply.bulk(kind);
            reply.bulk("spec");
            reply.map(numbers.len());
            for (key, number) in numbers {
                reply.bulk(key);
                reply.signed(*number);
            }
        }
    }
    // Subcommands.
    reply.set(0);
}
