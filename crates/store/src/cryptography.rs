//! Which library of cryptography TLS uses.

/// Makes ring the process's choice unless it has chosen. rustls panics if a process links two libraries of
/// cryptography and has chosen none.
pub fn choose_cryptography() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // It fails if another thread was faster: then there is one.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
