//! What is wrong with an object, and where: all problems are collected, none is thrown.

use std::fmt;

use serde::Serialize;

use crate::path::Path;

/// One problem of one field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FieldProblem {
    /// `.spec.ports[0].name`
    pub path: String,
    /// What is wrong, as the rest of a sentence about the field: `must be at least 1`.
    pub message: String,
}

impl FieldProblem {
    pub fn new(path: impl fmt::Display, message: impl Into<String>) -> Self {
        Self { path: path.to_string(), message: message.into() }
    }
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path, self.message)
    }
}

/// A problem whose place is still needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub path: Path,
    pub message: String,
}

impl From<Finding> for FieldProblem {
    fn from(finding: Finding) -> Self {
        Self::new(&finding.path, finding.message)
    }
}
