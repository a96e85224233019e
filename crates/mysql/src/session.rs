//! Work in a connection, tried again within a deadline.

use std::future::Future;
use std::time::Duration;

use mysql_async::prelude::{FromValue, Queryable};
use mysql_async::{Conn, Opts, Row};
use tokio::time::{sleep, timeout};
use uidring::adapter::{Chain, Deadline, Stopwatch, log};
use uidring::{Error, StoreErrorKind, Timestamp};

use super::MySqlStore;
use super::explain::{Table, explain, is_final, is_transient, with_note};
use super::inspection::Session;

/// The first pause between two attempts; each further one is twice as long, up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// Saying goodbye to the server may take this long. It is a courtesy.
const GOODBYE: Duration = Duration::from_millis(500);

/// A kept connection that nobody used for so long is asked whether it is still one.
const FRESH: Duration = Duration::from_secs(1);

/// What kept connections begin with, whatever the server's own level is: some servers refuse to write
/// below this one.
pub const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";

/// How many seconds a kept connection waits for a row that somebody else has locked: the least that
/// servers allow. A load or a renewal takes a few milliseconds, and what is locked for longer should
/// not hold up what is not.
pub const LOCK_WAIT: u32 = 1;

/// Why an attempt failed.
#[derive(Debug)]
pub enum Problem {
    /// What the driver or the server said.
    Driver(mysql_async::Error),
    /// There was no connection within this time.
    NoConnection(Duration),
    /// There was one, and the work was not done within this time.
    NoEnd(Duration),
    /// What the server did is not to be used.
    Refused(String),
    /// Somebody else did something at the same time.
    Conflict(String),
    /// The worker id is over the layout's maximum.
    UsedUp {
        /// The generated key.
        row: u64,
        /// The layout's greatest worker id.
        max: u64,
    },
    /// The server's clock and ours are too far apart.
    ClockDiffers {
        /// What ours said.
        ours: Timestamp,
        /// What the server's said.
        theirs: Timestamp,
        /// How far they may be apart.
        limit: Duration,
    },
}

impl From<mysql_async::Error> for Problem {
    fn from(error: mysql_async::Error) -> Self {
        Self::Driver(error)
    }
}

/// What is done in a connection.
pub trait Work: Sync {
    /// The table that errors speak of.
    const TABLE: Table;

    type Done: Send;

    fn run(&self, conn: &mut Session) -> impl Future<Output = Result<Self::Done, Problem>> + Send;
}

/// A connection that may be kept from one work to the next.
pub struct Line {
    opts: Opts,
    /// With the time since it was used last.
    kept: Option<(Session, Stopwatch)>,
    reached: bool,
}

impl Line {
    /// Nothing is done before the first work.
    pub fn new(opts: Opts) -> Self {
        Self { opts, kept: None, reached: false }
    }

    /// Whether the last attempt of the last work had a connection.
    pub fn has_reached(&self) -> bool {
        self.reached
    }

    pub fn is_open(&self) -> bool {
        self.kept.is_some()
    }

    pub async fn close(&mut self) {
        if let Some((conn, _)) = self.kept.take() {
            let _ = timeout(GOODBYE, conn.into_conn().disconnect()).await;
        }
    }

    /// Gives up a connection that broke while nobody used it: that is no failure of the work that
    /// comes now. One that gives no answer, as behind a firewall that has forgotten it, must not
    /// cost the work its whole deadline.
    async fn check(&mut self, patience: Duration) {
        let Some((conn, used)) = &mut self.kept else { return };
        if used.elapsed() >= FRESH && !matches!(timeout(patience, conn.ping()).await, Ok(Ok(()))) {
            self.kept = None;
        }
    }
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

impl MySqlStore {
    /// Does the work in a new connection, which is closed afterwards. After a failure that may
    /// pass it does all of it once more; what was not committed has been rolled back by then.
    pub(super) async fn run<W: Work>(&self, work: &W) -> Result<W::Done, Error> {
        let mut line = Line::new(self.opts().clone());
        let done = self.run_on(&mut line, work).await;
        // Behind the work, and not in its time: what is committed is done however the connection
        // ends.
        line.close().await;
        Ok(done?)
    }

