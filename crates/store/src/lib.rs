//! The revisioned store: keys, leases, transactions, history and compaction with etcd's rules, as a deterministic state
//! machine over an ordered engine.
//!
//! Start at [`machine`], which turns log entries into state, verdicts and changes. [`Store`] puts it behind a lock and
//! serves reads. [`encoding`] is the whole on-disk key space, [`command`] and `codec` what the Raft log holds. What objects
//! need beyond keys is in [`commit`], [`ledger`] and [`hold`].
//!
//! Not here: Raft (`consensus`), the wire protocol and watches (`apiserver`), any clock.

mod author;
mod census;
mod codec;
mod collect;
pub mod command;
pub mod commit;
mod commit_codec;
pub mod encoding;
pub mod engine;
mod hash;
mod history;
pub mod hold;
mod index;
pub mod ledger;
mod lookup;
pub mod machine;
mod pages;
mod read;
mod singles;
mod store;
mod varint;
mod verdict;

pub use author::Author;
pub use census::{Census, Counted};
pub use codec::Unreadable;
pub use collect::{Progress, StepMax};
pub use encoding::{Change, Record, RecordId};
pub use engine::{Engine, EngineFailure, MemoryEngine, Size};
#[cfg(feature = "rocksdb")]
pub use engine::{RocksEngine, RocksOptions};
pub use hash::HashOfHistory;
pub use hold::{Epoch, Fence, Hold, LeaseName, LeaseState};
pub use ledger::{Amounts, Ledger, LedgerKey};
pub use lookup::{Version, Versions, VersionsMax};
pub use machine::{ApplyFailure, Body, ChangeSet, Done, Entry, GrantedLease, Lease, Outcome, Position};
pub use pages::{Page, PageMax, Pages};
pub use read::ReadFailure;
pub use store::{Applied, GrantedLeases, LeaseUpdate, Store};
pub use verdict::{Committed, Found, KeyValue, RangeResult, Rejection, Response, TxnResult, Verdict};
