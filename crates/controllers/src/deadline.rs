//! How it stands with the deadline of a workload, a batch or not. Pure.

use setpoint_types::kinds::{DeadlineState, DeadlineStatus};
use setpoint_types::{Metadata, Timestamp};

/// Whether it is kept. It begins anew with every change of the spec, which `known` is then not of; once it is kept or missed, that
/// stays so.
pub fn judge(
    metadata: &Metadata,
    seconds: Option<u32>,
    known: Option<&DeadlineStatus>,
    is_reached: bool,
    now: Timestamp,
) -> Option<DeadlineStatus> {
    let seconds = u64::from(seconds?);
    let from = if metadata.generation.0 <= 1 { metadata.created } else { now };
    let fresh = DeadlineStatus { state: DeadlineState::Running, time: Timestamp(from.0 + seconds * 1000) };
    let mut deadline = known.cloned().unwrap_or(fresh);
    if deadline.state == DeadlineState::Running {
        if is_reached {
            deadline.state = DeadlineState::Met;
        } else if now >= deadline.time {
            deadline.state = DeadlineState::Exceeded;
        }
    }
    Some(deadline)
}

#[cfg(test)]
mod tests {
    use setpoint_types::Generation;

    use super::*;

    fn check(
        generation: u64,
        known: Option<DeadlineStatus>,
        is_reached: bool,
        now: u64,
        expected: (DeadlineState, u64),
    ) {
        let metadata =
            Metadata { generation: Generation(generation), created: Timestamp(1_000), ..Metadata::default() };
        let judged = judge(&metadata, Some(10), known.as_ref(), is_reached, Timestamp(now)).expect("one");
        assert_eq!((judged.state, judged.time.0), expected);
    }

    #[test]
    fn it_counts_from_the_creation_or_from_the_last_change() {
        check(1, None, false, 5_000, (DeadlineState::Running, 11_000));
        check(2, None, false, 50_000, (DeadlineState::Running, 60_000));
    }

    #[test]
    fn what_was_kept_or_missed_stays_so() {
        let known = |state| Some(DeadlineStatus { state, time: Timestamp(11_000) });
        check(1, known(DeadlineState::Running), false, 11_000, (DeadlineState::Exceeded, 11_000));
        check(1, known(DeadlineState::Met), false, 99_000, (DeadlineState::Met, 11_000));
        check(1, known(DeadlineState::Exceeded), true, 12_000, (DeadlineState::Exceeded, 11_000));
    }
}
