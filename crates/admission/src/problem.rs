//! A problem whose place is still needed: to tell whether it was there before, or is inside of another one.

use setpoint_types::FieldProblem;

use crate::path::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub path: Path,
    pub message: String,
}

impl From<Finding> for FieldProblem {
    fn from(finding: Finding) -> Self {
        Self::new(&finding.path, finding.message)
    }
}
