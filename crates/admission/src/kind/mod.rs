//! Kinds that users define.
//!
//! What they write is `setpoint_types::kinds::KindDefinitionSpec`, and `custom` is what becomes of it; the others are its parts.

mod change;
mod columns;
mod custom;
mod names;
mod rules;

pub use change::check_change;
pub use custom::CustomKind;
pub use names::TakenNames;
