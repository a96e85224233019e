//! The registry with one name, as one instance sees it: where its nodes are.

use std::fmt;
use std::time::Duration;

use uidring::StoreErrorKind;
use zookeeper_client::Error;

use super::error::ZooKeeperError;
use super::instance::{Instance, check_name};
use super::nodes::BOUNDED;
use super::servers::ZooKeeperServers;

/// The problem if a required node is missing.
pub const MISSING_NODE: &str = "a node is missing; the path after the hosts must exist, and nobody may \
                                remove nodes while instances run";

/// The registry with one name, as one instance sees it. Displays as its servers and path.
#[derive(Clone, Debug)]
pub struct Registry {
    pub servers: ZooKeeperServers,
    pub name: String,
    pub instance: Instance,
    pub outages: Outages,
}

/// What an instance does while the registry is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outages {
    /// Issues what it has reserved, for this long, or as long as the session allows.
    Bounded(Option<Duration>),
    /// Continues with its local file, as Leaf does.
    Unbounded,
}

impl Registry {
    pub fn new(
        servers: ZooKeeperServers,
        name: &str,
        instance: Instance,
    ) -> Result<Self, ZooKeeperError> {
        check_name("registry", name)?;
        Ok(Self { servers, name: name.into(), instance, outages: Outages::Bounded(None) })
    }

    pub fn is_bounded(&self) -> bool {
        matches!(self.outages, Outages::Bounded(_))
    }

    /// The folders, parents first. The first is shared by all names.
    pub fn folders(&self) -> [String; 5] {
        let (shared, own) = ("/snowflake".into(), format!("/snowflake/{}", self.name));
        [shared, own, self.forever(), self.temporary(), self.folder("reserved")]
    }

    /// Leaf's folder, with nodes `<instance>-<number>`. The number is the worker id.
    pub fn forever(&self) -> String {
        self.folder("forever")
    }

    /// The folder of the ephemeral nodes.
    pub fn temporary(&self) -> String {
        self.folder("temporary")
    }

    fn folder(&self, folder: &str) -> String {
        format!("/snowflake/{}/{folder}", self.name)
    }

    pub fn node_name(&self) -> String {
        let end = if self.is_bounded() { BOUNDED } else { "" };
        format!("{}{end}", self.instance)
    }

    /// The ephemeral node. Whoever owns it has the name.
    pub fn temporary_node(&self) -> String {
        format!("{}/{}", self.temporary(), self.node_name())
    }

    /// The node with the instance's reservation.
    pub fn reserved_node(&self) -> String {
        format!("{}/{}", self.folder("reserved"), self.node_name())
    }

    pub fn error(&self, kind: StoreErrorKind, problem: impl Into<String>) -> ZooKeeperError {
        let (registry, problem) = (self.to_string(), problem.into());
        ZooKeeperError::Registry { registry, problem, kind, source: None }
    }

    /// Like [`error`](Self::error), with the error of the client, rustls or the system.
    pub fn caused(
        &self,
        kind: StoreErrorKind,
        problem: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> ZooKeeperError {
        let (registry, problem) = (self.to_string(), problem.into());
        ZooKeeperError::Registry { registry, problem, kind, source: Some(source.into().into()) }
    }

    /// An error of the client, with what to do.
    pub fn failed(&self, error: Error) -> ZooKeeperError {
        use StoreErrorKind::{Denied, Unreachable};
        let (kind, problem) = match &error {
            Error::NoNode => (Denied, MISSING_NODE),
            Error::AuthFailed => {
                (Denied, "the servers do not let this user in; check user and password")
            }
            Error::InvalidAcl => (Denied, "the servers do not know this user"),
            Error::NoAuth
            | Error::QuotaExceeded
            | Error::NodeExists
            | Error::NotEmpty
            | Error::BadVersion
            | Error::NoChildrenForEphemerals
            | Error::Unimplemented
            | Error::MarshallingError
            | Error::BadArguments(_)
            | Error::UnexpectedErrorCode(_) => (Denied, "the servers refused a request"),
            // All others concern the connection or the session.
            _ => (Unreachable, "the servers cannot be reached, or the connection broke"),
        };
        self.caused(kind, problem, error)
    }

    /// The error if there is no session in time.
    pub fn no_session(&self, ports: &str) -> ZooKeeperError {
        let limit = self.servers.connect_limit();
        self.unreachable(format!(
            "no session within {limit:?}; are the servers running, do they have a quorum, and {ports}?"
        ))
    }

    /// No server could be asked, or none answered.
    pub fn unreachable(&self, problem: impl Into<String>) -> ZooKeeperError {
        self.error(StoreErrorKind::Unreachable, problem)
    }

    pub fn no_answer(&self, within: Duration) -> ZooKeeperError {
        self.unreachable(format!("no answer within {within:?}"))
    }

    pub fn interference(&self) -> ZooKeeperError {
        self.unreachable("others write to the same nodes all the time")
    }

    /// A node is missing or has wrong contents.
    pub fn corrupt(&self, problem: impl Into<String>) -> ZooKeeperError {
        self.error(StoreErrorKind::Corrupt, problem)
    }

    pub fn unreadable(&self, node: &str) -> ZooKeeperError {
        self.corrupt(format!(
            "node {node} does not hold the JSON that it should; find out who wrote it, and correct \
             or remove it"
        ))
    }

    /// The session's thread has ended, so nobody keeps the name any more.
    pub fn client_ended(&self) -> ZooKeeperError {
        self.corrupt("its client has ended unexpectedly; start again")
    }

    /// Somebody else has or had the instance's name.
    pub fn in_use(&self, holder: impl Into<String>) -> ZooKeeperError {
        let (instance, holder) = (self.instance.to_string(), holder.into());
        ZooKeeperError::InstanceInUse { instance, holder }
    }
}

impl fmt::Display for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/snowflake/{}", self.servers, self.name)
    }
}
