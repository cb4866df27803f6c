//! Leases: who keeps time, who renews, who expires.
//!
//! Grants, revocations and expiries are log entries; time is not. The leader alone counts it, on its monotonic clock, in
//! [`Deadlines`]. A new leader gives every lease its full time and an election's length on top before it may expire one,
//! so a change of leader only ever lengthens a lease (invariant S11). An expiry names the term of the leader that
//! decided it and is void in any other, so a deposed leader cannot expire what its successor renewed (invariant S12).
//!
//! - [`deadlines`]: the leader's clockwork, pure
//! - [`lessor`]: keeping it in step with the store and the leadership
//! - [`renewals`]: keep-alives on their way to the leader, many at a time

mod deadlines;
mod lessor;
mod renewals;

use std::collections::BTreeMap;

pub use deadlines::{Deadlines, Expired, Lifetime};
pub use lessor::{LeaseTime, Lessor, LessorOptions};
pub use renewals::{RenewError, Renewals};

/// The longest lifetime a lease may ask for, in seconds.
pub const TTL_MAX: i64 = 9_000_000_000;

/// Up to which revision a holder has seen each kind.
pub type Observed = BTreeMap<String, u64>;
