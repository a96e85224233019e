//! An authority and the certificates that it signs for servers on this host.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// An authority that is trusted only where its certificate is given.
pub struct Authority {
    folder: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its private key, as PEM files.
pub struct Certificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    /// Creates an authority that keeps its files in this folder.
    pub fn new(folder: &Path) -> Self {
        // With equal names, clients would take one authority for the other and find a bad signature.
        let name = folder.file_name().expect("a folder with a name").to_string_lossy();
        let mut params = params(&format!("authority of {name}"), &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, key()).expect("it signs itself");
        let authority = Self { folder: folder.to_owned(), issuer };
        fs::write(authority.certificate(), authority.issuer.pem()).expect("it writes");
        authority
    }

    /// Returns the path of the authority's own certificate, a PEM file.
    pub fn certificate(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// Signs a certificate for `localhost` and 127.0.0.1.
    pub fn server(&self) -> Certificate {
        self.sign("server", server("a server", &["localhost", "127.0.0.1"]))
    }

    /// Like [`server`](Self::server), but expired.
    pub fn expired(&self) -> Certificate {
        let mut params = server("an old server", &["localhost", "127.0.0.1"]);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2020, 2, 1);
        self.sign("expired", params)
    }

    /// Like [`server`](Self::server), but it expires in three days.
    pub fn ending(&self) -> Certificate {
        let mut params = server("a server of these days", &["localhost", "127.0.0.1"]);
        params.not_after = (SystemTime::now() + Duration::from_secs(3 * 86_400)).into();
        self.sign("ending", params)
    }

    /// Like [`server`](Self::server), but marked as an authority's.
    pub fn own(&self) -> Certificate {
        let mut params = server("an authority as a server", &["localhost", "127.0.0.1"]);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        self.sign("own", params)
    }

    /// Like [`server`](Self::server), but not valid yet.
    pub fn early(&self) -> Certificate {
        let mut params = server("a new server", &["localhost", "127.0.0.1"]);
        params.not_before = date_time_ymd(2200, 1, 1);
        params.not_after = date_time_ymd(2200, 2, 1);
        self.sign("early", params)
    }

    /// Signs a certificate for another host's name.
    pub fn stranger(&self) -> Certificate {
        self.sign("stranger", server("another server", &["elsewhere.example"]))
    }

    /// Signs a certificate for a client that names its user.
    pub fn client(&self, user: &str) -> Certificate {
        let mut params = params(user, &[]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&format!("client-{user}"), params)
    }

    /// Returns the mariadbd arguments that show a certificate.
    pub fn arguments(&self, shown: &Certificate) -> [String; 3] {
        [
            format!("--ssl-ca={}", self.certificate().display()),
            format!("--ssl-cert={}", shown.certificate.display()),
            format!("--ssl-key={}", shown.key.display()),
        ]
    }

    fn sign(&self, name: &str, params: CertificateParams) -> Certificate {
        let pair = key();
        let signed = params.signed_by(&pair, &self.issuer).expect("it signs");
        let certificate = self.folder.join(format!("{name}.pem"));
        let key = self.folder.join(format!("{name}.key.pem"));
        fs::write(&certificate, signed.pem()).expect("it writes");
        fs::write(&key, pair.serialize_pem()).expect("it writes");
        // Clients refuse keys that others can read.
        #[cfg(unix)]
        fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .expect("ours");
        Certificate { certificate, key }
    }
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

fn server(name: &str, hosts: &[&str]) -> CertificateParams {
    let mut params = params(name, hosts);
    // An etcd member is also its own client.
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params
}

/// Valid for centuries.
fn params(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
    let mut params = CertificateParams::new(hosts).expect("names of hosts");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
