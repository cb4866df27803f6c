//! The places where a rule does not hold, each with its reason. There is no other way to switch a rule off.
//!
//! An exception nobody needs any more is itself a violation, so the list cannot rot.

use super::violation::Violation;

/// One rule, in one file, for one reason.
pub struct Exception {
    pub rule: &'static str,
    /// Relative to the root of the repository.
    pub path: &'static str,
    pub reason: &'static str,
}

/// All exceptions.
pub const EXCEPTIONS: &[Exception] = &[
    Exception {
        rule: "leftovers",
        path: "crates/xtask/src/tidy/leftovers.rs",
        reason: "the rule has to name what it looks for",
    },
    Exception {
        rule: "workplace",
        path: "crates/xtask/src/tidy/workplace.rs",
        reason: "the rule has to name what it looks for",
    },
];

/// Drops the violations that are excepted, and adds one for every exception that excepts nothing.
pub fn apply(exceptions: &[Exception], violations: Vec<Violation>) -> Vec<Violation> {
    let covers = |exception: &Exception, violation: &Violation| {
        exception.rule == violation.rule && exception.path == violation.path
    };
    let unused = exceptions.iter().filter(|exception| !violations.iter().any(|it| covers(exception, it)));
    let unused: Vec<Violation> = unused
        .map(|exception| Violation {
            path: "crates/xtask/src/tidy/exceptions.rs".into(),
            line: 1,
            rule: "exceptions",
            advice: format!(
                "remove the exception from `{}` for {} ({}): nothing there breaks the rule",
                exception.rule, exception.path, exception.reason
            ),
        })
        .collect();
    let mut kept = violations;
    kept.retain(|violation| !exceptions.iter().any(|exception| covers(exception, violation)));
    kept.extend(unused);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violation(rule: &'static str, path: &str) -> Violation {
        Violation { path: path.into(), line: 3, rule, advice: "do otherwise".into() }
    }

    const ONE: &[Exception] = &[Exception { rule: "length", path: "a.rs", reason: "a table" }];

    #[test]
    fn an_exception_covers_its_rule_in_its_file_only() {
        let found = vec![violation("length", "a.rs"), violation("length", "b.rs"), violation("head", "a.rs")];
        let left = apply(ONE, found);
        assert_eq!(left, [violation("length", "b.rs"), violation("head", "a.rs")]);
    }

    #[test]
    fn an_exception_nobody_needs_is_a_violation() {
        let left = apply(ONE, Vec::new());
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].rule, "exceptions");
        assert!(left[0].advice.contains("a.rs") && left[0].advice.contains("a table"));
    }

    #[test]
    fn every_exception_has_a_reason() {
        assert!(EXCEPTIONS.iter().all(|exception| !exception.reason.is_empty()));
    }
}