    /// The same in the line's connection, which is kept as long as all goes well.
    pub(super) async fn run_on<W: Work>(
        &self,
        line: &mut Line,
        work: &W,
    ) -> Result<W::Done, Failed> {
        let begun = self.begin(line).await;
        let (deadline, limit) = begun.map_err(|error| Failed { error, is_final: true })?;
        let left = || deadline.remaining().unwrap_or(limit);
        let mut pause = FIRST_PAUSE;
        let mut before = None;
        for attempt in 1_u32.. {
            let problem = match self.attempt(line, work, deadline).await {
                Ok(done) => return Ok(done),
                Err(problem) => problem,
            };
            let (may_pass, is_final) = (is_transient(&problem), is_final(&problem));
            let waited = last_wait(&problem);
            let error = explain(self, &W::TABLE, problem);
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

    /// The same with one attempt, and nothing said of its failure.
    pub(super) async fn run_once_on<W: Work>(
        &self,
        line: &mut Line,
        work: &W,
    ) -> Result<W::Done, Error> {
        let (deadline, _) = self.begin(line).await?;
        let done = self.attempt(line, work, deadline).await;
        done.map_err(|problem| explain(self, &W::TABLE, problem))
    }

    /// Sees to the line; says by when the work has to be done, and how long that is.
    async fn begin(&self, line: &mut Line) -> Result<(Deadline, Duration), Error> {
        self.check_tls()?;
        let (connect, limit) = self.timeouts();
        let deadline = Deadline::after(Some(limit));
        line.check(connect.min(limit / 2)).await;
        Ok((deadline, limit))
    }

    fn check_tls(&self) -> Result<(), Error> {
        if self.demands_tls() {
            if self.is_socket() {
                // The driver would go without TLS, and say nothing.
                let problem = "TLS was asked for, and a Unix socket has none; leave out the one or \
                               the other";
                return Err(self.error(StoreErrorKind::Invalid, problem.into()));
            }
            choose_cryptography();
        }
        Ok(())
    }

    async fn attempt<W: Work>(
        &self,
        line: &mut Line,
        work: &W,
        deadline: Deadline,
    ) -> Result<W::Done, Problem> {
        let (connect, limit) = self.timeouts();
        let left = || deadline.remaining().unwrap_or(limit);
        line.reached = line.is_open();
        let mut conn = match line.kept.take() {
            Some((conn, _)) => conn,
            None => {
                let conn = timeout(connect.min(left()), Conn::new(line.opts.clone()))
                    .await
                    .map_err(|_| Problem::NoConnection(connect.min(limit)))??;
                line.reached = true;
                timeout(left(), Session::inspect(conn, self, &W::TABLE))
                    .await
                    .map_err(|_| Problem::NoEnd(limit))??
            }
        };
        match timeout(left(), work.run(&mut conn)).await {
            Ok(Ok(done)) => {
                line.kept = Some((conn, Stopwatch::start()));
                Ok(done)
            }
            failed => {
                // It may be in the midst of a transaction, or of an answer.
                let _ = timeout(GOODBYE.min(limit / 4), conn.into_conn().disconnect()).await;
                failed.unwrap_or(Err(Problem::NoEnd(limit)))
            }
        }
    }
}

/// A column of a row, where the driver's own conversions would panic.
pub fn column<T: FromValue>(row: &mut Row, index: usize) -> Result<T, Problem> {
    let value = row.take_opt(index).and_then(Result::ok);
    value.ok_or_else(|| {
        let names = row.columns_ref();
        let name = names.get(index).map(|column| column.name_str().into_owned());
        let name = name.unwrap_or_else(|| index.to_string());
        Problem::Refused(format!("the server's answer has no usable value in column `{name}`"))
    })
}

/// What an attempt that ran out of time was waiting for.
fn last_wait(problem: &Problem) -> Option<&'static str> {
    match problem {
        Problem::NoConnection(_) => Some("connecting"),
        Problem::NoEnd(_) => Some("waiting for a statement to end"),
        _ => None,
    }
}

fn gave_up(error: Error, limit: Duration, attempts: u32, last: Option<&str>) -> Error {
    let last = last.map_or_else(String::new, |wait| format!(", in the last one {wait}"));
    with_note(error, &format!(" (given up after {attempts} attempts within {limit:?}{last})"))
}

/// rustls panics where a process links two providers of cryptography and has chosen none.
fn choose_cryptography() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // It fails where another thread was faster: then there is one.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
