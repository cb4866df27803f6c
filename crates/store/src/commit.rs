//! What the object API asks of the state machine: conditions, then changes, at one revision or not at all.
//!
//! Unlike a transaction of etcd's it has no branches and reads nothing, and a refusal says what stood against it. The
//! state machine knows neither objects nor their rules: whoever serves them has read, decided, and guards what it read.

use bytes::Bytes;
use setpoint_types::{KeyRange, LeaseId, Revision};

use crate::author::Author;
use crate::hold::{Epoch, Fence, LeaseName};
use crate::ledger::Amounts;

/// All guards hold: everything in `ops` happens at one revision. Else, or if one of them is impossible, nothing does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// Makes a repetition of the commit answer as the first one did, instead of acting again.
    pub operation: Option<Operation>,
    /// Stored with every change.
    pub author: Option<Author>,
    /// Decided against the state before the commit.
    pub guards: Vec<Guard>,
    pub ops: Vec<Op>,
}

/// Names one intention of one client. Remembered for an hour, or for the 65,536 latest, if the commit succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Unique among all who send commits; the caller adds to the client's id whatever makes it so.
    pub id: Bytes,
    /// Of what was asked for. The same id with another fingerprint is refused.
    pub fingerprint: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The key was last changed at this revision; at none it does not exist.
    Revision { key: Bytes, revision: Revision },
    /// The lease is held at this epoch.
    Fence(Fence),
    /// The ledger has room for these amounts, beside what is reserved.
    Headroom { ledger: String, amounts: Amounts },
    /// The leader of this term still leads.
    Term(u64),
    /// No key lies in the range. Costs a search, however many there are.
    Empty(KeyRange),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Put {
        key: Bytes,
        value: Bytes,
        lease: LeaseId,
    },
    /// A put of a value that tells the revision it was made at: 20 bytes of it, from `at` on, become that number, with spaces
    /// before it. None if they are not all there.
    Stamped {
        key: Bytes,
        value: Bytes,
        at: u64,
    },
    /// Nothing, if the key does not exist.
    Delete {
        key: Bytes,
    },
    /// Sets all limits of a ledger. A ledger with neither limits nor reservations does not exist.
    Limits {
        ledger: String,
        limits: Amounts,
    },
    /// Takes the place of what the owner had reserved in this ledger.
    Reserve {
        ledger: String,
        owner: String,
        amounts: Amounts,
    },
    /// The same, but a ledger without any limits has room for everything: what is used is counted before anybody limits it.
    Count {
        ledger: String,
        owner: String,
        amounts: Amounts,
    },
    /// Counts one in a domain of the ledger. Refused if the domain would then be too far above others: see [`Evenness`].
    Spread {
        ledger: String,
        owner: String,
        domain: String,
        evenness: Evenness,
    },
    /// Nothing, if the owner has nothing.
    Release {
        ledger: String,
        owner: String,
    },
    /// Gives a free lease to a holder, with an etcd lease of its own that counts the time.
    Hold {
        lease: LeaseName,
        holder: String,
        /// The one after the last.
        epoch: Epoch,
        /// Seconds.
        ttl: i64,
        /// A fresh one, so that nothing decided about an earlier lease meets this one.
        id: LeaseId,
    },
    /// Takes a lease from the holder of this epoch, and revokes its etcd lease.
    Vacate {
        lease: LeaseName,
        epoch: Epoch,
    },
}

/// How even the domains of a ledger have to be, once everything in the commit is done. Like that, binds of one workload do not
/// stand in each other's way as long as they keep the rule, and the order of those in one commit does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evenness {
    /// The most a domain may have more than the emptiest.
    pub max_skew: u64,
    /// The domains that count, also if nothing is in them. None: the emptiest counts as having nothing.
    pub among: Vec<String>,
}

impl Commit {
    /// True if it needs room. One that ends a hold must be possible without, whatever it writes beside.
    pub(crate) fn grows(&self) -> bool {
        let grows = |op: &Op| !matches!(op, Op::Delete { .. } | Op::Release { .. } | Op::Vacate { .. });
        self.ops.iter().any(grows) && !self.ops.iter().any(|op| matches!(op, Op::Vacate { .. }))
    }
}
