//! An error with all its causes, in one sentence: for logs and conditions, where nobody can ask on.

use std::error::Error;

/// The error and its causes, joined by colons.
pub fn sentence(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
