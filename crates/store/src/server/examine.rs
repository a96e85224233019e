//! Examines a database server before a start, without changing anything.

use std::sync::mpsc::channel;
use std::time::Duration;

use uidring::Timestamp;
use uidring::clock::{Clock, SystemClock};

use super::client::Client;
use super::clocks;
use super::connection::Operation;
use super::engine::Purpose;
use super::explain::explain;
use super::problem::{Problem, State};
use super::range::look_for_range;
use super::row::only;
use super::session::{Done, Session};
use super::store::Server;
use super::tables::{LEAF_ALLOC, Table, UIDRING_LEASE, WORKER_NODE};
use crate::{Finding, Findings, StoreUse};

/// Statements that need the rights of a start, and match no row.
const WORKERS: &[(Table, &str)] = &[(
    WORKER_NODE,
    "INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED)
     SELECT HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED FROM WORKER_NODE WHERE 1 = 0",
)];

/// The table of leases first, because the command that creates it creates both.
const LEASES: &[(Table, &str)] = &[
    (
        UIDRING_LEASE,
        "INSERT INTO UIDRING_LEASE (WORKER_ID, OWNER, TOKEN, LEASE_END, LAYOUT, CREATED, RENEWED)
         SELECT WORKER_ID, OWNER, TOKEN, LEASE_END, LAYOUT, CREATED, RENEWED FROM UIDRING_LEASE WHERE 1 = 0",
    ),
    (UIDRING_LEASE, "UPDATE UIDRING_LEASE SET OWNER = OWNER, TOKEN = TOKEN, LEASE_END = LEASE_END, RENEWED = RENEWED,
         HORIZON_TICK = HORIZON_TICK, HORIZON_SEQUENCE = HORIZON_SEQUENCE WHERE 1 = 0"),
    WORKERS[0],
];

const SEGMENTS: &[(Table, &str)] = &[(
    LEAF_ALLOC,
    "UPDATE leaf_alloc SET max_id = max_id, update_time = update_time WHERE 1 = 0 AND biz_tag = ''",
)];

/// Clocks that differ by more are a fault.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// Examines a server for such a start.
pub(super) fn examine(mut server: Server, wanted: StoreUse) -> Findings {
    let (sender, risks) = channel();
    server.settings.risks = Some(sender);
    let statements = match wanted {
        StoreUse::Disposable => WORKERS,
        StoreUse::Lease(_) | StoreUse::Ordinal(..) => LEASES,
        StoreUse::Segments => SEGMENTS,
    };
    let (table, has_range) = (statements[0].0, wanted != StoreUse::Segments);
    let examine = Examine { statements, has_range };
    let looked = match Client::new(&server, Purpose::Admin).run(&examine) {
        Ok(looked) => looked,
        Err(error) => return Err(vec![Finding::error("connection", &error)]),
    };
    let tls = match server.engine.warning() {
        Some(warning) => Finding::risk("TLS", warning),
        None => server.engine.login().finding(),
    };
    let answers = Finding::good("connection", "the server answers, and accepts writes");
    let mut findings = vec![answers, tls];
    let risks: Vec<_> = risks.try_iter().collect();
    if risks.is_empty() {
        let text = "by its settings, the server keeps what it has confirmed if its machine crashes";
        findings.push(Finding::good("durability", text));
    }
    findings.extend(risks);
    findings.push(match clocks::compare(looked.clocks, CLOCK_TOLERANCE) {
        Ok(()) => Finding::good("clock", "the server's clock and this host's agree to a second"),
        Err(problem) => Finding::error("clock", &explain(&*server.engine, &table, problem)),
    });
    let Some((table, problem)) = looked.failed else {
        let text = "the tables are there, and the account may use them";
        findings.push(Finding::good("rights", text));
        return Ok(findings);
    };

    let is_missing = problem.state() == Some(State::NoTable);
    let mut finding = Finding::error("rights", &explain(&*server.engine, &table, problem));
    if is_missing && looked.may_create == Some(false) {
        finding.text.push_str(
            "; this account has no right of its own to create it: grant it CREATE, or use another account for this",
        );
    }
    findings.push(finding);
    Err(findings)
}

struct Examine {
    statements: &'static [(Table, &'static str)],
    /// Whether it needs the range of worker ids.
    has_range: bool,
}

struct Looked {
    /// This host's clock before, the server's, and this host's after.
    clocks: [Timestamp; 3],
    /// The first table that cannot be used, and why.
    failed: Option<(Table, Problem)>,
    /// Whether the account may create tables; `None` if the server does not say.
    may_create: Option<bool>,
}

impl Operation for Examine {
    const TABLE: Table = WORKER_NODE;

    type Done = Looked;

    fn table(&self) -> Table {
        self.statements[0].0
    }

    async fn run(&self, session: &mut dyn Session) -> Done<Looked> {
        let dialect = session.dialect();
        let now = format!("SELECT {}", (dialect.millis)(dialect.now));
        let before = SystemClock.now();
        let row = only(session.look(&now, &[]).await?)?;
        let clocks = [before, row.millis(0)?, SystemClock.now()];
        let may_create = session.may_create().await?;
        let mut looked = Looked { clocks, failed: None, may_create };
        for (table, statement) in self.statements {
            session.begin().await?;
            let done = session.execute(statement, &[]).await;
            session.rollback().await?;
            match done {
                Ok(_) => {}
                Err(problem) if problem.is_answered() => {
                    looked.failed = Some((*table, problem));
                    break;
                }
                Err(problem) => return Err(problem),
            }
        }
        // Reading the range is a separate right.
        if looked.failed.is_none() && self.has_range {
            match look_for_range(session).await {
                Err(problem) if problem.is_answered() => {
                    session.rollback().await?;
                    looked.failed = Some((self.statements[0].0, problem));
                }
                range => drop(range?),
            }
        }
        Ok(looked)
    }
}
