//! Why a request failed, and whether to retry it.

use std::time::Duration;

use uidring::{Error, StoreErrorKind};
use uidring_store::{Fitting, TableError, tls_advice, tls_error};

use crate::error::{self, Cause};

#[derive(Debug)]
pub enum Problem {
    /// No connection, no TLS, or no answer. The request may have been executed.
    Http(Box<ureq::Error>),
    /// An answer that etcd's gateway would not give.
    NotEtcd { status: u16 },
    /// etcd refused the request, with a gRPC code.
    Refused { code: i64, message: String },
    /// A key's value must not be used, and other keys may be wrong, too.
    Damaged(String),
    /// One key's value must not be used. Others may be fine.
    Flawed(String),
    /// A lease is lost.
    Lost { worker_id: u64, why: String },
    /// The next worker id is not in the layout and the range.
    Unfit { next: u64, fitting: Fitting },
    /// The leases have another layout.
    Foreign { found: String, layout: String },
    /// Others were faster in every attempt.
    Contended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Retry on the next endpoint.
    Retry,
    /// Log in again, then retry.
    LogIn,
    Fail,
}

impl From<ureq::Error> for Problem {
    fn from(error: ureq::Error) -> Self {
        Self::Http(Box::new(error))
    }
}

impl Problem {
    pub fn action(&self) -> Action {
        match self {
            Self::Http(error) if is_tls(error) => Action::Fail,
            Self::Http(_) | Self::Contended => Action::Retry,
            Self::NotEtcd { status } if *status >= 500 => Action::Retry,
            Self::Refused { code, message } => {
                if *code == 16 || has(message, "auth token") || has(message, "auth store is old") {
                    Action::LogIn
                } else if matches!(code, 1 | 2 | 4 | 10 | 14) || has(message, "too many requests") {
                    Action::Retry
                } else {
                    Action::Fail
                }
            }
            Self::NotEtcd { .. }
            | Self::Damaged(_)
            | Self::Flawed(_)
            | Self::Lost { .. }
            | Self::Unfit { .. }
            | Self::Foreign { .. } => Action::Fail,
        }
    }

    pub fn error(self, cluster: String, limit: Duration) -> Error {
        let (kind, problem, source): (_, String, Option<Cause>) = match self {
            Self::Unfit { next, fitting } => return fitting.error(cluster, next),
            Self::Lost { worker_id, why } => {
                return Error::LeaseLost { worker_id, place: cluster, why };
            }
            Self::Foreign { found, layout } => {
                return TableError::LeaseTableLayout { place: cluster, found, layout }.into();
            }
            Self::Refused { message, .. } if has(&message, "space exceeded") => {
                let problem = "its database is full (alarm NOSPACE): compact and defragment it, or raise \
                               --quota-backend-bytes, then `etcdctl alarm disarm`";
                (StoreErrorKind::Other, problem.into(), None)
            }
            Self::Http(error) => {
                let (kind, problem) = of_http(&error, limit);
                (kind, problem, Some(error))
            }
            Self::NotEtcd { status: 404 } => {
                let problem = "it has no /v3/kv: that needs etcd 3.4 or later, with its gateway on \
                               (--enable-grpc-gateway)";
                (StoreErrorKind::NotFound, problem.into(), None)
            }
            Self::NotEtcd { status } => {
                let problem = format!(
                    "the answer, of HTTP status {status}, is not one of etcd's gateway: check host and \
                     port, and whether the servers have TLS (tls=verify in the URL, or https:// before each endpoint in Rust)"
                );
                (StoreErrorKind::Other, problem, None)
            }
            Self::Refused { code, message } => {
                let (kind, remedy) = of_etcd(code, &message);
                (kind, format!("{message}{remedy}"), None)
            }
            Self::Damaged(problem) | Self::Flawed(problem) => {
                (StoreErrorKind::Corrupt, problem, None)
            }
            Self::Contended => {
                let problem = "others changed the same keys each time; try again".into();
                (StoreErrorKind::TimedOut, problem, None)
            }
        };
        error::cluster(&cluster, kind, problem, source)
    }
}

/// etcd uses one gRPC code for many refusals, so their texts, which are never translated, must tell them apart.
fn has(message: &str, words: &str) -> bool {
    message.contains(words)
}

/// Whether a certificate or a server without TLS is the cause, so that retrying does not help.
fn is_tls(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) | ureq::Error::Pem(_) => true,
        ureq::Error::Io(error) => tls_error(error).is_some(),
        _ => false,
    }
}

fn tls_problem(error: &ureq::Error) -> String {
    let advice = match error {
        ureq::Error::Rustls(error) => tls_advice(error),
        ureq::Error::Io(error) => tls_error(error).and_then(tls_advice),
        _ => None,
    };
    let advice = advice.unwrap_or(
        "check the certificate authority, the names in the servers' certificates, and whether the servers \
         want a client's",
    );
    format!("TLS failed; {advice}")
}

fn of_http(error: &ureq::Error, limit: Duration) -> (StoreErrorKind, String) {
    match error {
        error if is_tls(error) => (StoreErrorKind::Denied, tls_problem(error)),
        ureq::Error::Timeout(_) => {
            let problem = format!(
                "no answer within {limit:?}: either it cannot be reached, or it has lost its majority \
                 of members"
            );
            (StoreErrorKind::TimedOut, problem)
        }
        error => {
            let problem = format!(
                "no connection: {error}; are its members running, and do they have TLS \
                 (tls=verify in the URL, or https:// before each endpoint in Rust), or want a client's certificate?"
            );
            (StoreErrorKind::Unreachable, problem)
        }
    }
}

fn of_etcd(code: i64, message: &str) -> (StoreErrorKind, &'static str) {
    match code {
        _ if has(message, "learner") => (
            StoreErrorKind::Unreachable,
            ": this member is a learner; name voting members, or promote it",
        ),
        _ if has(message, "corrupt") => {
            (StoreErrorKind::Corrupt, ": replace the member that differs before anything else")
        }
        _ if has(message, "authentication is not enabled") => (
            StoreErrorKind::Invalid,
            ": leave out user and password, or enable it with `etcdctl auth enable`",
        ),
        _ if has(message, "authentication failed") => {
            (StoreErrorKind::Denied, ": check user and password")
        }
        _ if has(message, "user name is empty") => {
            (StoreErrorKind::Denied, ": this cluster needs user and password")
        }
        7 => (
            StoreErrorKind::Denied,
            ": grant the user's role readwrite to the prefix (`etcdctl role grant-permission ROLE \
             --prefix=true readwrite PREFIX`)",
        ),
        16 => (StoreErrorKind::Denied, ""),
        14 if has(message, "leader") => {
            (StoreErrorKind::Unreachable, ": a majority of the members has to be up and connected")
        }
        14 => (StoreErrorKind::Unreachable, ""),
        1 | 2 | 4 | 10 => (StoreErrorKind::TimedOut, ""),
        _ => (StoreErrorKind::Other, ""),
    }
}
