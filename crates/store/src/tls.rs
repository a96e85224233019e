//! The cryptography of TLS, and what errors say of failed TLS.

use std::error::Error;
use std::io;

use rustls::{
    AlertDescription as Alert, CertificateError, Error as TlsError, OtherError, PeerIncompatible,
};

/// Makes ring the process's default unless it has one. If a process links two providers and chooses none, rustls
/// panics.
pub fn choose_cryptography() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Fails only if another thread was faster, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// Says what failed, and what to do if the error tells.
pub fn tls_failed(error: &(dyn Error + 'static)) -> String {
    match tls_error(error).and_then(tls_advice) {
        Some(advice) => format!("TLS failed; {advice}"),
        None => "TLS failed".into(),
    }
}

/// Finds the TLS error inside an error of the system or a driver.
pub fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a TlsError> {
    if let Some(error) = error.downcast_ref::<TlsError>() {
        return Some(error);
    }
    let inner: &(dyn Error + 'static) = match error.downcast_ref::<io::Error>() {
        Some(error) => error.get_ref()?,
        None => error.source()?,
    };
    tls_error(inner)
}

/// Says what is wrong and what to do, if the error tells.
pub fn tls_advice(error: &TlsError) -> Option<&'static str> {
    Some(match error {
        TlsError::InvalidCertificate(why) => return of_certificate(why),
        TlsError::AlertReceived(Alert::ProtocolVersion)
        | TlsError::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        ) => "the server speaks neither TLS 1.2 nor 1.3: let it, or update it",
        // Over TLS 1.2, OpenSSL also sends this to a client without a certificate.
        TlsError::AlertReceived(Alert::HandshakeFailure) => {
            "the server wants a client's certificate and got none, or has no safe cipher suite or kind of key in \
             common with the client: show it a certificate; or update the server, or give it a key of a common \
             kind (ECDSA P-256, or RSA with 2,048 bits or more)"
        }
        TlsError::PeerIncompatible(
            PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon,
        ) => {
            "the server takes no signature that the client's key can make: use a key of another kind"
        }
        TlsError::AlertReceived(Alert::InsufficientSecurity)
        | TlsError::PeerIncompatible(
            PeerIncompatible::NoCipherSuitesInCommon
            | PeerIncompatible::NoKxGroupsInCommon
            | PeerIncompatible::NoSignatureSchemesInCommon,
        ) => {
            "server and client have no safe cipher suite or kind of key in common: update the server, or \
             give it a key of a common kind (ECDSA P-256, or RSA with 2,048 bits or more)"
        }
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
        TlsError::InvalidMessage(_) => "the answer was no TLS: is this a port with TLS?",
        _ => return None,
    })
}

fn of_certificate(why: &CertificateError) -> Option<&'static str> {
    Some(match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "by this machine's clock the server's certificate has expired: the server needs a new certificate, \
             or this clock is wrong"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "by this machine's clock the server's certificate is not valid yet: set this clock right, or \
             give the server a certificate that is valid now"
        }
        CertificateError::UnknownIssuer => {
            "the certificate is not trusted; name the authority that signed the server's certificate, with `ca=PATH`; the \
             file must contain the authority's certificate, not the server's"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "use the host name that is in the certificate"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the server's certificate is not one for servers: give it one with the extended key usage \
             serverAuth"
        }
        CertificateError::Revoked => {
            "the server's certificate was revoked: the server needs a new one"
        }
        CertificateError::BadSignature => {
            "a signature is wrong, or was made with an RSA key of fewer than 2,048 bits, which is too short: \
             give server and authority longer keys, and name the authority that signed this certificate"
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "the certificate is signed in a way that is not accepted, as by SHA-1: have it signed with \
             SHA-256 and ECDSA or RSA"
        }
        CertificateError::Other(OtherError(error)) => {
            match error.downcast_ref::<webpki::Error>()? {
                webpki::Error::CaUsedAsEndEntity => {
                    "the server shows an authority's own certificate (CA:TRUE): give it one that the \
                     authority has signed, with CA:FALSE"
                }
                webpki::Error::EndEntityUsedAsCa => {
                    "the certificate is signed by one that is no authority's (CA:FALSE): have it signed by \
                     an authority"
                }
                webpki::Error::UnsupportedCertVersion => {
                    "the server's certificate is not of X.509 version 3: give it one that is, which needs \
                     extensions, such as the host's name (subjectAltName)"
                }
                _ => return None,
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn errors_say_what_is_wrong_and_what_to_do() {
        let of_webpki = |error| CertificateError::Other(OtherError(Arc::new(error)));
        for (why, words) in [
            (CertificateError::NotValidYet, "by this machine's clock"),
            (CertificateError::Expired, "by this machine's clock"),
            (CertificateError::BadSignature, "fewer than 2,048 bits"),
            (of_webpki(webpki::Error::CaUsedAsEndEntity), "an authority's own certificate"),
            (of_webpki(webpki::Error::UnsupportedCertVersion), "version 3"),
        ] {
            let error = TlsError::InvalidCertificate(why);
            assert!(tls_failed(&error).contains(words), "{error}");
            let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, error));
            assert!(tls_failed(&wrapped).contains(words), "{wrapped}");
        }
        let version = TlsError::AlertReceived(Alert::ProtocolVersion);
        assert!(tls_failed(&version).contains("neither TLS 1.2 nor 1.3"));
        for (error, words) in [
            (TlsError::AlertReceived(Alert::HandshakeFailure), "wants a client's certificate"),
            (PeerIncompatible::NoCipherSuitesInCommon.into(), "no safe cipher suite"),
            (
                PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon.into(),
                "the client's key",
            ),
        ] {
            assert!(tls_failed(&error).contains(words), "{error}: {}", tls_failed(&error));
        }
        let other = TlsError::from(PeerIncompatible::ExtendedMasterSecretExtensionRequired);
        assert_eq!(tls_failed(&other), "TLS failed");
        assert_eq!(tls_failed(&io::Error::other("else")), "TLS failed");
    }
}
