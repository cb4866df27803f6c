//! What came of one run.

use std::fmt;

use setpoint_types::{Revision, Timestamp};

use crate::fault::{Counts, Plan};
use crate::history::{Change, History};

/// What a run showed to be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// What is wanted was not reached in time.
    NotConverged { after: String, why: String },
    /// What was reached did not last.
    Undone { why: String },
    /// Something that must always hold did not, at a revision.
    Broken { invariant: String, revision: Revision, why: String },
    /// Everything was as wanted, and the controller went on writing.
    NotQuiet { writes: usize, first: String },
    /// Everything was as wanted, and the controller went on asking.
    Busy { requests_per_minute: u64 },
    /// The end is another than without faults.
    Different { differences: Vec<String> },
    /// The controller ended by itself.
    Ended { how: String },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConverged { after, why } => write!(f, "not converged after {after}: {why}"),
            Self::Undone { why } => write!(f, "converged, but it did not last: {why}"),
            Self::Broken { invariant, revision, why } => {
                write!(f, "invariant `{invariant}` broken at revision {revision}: {why}")
            }
            Self::NotQuiet { writes, first } => {
                write!(f, "{writes} writes although nothing was left to do; the first: {first}")
            }
            Self::Busy { requests_per_minute } => {
                write!(f, "{requests_per_minute} requests a minute although nothing was left to do")
            }
            Self::Different { differences } => {
                write!(f, "the end is another than without faults:")?;
                differences.iter().try_for_each(|line| write!(f, "\n    {line}"))
            }
            Self::Ended { how } => write!(f, "the controller {how}"),
        }
    }
}

/// One run. **Guarantees**: the same plan brings the same again ([`crate::replay`]), in so far as the controller takes time and randomness from
/// tokio's clock and its client.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub plan: Plan,
    pub counts: Counts,
    pub history: History,
    pub problem: Option<Problem>,
    /// When it began.
    pub(super) began: Timestamp,
}

/// Of what happened, the end.
const SHOWN: usize = 16;

impl Outcome {
    /// What happened, for people: the last changes.
    pub fn tale(&self) -> String {
        let all: Vec<_> = self.history.changes().collect();
        let from = all.len().saturating_sub(SHOWN);
        let mut tale = String::new();
        for (revision, change) in &all[from..] {
            tale.push_str(&format!("    r{revision} {}\n", told(change, self.began)));
        }
        tale
    }
}

/// `+12.3s user:controller created Config team-a/copy`
pub fn told(change: &Change, began: Timestamp) -> String {
    let verb = match (&change.before, &change.after) {
        (None, _) => "created",
        (Some(_), None) => "deleted",
        (Some(before), Some(after)) if before.spec == after.spec && before.status != after.status => {
            "wrote the status of"
        }
        (Some(_), Some(_)) => "changed",
    };
    let passed = change.author.time.0.saturating_sub(began.0) as f64 / 1000.0;
    format!("+{passed:.1}s {} {verb} {}", change.author.principal, change.key)
}
