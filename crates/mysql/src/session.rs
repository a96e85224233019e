//! Checks of a new connection: whether the server keeps what it commits, which server it is, and whether
//! this program knows the version of its tables.

use std::ops::{Deref, DerefMut};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};

use crate::MySqlStore;
use crate::columns::{optional_text, text};
use crate::problem::Problem;
use uidring_store::server::{Table, check_version};

/// A connection, with what is known of its server.
pub struct Session {
    conn: Conn,
    /// The variable that tells this server from others.
    identity: Option<&'static str>,
    /// Whether it is a node of a Galera cluster.
    is_galera: bool,
}

/// The last transaction that a session has written, where commits are looked at.
#[derive(PartialEq, Eq)]
pub struct Written(Option<String>);

/// The number of the session's last transaction that the cluster has.
const LAST_WRITTEN: &str = "SELECT WSREP_LAST_WRITTEN_GTID()";

impl Session {
    /// Checks the server of a connection.
    ///
    /// What is read here may come from a replica, if a proxy splits reads from writes: its settings
    /// are as good a hint as the primary's. The server's identity is read where it counts: in the
    /// statement that writes.
    pub async fn inspect(
        mut conn: Conn,
        store: &MySqlStore,
        table: &Table,
    ) -> Result<Self, Problem> {
        // A server may cut all answers to a few rows.
        conn.query_drop("SET SESSION sql_select_limit = 18446744073709551615").await?;
        let rows: Vec<Row> = conn
            .query(
                "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_bin', 'sync_binlog',
                 'innodb_flush_log_at_trx_commit', 'server_uuid', 'server_uid', 'wsrep_on',
                 'wsrep_provider', 'wsrep_provider_options')",
            )
            .await?;
        let variables = rows.into_iter().map(|mut row| {
            Ok((text(&mut row, 0)?, optional_text(&mut row, 1)?.unwrap_or_default()))
        });
        let variables = variables.collect::<Result<Vec<(String, String)>, Problem>>()?;
        let value = |name: &str| {
            let found = variables.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, value)| &**value)
        };
        let binlog = (value("log_bin") == Some("ON")).then_some(("sync_binlog", &["1"][..]));
        // MariaDB's 3 syncs as 1 does.
        let log = Some(("innodb_flush_log_at_trx_commit", &["1", "3"][..]));
        for (risk, setting, when) in [(0, binlog, " with the binary log on"), (1, log, "")] {
            let Some((name, good)) = setting else { continue };
            if let Some(found) = value(name).filter(|found| !good.contains(found)) {
                report(store, risk, || {
                    format!(
                        "{name} is {found}{when}: after a crash of its machine the server may have lost \
                         what it confirmed, and ids come twice; set {name} = 1"
                    )
                })?;
            }
        }
        let is_galera = value("wsrep_on") == Some("ON") && value("wsrep_provider") != Some("none");
        if is_galera {
            check_galera(store, value("wsrep_provider_options").unwrap_or_default())?;
            catch_up(&mut conn).await?;
        }
        check_tables(&mut conn, store, table).await?;
        let names = ["server_uuid", "server_uid"];
        let identity = names.into_iter().find(|name| value(name).is_some_and(|id| !id.is_empty()));
        Ok(Self { conn, identity, is_galera })
    }

    /// Returns the last transaction before the one that is about to begin, for
    /// [`commit`](Self::commit).
    pub async fn written(&mut self) -> Result<Written, Problem> {
        if !self.is_galera {
            return Ok(Written(None));
        }
        Ok(Written(self.conn.query_first(LAST_WRITTEN).await?))
    }

    /// Commits a transaction that has changed something.
    ///
    /// A node of a Galera cluster rolls a transaction back if another node's comes first. If that happens
    /// between two statements, it may not say so, and the COMMIT then succeeds with nothing to commit.
    /// What the session has written tells.
    pub async fn commit(&mut self, before: Written) -> Result<(), Problem> {
        self.conn.query_drop("COMMIT").await?;
        self.assure_written(before).await
    }

    /// Makes sure of a statement that has changed something and commits by itself.
    pub async fn assure_written(&mut self, before: Written) -> Result<(), Problem> {
        if self.is_galera && self.written().await? == before {
            return Err(Problem::Undone);
        }
        Ok(())
    }

    /// Returns why a transaction does not read what it has written.
    pub fn not_read_back(&self, why: String) -> Problem {
        // Then it is more likely that the transaction was undone meanwhile.
        if self.is_galera { Problem::Undone } else { Problem::Refused(why) }
    }

    /// An expression for a number above 0 that tells the server that evaluates it from others; 0
    /// where the server does not say.
    pub fn identity(&self) -> String {
        self.identity.map_or_else(
            || "0".into(),
            |name| format!("CAST(CONV(LEFT(SHA1(@@global.{name}), 15), 16, 10) AS UNSIGNED)"),
        )
    }

    /// Whether the server says which it is.
    pub fn has_identity(&self) -> bool {
        self.identity.is_some()
    }

    pub fn into_conn(self) -> Conn {
        self.conn
    }
}

