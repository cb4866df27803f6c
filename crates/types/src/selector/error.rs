//! Why a selector cannot be read.

use thiserror::Error;

/// What is wrong with a selector's text, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("at position {position}: {message}")]
pub struct SelectorError {
    /// The first character is 1.
    pub position: usize,
    pub message: String,
}
