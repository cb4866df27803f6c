//! What the Directory shows of a run. Pure.

use setpoint_client::Typed;
use setpoint_runtime::conditions::{Conditions, Statement};
use setpoint_runtime::ensure::EnsureError;
use setpoint_types::{ObjectKey, Timestamp};

use crate::kind::{Applied, Directory, DirectoryStatus, Item, PROBLEMS_MAX, Problem};
use crate::plan::{Plan, Wanted, sorted};

/// Bytes of a message, as the kind allows.
const MESSAGE_BYTES_MAX: usize = 512;

/// What came of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// What is there, or may be.
    pub inventory: Vec<Item>,
    pub problems: Vec<Problem>,
}

impl Report {
    /// Before anything was done.
    pub fn of(plan: &Plan) -> Self {
        Self { inventory: plan.keep.clone(), problems: plan.problems.clone() }
    }

    /// An object is as its manifest says.
    pub fn applied(&mut self, wanted: &Wanted, applied: Applied) {
        self.inventory.push(Item { applied, ..wanted.item.clone() });
    }

    /// An object could not be applied. It stays in the inventory: perhaps an earlier state of it was.
    pub fn not_applied(&mut self, wanted: &Wanted, error: &EnsureError) {
        self.inventory.push(Item { applied: Applied::default(), ..wanted.item.clone() });
        self.problem(&wanted.item.file, &wanted.item.key(), error);
    }

    /// An object is going, or could not be removed.
    pub fn not_pruned(&mut self, item: &Item, error: Option<&EnsureError>) {
        self.inventory.push(item.clone());
        if let Some(error) = error {
            self.problem(&item.file, &item.key(), error);
        }
    }

    fn problem(&mut self, file: &str, key: &ObjectKey, error: &EnsureError) {
        let (reason, message) = match error {
            EnsureError::FieldsTaken { conflicts, .. } => {
                let taken = |it: &setpoint_client::FieldConflict| format!("{} by {:?}", it.path, it.manager);
                let taken: Vec<String> = conflicts.iter().map(taken).collect();
                ("Conflict", format!("{key}: others decide {}; set force to take them", taken.join(", ")))
            }
            error => ("Refused", format!("{key}: {error}")),
        };
        self.problems.push(Problem { reason: reason.to_owned(), file: file.to_owned(), message });
    }

    /// What the Directory shall show, made from what it shows.
    pub fn status(mut self, directory: &Typed<Directory>, now: Timestamp) -> DirectoryStatus {
        let generation = directory.metadata.generation;
        let mut status = directory.status.clone().unwrap_or_default();
        let statement = self.statement();
        for problem in &mut self.problems {
            problem.message.truncate(problem.message.floor_char_boundary(MESSAGE_BYTES_MAX));
        }
        self.problems.truncate(PROBLEMS_MAX);
        status.observed_generation = generation;
        status.inventory = sorted(self.inventory);
        status.problems = self.problems;
        Conditions::of(&mut status.conditions, generation, now).set(statement);
        status
    }

    fn statement(&self) -> Statement {
        let Some(first) = self.problems.first() else {
            let message = format!("{} objects are as the files say", self.inventory.len());
            return Statement::holds("Ready", "Applied").message(message);
        };
        let more = match self.problems.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let message = format!("{}: {}{more}", first.file, first.message);
        Statement::fails("Ready", first.reason.clone()).message(message)
    }
}
