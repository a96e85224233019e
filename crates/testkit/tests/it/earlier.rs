//! What the program did before its tables had versions, statement for statement.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Row};
use tokio::runtime::Runtime;
use uidring::Layout;
use uidring_testkit::mariadb::Database;

const IS_FREE: &str = "(LEASE_END IS NULL OR LEASE_END <= UTC_TIMESTAMP(3) OR OWNER = ?)";

pub struct Earlier {
    runtime: Runtime,
    conn: Conn,
    layout: String,
}

pub struct Held {
    pub worker_id: usize,
    token: i64,
    pub before: Option<u64>,
    owner: String,
}

impl Earlier {
    pub fn new(database: &Database, layout: &Layout) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let opts = Opts::from_url(&database.url()).expect("a URL");
        let init = [
            "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "SET SESSION autocommit = 1, SESSION wait_timeout = 120",
        ];
        let opts = OptsBuilder::from_opts(opts).client_found_rows(true).prefer_socket(false);
        let conn = runtime.block_on(Conn::new(opts.init(init.to_vec()))).expect("connects");
        Self { runtime, conn, layout: layout.to_string() }
    }

    pub fn acquire(&mut self) -> Option<Held> {
        let Self { runtime, conn, layout } = self;
        let owner = format!("earlier/{:08x}", fastrand::u32(..));
        runtime.block_on(async {
            let rows: Vec<(i64, String)> = conn
                .exec(
                    format!(
                        "SELECT WORKER_ID, LAYOUT FROM UIDRING_LEASE WHERE LAYOUT <> ? OR
                         ({IS_FREE} AND (HORIZON_TICK IS NULL OR HORIZON_TICK <= ?))
                         ORDER BY LAYOUT = ?, WORKER_ID LIMIT ?"
                    ),
                    (&*layout, &owner, i64::MAX, &*layout, 64),
                )
                .await
                .expect("asked");
            for (worker_id, _) in rows {
                conn.query_drop("START TRANSACTION").await.expect("begins");
                let row: Option<Row> = conn
                    .exec_first(
                        format!(
                            "SELECT TOKEN, HORIZON_TICK, HORIZON_SEQUENCE FROM UIDRING_LEASE
                             WHERE WORKER_ID = ? AND LAYOUT = ? AND {IS_FREE}
                             AND (HORIZON_TICK IS NULL OR HORIZON_TICK <= ?)
                             FOR UPDATE SKIP LOCKED"
                        ),
                        (worker_id, &*layout, &owner, i64::MAX),
                    )
                    .await
                    .expect("asked");
                let Some(row) = row else {
                    conn.query_drop("ROLLBACK").await.expect("ends");
                    continue;
                };
                let token: i64 = row.get(0).expect("a token");
                let before: Option<u64> = row.get(1).expect("a column");
                conn.exec_drop(
                    "UPDATE UIDRING_LEASE SET OWNER = ?, TOKEN = TOKEN + 1,
                     LEASE_END = UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND,
                     RENEWED = UTC_TIMESTAMP(3) WHERE WORKER_ID = ? AND TOKEN = ?",
                    (&owner, 120_000_000, worker_id, token),
                )
                .await
                .expect("changed");
                assert_eq!(conn.affected_rows(), 1);
                conn.query_drop("COMMIT").await.expect("ends");
                let worker_id = usize::try_from(worker_id).expect("small");
                return Some(Held { worker_id, token: token + 1, before, owner });
            }
            None
        })
    }

    /// Returns the horizon's tick.
    pub fn renew(&mut self, held: &Held) -> u64 {
        let Self { runtime, conn, .. } = self;
        let tick = held.before.unwrap_or(0) + 10;
        let Held { worker_id, owner, token, .. } = held;
        runtime.block_on(async {
            let values = (30_000_000, tick, 1_023, tick, *worker_id, token, owner);
            conn.exec_drop(
                "UPDATE UIDRING_LEASE SET
                 LEASE_END = UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND, RENEWED = UTC_TIMESTAMP(3),
                 HORIZON_SEQUENCE = IF(HORIZON_TICK > ?, HORIZON_SEQUENCE, ?),
                 HORIZON_TICK = GREATEST(COALESCE(HORIZON_TICK, 0), ?)
                 WHERE WORKER_ID = ? AND TOKEN = ? AND OWNER = ?",
                values,
            )
            .await
            .expect("changed");
            assert_eq!(conn.affected_rows(), 1, "the row is ours");
            let row: Option<(String, i64, u64)> = conn
                .exec_first(
                    "SELECT OWNER, TOKEN, HORIZON_TICK FROM UIDRING_LEASE WHERE WORKER_ID = ?",
                    (*worker_id,),
                )
                .await
                .expect("read");
            assert_eq!(row, Some((owner.clone(), *token, tick)), "it is read back");
        });
        tick
    }

    pub fn release(&mut self, held: &Held, tick: u64) {
        let Self { runtime, conn, .. } = self;
        let Held { worker_id, owner, token, .. } = held;
        runtime.block_on(async {
            conn.exec_drop(
                "UPDATE UIDRING_LEASE SET LEASE_END = NULL, TOKEN = TOKEN + 1, HORIZON_TICK = ?,
                 HORIZON_SEQUENCE = ?, RENEWED = UTC_TIMESTAMP(3)
                 WHERE WORKER_ID = ? AND TOKEN = ? AND OWNER = ?",
                (tick, 7, *worker_id, token, owner),
            )
            .await
            .expect("changed");
            assert_eq!(conn.affected_rows(), 1, "the row is ours");
        });
    }

    pub fn assign(&mut self) -> u64 {
        let Self { runtime, conn, .. } = self;
        runtime.block_on(async {
            conn.query_drop("START TRANSACTION").await.expect("begins");
            let newest: Option<Option<u64>> =
                conn.query_first("SELECT MAX(ID) FROM WORKER_NODE").await.expect("asked");
            conn.exec_drop(
                "INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED)
                 VALUES (?, ?, ?, UTC_DATE(), CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)",
                ("earlier", "1", 2),
            )
            .await
            .expect("inserted");
            let key = conn.last_insert_id().expect("a key");
            assert!(Some(key) > newest.flatten());
            conn.query_drop("COMMIT").await.expect("ends");
            key
        })
    }

    pub fn load(&mut self, tag: &str, length: u64) -> (u64, u64) {
        let Self { runtime, conn, .. } = self;
        runtime.block_on(async {
            conn.query_drop("START TRANSACTION").await.expect("begins");
            let row: Option<(String, u64, u64)> = conn
                .exec_first(
                    "SELECT biz_tag, max_id, step FROM leaf_alloc WHERE biz_tag = ? FOR UPDATE",
                    (tag,),
                )
                .await
                .expect("asked");
            let (_, max_id, step) = row.expect("a row");
            let end = max_id + length;
            conn.exec_drop(
                "UPDATE leaf_alloc SET max_id = ? WHERE biz_tag = ? AND max_id = ? AND step = ?",
                (end, tag, max_id, step),
            )
            .await
            .expect("changed");
            assert_eq!(conn.affected_rows(), 1);
            conn.query_drop("COMMIT").await.expect("ends");
            (max_id, end)
        })
    }
}
