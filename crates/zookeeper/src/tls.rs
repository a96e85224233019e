//! TLS settings for the servers.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use uidring_store::choose_cryptography;
use uidring_store::pem::ClientIdentity;
use zookeeper_client::TlsOptions;

/// Authorities and certificates, as read from files.
#[derive(Clone, Default)]
pub struct Tls {
    /// Replaces the system's authorities.
    pub authorities: Option<Arc<[CertificateDer<'static>]>>,
    pub identity: Option<Arc<ClientIdentity>>,
}

impl Tls {
    /// Returns the options for the client, and the same for handshakes of our own.
    pub fn prepare(
        &self,
    ) -> Result<(TlsOptions, Arc<ClientConfig>), Box<dyn StdError + Send + Sync>> {
        let authorities = match &self.authorities {
            Some(authorities) => Cow::Borrowed(&**authorities),
            None => Cow::Owned(rustls_native_certs::load_native_certs().certs),
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(authorities.iter().cloned());
        if roots.is_empty() {
            return Err(
                "the system trusts no authority; install its certificates (Debian's package \
                        ca-certificates), or name the authority that signs the servers'"
                    .into(),
            );
        }
        // Like the client, this uses the process's provider, and would panic without one.
        choose_cryptography();
        let config = ClientConfig::builder().with_root_certificates(roots);
        let mut options = TlsOptions::new().with_pem_ca(&pem(&authorities))?;
        let config = match &self.identity {
            None => config.with_no_client_auth(),
            Some(identity) => {
                let [chain, key] = [&identity.chain_pem, &identity.key_pem]
                    .map(|pem| String::from_utf8_lossy(pem));
                options = options.with_pem_identity(&chain, &key)?;
                config.with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())?
            }
        };
        Ok((options, Arc::new(config)))
    }
}

fn pem(certificates: &[CertificateDer<'_>]) -> String {
    let one = |certificate: &CertificateDer<'_>| {
        let base64 = STANDARD.encode(certificate);
        format!("-----BEGIN CERTIFICATE-----\n{base64}\n-----END CERTIFICATE-----\n")
    };
    certificates.iter().map(one).collect()
}
