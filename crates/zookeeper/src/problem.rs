//! What goes wrong with a registry, and what it means.

use std::time::Duration;

use uidring::{Error, StoreErrorKind, Timestamp};
use zookeeper_client::Error as Failure;

use super::Registry;
use crate::ZooKeeperError;

/// Why something was not done.
#[derive(Clone, Debug)]
pub enum Problem {
    /// No server could be asked, or none has answered: a start may go on from the local file.
    Away(String),
    /// A server has answered, and would not do it.
    Denied(String),
    /// The registry holds what speaks against this instance.
    Refused(Refusal),
}

/// What the registry holds against an instance.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// Somebody else has the name, or had it.
    InUse(String),
    /// The number is over the layout's greatest worker id.
    Full { number: u64, max: u64 },
    /// A timestamp is ahead of the clock.
    ClockBehind { place: String, stored: Timestamp, now: Timestamp },
    /// The clock is too far from those of the others.
    ClocksDiffer { peers: usize, by_millis: i64, limit: Duration },
    /// The servers keep a session for so long that the budget does not fit into it.
    SessionTooShort { granted: Duration, max_outage: Duration },
    /// A node is missing, or not what it should be.
    Nodes(String),
}

impl Problem {
    pub fn explain(self, registry: &Registry) -> Error {
        match self {
            Self::Away(problem) => registry.error(StoreErrorKind::Unreachable, problem),
            Self::Denied(problem) => registry.error(StoreErrorKind::Denied, problem),
            Self::Refused(refusal) => refusal.explain(registry),
        }
    }

    /// There was a connection, but no answer.
    pub fn no_answer(within: Duration) -> Self {
        Self::Away(format!("connected, but no answer within {within:?}"))
    }

    /// A node that has to be there is not.
    pub fn missing_node() -> Self {
        Self::Denied(
            "a node is missing; the path behind the hosts has to be there, and nobody may remove \
             nodes while instances run"
                .into(),
        )
    }

    /// A node that holds what nobody can read.
    pub fn unreadable(node: &str) -> Self {
        Self::Refused(Refusal::Nodes(format!(
            "node {node} holds no JSON of the form that it should; see who wrote it, and put it \
             right or remove it"
        )))
    }
}

impl Refusal {
    pub fn explain(self, registry: &Registry) -> Error {
        match self {
            Self::InUse(holder) => Error::from(ZooKeeperError::InstanceInUse {
                instance: registry.instance.name().into(),
                holder,
            }),
            Self::Full { number, max } => Error::from(ZooKeeperError::RegistryFull {
                registry: registry.to_string(),
                number,
                max,
            }),
            Self::ClockBehind { place, stored, now } => {
                Error::from(ZooKeeperError::ClockBehindStored { place, stored, now })
            }
            Self::ClocksDiffer { peers, by_millis, limit } => {
                Error::from(ZooKeeperError::PeerClocksDiffer { peers, by_millis, limit })
            }
            Self::SessionTooShort { granted, max_outage } => {
                Error::from(ZooKeeperError::SessionTooShort {
                    registry: registry.to_string(),
                    granted,
                    max_outage,
                })
            }
            Self::Nodes(problem) => registry.error(StoreErrorKind::Corrupt, problem),
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NoAuth => Self::Denied(
                "this user may not do that; give the user and password that the nodes were made \
                 with, or have their access lists changed"
                    .into(),
            ),
            Failure::AuthFailed => {
                Self::Denied("the servers do not let this user in; check user and password".into())
            }
            Failure::NoNode => Self::missing_node(),
            Failure::InvalidAcl => Self::Denied("the servers do not know this user".into()),
            Failure::QuotaExceeded
            | Failure::NodeExists
            | Failure::NotEmpty
            | Failure::BadVersion
            | Failure::NoChildrenForEphemerals
            | Failure::Unimplemented
            | Failure::MarshallingError
            | Failure::BadArguments(_)
            | Failure::UnexpectedErrorCode(_) => Self::Denied(failure.to_string()),
            // Everything else has to do with the connection or the session.
            _ => Self::Away(failure.to_string()),
        }
    }
}
