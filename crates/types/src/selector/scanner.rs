//! Walks through a selector's text and remembers where it is.

use super::SelectorError;

/// The longest text of a selector. Selectors are kept for as long as a watch runs and are matched against every change.
const TEXT_BYTES_MAX: usize = 16 * 1024;

pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a str) -> Result<Self, SelectorError> {
        if text.len() > TEXT_BYTES_MAX {
            let message = format!("has {} bytes, the most is {TEXT_BYTES_MAX}", text.len());
            return Err(SelectorError { position: 1, message });
        }
        Ok(Self { text, at: 0 })
    }

    /// Where the scanner is, in bytes.
    pub fn at(&self) -> usize {
        self.at
    }

    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub fn bump(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += letter.len_utf8();
        Some(letter)
    }

    pub fn skip_spaces(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches(' ').len();
    }

    /// Goes past `token` if it is next.
    pub fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// Goes past the letters that `belongs` accepts, and returns them.
    pub fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|letter| !belongs(letter)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// An error here.
    pub fn error(&self, message: impl Into<String>) -> SelectorError {
        self.error_at(self.at, message)
    }

    /// An error at a place `at` said before.
    pub fn error_at(&self, at: usize, message: impl Into<String>) -> SelectorError {
        SelectorError { position: self.text[..at].chars().count() + 1, message: message.into() }
    }

    /// What is here, for messages.
    pub fn found(&self) -> String {
        self.peek().map_or_else(|| "the end".to_owned(), |letter| format!("`{letter}`"))
    }
}
