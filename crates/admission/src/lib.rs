//! What may be written: kinds that users define, and policies over all kinds. Pure: objects in, verdicts out.
//!
//! - [`kind`]: a `KindDefinition` becomes a [`CustomKind`], which defaults, prunes and validates objects of that kind.
//! - [`policy`]: `AdmissionPolicy` objects become a [`PolicySet`], which mutates objects and judges them.
//! - [`cel`]: expressions, with their limits. [`schema`]: JSON Schema, as far as it is structural.
//!
//! Objects are JSON, `{"kind", "metadata", "spec", "status"}`. Who may write, and what is written, is decided elsewhere
//! (`access`, `objects`, `apiserver`).

pub mod cel;
pub mod kind;
pub mod limits;
pub mod path;
pub mod policy;
mod problem;
pub mod schema;
mod size;

pub use cel::Budget;
pub use kind::CustomKind;
pub use policy::{Policy, PolicySet};
