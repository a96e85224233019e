//! A connection, and work on it that is retried within a deadline.

use std::future::Future;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use uidring::Error;
use uidring::adapter::{Chain, Deadline, Stopwatch, log};

use super::engine::Purpose;
use super::error::with_note;
use super::explain::explain;
use super::new_tables::create;
use super::problem::{Problem, State};
use super::session::{Done, Session};
use super::settings::Limits;
use super::store::Server;
use super::tables::Table;
use crate::warn_once;

/// The first pause between attempts. Each further one is twice as long, up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// How long to spend on closing a connection cleanly.
const GOODBYE: Duration = Duration::from_millis(500);

/// A connection that was idle for this long is checked first.
const FRESH: Duration = Duration::from_secs(1);

/// A unit of work on a connection. It may run again after a failed attempt, so it must be repeatable.
pub trait Operation: Sync {
    /// The table that errors name.
    const TABLE: Table;

    type Done: Send;

    /// Returns that table, where it depends on the work.
    fn table(&self) -> Table {
        Self::TABLE
    }

    fn run(&self, session: &mut dyn Session) -> impl Future<Output = Done<Self::Done>> + Send;
}

/// Does the work. If tables are missing, creates them and does it again. Only then does the account need the right to
/// create them.
async fn work_in<W: Operation>(
    session: &mut dyn Session,
    work: &W,
    tables: &[Table],
) -> Done<W::Done> {
    match work.run(session).await {
        Err(problem) if problem.state() == Some(State::NoTable) && !tables.is_empty() => {
            session.rollback().await?;
            create(session, tables).await?;
            work.run(session).await
        }
        done => done,
    }
}

/// Why the work was not done.
pub struct Failed {
    pub error: Error,
    /// The error stays until somebody acts.
    pub is_final: bool,
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}

/// A connection that is opened on first use, and again after it broke.
pub struct Connection {
    purpose: Purpose,
    /// The open session, and how long ago it was last used.
    open: Option<(Box<dyn Session>, Stopwatch)>,
    reached: bool,
    silent: bool,
}

impl Connection {
    pub fn new(purpose: Purpose) -> Self {
        Self { purpose, open: None, reached: false, silent: false }
    }

    /// Whether the last attempt had a connection.
    pub fn has_reached(&self) -> bool {
        self.reached
    }

    /// Whether it had one, and the server answered before the deadline.
    pub fn has_answered(&self) -> bool {
        self.reached && !self.silent
    }

    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Closes the connection cleanly, within `GOODBYE`.
    pub async fn close(&mut self) {
        if let Some((session, _)) = self.open.take() {
            let _ = timeout(GOODBYE, session.close()).await;
        }
    }

    /// Does the work, and retries all of it after failures that may pass, until the deadline. Creates these tables if
    /// they are missing. Uncommitted changes are rolled back before a retry. The connection stays open unless something
    /// fails.
    ///
    /// # Errors
    ///
    /// The store's error, and whether it stays.
    pub async fn run<W: Operation>(
        &mut self,
        server: &Server,
        work: &W,
        tables: &[Table],
    ) -> Result<W::Done, Failed> {
        let begun = self.begin(server).await;
        let (deadline, limit) = begun.map_err(|error| Failed { error, is_final: true })?;
        let left = || deadline.remaining().unwrap_or(limit);
        let mut pause = FIRST_PAUSE;
        let mut before = None;
        self.silent = false;
        for attempt in 1_u32.. {
            let problem = match self.attempt(server, work, tables, deadline).await {
                Ok(done) => return Ok(done),
                Err(problem) => problem,
            };
            let (may_pass, is_final) = (problem.may_pass(), problem.is_final());
            let waited = problem.last_wait();
            self.silent = waited.is_some();
            let error = explain(&*server.engine, &work.table(), problem);
            if !may_pass {
                return Err(Failed { error, is_final });
            }
            // Jitter, so that processes that failed together do not retry together.
            let next = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
            if left() <= next {
                // An attempt that the deadline cut short says less than the one before it.
                let (error, last) = match before {
                    Some(before) if left().is_zero() && waited.is_some() => (before, waited),
                    _ => (error, None),
                };
                let error = gave_up(error, limit, attempt, last);
                return Err(Failed { error, is_final: false });
            }
            if attempt == 1 {
                log!(warn, "{}; trying again for up to {limit:?}", Chain(&error));
            }
            sleep(next).await;
            pause = (pause * 2).min(LAST_PAUSE);
            before = Some(error);
        }
        unreachable!("a deadline comes before so many attempts")
    }

    /// Does the work in one attempt, and logs no failure.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub async fn run_once<W: Operation>(
        &mut self,
        server: &Server,
        work: &W,
    ) -> Result<W::Done, Error> {
        let (deadline, _) = self.begin(server).await?;
        let done = self.attempt(server, work, &[], deadline).await;
        done.map_err(|problem| explain(&*server.engine, &work.table(), problem))
    }

    /// Returns the deadline of the work, and how long that is.
    ///
    /// Drops a connection that broke while idle, which is no failure of this work. The check has its own limit: a
    /// connection that a firewall has forgotten, for example, must not use up the deadline.
    async fn begin(&mut self, server: &Server) -> Result<(Deadline, Duration), Error> {
        server.check()?;
        let Limits { connect, deadline: limit } = server.settings.limits;
        let deadline = Deadline::after(Some(limit));
        let patience = connect.min(limit / 2);
        if let Some((session, used)) = &mut self.open
            && used.elapsed() >= FRESH
            && !matches!(timeout(patience, session.answers()).await, Ok(true))
        {
            self.open = None;
        }
        Ok((deadline, limit))
    }

    async fn attempt<W: Operation>(
        &mut self,
        server: &Server,
        work: &W,
        tables: &[Table],
        deadline: Deadline,
    ) -> Done<W::Done> {
        let Limits { connect, deadline: limit } = server.settings.limits;
        let left = || deadline.remaining().unwrap_or(limit);
        self.reached = self.is_open();
        let mut session = match self.open.take() {
            Some((session, _)) => session,
            None => {
                if let Some(warning) = server.warning() {
                    warn_once(format!("{server}: {warning}"));
                }
                let session = server.engine.connect(self.purpose, connect.min(left())).await?;
                let mut session = session.ok_or(Problem::NoConnection(connect.min(limit)))?;
                self.reached = true;
                timeout(left(), session.inspect(server.inspected(), &work.table()))
                    .await
                    .map_err(|_| Problem::NoEnd(limit))??;
                session
            }
        };
        match timeout(left(), work_in(&mut *session, work, tables)).await {
            Ok(Ok(done)) => {
                self.open = Some((session, Stopwatch::start()));
                Ok(done)
            }
            failed => {
                // The session may be in the middle of a transaction or an answer.
                let _ = timeout(GOODBYE.min(limit / 4), session.close()).await;
                failed.unwrap_or_else(|_| Err(Problem::NoEnd(limit)))
            }
        }
    }
}

fn gave_up(error: Error, limit: Duration, attempts: u32, last: Option<&str>) -> Error {
    let last = last.map_or_else(String::new, |wait| format!(", in the last one {wait}"));
    let attempts = match attempts {
        1 => "1 attempt".into(),
        _ => format!("{attempts} attempts"),
    };
    with_note(error, &format!(" (given up after {attempts} within {limit:?}{last})"))
}
