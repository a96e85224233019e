//! What holders do with the table, in SQL.

use std::mem;
use std::process;
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Transaction, named_params};
use uidring::adapter::Deadline;
use uidring::{Error, StoreErrorKind};
use uidring_store::leases::{Answer, Ask, Asker, Denial, Held, HeldRow, Loss, Place, Shortage};

use super::{SqliteLeases, foreign};
use crate::file::{Opened, StoreFile};
use crate::insert_node;

/// The file, in which worker ids are asked for.
pub struct Asking {
    leases: SqliteLeases,
    lasts: Duration,
    /// The connection of the last attempt.
    opened: Option<Opened>,
}

impl Asking {
    pub fn new(leases: SqliteLeases, lasts: Duration) -> Self {
        Self { leases, lasts, opened: None }
    }
}

impl Asker for Asking {
    type Row = Row;

    fn place(&self) -> String {
        self.leases.place()
    }

    fn ask(&mut self, ask: &Ask) -> Result<Answer, Error> {
        let mut connection = self.leases.file.open_or_create()?;
        let explain = |error: rusqlite::Error| self.leases.file.sqlite_error("written", error);
        let done = self.leases.change(&mut connection, |transaction| {
            if let Some(denial) = foreign(transaction, &ask.fingerprint).map_err(explain)? {
                return Ok(Err(denial));
            }
            if let Some(held) = take_row(transaction, ask).map_err(explain)? {
                return Ok(Ok(held));
            }
            match self.add_row(transaction, ask)? {
                Some(held) => Ok(Ok(held)),
                None => Ok(Err(Denial::Short(shortage(transaction, ask).map_err(explain)?))),
            }
        })?;
        self.opened = Some(connection);
        Ok(done)
    }

    fn keep(self) -> Row {
        let Self { leases, lasts, opened } = self;
        let file = leases.file.with_patience(lasts / 3);
        let opened = opened.filter(|connection| connection.busy_timeout(lasts / 3).is_ok());
        Row {
            file,
            seconds: seconds(lasts),
            opened,
            opened_until: Deadline::after(Some(STAYS_OPEN)),
            process: process::id(),
        }
    }
}

