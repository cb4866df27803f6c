//! The identity in a client certificate: its common name is the name, its organizations are the groups.
//!
//! Whether an authority that we trust has signed it was decided in the TLS handshake, and is not looked at again. Its
//! time is: a connection may outlive its certificate.

use setpoint_types::Timestamp;
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, X509Certificate};

use crate::principal::{NameProblem, Principal};

/// Who a certificate is of, and while when.
#[derive(Clone, Debug)]
pub struct Identity {
    pub principal: Principal,
    not_before: Timestamp,
    pub not_after: Timestamp,
}

/// Why a certificate names nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateProblem {
    #[error("it cannot be read")]
    Unreadable,
    #[error("its subject has {0} common names; exactly one says who it is of")]
    CommonNames(usize),
    #[error("its subject has a common name or organization that is not plain text")]
    NotText,
    #[error("its subject cannot be used: {0}")]
    Name(NameProblem),
    #[error("it is not valid yet")]
    NotYet,
    #[error("it has expired")]
    Expired,
}

impl Identity {
    /// Reads a certificate in DER. Never panics, whatever the bytes are.
    pub fn read(der: &[u8]) -> Result<Self, CertificateProblem> {
        let (rest, certificate) =
            X509Certificate::from_der(der).map_err(|_| CertificateProblem::Unreadable)?;
        if !rest.is_empty() {
            return Err(CertificateProblem::Unreadable);
        }
        let text = |attribute: &AttributeTypeAndValue<'_>| {
            attribute.as_str().map(str::to_owned).map_err(|_| CertificateProblem::NotText)
        };
        let subject = certificate.subject();
        // Which of several names counts is what readers disagree about, so that there is no right choice.
        let names: Vec<String> = subject.iter_common_name().map(text).collect::<Result<_, _>>()?;
        let [name] = &names[..] else { return Err(CertificateProblem::CommonNames(names.len())) };
        let groups: Vec<String> = subject.iter_organization().map(text).collect::<Result<_, _>>()?;
        let validity = certificate.validity();
        Ok(Self {
            principal: Principal::new(name, groups.iter().map(String::as_str))
                .map_err(CertificateProblem::Name)?,
            not_before: milliseconds(validity.not_before.timestamp()),
            not_after: milliseconds(validity.not_after.timestamp()),
        })
    }

    /// Whether it counts at this time.
    pub fn check(&self, now: Timestamp) -> Result<(), CertificateProblem> {
        if now < self.not_before {
            Err(CertificateProblem::NotYet)
        } else if now > self.not_after {
            Err(CertificateProblem::Expired)
        } else {
            Ok(())
        }
    }
}

/// Dates before 1970 are as good as 1970.
fn milliseconds(seconds: i64) -> Timestamp {
    Timestamp(u64::try_from(seconds).unwrap_or(0).saturating_mul(1000))
}
