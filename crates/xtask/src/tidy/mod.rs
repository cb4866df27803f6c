//! Checks the laws of the code that no compiler knows. One file per rule; each rule is a pure function.
//!
//! A rule that was argued about in review belongs here, so that it is never argued about again. What clippy can
//! check belongs into `clippy.toml` or the workspace's lints instead. Exceptions, each with its reason, are listed
//! in `exceptions.rs` and nowhere else.

mod determinism;
mod exceptions;
mod head;
mod layers;
mod leftovers;
mod length;
mod names;
mod repository;
mod source;
mod violation;
mod workplace;

use exceptions::EXCEPTIONS;
use repository::RepositoryError;
use source::SourceFile;
use violation::Violation;

/// The rules that look at one file at a time.
const FILE_RULES: &[fn(&SourceFile, &mut Vec<Violation>)] = &[
    source::check_syntax,
    head::check,
    length::check,
    determinism::check,
    names::check,
    leftovers::check,
    workplace::check,
];

/// Every violation in the repository around the current folder, ordered by place.
pub fn check_repository() -> Result<Vec<Violation>, RepositoryError> {
    let metadata = repository::metadata()?;
    let mut violations = Vec::new();
    for file in repository::files(&metadata.workspace_root)? {
        check_file(&file, &mut violations);
    }
    layers::check(&metadata, &mut violations);
    let mut violations = exceptions::apply(EXCEPTIONS, violations);
    violations.sort();
    Ok(violations)
}

fn check_file(file: &SourceFile, violations: &mut Vec<Violation>) {
    for rule in FILE_RULES {
        rule(file, violations);
    }
}
