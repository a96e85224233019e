//! Shared code of the stores on database servers: a blocking client that retries within a deadline, the SQL operations,
//! and the errors.

mod any_store;
mod client;
mod clocks;
mod connection;
mod create;
mod engine;
mod error;
mod examine;
mod explain;
mod leases;
mod new_tables;
mod nodes;
mod problem;
mod range;
mod row;
mod runtime;
mod segments;
mod session;
mod settings;
mod store;
mod tables;
mod url;
mod value;

pub use self::engine::{Connector, Engine, Purpose};
pub use self::explain::explain;
pub use self::leases::ServerLeases;
pub use self::nodes::ServerWorkerNodes;
pub use self::problem::{Cause, Failure, LOGIN, Problem, State};
pub use self::row::{Cell, Row, only};
pub use self::segments::ServerSegments;
pub use self::session::{Changed, Done, Session, not_one_row};
pub use self::settings::{Inspected, Limits, Settings};
pub use self::store::{Server, ServerStore};
pub use self::tables::{
    LEAF_ALLOC, RANGE_COMMENT, Table, UIDRING_LEASE, UIDRING_RANGE, WORKER_NODE, check_version,
};
pub use self::url::ServerUrl;
pub use self::value::Value;
