//! Who waits for a lease, first in line first. Pure: time is an argument.
//!
//! Whoever comes goes to the end, but before everybody who prefers the newcomer. So the stored order is the order of
//! service, on whichever nodes the waiters are.

use setpoint_types::Timestamp;
use setpoint_types::kinds::LeaseWaiter;

/// Those whose place is not lost yet.
pub fn live(queue: &[LeaseWaiter], now: Timestamp) -> Vec<LeaseWaiter> {
    queue.iter().filter(|waiter| waiter.deadline > now).cloned().collect()
}

/// The place that a holder has, or would have on coming now.
pub fn place(queue: &[LeaseWaiter], holder: &str) -> usize {
    let is_before = |waiter: &LeaseWaiter| waiter.holder == holder || waiter.prefers == holder;
    let own = queue.iter().position(|waiter| waiter.holder == holder);
    own.or_else(|| queue.iter().position(is_before)).unwrap_or(queue.len())
}

/// Adds a waiter. One that waits already keeps the place, and the later of both deadlines.
pub fn enter(queue: &mut Vec<LeaseWaiter>, waiter: LeaseWaiter) {
    let place = place(queue, &waiter.holder);
    match queue.get_mut(place) {
        Some(found) if found.holder == waiter.holder => {
            found.deadline = found.deadline.max(waiter.deadline);
            found.prefers = waiter.prefers;
        }
        _ => queue.insert(place, waiter),
    }
}

pub fn leave(queue: &mut Vec<LeaseWaiter>, holder: &str) {
    queue.retain(|waiter| waiter.holder != holder);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(holder: &str, prefers: &str, deadline: u64) -> LeaseWaiter {
        LeaseWaiter { holder: holder.into(), deadline: Timestamp(deadline), prefers: prefers.into() }
    }

    fn names(queue: &[LeaseWaiter]) -> Vec<&str> {
        queue.iter().map(|waiter| waiter.holder.as_str()).collect()
    }

    #[test]
    fn first_come_first_served_and_a_place_is_kept() {
        let mut queue = Vec::new();
        for holder in ["a", "b", "a", "c"] {
            enter(&mut queue, waiter(holder, "", 10));
        }
        enter(&mut queue, waiter("b", "", 5));
        assert_eq!(names(&queue), ["a", "b", "c"]);
        assert_eq!(queue[1].deadline, Timestamp(10), "the later deadline stays");
        assert_eq!((place(&queue, "c"), place(&queue, "d")), (2, 3));
        leave(&mut queue, "b");
        assert_eq!(names(&queue), ["a", "c"]);
    }

    #[test]
    fn the_preferred_one_goes_before_those_who_prefer_it_and_not_before_others() {
        let mut queue = Vec::new();
        enter(&mut queue, waiter("x", "", 10));
        enter(&mut queue, waiter("a", "p", 10));
        enter(&mut queue, waiter("b", "p", 10));
        enter(&mut queue, waiter("p", "p", 10));
        assert_eq!(names(&queue), ["x", "p", "a", "b"]);
        enter(&mut queue, waiter("p", "p", 20));
        assert_eq!(names(&queue), ["x", "p", "a", "b"]);
    }

    #[test]
    fn a_place_is_lost_at_its_deadline() {
        let queue = [waiter("a", "", 5), waiter("b", "", 6)];
        assert_eq!(names(&live(&queue, Timestamp(5))), ["b"]);
    }
}
