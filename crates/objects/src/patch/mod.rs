//! Patches: what to change about a document, rather than the document.
//!
//! Both are bounded: a patch can be small and its result large (`copy`), so what comes out is measured while it grows.

mod json;
mod merge;

use std::fmt;

use serde_json::Value;

pub use json::apply_json;
pub use merge::apply_merge;

use crate::fields::push_field;
use crate::refusal::{FieldProblem, Reason, Refusal};

/// Which language a patch is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 7396: an object with the new values; `null` removes.
    Merge,
    /// RFC 6902: a list of operations, done in order or not at all.
    Json,
}

/// The operations of one JSON patch.
pub const OPERATIONS_MAX: usize = 1_000;

/// All that one JSON patch may add to a document, in bytes of JSON; the largest object is smaller.
pub const GROWTH_BYTES_MAX: usize = 4 << 20;

/// Why a patch cannot be done. It changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchError {
    /// It is no patch.
    Malformed {
        operation: Option<usize>,
        message: String,
    },
    /// It does not fit this document.
    Misfit {
        operation: usize,
        path: String,
        message: String,
    },
    /// A `test` found something else.
    Test {
        operation: usize,
        path: String,
        found: String,
    },
    TooLarge {
        operation: Option<usize>,
        message: String,
    },
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { operation: None, message } | Self::TooLarge { operation: None, message } => {
                f.write_str(message)
            }
            Self::Malformed { operation: Some(at), message }
            | Self::TooLarge { operation: Some(at), message } => write!(f, "operation {at}: {message}"),
            Self::Misfit { operation, path, message } => {
                write!(f, "operation {operation} at {path:?}: {message}")
            }
            Self::Test { operation, path, found } => {
                write!(f, "operation {operation}: the test of {path:?} found {found}")
            }
        }
    }
}

impl std::error::Error for PatchError {}

impl From<PatchError> for Refusal {
    fn from(error: PatchError) -> Self {
        let said = error.to_string();
        match error {
            PatchError::Malformed { .. } => {
                Self::field("patch", format!("cannot be read: {said}; correct it and send it again"))
            }
            PatchError::Misfit { path, operation, message } => Self {
                problems: vec![FieldProblem::new(
                    field_of(&path),
                    format!("in operation {operation}: {message}"),
                )],
                ..Self::new(
                    Reason::Invalid,
                    format!(
                        "The patch does not fit the object: {said}. Read the object and correct the patch."
                    ),
                )
            },
            PatchError::Test { path, operation, found } => Self {
                problems: vec![FieldProblem::new(
                    field_of(&path),
                    format!("is {found}, and not what operation {operation} tests"),
                )],
                ..Self::new(
                    Reason::Conflict,
                    format!("The patch was not done: {said}. Read the object and decide again."),
                )
            },
            PatchError::TooLarge { .. } => Self {
                problems: vec![FieldProblem::new("patch", said.clone())],
                ..Self::new(
                    Reason::TooLarge,
                    format!("The patch is too large: {said}. Send it in parts, or use Update."),
                )
            },
        }
    }
}

/// A JSON pointer as a field: `/spec/args/0` is `.spec.args[0]`.
fn field_of(pointer: &str) -> String {
    let mut path = String::new();
    for token in pointer.split('/').skip(1) {
        if !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_digit()) {
            path.push_str(&format!("[{token}]"));
        } else {
            push_field(&mut path, &token.replace("~1", "/").replace("~0", "~"));
        }
    }
    if path.is_empty() { ".".to_owned() } else { path }
}

/// Patches a document, or leaves it as it is.
pub fn apply(kind: PatchKind, document: &Value, patch: &Value) -> Result<Value, PatchError> {
    match kind {
        PatchKind::Merge => apply_merge(document, patch),
        PatchKind::Json => apply_json(document, patch),
    }
}
