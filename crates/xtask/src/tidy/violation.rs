//! One broken rule at one place.

use std::fmt;

/// Printed as `path:line: rule: what to do instead`, which editors turn into a link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Relative to the root of the repository, with forward slashes.
    pub path: String,
    /// Counted from 1.
    pub line: usize,
    /// The name of the rule: the file in this folder that defines it.
    pub rule: &'static str,
    /// What to do instead.
    pub advice: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule, self.advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_a_place_an_editor_can_open() {
        let violation =
            Violation { path: "crates/a/src/b.rs".into(), line: 7, rule: "head", advice: "do that".into() };
        assert_eq!(violation.to_string(), "crates/a/src/b.rs:7: head: do that");
    }
}
