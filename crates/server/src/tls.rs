//! TLS for listeners.

use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use uidring::adapter::{Chain, error_traits};
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// Why a certificate and its key cannot be used.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The certificates are not PEM.
    #[error("reading certificates: {0}")]
    Certificates(String),
    /// There is no certificate.
    #[error("there is no certificate")]
    NoCertificate,
    /// The key is not PEM.
    #[error("reading the private key: {0}")]
    Key(String),
    /// They do not belong together, or their kind is not supported.
    #[error(transparent)]
    Unfit(#[from] rustls::Error),
}

error_traits!(TlsError);

/// Returns when all of these PEM certificates are valid.
///
/// # Errors
///
/// [`TlsError`] if they are not certificates.
pub fn certificate_validity(certificates: &[u8]) -> Result<Range<SystemTime>, TlsError> {
    let (mut begins, mut ends) = (Vec::new(), Vec::new());
    for der in chain(certificates)? {
        let certificate = Certificate::from_der(&der);
        let certificate = certificate.map_err(|error| TlsError::Certificates(error.to_string()))?;
        begins.push(certificate.tbs_certificate.validity.not_before.to_system_time());
        ends.push(certificate.tbs_certificate.validity.not_after.to_system_time());
    }
    let valid = begins.into_iter().max().zip(ends.into_iter().min());
    valid.map(|(begin, end)| begin..end).ok_or(TlsError::NoCertificate)
}

/// Shows nothing of the contents, which may be secret.
fn kind(error: pem::Error) -> String {
    match error {
        pem::Error::NoItemsFound => "there is none in PEM".to_owned(),
        _ => "this is not PEM".to_owned(),
    }
}

fn chain(certificates: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates).collect();
    let certificates = certificates.map_err(|error| TlsError::Certificates(kind(error)))?;
    if certificates.is_empty() {
        return Err(TlsError::NoCertificate);
    }
    Ok(certificates)
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    let has = |words: &[u8]| pem.windows(words.len()).any(|part| part == words);
    if has(b"BEGIN ENCRYPTED PRIVATE KEY") || has(b"Proc-Type: 4,ENCRYPTED") {
        return Err(TlsError::Key(
            "it is encrypted: give one without a password, as `openssl pkey -in OLD -out NEW` writes it"
                .to_owned(),
        ));
    }
    let key = PrivateKeyDer::from_pem_slice(pem).map_err(|error| TlsError::Key(kind(error)))?;
    match ring::sign::any_supported_type(&key) {
        Ok(_) => Ok(key),
        Err(_) => Err(TlsError::Key(
            "it is of a kind or length that is not accepted: use ECDSA P-256 or P-384, Ed25519, or RSA with \
             2,048 bits or more"
                .to_owned(),
        )),
    }
}

/// Builds an acceptor from a certificate chain and its key.
pub fn acceptor(certificates: &[u8], key: &[u8]) -> Result<TlsAcceptor, TlsError> {
    let certificates = chain(certificates)?;
    let key = private_key(key)?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => TlsError::Key(
                "it is that of another certificate: give the two files that belong together"
                    .to_owned(),
            ),
            rustls::Error::InvalidCertificate(error) => {
                TlsError::Certificates(format!("the first one is broken: {error}"))
            }
            error => error.into(),
        })?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
