//! The TLS options of a URL.

use std::path::PathBuf;

use super::{AUTHORITY, CERTIFICATE, Given, KEY, TLS};

/// Whether to use TLS, and with which files.
pub struct Tls {
    /// `None` if the URL does not say. A file implies [`TlsMode::Verify`].
    pub mode: Option<TlsMode>,
    /// The only authorities to trust.
    pub authority: Option<PathBuf>,
    /// The client's certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Whether to use TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMode {
    /// No TLS.
    Off,
    /// TLS with a certificate that names the host and is signed by a trusted authority.
    Verify,
    /// TLS with any certificate.
    Unverified,
}

impl Tls {
    /// Reads the options.
    ///
    /// # Errors
    ///
    /// Says which options contradict each other, or which is missing.
    pub fn of(given: &Given) -> Result<Self, String> {
        let mode = match given.text(&TLS) {
            None => None,
            Some("verify") => Some(TlsMode::Verify),
            Some("unverified") => Some(TlsMode::Unverified),
            Some(_) => Some(TlsMode::Off),
        };
        let authority = given.path(&AUTHORITY);
        let identity = match (given.path(&CERTIFICATE), given.path(&KEY)) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => return Err("`cert` needs `key`, the file of its private key".into()),
            (None, Some(_)) => {
                return Err("`key` needs `cert`, the certificate that it belongs to".into());
            }
        };
        let contradicts =
            |name: &str, mode: &str| Err(format!("`{name}` and tls={mode} contradict each other"));
        match mode {
            Some(TlsMode::Off) if authority.is_some() => contradicts("ca", "off"),
            Some(TlsMode::Off) if identity.is_some() => contradicts("cert", "off"),
            Some(TlsMode::Unverified) if authority.is_some() => contradicts("ca", "unverified"),
            None if authority.is_some() || identity.is_some() => {
                Ok(Self { mode: Some(TlsMode::Verify), authority, identity })
            }
            mode => Ok(Self { mode, authority, identity }),
        }
    }
}
