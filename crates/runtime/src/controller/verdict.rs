//! What follows from how a run ended. Pure.

use setpoint_types::names::check_reason;

use super::error::ReconcileError;
use super::reconciler::Action;
use super::settings::Options;
use crate::queue::Outcome;
use crate::sentence::sentence;

/// How a run ended.
#[derive(Debug)]
pub(super) enum Ending {
    Finished(Action),
    Failed(ReconcileError),
    /// It wrote to something that is gone, and a fresh look says that the object itself is.
    Gone,
    TimedOut,
    Panicked(String),
    /// Its shard was lost while it ran.
    Lost,
}

/// As metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Label {
    Done,
    Requeue,
    Retry,
    Terminal,
    Gone,
    Timeout,
    Panic,
    NotHolder,
}

impl Label {
    pub const ALL: [Self; 8] = [
        Self::Done,
        Self::Requeue,
        Self::Retry,
        Self::Terminal,
        Self::Gone,
        Self::Timeout,
        Self::Panic,
        Self::NotHolder,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Requeue => "requeue_after",
            Self::Retry => "retry",
            Self::Terminal => "terminal",
            Self::Gone => "gone",
            Self::Timeout => "timeout",
            Self::Panic => "panic",
            Self::NotHolder => "not_holder",
        }
    }
}

/// What is to be shown of the key from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Well,
    Stalled {
        reason: String,
        message: String,
    },
    /// It says nothing new: what was shown stays.
    Unchanged,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub outcome: Outcome,
    pub label: Label,
    pub standing: Standing,
    /// What it asked for made no sense, and was changed.
    pub clamped: bool,
    /// It was dropped, perhaps in the middle of a write.
    pub dropped: bool,
}

/// `failures` are those before this run.
pub(super) fn judge(ending: &Ending, failures: u32, options: &Options) -> Verdict {
    let verdict =
        |outcome, label, standing| Verdict { outcome, label, standing, clamped: false, dropped: false };
    let failed = |label, message: String| {
        let standing = match failures.saturating_add(1) >= options.settings.stalled_after {
            true => Standing::Stalled { reason: "Failing".into(), message },
            false => Standing::Unchanged,
        };
        verdict(Outcome::Failed, label, standing)
    };
    match ending {
        Ending::Finished(Action::Done) => verdict(Outcome::Done, Label::Done, Standing::Well),
        Ending::Finished(Action::RequeueAfter(wanted)) => {
            let delay = (*wanted).clamp(options.requeue_min(), options.requeue_max());
            let clamped = delay != *wanted;
            Verdict { clamped, ..verdict(Outcome::After(delay), Label::Requeue, Standing::Well) }
        }
        Ending::Gone => verdict(Outcome::Done, Label::Gone, Standing::Unchanged),
        Ending::Failed(ReconcileError::Terminal { reason, cause }) => {
            let (reason, message) = told(reason, sentence(&**cause));
            verdict(Outcome::Done, Label::Terminal, Standing::Stalled { reason, message })
        }
        // Not `Done`: if the shard is held after all, the key must not be lost; if not, it is dropped when it comes up.
        Ending::Failed(ReconcileError::NotHolder) => {
            verdict(Outcome::Failed, Label::NotHolder, Standing::Unchanged)
        }
        Ending::Failed(error @ ReconcileError::Retry { not_before: Some(wait), .. }) => {
            // No server means days.
            let outcome = Outcome::FailedFor((*wait).min(options.requeue_max()));
            Verdict { outcome, ..failed(Label::Retry, error.chain()) }
        }
        Ending::Failed(error @ (ReconcileError::Retry { .. } | ReconcileError::Vanished { .. })) => {
            failed(Label::Retry, error.chain())
        }
        Ending::TimedOut => Verdict {
            dropped: true,
            ..failed(Label::Timeout, format!("no end within {:?}", options.timeout()))
        },
        Ending::Panicked(message) => {
            Verdict { dropped: true, ..failed(Label::Panic, format!("it panicked: {message}")) }
        }
        // Whoever gains the shard again begins with all its keys.
        Ending::Lost => verdict(Outcome::Done, Label::NotHolder, Standing::Unchanged),
    }
}

