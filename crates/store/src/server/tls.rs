//! What an error says of TLS that failed.

use std::error::Error;

use rustls::{AlertDescription as Alert, CertificateError, Error as TlsError};

/// Returns what failed and what to do about it, as far as the error tells.
pub fn tls_failed(error: &(dyn Error + 'static)) -> String {
    let advice = match error.downcast_ref() {
        Some(TlsError::InvalidCertificate(why)) => match why {
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
        Some(TlsError::AlertReceived(
            Alert::UnknownCA
            | Alert::CertificateRequired
            | Alert::BadCertificate
            | Alert::DecryptError
            | Alert::CertificateExpired
            | Alert::CertificateRevoked
            | Alert::CertificateUnknown,
        )) => {
            "; the server wants a client's certificate that is valid, and of an authority that it knows"
        }
        _ => "",
    };
    format!("TLS failed{advice}")
}
