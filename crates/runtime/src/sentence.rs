//! An error with all its causes, in one sentence: for logs and conditions, where nobody can ask on.

use std::error::Error;

/// The error and its causes, joined by colons. A cause that says nothing new is left out: layers of a network like to repeat each other.
pub fn sentence(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        next = cause.source();
    }
    text
}
