//! What processes ask of the servers and their disks, and how that fails.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use uidring::Error;
use uidring::adapter::{Moment, Monotonic};
use uidring_zookeeper::ZooKeeperError;
use uidring_zookeeper::protocol::{
    Applicant, Before, Cached, Claim, Ensemble, Failure, LocalFile, Mark, Session, SessionHandle,
    Stat, Tree, Write,
};

use super::sim::Sim;
use super::trace::Step;
use super::tree::{Process, unreachable};
use super::world::World;

/// Runs a future of the model, which only waits for virtual time and so never suspends.
fn ready<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("it waits"),
    }
}

#[derive(Clone)]
pub(super) struct ModelServers {
    sim: Sim,
    process: Process,
}

#[derive(Clone)]
pub(super) struct ModelTree {
    servers: ModelServers,
    session: i64,
    timeout: Duration,
}

impl ModelServers {
    /// Sends a request. Returns false if it does not reach a server.
    fn reach(&self) -> bool {
        self.sim.meanwhile();
        let mut world = self.sim.world();
        let is_lost = world.goes_wrong();
        if is_lost || !world.can_reach(self.process) {
            return false;
        }
        world.hear(self.process);
        true
    }

    /// Sends the answer back. Returns false if it is lost.
    fn hear_back(&self) -> bool {
        self.sim.meanwhile();
        let mut world = self.sim.world();
        !world.goes_wrong() && world.can_reach(self.process)
    }

    fn ask<T>(&self, ask: impl FnOnce(&mut World) -> T) -> Result<T, ZooKeeperError> {
        if !self.reach() {
            return Err(unreachable());
        }
        let answer = ask(&mut self.sim.world());
        if self.hear_back() { Ok(answer) } else { Err(unreachable()) }
    }
}

impl Ensemble for ModelServers {
    type Tree = ModelTree;

    fn moment(&self) -> Moment {
        self.sim.world().time_of(self.process.host).moment()
    }

    async fn pause(&self, time: Duration) {
        self.sim.advance(time.as_nanos() as u64);
    }

    async fn connect(&self) -> Result<ModelTree, ZooKeeperError> {
        let (session, timeout) = self.ask(|world| world.connect(self.process))?;
        let mut world = self.sim.world();
        let ago = world.servers.heard(session).map_or(timeout, |heard| world.now - heard);
        world.note(Step::Connected { process: self.process.number, session, ago });
        drop(world);
        Ok(ModelTree { servers: self.clone(), session, timeout: Duration::from_nanos(timeout) })
    }

    async fn within<T>(&self, _: Duration, work: impl Future<Output = T>) -> Option<T> {
        Some(work.await)
    }
}

impl ModelTree {
    /// Reads something. A session that has ended reads nothing.
    fn look<T>(&self, look: impl FnOnce(&mut World) -> T) -> Result<T, ZooKeeperError> {
        let looked =
            self.servers.ask(|world| world.servers.is_open(self.session).then(|| look(world)));
        looked?.ok_or_else(unreachable)
    }
}

impl Tree for ModelTree {
    fn session(&self) -> i64 {
        self.session
    }

    fn session_timeout(&self) -> Duration {
        self.timeout
    }

    /// A process learns of it when it next reaches a server.
    fn is_over(&self) -> bool {
        let world = self.servers.sim.world();
        world.can_reach(self.servers.process) && !world.servers.is_open(self.session)
    }

    async fn make_folder(&self, path: &str) -> Result<(), ZooKeeperError> {
        self.look(|world| world.make_folder(path))
    }

    async fn children(&self, path: &str) -> Result<Vec<String>, ZooKeeperError> {
        let process = self.servers.process;
        self.look(|world| {
            let children = world.servers.children(path);
            world.note_read(process, path);
            children
        })
    }

    async fn read(&self, path: &str) -> Result<Option<(Vec<u8>, Stat)>, ZooKeeperError> {
        let process = self.servers.process;
        let found = self.look(|world| {
            let found = world.servers.read(path);
            world.note_read(process, path);
            found
        })?;
        self.servers.sim.world().note_heard(process, path, found.as_ref());
        Ok(found)
    }

    async fn read_all(&self, paths: &[String]) -> Vec<(Vec<u8>, Stat)> {
        let mut all = Vec::new();
        for path in paths {
            all.extend(self.read(path).await.ok().flatten());
        }
        all
    }

    async fn write(&self, writes: Vec<Write>) -> Result<Vec<i32>, Failure> {
        let lost = || Err(Failure::Other(unreachable()));
        let process = self.servers.process;
        self.servers.sim.world().note_sent(process, &writes);
        if !self.servers.reach() {
            let mut world = self.servers.sim.world();
            // It may have reached a server before the connection broke.
            if world.is_alive(self.servers.process) && world.rng.bool() {
                world.write_later(process, self.session, writes);
            }
            return lost();
        }
        let written = self.servers.sim.world().write(process, self.session, &writes, false);
        if !self.servers.hear_back() {
            return lost();
        }
        self.servers.sim.world().note(Step::Answered { process: process.number });
        written
    }

    async fn changed(&self, _: &str) -> Result<(), ZooKeeperError> {
        let time = {
            let mut world = self.servers.sim.world();
            let most = world.session;
            world.rng.u64(1_000_000..most)
        };
        self.servers.sim.advance(time);
        Ok(())
    }

    async fn close(self) {
        let mut world = self.servers.sim.world();
        if world.can_reach(self.servers.process) && world.servers.is_open(self.session) {
            world.end_session(self.session, true);
        }
    }
}

/// Does what a session's thread does, at once.
pub(super) struct ModelSession {
    session: Session<ModelServers>,
}

impl ModelSession {
    pub(super) fn new(sim: Sim, process: Process, applicant: Applicant) -> Self {
        sim.world().holders.insert(applicant.holder.clone(), process.number);
        Self { session: Session::new(ModelServers { sim, process }, applicant) }
    }
}

impl SessionHandle for ModelSession {
    fn claim(&mut self, previous: Option<String>) -> Result<Claim, ZooKeeperError> {
        ready(self.session.start(previous))
    }

    fn recall(&mut self, before: Before) -> Result<(), ZooKeeperError> {
        self.session.recall(before);
        Ok(())
    }

    fn store(&mut self, mark: Mark, _: Duration) -> Result<(), ZooKeeperError> {
        ready(self.session.store(mark))
    }

    fn release(&mut self, mark: Mark, _: Duration) -> Result<(), ZooKeeperError> {
        let released = ready(self.session.release(mark));
        ready(self.session.leave());
        released
    }
}

/// The thread ends its session when nobody needs it any more.
impl Drop for ModelSession {
    fn drop(&mut self) {
        // A violation panics with the lock held.
        if !std::thread::panicking() {
            ready(self.session.leave());
        }
    }
}

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
        Ok(self.sim.world().file(self.process).and_then(|file| file.clone()))
    }

    fn write(&self, cached: &Cached) -> Result<(), Error> {
        let mut world = self.sim.world();
        if let Some(file) = world.file(self.process) {
            *file = Some(cached.clone());
            world.note(Step::Filed { process: self.process.number });
        }
        Ok(())
    }

    fn remove(&self) -> Result<(), Error> {
        if let Some(file) = self.sim.world().file(self.process) {
            *file = None;
        }
        Ok(())
    }

    fn name(&self) -> String {
        "the file".into()
    }
}
