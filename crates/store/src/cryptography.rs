//! The cryptography that TLS uses.

/// Makes ring the process's default unless it has one. If a process links two providers and chooses none, rustls
/// panics.
pub fn choose_cryptography() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Fails if another thread was faster, and then there is a default.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
