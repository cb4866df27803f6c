//! Certificates for tests: an authority, and nodes and clients that it vouches for.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    folder: PathBuf,
}

/// A certificate and its key, in files.
#[derive(Clone, Debug)]
pub struct Identity {
    pub cert: String,
    pub key: String,
}

impl Authority {
    /// A new authority that keeps its files in the folder.
    pub fn new(folder: &Path) -> Self {
        fs::create_dir_all(folder).expect("a folder for certificates");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).expect("signed by itself").pem();
        fs::write(folder.join("ca.pem"), &pem).expect("written");
        Self { issuer: Issuer::new(params, key), pem, folder: folder.to_owned() }
    }

    /// The path of its certificate.
    pub fn file(&self) -> String {
        self.folder.join("ca.pem").display().to_string()
    }

    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Somebody on this machine.
    pub fn identity(&self, name: &str) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let params = CertificateParams::new(names).expect("names");
        let cert = params.signed_by(&key, &self.issuer).expect("signed");
        let file = |kind: &str, pem: String| {
            let path = self.folder.join(format!("{name}.{kind}.pem"));
            fs::write(&path, pem).expect("written");
            path.display().to_string()
        };
        Identity { cert: file("cert", cert.pem()), key: file("key", key.serialize_pem()) }
    }
}
