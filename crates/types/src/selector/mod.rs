//! Which objects of a kind are meant: by labels, and by fields the kind declares.

mod error;
mod field;
mod label;
mod scanner;

pub use error::SelectorError;
pub use field::{FieldRequirement, FieldSelector, field_text};
pub use label::{LabelOperator, LabelRequirement, LabelSelector};
