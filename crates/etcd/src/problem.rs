//! Why a request failed, and whether to retry it.

use std::time::Duration;

use uidring::Error;
use uidring::StoreErrorKind::{
    self, Corrupt, Denied, Invalid, NotFound, Other, TimedOut, Unreachable,
};
use uidring::adapter::Chain;
use uidring_store::{Fitting, tls_advice, tls_error};

use crate::EtcdStore;

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
    /// The next worker id is not in the layout and the range.
    Unfit { next: u64, fitting: Fitting },
    /// Others were faster in every attempt.
    Contended,
    /// The error for callers.
    Final(Error),
}

impl From<ureq::Error> for Problem {
    fn from(error: ureq::Error) -> Self {
        Self::Http(Box::new(error))
    }
}

impl Problem {
    /// Whether to log in again, then retry.
    pub fn is_logged_out(&self) -> bool {
        let Self::Refused { code, message } = self else { return false };
        *code == 16 || has(message, "auth token") || has(message, "auth store is old")
    }

    /// Whether to retry on the next endpoint.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Http(error) => tls_problem(error).is_none(),
            Self::NotEtcd { status } => *status >= 500,
            Self::Refused { code, message } => {
                matches!(code, 1 | 2 | 4 | 10 | 14) || has(message, "too many requests")
            }
            Self::Contended => true,
            _ => false,
        }
    }

    /// What failed, for the log.
    pub fn brief(&self) -> String {
        match self {
            Self::Http(error) => Chain(&**error).to_string(),
            Self::Refused { message, .. } => message.clone(),
            Self::NotEtcd { status } => format!("HTTP status {status}"),
            _ => "busy".into(),
        }
    }

    /// Returns the error for callers.
    pub fn error(self, store: &EtcdStore) -> Error {
        let (kind, problem) = match self {
            Self::Final(error) => return error,
            Self::Unfit { next, fitting } => return fitting.error(store.to_string(), next),
            Self::Http(error) => {
                let (kind, problem) = of_http(&error, store.deadline);
                return store.error(kind, problem, Some(error));
            }
            Self::Refused { message, .. } if has(&message, "space exceeded") => {
                let problem = "its database is full (alarm NOSPACE): compact and defragment it, or raise \
                               --quota-backend-bytes, then `etcdctl alarm disarm`";
                (Other, problem.into())
            }
            Self::Refused { code, message } => {
                let (kind, remedy) = of_etcd(code, &message);
                (kind, format!("{message}{remedy}"))
            }
            Self::NotEtcd { status: 404 } => {
                let problem = "it has no /v3/kv: that needs etcd 3.4 or later, with its gateway on \
                               (--enable-grpc-gateway)";
                (NotFound, problem.into())
            }
            Self::NotEtcd { status } => {
                let problem = format!(
                    "the answer, of HTTP status {status}, is not one of etcd's gateway: check host and \
                     port, and whether the servers have TLS (tls=verify in the URL, or https:// before each endpoint in Rust)"
                );
                (Other, problem)
            }
            Self::Damaged(problem) | Self::Flawed(problem) => (Corrupt, problem),
            Self::Contended => {
                (TimedOut, "others changed the same keys each time; try again".into())
            }
        };
        store.error(kind, problem, None)
    }
}

/// etcd uses one gRPC code for many refusals, so their texts, which are never translated, must tell them apart.
fn has(message: &str, words: &str) -> bool {
    message.contains(words)
}

/// What to do if a certificate or a server without TLS is the cause, so that retrying does not help.
fn tls_problem(error: &ureq::Error) -> Option<String> {
    let advice = match error {
        ureq::Error::Tls(_) | ureq::Error::Pem(_) => None,
        ureq::Error::Rustls(error) => tls_advice(error),
        ureq::Error::Io(error) => tls_advice(tls_error(error)?),
        _ => return None,
    };
    let advice = advice.unwrap_or(
        "check the certificate authority, the names in the servers' certificates, and whether the servers \
         want a client's",
    );
    Some(format!("TLS failed; {advice}"))
}

fn of_http(error: &ureq::Error, limit: Duration) -> (StoreErrorKind, String) {
    if let Some(problem) = tls_problem(error) {
        return (Denied, problem);
    }
    if let ureq::Error::Timeout(_) = error {
        let problem = format!(
            "no answer within {limit:?}: either it cannot be reached, or it has lost its majority of members"
        );
        return (TimedOut, problem);
    }
    let problem = format!(
        "no connection: {error}; are its members running, and do they have TLS \
         (tls=verify in the URL, or https:// before each endpoint in Rust), or want a client's certificate?"
    );
    (Unreachable, problem)
}

fn of_etcd(code: i64, message: &str) -> (StoreErrorKind, &'static str) {
    match code {
        _ if has(message, "learner") => {
            (Unreachable, ": this member is a learner; name voting members, or promote it")
        }
        _ if has(message, "corrupt") => {
            (Corrupt, ": replace the member that differs before anything else")
        }
        _ if has(message, "authentication is not enabled") => {
            (Invalid, ": leave out user and password, or enable it with `etcdctl auth enable`")
        }
        _ if has(message, "authentication failed") => (Denied, ": check user and password"),
        _ if has(message, "user name is empty") => {
            (Denied, ": this cluster needs user and password")
        }
        7 => (
            Denied,
            ": grant the user's role readwrite to the prefix (`etcdctl role grant-permission ROLE \
             --prefix=true readwrite PREFIX`)",
        ),
        16 => (Denied, ""),
        14 if has(message, "leader") => {
            (Unreachable, ": a majority of the members has to be up and connected")
        }
        14 => (Unreachable, ""),
        1 | 2 | 4 | 10 => (TimedOut, ""),
        _ => (Other, ""),
    }
}
