//! Users' expressions: checked when they are defined, evaluated under a budget.
//!
//! The language and its interpreter are the `cel` crate's (docs/adr/0008). It has no limits of its own, so an expression
//! is rewritten before it is kept: wherever evaluation copies, compares or repeats, the rewritten one pays first
//! (`instrument`), from a purse of the thread (`meter`). Evaluation is therefore bounded by count, not by time, and ends
//! the same way on every machine; only patterns that a thread has met before cost it less.

mod bindings;
mod budget;
mod check;
mod expression;
mod instrument;
mod json;
mod library;
mod meter;

pub use bindings::Bindings;
pub use budget::Budget;
pub use check::Scope;
pub use expression::{CompileError, EvaluateError, Expression, UsedField};

/// Whether a schema may use this pattern: the same limits as in expressions.
pub fn usable_pattern(text: &str) -> Result<(), String> {
    library::pattern(text).map(drop)
}
