//! What every object is, whatever its kind. Start with `envelope.rs`.
//!
//! Not here: what the kinds have in their spec and status (`kinds`), and what writing an object means (the crate `objects`).

mod author;
mod check;
mod condition;
mod envelope;
mod key;
mod managed;
mod metadata;

pub use author::{Author, Fence};
pub use check::{ANNOTATIONS_BYTES_MAX, Checked, check_metadata};
pub use condition::{Condition, ConditionStatus, Evidence, find_condition, set_condition};
pub use envelope::{Object, to_json};
pub(crate) use envelope::{prune, read};
pub use key::{ObjectKey, ObjectReference};
pub use managed::{ManagedFields, WriteOperation};
pub use metadata::{Metadata, OwnerReference};
