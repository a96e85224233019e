//! Errors of a cluster.

use std::fmt::Display;

use uidring::{Error, StoreErrorKind};
use uidring_store::ServerError;

pub type Cause = Box<dyn std::error::Error + Send + Sync>;

pub fn cluster(
    cluster: &impl Display,
    kind: StoreErrorKind,
    problem: impl Into<String>,
    source: Option<Cause>,
) -> Error {
    let (server, problem) = (cluster.to_string(), problem.into());
    ServerError::Server { engine: "etcd", server, problem, kind, source }.into()
}

pub fn endpoints(problem: &str) -> Error {
    let form = "HOST:PORT,HOST:PORT, or https://HOST:PORT,https://HOST:PORT for TLS";
    let (what, place) = ("the address of etcd", "as given".into());
    ServerError::Address { what, place, form, problem: problem.into() }.into()
}
