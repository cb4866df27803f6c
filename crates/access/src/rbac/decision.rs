//! A decision and its reason.

use std::fmt;
use std::sync::Arc;

use super::keys::ReservedKeys;
use super::need::Need;
use super::policy::Source;
use super::target::Target;
use super::verb::Verb;
use crate::principal::{ADMINS, Principal};

/// Whether a request may go on. Its text says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Access control is off.
    Off,
    /// A member of [`ADMINS`].
    Admin,
    Granted(Arc<Source>),
    Denied(Denial),
}

/// One sentence for whoever was refused, with the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial(String);

impl Decision {
    pub fn is_allowed(&self) -> bool {
        !matches!(self, Self::Denied(_))
    }

    pub fn denied(principal: &Principal, verb: Verb, target: &Target<'_>) -> Self {
        Self::Denied(Denial(format!(
            "{principal} may not {verb} {target}: no role allows it; ask for a RoleBinding to one that does"
        )))
    }

    /// What an etcd service may not do for anybody.
    pub fn reserved(principal: &Principal, need: &Need) -> Self {
        let (verb, target) = (need.verb, need.target());
        Self::Denied(Denial(format!("{principal} may not {verb} {target}: {ReservedKeys}")))
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("access control is off"),
            Self::Admin => write!(f, "a member of {ADMINS}"),
            Self::Granted(source) => source.fmt(f),
            Self::Denied(denial) => denial.fmt(f),
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