impl Asking {
    /// A worker id that nobody had before: the next key of `WORKER_NODE`. `None` if there are no more.
    fn add_row(&self, transaction: &Transaction<'_>, ask: &Ask) -> Result<Option<Held>, Error> {
        let Ask { layout, fingerprint, node, owner, .. } = ask;
        let explain = |error: rusqlite::Error| self.leases.file.sqlite_error("written", error);
        let key = insert_node(&self.leases.file, transaction, node)?;
        if layout.check_worker_id(key).is_err() {
            // The whole transaction is rolled back.
            return Ok(None);
        }
        let newest: Option<i64> = transaction
            .query_row("SELECT MAX(WORKER_ID) FROM UIDRING_LEASE", [], |row| row.get(0))
            .map_err(explain)?;
        if newest >= Some(key.cast_signed()) {
            let problem = format!(
                "WORKER_NODE generated the key {key}, which is not above all in UIDRING_LEASE: its \
                 counter went backwards, and a worker id might come twice; name another file"
            );
            return Err(self.leases.file.error("used", StoreErrorKind::Corrupt, problem));
        }
        let insert = concat!(
            "INSERT INTO UIDRING_LEASE (WORKER_ID, OWNER, TOKEN, LEASE_END, LAYOUT, CREATED, RENEWED)
             VALUES (:id, :owner, 1, ",
            end!(),
            ", :layout, ",
            now!(),
            ", ",
            now!(),
            ")"
        );
        let values = named_params! {
            ":id": key.cast_signed(),
            ":owner": owner,
            ":seconds": seconds(ask.lasts),
            ":layout": fingerprint,
        };
        transaction.execute(insert, values).map_err(explain)?;
        Ok(Some(held(ask, key, 1, None)))
    }
}

/// The lowest row that nobody holds, and that was not used too far ahead.
fn take_row(transaction: &Transaction<'_>, ask: &Ask) -> rusqlite::Result<Option<Held>> {
    transaction
        .query_row(
            concat!(
                "UPDATE UIDRING_LEASE SET OWNER = :owner, TOKEN = TOKEN + 1, LEASE_END = ",
                end!(),
                ", RENEWED = ",
                now!(),
                " WHERE WORKER_ID = (SELECT MIN(WORKER_ID) FROM UIDRING_LEASE WHERE WORKER_ID >= 0
                 AND (HORIZON_TICK IS NULL OR HORIZON_TICK <= :last) AND ",
                is_free!(),
                ") RETURNING WORKER_ID, TOKEN, HORIZON_TICK, HORIZON_SEQUENCE"
            ),
            named_params! {
                ":owner": ask.owner,
                ":seconds": seconds(ask.lasts),
                ":last": ask.last_tick.cast_signed(),
            },
            |row| {
                let worker_id: i64 = row.get(0)?;
                let before = Held::place(row.get(2)?, row.get(3)?);
                Ok(held(ask, worker_id.cast_unsigned(), row.get(1)?, before))
            },
        )
        .optional()
}

fn held(ask: &Ask, worker_id: u64, token: i64, before: Option<Place>) -> Held {
    let (layout, owner) = (ask.layout, ask.owner.clone());
    Held { worker_id, layout, owner, token, before, confirmed: None, server: None }
}

fn shortage(transaction: &Transaction<'_>, ask: &Ask) -> rusqlite::Result<Shortage> {
    let (held, ends_in): (i64, Option<i64>) = transaction.query_row(
        concat!(
            "SELECT COUNT(*), CAST(ROUND((UNIXEPOCH(MIN(LEASE_END), 'subsec')
             - UNIXEPOCH('subsec')) * 1000) AS INTEGER) FROM UIDRING_LEASE WHERE NOT ",
            is_free!()
        ),
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let ahead = transaction
        .query_row(
            concat!(
                "SELECT WORKER_ID, HORIZON_TICK FROM UIDRING_LEASE WHERE HORIZON_TICK > ?1 AND ",
                is_free!(),
                " ORDER BY HORIZON_TICK LIMIT 1"
            ),
            [ask.last_tick.cast_signed()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let ends_in = ends_in.map(|millis| u64::try_from(millis).unwrap_or_default());
    Ok(Shortage { held: held.unsigned_abs(), ends_in, ahead })
}

/// As SQLite's functions of time want it.
fn seconds(lasts: Duration) -> String {
    format!("+{:.3}", lasts.as_secs_f64())
}

/// The first renewal comes right behind the acquire, and has the same connection: to close one, and to
/// open another, takes longer than the rest.
const STAYS_OPEN: Duration = Duration::from_secs(1);

/// A row that is held. The file is opened each time after the first: one that was removed is noticed.
pub struct Row {
    file: StoreFile,
    seconds: String,
    opened: Option<Opened>,
    opened_until: Deadline,
    /// In another process, a forked child, the connection is the parent's.
    process: u32,
}

impl Drop for Row {
    fn drop(&mut self) {
        if process::id() != self.process {
            mem::forget(self.opened.take());
        }
    }
}

impl Row {
    /// Executes a statement that changes the row as long as it is ours.
    fn change(
        &mut self,
        held: &Held,
        statement: &str,
        values: &[(&str, &dyn rusqlite::ToSql)],
    ) -> Result<Result<(), Loss>, Error> {
        let is_open = self.opened_until.remaining() != Some(Duration::ZERO);
        if let Some(mut connection) = self.opened.take().filter(|_| is_open) {
            let done = self.change_in(&mut connection, held, statement, values);
            // Closing writes the log back into the file. Nobody has to wait for that.
            let close = move || drop(connection);
            let _ = thread::Builder::new().name("uidring-sqlite".into()).spawn(close);
            return done;
        }
        self.change_in(&mut *self.file.open("UIDRING_LEASE")?, held, statement, values)
    }

    fn change_in(
        &self,
        connection: &mut Connection,
        held: &Held,
        statement: &str,
        values: &[(&str, &dyn rusqlite::ToSql)],
    ) -> Result<Result<(), Loss>, Error> {
        let file = &self.file;
        let explain = |error: rusqlite::Error| file.sqlite_error("written", error);
        let id = held.worker_id.cast_signed();
        let transaction = file.begin(connection)?;
        let present: Option<((String, i64), Option<i64>)> = transaction
            .query_row(
                "SELECT OWNER, TOKEN, HORIZON_TICK FROM UIDRING_LEASE WHERE WORKER_ID = ?1",
                [id],
                |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)),
            )
            .optional()
            .map_err(explain)?;
        match present {
            Some(((owner, token), tick)) if owner == held.owner && token == held.token => {
                let found = tick.map(i64::cast_unsigned);
                if let Some(confirmed) = held.confirmed
                    && found < Some(confirmed)
                {
                    return Ok(Err(Loss::Forgotten { confirmed, found }));
                }
            }
            other => return Ok(Err(Loss::of(other.map(|(present, _)| present)))),
        }
        let values: Vec<_> = values.iter().copied().chain([(":id", &id as _)]).collect();
        transaction.execute(statement, &values[..]).map_err(explain)?;
        transaction.commit().map_err(explain)?;
        Ok(Ok(()))
    }
}

impl HeldRow for Row {
    fn renew(&mut self, held: &Held, horizon: Place) -> Result<Result<(), Loss>, Error> {
        let [tick, sequence] = [horizon.tick, horizon.sequence].map(u64::cast_signed);
        let seconds = self.seconds.clone();
        let renew = concat!(
            "UPDATE UIDRING_LEASE SET LEASE_END = ",
            end!(),
            ", RENEWED = ",
            now!(),
            ", HORIZON_TICK = MAX(COALESCE(HORIZON_TICK, 0), :tick),
             HORIZON_SEQUENCE = IIF(HORIZON_TICK > :tick, HORIZON_SEQUENCE, :sequence)
             WHERE WORKER_ID = :id"
        );
        let values: [(&str, &dyn rusqlite::ToSql); 3] =
            [(":seconds", &seconds), (":tick", &tick), (":sequence", &sequence)];
        self.change(held, renew, &values)
    }

    fn release(&mut self, held: &Held, last: Option<Place>) -> Result<Result<(), Loss>, Error> {
        let tick = last.map(|place| place.tick.cast_signed());
        let sequence = last.map(|place| place.sequence.cast_signed());
        let free = concat!(
            "UPDATE UIDRING_LEASE SET LEASE_END = NULL, TOKEN = TOKEN + 1, HORIZON_TICK = :tick,
             HORIZON_SEQUENCE = :sequence, RENEWED = ",
            now!(),
            " WHERE WORKER_ID = :id"
        );
        // Also where an older state of the file was put back: what was issued last belongs there.
        let held = Held { confirmed: None, ..held.clone() };
        self.change(&held, free, &[(":tick", &tick), (":sequence", &sequence)])
    }
}
