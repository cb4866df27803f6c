//! Why a group was not bound: what was found by looking, and what the commit found.

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::bind_rejection::Reason;
use setpoint_store::Amounts;
use setpoint_types::Revision;

/// Why one bind cannot be, and with it none of its group.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejected {
    pub bind: usize,
    pub reason: Reason,
    pub message: String,
    /// Of what was found.
    pub at: Revision,
    pub lacking: Option<Lacking>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lacking {
    pub ledger: String,
    pub needed: Amounts,
    pub left: Amounts,
}

impl Rejected {
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { bind: 0, reason, message: message.into(), at: Revision::NONE, lacking: None }
    }

    pub fn at(self, at: Revision) -> Self {
        Self { at, ..self }
    }

    pub fn of_bind(self, bind: usize) -> Self {
        Self { bind, ..self }
    }

    /// A ledger that has too little left: of what is needed, the dimensions that do not suffice.
    pub fn lacking(self, ledger: &str, needed: &Amounts, left: Amounts) -> Self {
        let needed = needed.iter().filter(|(name, _)| left.contains_key(*name));
        let needed = needed.map(|(name, amount)| (name.clone(), *amount)).collect();
        Self { lacking: Some(Lacking { ledger: ledger.to_owned(), needed, left }), ..self }
    }

    /// `newest` is what this node has come to, for what cannot be pinned to one change.
    pub fn into_wire(self, newest: Revision) -> pb::BindRejection {
        let at = if self.at.is_none() { newest } else { self.at };
        pb::BindRejection {
            reason: self.reason.into(),
            message: self.message,
            bind: u32::try_from(self.bind).unwrap_or(u32::MAX),
            catch_up_to: at.get(),
            lacking: self.lacking.map(|it| pb::Lacking {
                ledger: it.ledger,
                needed: it.needed.into_iter().collect(),
                left: it.left.into_iter().collect(),
            }),
        }
    }
}

/// "needs 500 of cpu, 420 are left"
pub fn shortage(needed: &Amounts, left: &Amounts) -> String {
    let parts = left.iter().map(|(name, left)| {
        format!("needs {} of {name}, {left} are left", needed.get(name).copied().unwrap_or(0))
    });
    parts.collect::<Vec<_>>().join("; ")
}
