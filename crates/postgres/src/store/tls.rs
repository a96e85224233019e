//! Whom TLS trusts, and what it shows.

use std::sync::{Arc, OnceLock};

use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use uidring_store::pem::{Authorities, ClientIdentity};

/// What TLS is made of, read from files.
#[derive(Clone, Default)]
pub struct TlsOptions {
    /// In place of the authorities that the system trusts.
    authorities: Option<Arc<RootCertStore>>,
    identity: Option<Arc<ClientIdentity>>,
}

impl TlsOptions {
    /// Trusts these authorities alone.
    pub fn trust(&mut self, authorities: Authorities) {
        let mut roots = RootCertStore::empty();
        // Each was seen to be whole.
        roots.add_parsable_certificates(authorities.certificates);
        self.authorities = Some(Arc::new(roots));
    }

    /// Shows a certificate.
    pub fn show(&mut self, identity: ClientIdentity) {
        self.identity = Some(Arc::new(identity));
    }

    /// Returns the options of a connection; nothing is trusted where TLS is not used.
    pub fn config(&self, is_used: bool) -> ClientConfig {
        let roots = match &self.authorities {
            Some(roots) => Arc::clone(roots),
            None if is_used => system_authorities(),
            None => Arc::new(RootCertStore::empty()),
        };
        let builder = builder().with_root_certificates(roots);
        let Some(identity) = &self.identity else { return builder.with_no_client_auth() };
        let (chain, key) = (identity.chain.clone(), identity.key.clone_key());
        // It was seen to fit when it was read.
        builder
            .clone()
            .with_client_auth_cert(chain, key)
            .unwrap_or_else(|_| builder.with_no_client_auth())
    }
}

/// With ring, whatever else the process links: rustls would panic if it had to choose.
fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let provider = PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider()));
    ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()
        .expect("ring has the default versions of TLS")
}

/// What the system trusts. Where that is nothing, no certificate will do, and the error says so.
fn system_authorities() -> Arc<RootCertStore> {
    static SYSTEM: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let load = || {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    };
    Arc::clone(SYSTEM.get_or_init(load))
}
