//! The servers: nodes, sessions, and transactions, executed one after another.

use std::collections::BTreeMap;

use uidring::{StoreErrorKind, Timestamp};
use uidring_zookeeper::ZooKeeperError;
use uidring_zookeeper::protocol::{CreateMode, Failure, Stat, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) host: usize,
    pub(super) number: u64,
}

#[derive(Default)]
pub(super) struct Servers {
    nodes: BTreeMap<String, Node>,
    sessions: BTreeMap<i64, Session>,
    transactions: i64,
}

#[derive(Clone)]
struct Node {
    data: String,
    stat: Stat,
    /// How many nodes were made below it.
    numbers: u32,
}

struct Session {
    process: Process,
    /// When a server last heard from it, and its timeout, in nanoseconds.
    heard: u64,
    timeout: u64,
}

impl Servers {
    pub(super) fn connect(&mut self, process: Process, timeout: u64, now: u64) -> i64 {
        self.transactions += 1;
        let session = self.transactions;
        self.sessions.insert(session, Session { process, heard: now, timeout });
        session
    }

    pub(super) fn hear(&mut self, process: Process, now: u64) {
        for session in self.sessions.values_mut().filter(|session| session.process == process) {
            session.heard = now;
        }
    }

    pub(super) fn transactions(&self) -> i64 {
        self.transactions
    }

    /// Returns when each session ends if it is not heard from.
    pub(super) fn ends(&self) -> impl Iterator<Item = (i64, u64)> {
        self.sessions.iter().map(|(&number, session)| (number, session.heard + session.timeout))
    }

    pub(super) fn over(&self, now: u64) -> Option<i64> {
        self.ends().find(|(_, end)| *end <= now).map(|(session, _)| session)
    }

    pub(super) fn heard(&self, session: i64) -> Option<u64> {
        self.sessions.get(&session).map(|session| session.heard)
    }

    pub(super) fn close(&mut self, session: i64) {
        self.transactions += 1;
        self.sessions.remove(&session);
        self.nodes.retain(|_, node| node.stat.ephemeral_owner != session);
    }

    pub(super) fn is_open(&self, session: i64) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Returns the process whose session owns a node.
    pub(super) fn process_of(&self, path: &str) -> Option<Process> {
        let owner = self.nodes.get(path)?.stat.ephemeral_owner;
        self.sessions.get(&owner).map(|session| session.process)
    }

    pub(super) fn read(&self, path: &str) -> Option<(Vec<u8>, Stat)> {
        self.nodes.get(path).map(|node| (node.data.clone().into_bytes(), node.stat))
    }

    pub(super) fn children(&self, path: &str) -> Vec<String> {
        let prefix = format!("{path}/");
        self.nodes.keys().filter_map(|node| Some(node.strip_prefix(&prefix)?.to_owned())).collect()
    }

    pub(super) fn make_folder(&mut self, path: &str, now: Timestamp) {
        if !self.nodes.contains_key(path) {
            self.transactions += 1;
            let node = self.node("", 0, now);
            self.nodes.insert(path.into(), node);
        }
    }

    pub(super) fn write(
        &mut self,
        session: i64,
        writes: &[Write],
        now: Timestamp,
    ) -> Result<Vec<i32>, Failure> {
        if !self.is_open(session) {
            return Err(Failure::Other(unreachable()));
        }
        let before = self.nodes.clone();
        self.transactions += 1;
        let written = writes.iter().map(|write| self.execute(session, write, now));
        let versions = written.collect::<Result<Vec<_>, _>>();
        if versions.is_err() {
            self.nodes = before;
        }
        Ok(versions?.into_iter().flatten().collect())
    }

    /// Returns the version of a node that was created or set.
    fn execute(
        &mut self,
        session: i64,
        write: &Write,
        now: Timestamp,
    ) -> Result<Option<i32>, Failure> {
        match write {
            Write::Create { path, data, mode } => {
                let mut path = path.clone();
                let folder = path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
                let folder = self.nodes.get_mut(&folder.unwrap_or_default());
                let folder = folder.ok_or(Failure::Missing)?;
                if *mode == CreateMode::PersistentSequential {
                    path = format!("{path}{:010}", folder.numbers);
                }
                folder.numbers += 1;
                if self.nodes.contains_key(&path) {
                    return Err(Failure::Exists);
                }
                let owner = if *mode == CreateMode::Ephemeral { session } else { 0 };
                let node = self.node(data, owner, now);
                self.nodes.insert(path, node);
                Ok(Some(0))
            }
            Write::Set { path, data, version } => {
                let transaction = self.transactions;
                let node = self.nodes.get_mut(path).ok_or(Failure::Missing)?;
                if node.stat.version != *version {
                    return Err(Failure::Changed);
                }
                node.data.clone_from(data);
                node.stat.version += 1;
                node.stat.mzxid = transaction;
                node.stat.mtime = now.as_millis();
                Ok(Some(node.stat.version))
            }
            Write::Delete { path } => {
                self.nodes.remove(path).ok_or(Failure::Missing)?;
                Ok(None)
            }
            Write::Check { path, version } => {
                let node = self.nodes.get(path).ok_or(Failure::Missing)?;
                if node.stat.version == *version { Ok(None) } else { Err(Failure::Changed) }
            }
        }
    }

    fn node(&self, data: &str, owner: i64, now: Timestamp) -> Node {
        let (transaction, now) = (self.transactions, now.as_millis());
        let stat = Stat {
            czxid: transaction,
            mzxid: transaction,
            pzxid: transaction,
            ctime: now,
            mtime: now,
            version: 0,
            cversion: 0,
            aversion: 0,
            ephemeral_owner: owner,
            data_length: 0,
            num_children: 0,
        };
        Node { data: data.into(), stat, numbers: 0 }
    }
}

pub(super) fn unreachable() -> ZooKeeperError {
    let (registry, problem) = ("model".into(), "no answer".into());
    let kind = StoreErrorKind::Unreachable;
    ZooKeeperError::Registry { registry, problem, kind, source: None }
}
