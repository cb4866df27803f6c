//! Policies over objects of any kind.
//!
//! `definition` is what users write and `compiled` what becomes of it. A `PolicySet` has all of them; it is asked twice for
//! a write: before defaults and schema, to change the object (`mutate`), and after them, to judge it (`judge`).

mod compiled;
mod definition;
mod evaluation;
mod matching;
mod mutate;
mod patch;
mod review;
mod set;

pub use compiled::Policy;
pub use definition::{
    Action, AdmissionPolicySpec, FailurePolicy, MatchSpec, MatchCondition, Mutation, Reason, Validation, Variable,
};
pub use review::{Denial, Mutated, Note, Operation, Request, Review, Verdict};
pub use set::PolicySet;
