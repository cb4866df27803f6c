//! Authorities and certificates for trying a cluster with TLS; `setpointd init-pki` puts them into files.
//!
//! Nodes and clients have different authorities: whoever has any certificate of the nodes' authority is taken for a node
//! by the others. Keys are ECDSA P-256, which every client of today understands. Where a company has an authority of its
//! own, its certificates serve as well: nothing elsewhere knows how they were made.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use setpoint_types::Timestamp;
use time::OffsetDateTime;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Of an authority.
const AUTHORITY_DAYS: u32 = 3650;
/// Of everything an authority signs.
const CERTIFICATE_DAYS: u32 = 365;
/// Clocks differ: a certificate is good a little before it was made.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(60 * 60);

#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("the authority's certificate and key cannot be used")]
    Authority(#[source] rcgen::Error),
    #[error("{0:?} is neither a host name nor an address")]
    Host(String, #[source] rcgen::Error),
    #[error("no certificate can be made")]
    Make(#[source] rcgen::Error),
    #[error("the clock shows a time that no certificate can have")]
    Time,
}

/// A certificate and its key, as PEM.
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage<'a> {
    /// A node, to its clients, by these names.
    Server { hosts: &'a [String] },
    /// A node, to the others, as server and as client.
    Peer { hosts: &'a [String] },
    /// Somebody who is in a group, or none.
    Client { group: Option<&'a str> },
}

/// Signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new one, and its own files.
    pub fn create(name: &str, now: Timestamp) -> Result<(Self, Pair), PkiError> {
        let key = KeyPair::generate().map_err(PkiError::Make)?;
        let mut params = params(name, None, &[], AUTHORITY_DAYS, now)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(PkiError::Make)?.pem();
        let pair = Pair { certificate, key: key.serialize_pem() };
        Ok((Self { issuer: Issuer::new(params, key) }, pair))
    }

    /// One that was made before.
    pub fn load(pair: &Pair) -> Result<Self, PkiError> {
        let key = KeyPair::from_pem(&pair.key).map_err(PkiError::Authority)?;
        let issuer = Issuer::from_ca_cert_pem(&pair.certificate, key).map_err(PkiError::Authority)?;
        Ok(Self { issuer })
    }

    /// A new key, and a certificate for it.
    pub fn issue(&self, name: &str, usage: Usage<'_>, now: Timestamp) -> Result<Pair, PkiError> {
        use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
        let (hosts, group, purposes) = match usage {
            Usage::Server { hosts } => (hosts, None, vec![ServerAuth]),
            Usage::Peer { hosts } => (hosts, None, vec![ServerAuth, ClientAuth]),
            Usage::Client { group } => (&[][..], group, vec![ClientAuth]),
        };
        let key = KeyPair::generate().map_err(PkiError::Make)?;
        let mut params = params(name, group, hosts, CERTIFICATE_DAYS, now)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = purposes;
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer).map_err(PkiError::Make)?.pem();
        Ok(Pair { certificate, key: key.serialize_pem() })
    }
}

fn params(
    name: &str,
    group: Option<&str>,
    hosts: &[String],
    days: u32,
    now: Timestamp,
) -> Result<CertificateParams, PkiError> {
    let mut params = CertificateParams::default();
    for host in hosts {
        let one = CertificateParams::new(vec![host.clone()]);
        let one = one.map_err(|source| PkiError::Host(host.clone(), source))?;
        params.subject_alt_names.extend(one.subject_alt_names);
    }
    let mut subject = DistinguishedName::new();
    if let Some(group) = group {
        subject.push(DnType::OrganizationName, group);
    }
    subject.push(DnType::CommonName, name);
    params.distinguished_name = subject;
    let now = Duration::from_millis(now.0);
    params.not_before = date(now.saturating_sub(CLOCK_DIFFERENCE))?;
    params.not_after = date(now.saturating_add(DAY * days))?;
    Ok(params)
}

fn date(since_1970: Duration) -> Result<OffsetDateTime, PkiError> {
    let seconds = i64::try_from(since_1970.as_secs()).map_err(|_| PkiError::Time)?;
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| PkiError::Time)
}
