//! Kinds that users define.
//!
//! `definition` is what they write, `custom` what becomes of it; the others are its parts.

mod change;
mod columns;
mod custom;
mod definition;
mod names;
mod rules;

pub use change::check_change;
pub use custom::CustomKind;
pub use definition::{DefinedColumn, DefinedColumnType, KindDefinitionSpec, KindNames, KindScope, UnknownFields};
pub use names::TakenNames;
