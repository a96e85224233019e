//! What a failure means, whether it may pass, and what to do about it.

use std::io::{self, ErrorKind};

use mysql_async::{DriverError, Error as Failure, IoError, ServerError};

use super::MySqlServer;
use super::session::Problem;
use crate::error::Error;

/// Whether another attempt may succeed without anybody doing anything.
pub fn is_transient(problem: &Problem) -> bool {
    match problem {
        Problem::Silence(_) => true,
        Problem::Refused(_) | Problem::UsedUp { .. } => false,
        Problem::Driver(Failure::Io(IoError::Io(error))) => {
            // InvalidData is a handshake that failed: TLS, or no MySQL server.
            !matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::PermissionDenied)
        }
        Problem::Driver(Failure::Driver(DriverError::ConnectionClosed)) => true,
        Problem::Driver(Failure::Server(error)) => matches!(
            error.code,
            // Too many connections, of all or of this user; shutting down; a cluster's node that
            // is not ready.
            1040 | 1203 | 1053 | 1047
            // Lock wait, deadlock; a query or connection that somebody killed.
            | 1205 | 1213 | 1317 | 1927
        ),
        Problem::Driver(_) => false,
    }
}

pub fn explain(server: &MySqlServer, problem: &Problem) -> Error {
    server.error(match problem {
        Problem::UsedUp { row, max } => {
            let (row, max, server) = (*row, *max, server.to_string());
            return Error::WorkerIdsUsedUp { server, row, max };
        }
        Problem::Refused(why) => why.clone(),
        Problem::Silence(limit) => format!(
            "no answer within {limit:?}; is a MySQL server there, and does the network let us \
             through?"
        ),
        Problem::Driver(Failure::Server(error)) => of_server(server, error),
        Problem::Driver(Failure::Io(IoError::Io(error))) => of_connection(error),
        Problem::Driver(Failure::Io(IoError::Tls(error))) => tls(error),
        Problem::Driver(Failure::Driver(DriverError::NoClientSslFlagFromServer)) => {
            "TLS was asked for, and the server offers none; give it a certificate, or do without"
                .into()
        }
        Problem::Driver(Failure::Driver(DriverError::ConnectionClosed)) => {
            "the server closed the connection".into()
        }
        // The driver's texts name neither user nor password, but for those about URLs, which have
        // been read long before.
        Problem::Driver(Failure::Driver(error)) => format!("no understanding: {error}"),
        Problem::Driver(Failure::Url(_)) => "the URL cannot be used".into(),
        Problem::Driver(Failure::Other(error)) => error.to_string(),
    })
}

fn of_connection(error: &io::Error) -> String {
    let inner = error.get_ref();
    if let Some(error) = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return tls(error);
    }
    match error.kind() {
        ErrorKind::ConnectionRefused => format!("{error}; is the server running?"),
        ErrorKind::NotFound => format!("{error}; is the server running, and the socket its own?"),
        ErrorKind::UnexpectedEof => "the server closed the connection".into(),
        ErrorKind::InvalidData => format!("{error}; is this a MySQL server?"),
        _ => error.to_string(),
    }
}

fn tls(error: &(dyn std::error::Error + 'static)) -> String {
    use rustls::{CertificateError, Error as Tls};
    let advice = match error.downcast_ref::<Tls>() {
        Some(Tls::InvalidCertificate(why)) => match why {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "; the server needs a new certificate"
            }
            CertificateError::UnknownIssuer => {
                "; name the authority that signed the server's certificate"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "; use the host name that is in the certificate"
            }
            _ => "",
        },
        _ => "",
    };
    format!("TLS failed: {error}{advice}")
}

fn of_server(server: &MySqlServer, error: &ServerError) -> String {
    let ServerError { code, message, .. } = error;
    let advice = match code {
        1045 if server.demands_tls() => "; check user and password, percent-encoded in a URL",
        1045 => {
            "; check user and password, percent-encoded in a URL; the account may also demand TLS"
        }
        1044 => "; grant the account its rights on this database",
        1049 => "; create it, or name another",
        1142 | 1143 => {
            "; grant it: an assignment needs SELECT and INSERT on the table, pruning also DELETE"
        }
        1146 => "; create it (`uidring worker init`), or allow the first start to",
        1290 | 1836 => "; it takes no rows now: name the primary",
        1054 | 1136 | 1364 | 1366 | 1406 => "; WORKER_NODE is not as Baidu's script makes it",
        1062 | 1467 => {
            "; the table's AUTO_INCREMENT is behind its rows, or at its end: set it above the \
             greatest ID with ALTER TABLE"
        }
        3159 => "; ask for TLS",
        _ => "",
    };
    format!("{message} (error {code}){advice}")
}
