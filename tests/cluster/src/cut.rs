//! What a cut means (F13): the side of the majority goes on, and on the other no write is acknowledged.
//!
//! Not here: whether what was answered is right (`check`). Reads of the other side are judged there, too: they are refused, or not stale.

use std::time::Duration;

use crate::check::{Finding, Violation};
use crate::history::{History, Op, Outcome};

/// From when to when a node was without all others.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    pub node: usize,
    pub from: Duration,
    pub to: Duration,
}

/// Checks what was written meanwhile. What was asked before a cut may be answered during it.
pub fn check_cuts(history: &History, cuts: &[Cut]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for cut in cuts {
        let is_during = |op: &&Op| op.call >= cut.from && op.ret <= cut.to;
        let is_written = |op: &&Op| matches!(op.outcome, Outcome::Written { .. });
        let written: Vec<&Op> = history.ops.iter().filter(is_during).filter(is_written).collect();
        if let Some(op) = written.iter().find(|op| op.node == cut.node) {
            let detail = format!("node {} was cut off, and acknowledged {op:?}", cut.node + 1);
            findings.push(Finding { violation: Violation::MinorityWrite, detail });
        }
        if !written.iter().any(|op| op.node != cut.node) {
            let detail = format!("without node {} nothing was written", cut.node + 1);
            findings.push(Finding { violation: Violation::MajorityStood, detail });
        }
    }
    findings
}
