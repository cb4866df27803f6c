//! The replicated state machine, the rules of objects, the shared vocabulary, the core of the work queue and the life of a replica
//! know no runtime, clock, randomness or unordered map.
//!
//! Every replica must reach the same state from the same log, and a simulation the same end from the same seed, so whatever
//! differs between two processes has to come in as an argument. Tests in these folders may use anything.

use proc_macro2::TokenTree;

use super::source::{SourceFile, flat_tokens};
use super::violation::Violation;

const RULE: &str = "determinism";

/// Folders, by the start of their path.
const PURE_FOLDERS: &[&str] = &[
    "crates/agent/src/desired.rs",
    "crates/agent/src/lifecycle/",
    "crates/objects/src/",
    "crates/runtime/src/queue/core/",
    "crates/scheduler/src/core/",
    "crates/store/src/machine/",
    "crates/store/src/machine.rs",
    "crates/types/src/",
];

/// Identifiers and what to use in their place.
const FORBIDDEN: &[(&str, &str)] = &[
    ("HashMap", "use `BTreeMap`: the order of a `HashMap` differs from process to process"),
    ("HashSet", "use `BTreeSet`: the order of a `HashSet` differs from process to process"),
    ("Instant", "take the time as an argument; the leader stamps it into the command"),
    ("SystemTime", "take the time as an argument; the leader stamps it into the command"),
    ("rand", "take the value as an argument; the leader draws it before it proposes the command"),
    ("getrandom", "take the value as an argument; the leader draws it before it proposes the command"),
    ("openraft", "leave consensus to `setpoint-consensus`; return what it needs to know"),
    ("prost", "leave wire formats to the edges; take and return domain types"),
    ("tokio", "leave waiting and spawning to the caller; return what it has to do"),
    ("tonic", "leave the network to the caller; return a domain error"),
];

pub fn check(file: &SourceFile, violations: &mut Vec<Violation>) {
    if !PURE_FOLDERS.iter().any(|folder| file.path.starts_with(folder)) {
        return;
    }
    let Some(syntax) = file.shipped_syntax() else { return };
    for token in flat_tokens(&syntax) {
        let TokenTree::Ident(name) = token else { continue };
        if let Some((word, instead)) = FORBIDDEN.iter().find(|(word, _)| name == word) {
            let advice = format!("`{word}` has no place here: {instead}");
            violations.push(file.violation(name.span().start().line, RULE, advice));
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
    fn whatever_differs_between_replicas_is_refused() {
        for line in [
            "use std::collections::HashMap;",
            "type Set = std::collections::HashSet<u8>;",
            "fn f() -> std::time::Instant { todo() }",
            "fn f() { let now = SystemTime::now(); }",
            "fn f() -> u64 { rand::random() }",
            "async fn f() { tokio::task::yield_now().await }",
            "fn f() -> tonic::Status { todo() }",
            "fn f() { println!(\"{:?}\", rand::random::<u8>()) }",
        ] {
            let text = format!("//! A.\n{line}\n");
            assert_eq!(lines_of("crates/store/src/machine/apply.rs", &text), [2], "{line}");
            assert_eq!(lines_of("crates/types/src/ids.rs", &text), [2], "{line}");
            assert_eq!(lines_of("crates/objects/src/apply.rs", &text), [2], "{line}");
            assert_eq!(lines_of("crates/runtime/src/queue/core/mod.rs", &text), [2], "{line}");
            assert!(lines_of("crates/runtime/src/queue/shell.rs", &text).is_empty(), "{line}");
            assert!(lines_of("crates/server/src/main.rs", &text).is_empty(), "{line}");
        }
    }

    #[test]
    fn words_in_comments_text_and_tests_are_fine() {
        let text = "//! Reads no `SystemTime`, knows no tokio.\n\
                    /// Not a `HashMap`.\nfn f() -> &'static str { \"tokio\" }\n\
                    #[cfg(test)]\nmod tests {\n    use std::collections::HashMap;\n}\n";
        assert_eq!(lines_of("crates/types/src/ids.rs", text), NONE);
    }
}
