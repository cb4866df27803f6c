//! Why a write is refused: a reason to branch on, a sentence with the next step, and the fields.
//!
//! Not here: the wire's error, which `apiserver` makes of it.

use std::fmt;

use serde_json::Value;

pub use setpoint_types::FieldProblem;

/// A field that somebody else owns and that an apply would change.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldConflict {
    pub path: String,
    /// Who owns it.
    pub manager: String,
    /// What it is now.
    pub value: Value,
}

/// The closed list of the wire (`setpoint.v1.Reason`), as far as object semantics can refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    NotFound,
    AlreadyExists,
    Conflict,
    Invalid,
    TooLarge,
}

/// A refused write. It changed nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    pub reason: Reason,
    /// One sentence or two, the last with the next step.
    pub message: String,
    /// Every problem at once, sorted by path.
    pub problems: Vec<FieldProblem>,
    /// At most [`CONFLICTS_MAX`]; the message counts them all.
    pub conflicts: Vec<FieldConflict>,
    /// The stored object's, where the request expected another one; else 0.
    pub revision: u64,
}

/// How many conflicts or problems a refusal lists: it has to fit into the trailers of a response.
pub const CONFLICTS_MAX: usize = 32;

impl Refusal {
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), problems: Vec::new(), conflicts: Vec::new(), revision: 0 }
    }

    /// An object with these problems; there is at least one.
    pub fn invalid(mut problems: Vec<FieldProblem>) -> Self {
        problems.sort();
        problems.dedup();
        let first = problems.first().map(ToString::to_string).unwrap_or_default();
        let message = match problems.len() {
            0 | 1 => format!("{first}."),
            many => format!("{first}; and {} more.", problem_count(many - 1)),
        };
        problems.truncate(CONFLICTS_MAX);
        Self { problems, ..Self::new(Reason::Invalid, message) }
    }

    /// One problem, at one field.
    pub fn field(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::invalid(vec![FieldProblem::new(path, message)])
    }

    /// An apply that disagrees with others about these fields; there is at least one.
    pub fn conflicts(mut conflicts: Vec<FieldConflict>) -> Self {
        let mut managers: Vec<&str> = conflicts.iter().map(|it| it.manager.as_str()).collect();
        managers.sort_unstable();
        managers.dedup();
        let managers = managers.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        let message = match conflicts.as_slice() {
            [only] => format!(
                "{} belongs to {managers}: leave it out, apply the value it has to share it, or force to take it.",
                only.path
            ),
            many => format!(
                "{} fields belong to {managers}: leave them out, apply the values they have to share them, or force to take them.",
                many.len()
            ),
        };
        conflicts.truncate(CONFLICTS_MAX);
        Self { conflicts, ..Self::new(Reason::Conflict, message) }
    }

    pub fn at_revision(self, revision: u64) -> Self {
        Self { revision, ..self }
    }
}

fn problem_count(count: usize) -> String {
    if count == 1 { "one problem".to_owned() } else { format!("{count} problems") }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}
