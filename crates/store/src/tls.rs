//! What an error says of TLS that failed.

use std::error::Error;

use rustls::{AlertDescription as Alert, CertificateError, Error as TlsError};

/// Returns what failed and what to do about it, as far as the error tells.
pub fn tls_failed(error: &(dyn Error + 'static)) -> String {
    match error.downcast_ref().and_then(tls_advice) {
        Some(advice) => format!("TLS failed; {advice}"),
        None => "TLS failed".into(),
    }
}

/// Returns what to do about an error, if it tells.
pub fn tls_advice(error: &TlsError) -> Option<&'static str> {
    Some(match error {
        TlsError::InvalidCertificate(why) => match why {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the server needs a new certificate"
            }
            CertificateError::UnknownIssuer => {
                "name the authority that signed the server's certificate"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "use the host name that is in the certificate"
            }
            _ => return None,
        },
        TlsError::AlertReceived(
            Alert::UnknownCA
            | Alert::CertificateRequired
            | Alert::BadCertificate
            | Alert::DecryptError
            | Alert::CertificateExpired
            | Alert::CertificateRevoked
            | Alert::CertificateUnknown,
        ) => {
            "the server wants a client's certificate that is valid, and of an authority that it knows"
        }
        _ => return None,
    })
}
