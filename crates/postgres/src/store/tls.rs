//! The authorities that TLS trusts, and the client's certificate.

use std::sync::{Arc, OnceLock};

use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use uidring_store::pem::{Authorities, ClientIdentity};

/// The files of TLS, once read.
#[derive(Clone, Default)]
pub struct TlsOptions {
    /// Replaces the authorities that the system trusts.
    authorities: Option<Arc<RootCertStore>>,
    identity: Option<Arc<ClientIdentity>>,
}

impl TlsOptions {
    /// Trusts only these authorities.
    pub fn trust(&mut self, authorities: Authorities) {
        let mut roots = RootCertStore::empty();
        // They were checked when they were read.
        roots.add_parsable_certificates(authorities.certificates);
        self.authorities = Some(Arc::new(roots));
    }

    /// Sets the client's certificate.
    pub fn show(&mut self, identity: ClientIdentity) {
        self.identity = Some(Arc::new(identity));
    }

    /// Returns the configuration of a connection. Without TLS, it does not load the system's authorities.
    pub fn config(&self, is_used: bool) -> ClientConfig {
        let roots = match &self.authorities {
            Some(roots) => Arc::clone(roots),
            None if is_used => system_authorities(),
            None => Arc::new(RootCertStore::empty()),
        };
        let builder = builder().with_root_certificates(roots);
        let Some(identity) = &self.identity else { return builder.with_no_client_auth() };
        let (chain, key) = (identity.chain.clone(), identity.key.clone_key());
        // The key was checked when it was read.
        builder
            .clone()
            .with_client_auth_cert(chain, key)
            .unwrap_or_else(|_| builder.with_no_client_auth())
    }
}

/// Uses ring, whatever else the process links, because rustls panics if it has to choose.
fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let provider = PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider()));
    ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()
        .expect("ring has the default versions of TLS")
}

/// Returns the system's authorities. If there are none, every certificate is refused, and the error says so.
fn system_authorities() -> Arc<RootCertStore> {
    static SYSTEM: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let load = || {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    };
    Arc::clone(SYSTEM.get_or_init(load))
}