/// A reason that no condition can have would hide what is wrong: it becomes a part of the message.
fn told(reason: &str, message: String) -> (String, String) {
    match check_reason(reason) {
        Ok(()) => (reason.to_owned(), message),
        Err(_) => ("Terminal".to_owned(), format!("{reason}: {message}")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::settings::ControllerSettings;
    use super::*;

    fn judged(ending: Ending, failures: u32) -> Verdict {
        let settings = ControllerSettings { stalled_after: 3, ..ControllerSettings::default() };
        judge(&ending, failures, &settings.check().expect("good settings"))
    }

    fn requeued(after: Duration) -> (Outcome, bool) {
        let verdict = judged(Ending::Finished(Action::RequeueAfter(after)), 0);
        (verdict.outcome, verdict.clamped)
    }

    #[test]
    fn a_requeue_that_makes_no_sense_is_clamped() {
        let day = Duration::from_secs(24 * 60 * 60);
        assert_eq!(requeued(Duration::ZERO), (Outcome::After(Duration::from_millis(100)), true));
        assert_eq!(requeued(36_500 * day), (Outcome::After(day), true));
        assert_eq!(requeued(Duration::MAX), (Outcome::After(day), true));
        assert_eq!(requeued(Duration::from_secs(5)), (Outcome::After(Duration::from_secs(5)), false));
    }

    #[test]
    fn failures_back_off_and_are_shown_only_when_they_go_on() {
        let retry = || Ending::Failed(ReconcileError::retry("no"));
        assert_eq!(judged(retry(), 1).standing, Standing::Unchanged);
        let verdict = judged(retry(), 2);
        assert_eq!((verdict.outcome, verdict.label), (Outcome::Failed, Label::Retry));
        assert!(matches!(verdict.standing, Standing::Stalled { reason, .. } if reason == "Failing"));
        for ending in [Ending::TimedOut, Ending::Panicked("boom".into())] {
            let verdict = judged(ending, 2);
            assert!(verdict.dropped && verdict.outcome == Outcome::Failed);
            assert!(matches!(verdict.standing, Standing::Stalled { .. }));
        }
    }

    #[test]
    fn a_server_that_says_when_to_come_back_is_not_asked_before() {
        let busy = |seconds| {
            let wait = Duration::from_secs(seconds);
            judged(Ending::Failed(ReconcileError::retry_after(wait, "busy")), 0).outcome
        };
        assert_eq!(busy(7), Outcome::FailedFor(Duration::from_secs(7)));
        assert_eq!(busy(u64::MAX), Outcome::FailedFor(Duration::from_secs(24 * 60 * 60)));
    }

    #[test]
    fn what_cannot_succeed_is_left_alone_and_shown_at_once() {
        let verdict = judged(Ending::Failed(ReconcileError::terminal("BadSpec", "no such zone")), 0);
        assert_eq!(verdict.outcome, Outcome::Done);
        let (reason, message) = ("BadSpec".into(), "no such zone".into());
        assert_eq!(verdict.standing, Standing::Stalled { reason, message });
        assert_eq!(judged(Ending::Finished(Action::Done), 9).standing, Standing::Well);
    }

    #[test]
    fn a_reason_that_makes_no_sense_is_told_as_text() {
        for reason in ["", "no such zone", "7", &"X".repeat(5_000)] {
            let verdict = judged(Ending::Failed(ReconcileError::terminal(reason, "cause")), 0);
            let Standing::Stalled { reason: shown, message } = verdict.standing else { panic!() };
            assert_eq!((shown.as_str(), message), ("Terminal", format!("{reason}: cause")));
        }
    }

    #[test]
    fn a_key_that_is_not_ours_any_more_is_not_complained_about() {
        assert_eq!(judged(Ending::Failed(ReconcileError::NotHolder), 99).standing, Standing::Unchanged);
        assert_eq!(judged(Ending::Lost, 99).outcome, Outcome::Done);
        assert_eq!(judged(Ending::Gone, 99).outcome, Outcome::Done);
    }
}
