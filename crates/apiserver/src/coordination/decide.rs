//! What to do about a request for a lease, from the lease as it is. Pure: time is an argument.

use std::time::Duration;

use setpoint_store::Hold;
use setpoint_types::Timestamp;
use setpoint_types::kinds::LeaseWaiter;

use super::object;
use super::queue;
use super::state::Moment;

/// What one request wants of a lease, and how it has fared so far.
#[derive(Clone, Copy, Debug)]
pub struct Want<'a> {
    pub holder: &'a str,
    /// Of the request; empty if it names none.
    pub preferred: &'a str,
    /// How long it still waits.
    pub wait: Duration,
    /// It was done before, and has had its turn.
    pub done: bool,
    /// It may enter the queue, again if it has been dropped from it.
    pub may_enter: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The requester has it already.
    Keep(Hold),
    /// It is free, and the requester's turn. Who waits behind it.
    Take(Vec<LeaseWaiter>),
    /// Somebody else has it or comes first. The queue with the requester in it, if that is to be written.
    Enter(Vec<LeaseWaiter>),
    /// Until something changes, but no longer than this.
    Wait(Duration),
    /// Not now. The queue without the requester, if that is to be written.
    Leave(Option<Vec<LeaseWaiter>>),
}

/// A place whose deadline is this much before the end of the wait is not written anew for it.
const DEADLINE_SLACK: u64 = 1_000;

pub fn decide(moment: &Moment, want: Want<'_>, now: Timestamp) -> Step {
    if let Some(hold) = moment.hold.as_ref().filter(|hold| hold.holder == want.holder) {
        return Step::Keep(hold.clone());
    }
    let stored = object::status(moment.object()).queue;
    let mut waiting = queue::live(&stored, now);
    let place = queue::place(&waiting, want.holder);
    if moment.hold.is_none() && place == 0 && !want.done {
        queue::leave(&mut waiting, want.holder);
        return Step::Take(waiting);
    }
    if want.wait.is_zero() || want.done {
        let entered = stored.iter().any(|waiter| waiter.holder == want.holder);
        queue::leave(&mut waiting, want.holder);
        return Step::Leave(entered.then_some(waiting));
    }
    let deadline = Timestamp(now.0.saturating_add(millis(want.wait)));
    let own = waiting.get(place).filter(|waiter| waiter.holder == want.holder);
    let stays = own.is_some_and(|waiter| waiter.deadline.0.saturating_add(DEADLINE_SLACK) >= deadline.0);
    if !stays && want.may_enter {
        let prefers = preferred(moment, want);
        queue::enter(&mut waiting, LeaseWaiter { holder: want.holder.to_owned(), deadline, prefers });
        return Step::Enter(waiting);
    }
    // Of a lease that is held nothing has to be asked before it changes; of a free one, when those before us give up.
    let give_up = waiting[..place].iter().map(|waiter| waiter.deadline.0.saturating_sub(now.0)).min();
    let give_up = give_up.filter(|_| moment.hold.is_none()).map(Duration::from_millis);
    Step::Wait(give_up.map_or(want.wait, |give_up| want.wait.min(give_up)))
}

/// Who goes first, as far as this requester is concerned.
fn preferred(moment: &Moment, want: Want<'_>) -> String {
    if want.preferred.is_empty() {
        object::spec(moment.object()).preferred_holder
    } else {
        want.preferred.to_owned()
    }
}

/// Rounded up, so that what ends then has ended.
fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use setpoint_objects::Object;
    use setpoint_store::Epoch;
    use setpoint_types::Revision;
    use setpoint_types::kinds::LeaseStatus;
    use setpoint_types::object::to_json;

    use super::super::state::Stored;
    use super::*;

    const NOW: Timestamp = Timestamp(1_000);

    fn moment(holder: &str, queue: &[(&str, u64)]) -> Moment {
        let waiter = |(holder, deadline): &(&str, u64)| LeaseWaiter {
            holder: (*holder).to_owned(),
            deadline: Timestamp(*deadline),
            prefers: String::new(),
        };
        let status = LeaseStatus { queue: queue.iter().map(waiter).collect(), ..LeaseStatus::default() };
        let hold = Hold { holder: holder.to_owned(), epoch: Epoch(1), ..Hold::default() };
        Moment {
            object: Stored::Object(Box::new(Object { status: to_json(&status), ..Object::default() })),
            object_at: Revision::new(2),
            hold: (!holder.is_empty()).then_some(hold),
            hold_at: Revision::NONE,
            epoch: Epoch(1),
        }
    }

    fn want(holder: &str, wait: u64) -> Want<'_> {
        Want { holder, preferred: "", wait: Duration::from_millis(wait), done: false, may_enter: true }
    }

    #[test]
    fn nobody_overtakes_whoever_waits_until_that_one_gives_up() {
        let free = moment("", &[("b", 1_400)]);
        assert_eq!(decide(&free, want("z", 0), NOW), Step::Leave(None));
        assert!(matches!(decide(&free, want("z", 5_000), NOW), Step::Enter(queue) if queue[1].holder == "z"));
        assert_eq!(decide(&free, want("b", 5_000), NOW), Step::Take(Vec::new()));
        let entered = moment("", &[("b", 1_400), ("z", 6_000)]);
        assert_eq!(decide(&entered, want("z", 5_000), NOW), Step::Wait(Duration::from_millis(400)));
        assert_eq!(decide(&entered, want("z", 5_000), Timestamp(1_400)), Step::Take(Vec::new()));
    }

    #[test]
    fn what_is_held_is_waited_for_without_asking_again() {
        let held = moment("a", &[("b", 1_400), ("z", 6_000)]);
        assert_eq!(decide(&held, want("z", 5_000), NOW), Step::Wait(Duration::from_secs(5)));
        assert!(matches!(decide(&held, want("a", 0), NOW), Step::Keep(_)));
        assert!(matches!(decide(&held, want("z", 0), NOW), Step::Leave(Some(queue)) if queue.len() == 1));
    }

    #[test]
    fn who_was_dropped_enters_again_a_few_times_and_what_was_done_is_not_done_again() {
        let held = moment("a", &[]);
        assert!(matches!(decide(&held, want("z", 5_000), NOW), Step::Enter(_)));
        let no_more = Want { may_enter: false, ..want("z", 5_000) };
        assert_eq!(decide(&held, no_more, NOW), Step::Wait(Duration::from_secs(5)));
        let done = Want { done: true, ..want("z", 5_000) };
        assert_eq!(decide(&moment("", &[]), done, NOW), Step::Leave(None));
    }
}