impl Deref for Session {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        &self.conn
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut Conn {
        &mut self.conn
    }
}

fn report(store: &MySqlStore, risk: usize, explain: impl Fn() -> String) -> Result<(), Problem> {
    store.settings.report(store, risk, explain).map_err(Problem::Refused)
}

/// Waits until a node has applied what the others have confirmed by now: a holder that comes from one of
/// them would find its own lease in an older state.
async fn catch_up(conn: &mut Conn) -> Result<(), Problem> {
    conn.query_drop("SET SESSION wsrep_sync_wait = 1").await?;
    match conn.query_drop("SELECT 1").await.map_err(Problem::from) {
        // A node without a majority reports a lock. What comes next says what is wrong.
        Err(problem) if problem.is_locked() => {}
        done => done?,
    }
    Ok(conn.query_drop("SET SESSION wsrep_sync_wait = DEFAULT").await?)
}

/// What a cluster may lose although each of its nodes syncs.
fn check_galera(store: &MySqlStore, options: &str) -> Result<(), Problem> {
    report(store, 3, || {
        "it is a node of a Galera cluster, which confirms a commit when the other nodes have received \
         it, and not when they have written it: if several crash at about the same time, it may be \
         lost, and ids come twice; set innodb_flush_log_at_trx_commit = 1 on all nodes, bootstrap only \
         from the one that is furthest, or use a server that is not in such a cluster"
            .into()
    })?;
    let is_on = |name: &str| {
        let mut all = options.split(';').filter_map(|option| option.split_once('='));
        let found = all.find(|(option, _)| option.trim() == name).map(|(_, value)| value.trim());
        found.is_some_and(|value| ["true", "yes", "on", "1"].contains(&&*value.to_lowercase()))
    };
    for name in ["pc.ignore_sb", "pc.ignore_quorum"] {
        if is_on(name) {
            report(store, 4, || {
                format!(
                    "{name} is on in wsrep_provider_options: both halves of a cluster that is split take \
                     rows, and ids come twice; turn it off"
                )
            })?;
        }
    }
    Ok(())
}

async fn check_tables(conn: &mut Conn, store: &MySqlStore, table: &Table) -> Result<(), Problem> {
    let names = table.all.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let tables: Vec<Row> = conn
        .query(format!(
            "SELECT TABLE_NAME, ENGINE, TABLE_COMMENT FROM information_schema.TABLES
             WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ({names})"
        ))
        .await?;
    for mut row in tables {
        let mut text = |index| optional_text(&mut row, index).map(Option::unwrap_or_default);
        let (name, engine, comment) = (text(0)?, text(1)?, text(2)?);
        check_version(&name, &comment).map_err(Problem::Refused)?;
        // A view has none.
        if !engine.is_empty() && !["InnoDB", "ROCKSDB"].contains(&&*engine) {
            report(store, 2, || {
                format!(
                    "{name} has the engine {engine}, which may forget what it confirmed, and ids \
                     come twice; ALTER TABLE {name} ENGINE = InnoDB"
                )
            })?;
        }
    }
    Ok(())
}
