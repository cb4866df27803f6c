//! Policies over objects of any kind.
//!
//! What users write is `setpoint_types::kinds::AdmissionPolicySpec`, and `compiled` is what becomes of it. A `PolicySet` has all of them; it is asked twice for
//! a write: before defaults and schema, to change the object (`mutate`), and after them, to judge it (`judge`).

mod compiled;
mod evaluation;
mod matching;
mod mutate;
mod patch;
mod review;
mod set;

pub use compiled::Policy;
pub use review::{Denial, Mutated, Note, Request, Review, Verdict};
pub use set::PolicySet;
