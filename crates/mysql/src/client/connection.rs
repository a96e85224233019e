//! A connection, and work in it that is tried again within a deadline.

use std::future::Future;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use tokio::time::{sleep, timeout};
use uidring::adapter::{Chain, Deadline, Stopwatch, log};
use uidring::{Error, StoreErrorKind};

use crate::MySqlStore;
use crate::error::advice::{to_error, with_note};
use crate::problem::Problem;
use crate::session::Session;
use crate::tables::Table;

/// The first pause between two attempts; each further one is twice as long, up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// How long the courtesy of closing a connection in an orderly way may take.
const GOODBYE: Duration = Duration::from_millis(500);

/// After so long without use, an open connection is checked first.
const FRESH: Duration = Duration::from_secs(1);

/// What is done in a connection.
pub trait Operation: Sync {
    /// The table that errors speak of.
    const TABLE: Table;

    type Done: Send;

    fn run(&self, conn: &mut Session) -> impl Future<Output = Result<Self::Done, Problem>> + Send;
}

/// Why work was not done.
pub struct Failed {
    pub error: Error,
    /// It stays so until somebody does something.
    pub is_final: bool,
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}

/// A connection that the first work opens, and later work opens again if it broke.
pub struct Connection {
    opts: Opts,
    /// With the time since it was used last.
    open: Option<(Session, Stopwatch)>,
    reached: bool,
}

impl Connection {
    pub fn new(opts: Opts) -> Self {
        Self { opts, open: None, reached: false }
    }

    /// Whether the last attempt of the last work had a connection.
    pub fn has_reached(&self) -> bool {
        self.reached
    }

    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    pub async fn close(&mut self) {
        if let Some((conn, _)) = self.open.take() {
            let _ = timeout(GOODBYE, conn.into_conn().disconnect()).await;
        }
    }

    /// Does the work. After a failure that may pass it does all of it once more; what was not committed
    /// has been rolled back by then. The connection stays open as long as all goes well.
    pub async fn run<W: Operation>(
        &mut self,
        store: &MySqlStore,
        work: &W,
    ) -> Result<W::Done, Failed> {
        let begun = self.begin(store).await;
        let (deadline, limit) = begun.map_err(|error| Failed { error, is_final: true })?;
        let left = || deadline.remaining().unwrap_or(limit);
        let mut pause = FIRST_PAUSE;
        let mut before = None;
        for attempt in 1_u32.. {
            let problem = match self.attempt(store, work, deadline).await {
                Ok(done) => return Ok(done),
                Err(problem) => problem,
            };
            let (may_pass, is_final) = (problem.may_pass(), problem.is_final());
            let waited = problem.last_wait();
            let error = to_error(store, &W::TABLE, problem);
            if !may_pass {
                return Err(Failed { error, is_final });
            }
            // Starts that met the same failure at once should not come back at once.
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

    /// Does the work with one attempt, and logs no failure.
    pub async fn run_once<W: Operation>(
        &mut self,
        store: &MySqlStore,
        work: &W,
    ) -> Result<W::Done, Error> {
        let (deadline, _) = self.begin(store).await?;
        let done = self.attempt(store, work, deadline).await;
        done.map_err(|problem| to_error(store, &W::TABLE, problem))
    }

    /// Returns by when the work has to be done, and how long that is.
    ///
    /// Gives up an open connection that broke while nobody used it: that is no failure of the work that
    /// comes now. One that does not answer, as after a firewall has forgotten it, must not cost the work
    /// its whole deadline.
    async fn begin(&mut self, store: &MySqlStore) -> Result<(Deadline, Duration), Error> {
        check_tls(store)?;
        let MySqlStore { connect_timeout: connect, deadline: limit, .. } = *store;
        let deadline = Deadline::after(Some(limit));
        let patience = connect.min(limit / 2);
        if let Some((conn, used)) = &mut self.open
            && used.elapsed() >= FRESH
            && !matches!(timeout(patience, conn.ping()).await, Ok(Ok(())))
        {
            self.open = None;
        }
        Ok((deadline, limit))
    }

    async fn attempt<W: Operation>(
        &mut self,
        store: &MySqlStore,
        work: &W,
        deadline: Deadline,
    ) -> Result<W::Done, Problem> {
        let MySqlStore { connect_timeout: connect, deadline: limit, .. } = *store;
        let left = || deadline.remaining().unwrap_or(limit);
        self.reached = self.is_open();
        let mut conn = match self.open.take() {
            Some((conn, _)) => conn,
            None => {
                let conn = timeout(connect.min(left()), Conn::new(self.opts.clone()))
                    .await
                    .map_err(|_| Problem::NoConnection(connect.min(limit)))??;
                self.reached = true;
                timeout(left(), Session::inspect(conn, store, &W::TABLE))
                    .await
                    .map_err(|_| Problem::NoEnd(limit))??
            }
        };
        match timeout(left(), work.run(&mut conn)).await {
            Ok(Ok(done)) => {
                self.open = Some((conn, Stopwatch::start()));
                Ok(done)
            }
            failed => {
                // It may be within a transaction, or within an answer.
                let _ = timeout(GOODBYE.min(limit / 4), conn.into_conn().disconnect()).await;
                failed.unwrap_or(Err(Problem::NoEnd(limit)))
            }
        }
    }
}

fn check_tls(store: &MySqlStore) -> Result<(), Error> {
    if store.demands_tls() {
        if store.is_socket() {
            // The driver would go without TLS, and say nothing.
            let problem =
                "TLS was asked for, and a Unix socket has none; leave out the one or the other";
            return Err(store.error(StoreErrorKind::Invalid, problem.into()));
        }
        choose_cryptography();
    }
    Ok(())
}

/// rustls panics if a process links two providers of cryptography and has chosen none.
fn choose_cryptography() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // It fails if another thread was faster: then there is one.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

fn gave_up(error: Error, limit: Duration, attempts: u32, last: Option<&str>) -> Error {
    let last = last.map_or_else(String::new, |wait| format!(", in the last one {wait}"));
    with_note(error, &format!(" (given up after {attempts} attempts within {limit:?}{last})"))
}
