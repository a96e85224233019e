//! Certificates and keys for TLS, from PEM files.

use std::path::Path;

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
pub use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error as TlsError, InconsistentKeys, RootCertStore};
use uidring::Error;

use crate::small_file::{Cause, check_is_private, read_as};

const AUTHORITY: &str = "the authority that signs the server's certificate";
const CERTIFICATE: &str = "the client's certificate";
/// What errors call the file of a key.
pub const KEY: &str = "the key of the client's certificate";

/// A client's certificate, with those that sign it, and its private key.
pub struct ClientIdentity {
    /// The client's certificate first.
    pub chain: Vec<CertificateDer<'static>>,
    /// The parsed key.
    pub key: PrivateKeyDer<'static>,
    /// The file of the chain.
    pub chain_pem: Vec<u8>,
    /// The file of the key.
    pub key_pem: Vec<u8>,
}

impl ClientIdentity {
    /// Reads both files. Like libpq, it refuses a key that others may read.
    ///
    /// # Errors
    ///
    /// [`DatabaseFile`](crate::TableError::DatabaseFile) if a file cannot be read or holds nothing of the kind, if the
    /// key belongs to another certificate, or if others may read it; [`UrlForPath`](crate::TableError::UrlForPath).
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, Error> {
        let (chain, chain_pem) = read_as(CERTIFICATE, certificate, |_| Ok(()), certificates)?;
        let (key, key_pem) = read_as(KEY, key, check_is_private, |pem| {
            // The parser's error might show part of the key.
            let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| no_key(pem))?;
            check_is_of(&chain, &key)?;
            Ok(key)
        })?;
        Ok(Self { chain, key, chain_pem, key_pem })
    }
}

/// The only authorities to trust.
pub struct Authorities {
    /// Their certificates.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The file.
    pub pem: Vec<u8>,
}

impl Authorities {
    /// Reads them from a file.
    ///
    /// # Errors
    ///
    /// [`DatabaseFile`](crate::TableError::DatabaseFile) if the file cannot be read, holds no certificate, or a broken
    /// one; [`UrlForPath`](crate::TableError::UrlForPath).
    pub fn read(path: &Path) -> Result<Self, Error> {
        let (certificates, pem) = read_as(AUTHORITY, path, |_| Ok(()), authorities)?;
        Ok(Self { certificates, pem })
    }
}

fn authorities(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Cause> {
    let all = certificates(pem)?;
    let mut roots = RootCertStore::empty();
    for certificate in &all {
        roots.add(certificate.clone()).map_err(|error| broken(&error))?;
    }
    Ok(all)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Cause> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| broken(&error))?;
    if all.is_empty() {
        return Err("it holds no certificate in PEM form".into());
    }
    Ok(all)
}

fn broken(error: &dyn std::error::Error) -> Cause {
    format!("it holds a certificate that is broken: {error}").into()
}

fn check_is_of(
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
) -> Result<(), Cause> {
    let key = any_supported_type(key).map_err(|_| {
        "its private key is of a kind or length that is not accepted: use ECDSA P-256 or P-384, Ed25519, or \
         RSA with 2,048 bits or more"
    })?;
    match CertifiedKey::new(chain.to_vec(), key).keys_match() {
        Ok(()) | Err(TlsError::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(()),
        Err(TlsError::InconsistentKeys(_)) => {
            Err("it holds the key of another certificate: give the two files that belong together"
                .into())
        }
        Err(error) => Err(broken(&error)),
    }
}

fn no_key(pem: &[u8]) -> &'static str {
    let has = |words: &[u8]| pem.windows(words.len()).any(|part| part == words);
    match has(b"BEGIN ENCRYPTED PRIVATE KEY") || has(b"Proc-Type: 4,ENCRYPTED") {
        true => {
            "its private key is encrypted: give one without a password, as `openssl pkey -in OLD -out NEW` \
             writes it"
        }
        false => "it holds no private key in PEM form",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use uidring::adapter::Chain;

    use super::*;

    #[test]
    fn a_broken_certificate_is_found_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ca.pem");
        let none = "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n";
        let open = "-----BEGIN CERTIFICATE-----\nAAAA\n";
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (pem, word) in [("", "no"), (none, "no"), (open, "broken"), (broken, "broken")] {
            fs::write(&path, pem).expect("writes");
            let Err(error) = Authorities::read(&path) else { panic!("{pem}") };
            let error = Chain(&error).to_string();
            assert!(error.contains(word) && error.contains("ca.pem"), "{error}");
        }
    }
}
