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
