//! Every Rust file opens with `//!`: what it is, why it is so, and what is not there.

use super::source::SourceFile;
use super::violation::Violation;

const RULE: &str = "head";

pub fn check(file: &SourceFile, violations: &mut Vec<Violation>) {
    if !file.is_rust() {
        return;
    }
    let first = file.text.lines().next().unwrap_or_default();
    if first.strip_prefix("//!").is_none_or(|head| head.trim().is_empty()) {
        violations.push(file.violation(
            1,
            RULE,
            "open the file with `//!` and say what it is, why it is so, and what is not here",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_broken(path: &str, text: &str) -> bool {
        let mut violations = Vec::new();
        check(&SourceFile::new(path, text.into()), &mut violations);
        !violations.is_empty()
    }

    #[test]
    fn the_first_line_must_be_a_head_with_words() {
        assert!(!is_broken("a.rs", "//! A file.\nfn f() {}\n"));
        assert!(is_broken("a.rs", "fn f() {}\n"));
        assert!(is_broken("a.rs", "// Not a doc comment.\nfn f() {}\n"));
        assert!(is_broken("a.rs", "//!\nfn f() {}\n"));
        assert!(is_broken("a.rs", "use std::fmt;\n//! Too late.\n"));
        assert!(is_broken("a.rs", ""));
    }

    #[test]
    fn other_languages_are_left_alone() {
        assert!(!is_broken("a.proto", "syntax = \"proto3\";\n"));
    }
}
