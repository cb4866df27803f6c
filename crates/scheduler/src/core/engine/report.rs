//! What is to be shown of those who wait: only what differs from what is shown already.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use setpoint_types::Uid;
use setpoint_types::kinds::{Outcome, PendingReason};

use super::{Engine, Phase};
use crate::core::blocker::Blocker;
use crate::core::class::ClassIx;
use crate::core::explain::Refusal;
use crate::core::hash::StableHasher;

/// A refusal by the server is ordinary, and over in a moment; only who meets with several shows it.
const REFUSALS_SHOWN: u32 = 3;

/// What a replica's status should say that it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub replica: Arc<str>,
    pub uid: Uid,
    pub reason: PendingReason,
    pub message: String,
    pub attempts: u32,
}

/// What is visible of a reason: numbers in its text come and go without telling anybody anything new.
pub fn fingerprint(reason: PendingReason, message: &str) -> u64 {
    let mut hasher = StableHasher::default();
    reason.hash(&mut hasher);
    for word in message.split(' ').filter(|word| !word.contains(|it: char| it.is_ascii_digit())) {
        word.hash(&mut hasher);
    }
    hasher.finish().max(1)
}

impl Engine {
    /// A whole line shows something else: everybody in it has to. If it is what it was, only those have to who came since.
    pub(super) fn show_line(&mut self, class: ClassIx) {
        let Some(stop) = self.queue.stop(class) else { return };
        let print = fingerprint(stop.refusal.reason, &stop.refusal.message);
        if self.shown_of_line.insert(class, print) != Some(print) {
            self.dirty.extend(self.queue.line(class).cloned());
        }
    }

    /// Up to so many reports that are due. They count as shown.
    pub fn take_reports(&mut self, most: usize) -> Vec<Report> {
        let mut reports = Vec::new();
        while reports.len() < most
            && let Some(key) = self.dirty.pop_first()
        {
            let Some(refusal) = self.to_show(&key) else { continue };
            let Some(pending) = self.pending.get_mut(&key) else { continue };
            let print = fingerprint(refusal.reason, &refusal.message);
            if pending.shown == print {
                continue;
            }
            pending.shown = print;
            reports.push(Report {
                replica: key,
                uid: pending.uid.clone(),
                reason: refusal.reason,
                message: refusal.message.clone(),
                attempts: pending.attempts,
            });
        }
        reports
    }

    /// It could not be written: it is due again.
    pub fn report_again(&mut self, key: &str) {
        if let Some((key, pending)) = self.pending.get_key_value(key) {
            let key = key.clone();
            if pending.shown != 0 {
                self.dirty.insert(key.clone());
            }
            if let Some(pending) = self.pending.get_mut(&key) {
                pending.shown = 0;
            }
        }
    }

    pub fn has_reports(&self) -> bool {
        !self.dirty.is_empty()
    }

    fn to_show(&self, key: &str) -> Option<Arc<Refusal>> {
        let pending = self.pending.get(key)?;
        match &pending.phase {
            Phase::InLine => self.queue.stop(pending.class).map(|stop| stop.refusal.clone()),
            Phase::Pausing(refusal) if pending.refusals >= REFUSALS_SHOWN => Some(refusal.clone()),
            Phase::Pausing(_) | Phase::Away => None,
            Phase::Late => {
                let message = "its deadline has passed before it had a node: give it more time, or more room"
                    .to_owned();
                let reason = PendingReason::DeadlineExceeded;
                Some(Arc::new(Refusal::plain(reason, Outcome::Unschedulable, message, Blocker::Nodes)))
            }
        }
    }
}
