//! What processes ask of the servers and of their disks, and how that goes wrong.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use uidring::Error;
use uidring::adapter::{Moment, Monotonic};
use uidring::model::lock;

use super::Sim;
use crate::modelled::{
    Applicant, Cached, Claim, Ensemble, Failure, Kind, Link, LocalFile, Mark, Past, Problem,
    Session, Stat, Tree, Write, Written,
};

/// A process: its host, and which one it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) host: usize,
    pub(super) number: u64,
}

/// A part of a transaction that may be on its way for a while.
#[derive(Clone)]
pub(super) enum Change {
    Create { path: String, data: String, kind: Kind },
    Set { path: String, data: String, version: i32 },
    Delete { path: String },
}

impl From<&Write<'_>> for Change {
    fn from(write: &Write<'_>) -> Self {
        match *write {
            Write::Create { path, data, kind } => {
                Self::Create { path: path.into(), data: data.into(), kind }
            }
            Write::Set { path, data, version } => {
                Self::Set { path: path.into(), data: data.into(), version }
            }
            Write::Delete { path } => Self::Delete { path: path.into() },
        }
    }
}

/// Nothing of the model's waits for anything but its own virtual time.
fn ready<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("it waits"),
    }
}

/// The servers, as a process sees them.
#[derive(Clone)]
pub(super) struct ModelServers {
    sim: Sim,
    process: Process,
}

/// A session.
#[derive(Clone)]
pub(super) struct ModelTree {
    servers: ModelServers,
    session: i64,
    timeout: Duration,
}

impl ModelServers {
    /// A request is on its way: false if it does not come to a server.
    fn reach(&self) -> bool {
        self.sim.meanwhile();
        let mut world = lock(&self.sim.0);
        let is_lost = world.goes_wrong();
        if is_lost || !world.can_reach(self.process) {
            return false;
        }
        world.hear(self.process);
        true
    }

    /// An answer is on its way back: false if it does not come.
    fn hear_back(&self) -> bool {
        self.sim.meanwhile();
        let mut world = lock(&self.sim.0);
        !world.goes_wrong() && world.can_reach(self.process)
    }

    fn ask<T>(&self, ask: impl FnOnce(&Self) -> T) -> Result<T, Problem> {
        let away = || Problem::Away("no answer".into());
        if !self.reach() {
            return Err(away());
        }
        let answer = ask(self);
        if self.hear_back() { Ok(answer) } else { Err(away()) }
    }
}

impl Ensemble for ModelServers {
    type Tree = ModelTree;

    fn moment(&self) -> Moment {
        lock(&self.sim.0).time_of(self.process.host).moment()
    }

    async fn pause(&self, time: Duration) {
        self.sim.advance(time.as_nanos() as u64);
    }

    async fn connect(&self) -> Result<ModelTree, Problem> {
        let (session, timeout) = self.ask(|own| lock(&own.sim.0).connect(own.process))?;
        Ok(ModelTree { servers: self.clone(), session, timeout: Duration::from_nanos(timeout) })
    }

    async fn within<T>(&self, _: Duration, work: impl Future<Output = T>) -> Option<T> {
        Some(work.await)
    }
}

impl Tree for ModelTree {
    fn session(&self) -> i64 {
        self.session
    }

    fn session_timeout(&self) -> Duration {
        self.timeout
    }

    /// It is told when it comes to a server again.
    fn is_over(&self) -> bool {
        let world = lock(&self.servers.sim.0);
        world.can_reach(self.servers.process) && !world.servers.is_open(self.session)
    }

    async fn make_folder(&self, path: &str) -> Result<(), Problem> {
        self.servers.ask(|own| lock(&own.sim.0).make_folder(path))
    }

    async fn children(&self, path: &str) -> Result<Vec<String>, Problem> {
        self.servers.ask(|own| lock(&own.sim.0).servers.children(path))
    }

    async fn read(&self, path: &str) -> Result<Option<(Vec<u8>, Stat)>, Problem> {
        self.servers.ask(|own| lock(&own.sim.0).servers.read(path))
    }

    async fn read_all(&self, paths: &[String]) -> Vec<(Vec<u8>, Stat)> {
        let mut all = Vec::new();
        for path in paths {
            all.extend(self.read(path).await.ok().flatten());
        }
        all
    }

    async fn write(&self, writes: &[Write<'_>]) -> Result<Vec<Written>, Failure> {
        let changes: Vec<Change> = writes.iter().map(Change::from).collect();
        if !self.servers.reach() {
            let mut world = lock(&self.servers.sim.0);
            // It may have come to a server before the line was cut.
            if world.is_alive(self.servers.process) && world.rng.bool() {
                world.write_later(self.session, changes);
            }
            return Err(Failure::Other(Problem::Away("no answer".into())));
        }
        let written = lock(&self.servers.sim.0).write(self.session, &changes);
        if self.servers.hear_back() {
            written
        } else {
            Err(Failure::Other(Problem::Away("no answer".into())))
        }
    }

    async fn changed(&self, _: &str) -> Result<(), Problem> {
        let time = {
            let mut world = lock(&self.servers.sim.0);
            let most = world.session;
            world.rng.u64(1_000_000..most)
        };
        self.servers.sim.advance(time);
        Ok(())
    }

    async fn close(self) {
        let mut world = lock(&self.servers.sim.0);
        if world.can_reach(self.servers.process) {
            world.servers.close(self.session);
        }
    }
}

/// What the thread of a session does, at once.
pub(super) struct ModelLink {
    session: Session<ModelServers>,
}

impl ModelLink {
    pub(super) fn new(sim: Sim, process: Process, applicant: Applicant) -> Self {
        Self { session: Session::new(ModelServers { sim, process }, applicant) }
    }
}

impl Link for ModelLink {
    fn claim(&mut self, past: Past) -> Result<Claim, Problem> {
        self.session.set_past(past);
        ready(self.session.start())
    }

    fn recall(&mut self, past: Past) -> Result<(), Problem> {
        self.session.set_past(past);
        Ok(())
    }

    fn store(&mut self, mark: Mark, _: Duration) -> Result<(), Problem> {
        ready(self.session.store(mark))
    }

    fn release(&mut self, mark: Mark, _: Duration) -> Result<(), Problem> {
        let released = ready(self.session.release(mark));
        ready(self.session.leave());
        released
    }
}

/// The thread ends its session when nobody needs it any more.
impl Drop for ModelLink {
    fn drop(&mut self) {
        // A violation is found with the lock held.
        if !std::thread::panicking() {
            ready(self.session.leave());
        }
    }
}

/// The file of a host for an instance.
pub(super) struct ModelFile {
    sim: Sim,
    process: Process,
}

impl ModelFile {
    pub(super) fn new(sim: Sim, process: Process) -> Self {
        Self { sim, process }
    }
}

impl LocalFile for ModelFile {
    fn read(&self) -> Result<Option<Cached>, Error> {
        Ok(lock(&self.sim.0).file(self.process).and_then(|file| file.clone()))
    }

    fn write(&self, cached: &Cached) -> Result<(), Error> {
        if let Some(file) = lock(&self.sim.0).file(self.process) {
            *file = Some(cached.clone());
        }
        Ok(())
    }

    fn remove(&self) -> Result<(), Error> {
        if let Some(file) = lock(&self.sim.0).file(self.process) {
            *file = None;
        }
        Ok(())
    }

    fn place(&self) -> String {
        "the file".into()
    }
}
