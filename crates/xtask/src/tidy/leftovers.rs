//! Nothing half done is left behind: no `todo!`, `unimplemented!` or `dbg!`, and no FIXME.
//!
//! Clippy warns of the macros too, but only in code that this machine's target and features compile.

use proc_macro2::TokenTree;

use super::source::{SourceFile, flat_tokens};
use super::violation::Violation;

const RULE: &str = "leftovers";
const MACROS: &[(&str, &str)] = &[
    ("todo", "write it, or refuse the case with an error"),
    ("unimplemented", "write it, or refuse the case with an error"),
    ("dbg", "remove it, or log through `tracing`"),
];
const NOTE: &str = "FIXME";

pub fn check(file: &SourceFile, violations: &mut Vec<Violation>) {
    if let Some(syntax) = file.syntax() {
        for pair in flat_tokens(syntax).windows(2) {
            let [TokenTree::Ident(name), TokenTree::Punct(mark)] = pair else { continue };
            let found = MACROS.iter().find(|(word, _)| name == word && mark.as_char() == '!');
            if let Some((word, instead)) = found {
                violations.push(file.violation(
                    name.span().start().line,
                    RULE,
                    format!("`{word}!` is left here: {instead}"),
                ));
            }
        }
    }
    // Prose may speak of it, code may not.
    if file.path.ends_with(".md") {
        return;
    }
    for (index, line) in file.text.lines().enumerate() {
        if line.contains(NOTE) {
            let advice = format!("{NOTE} is left here: repair it, or say in a comment why it stays as it is");
            violations.push(file.violation(index + 1, RULE, advice));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines_of(path: &str, text: &str) -> Vec<usize> {
        let mut violations = Vec::new();
        check(&SourceFile::new(path, text.into()), &mut violations);
        violations.iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn unfinished_code_is_found_wherever_it_is() {
        assert_eq!(lines_of("a.rs", "fn f() {\n    todo!()\n}\n"), [2]);
        assert_eq!(lines_of("a.rs", "fn f() -> u8 {\n    dbg!(1)\n}\n"), [2]);
        assert_eq!(lines_of("a.rs", "fn f() {\n    vec![\n        std::unimplemented!()];\n}\n"), [3]);
        assert_eq!(lines_of("a.rs", "#[test]\nfn f() {\n    todo!(\"later\")\n}\n"), [3]);
        assert_eq!(lines_of("a.rs", "// FIXME: wrong.\n"), [1]);
        assert_eq!(lines_of("scripts/a", "true\n# FIXME\n"), [2]);
    }

    #[test]
    fn names_text_and_prose_are_not_leftovers() {
        assert_eq!(lines_of("a.rs", "fn todo() { f(\"todo!()\"); /* dbg!() */ todo() }\n"), NONE);
        assert_eq!(lines_of("a.rs", "fn f(todo: bool) -> bool { !todo }\n"), NONE);
        assert_eq!(lines_of("a.md", "Leave no FIXME behind.\n"), NONE);
    }
}
