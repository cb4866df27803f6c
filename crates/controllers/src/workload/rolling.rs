//! How many replicas each revision gets next: the limits of a rollout, and one step within them. Pure numbers.
//!
//! The rules that hold after every step, whatever becomes of the one before: old replicas are replaced only as far as
//! `desired - unavailable` stay available, and there are never more than `desired + surge`, those included that are still being
//! stopped. A step follows from the numbers alone, so that another process goes on from wherever the last one stopped.
//!
//! Not here: a changed number of replicas (`proportion`), and when steps are taken at all (`plan`).

use setpoint_types::kinds::Rollout;

/// What one revision has, as far as it was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// How many its ReplicaSet is to have.
    pub wanted: u32,
    /// How many there are, those that are being stopped included.
    pub present: u32,
    /// How many of them are available.
    pub available: u32,
}

impl Share {
    /// How many there are or may be a moment later.
    pub(super) fn held(self) -> u64 {
        u64::from(self.wanted.max(self.present))
    }

    /// How many are available, once there are only as many as wanted. Those that are not go first.
    pub fn lasting(self) -> u32 {
        self.available.min(self.wanted)
    }

    pub fn is_gone(self) -> bool {
        self.wanted == 0 && self.present == 0
    }
}

/// How far a rollout may go at any moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub desired: u32,
    /// So many more there may be.
    pub surge: u32,
    /// So many may be missing.
    pub unavailable: u32,
}

impl Limits {
    /// A share of more is rounded up, one of fewer down; if nothing is left of both, one may be missing, or nothing could
    /// ever change.
    pub fn of(rollout: &Rollout, desired: u32) -> Self {
        let surge = rollout.max_surge.rounded_up(desired);
        let unavailable = rollout.max_unavailable.rounded_down(desired).min(desired);
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Self { desired, surge, unavailable }
    }

    /// So many have to be available.
    pub fn least(self) -> u32 {
        self.desired.saturating_sub(self.unavailable)
    }

    /// So many there may be.
    pub fn most(self) -> u32 {
        self.desired.saturating_add(self.surge)
    }
}

/// How many each revision is to have next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub new: u32,
    /// In the order they were given in: oldest first.
    pub olds: Vec<u32>,
}

/// The next step of a rolling update. `olds` are oldest first.
pub fn rolling(limits: Limits, new: Share, olds: &[Share]) -> Step {
    Step { new: grown(limits, new, olds), olds: shrunk(limits, new, olds) }
}

/// The next step where all old ones go before the first new one comes.
pub fn recreate(limits: Limits, new: Share, olds: &[Share]) -> Step {
    let is_free = olds.iter().all(|old| old.is_gone());
    let new = if is_free { limits.desired } else { new.wanted.min(limits.desired) };
    Step { new, olds: vec![0; olds.len()] }
}

/// As many more new ones as there is room for.
fn grown(limits: Limits, new: Share, olds: &[Share]) -> u32 {
    // Without anything old this is no rollout: those being stopped are of the same revision, and hold nothing up.
    if olds.iter().all(|old| old.is_gone()) || new.wanted >= limits.desired {
        return limits.desired;
    }
    let held: u64 = olds.iter().map(|old| old.held()).sum::<u64>() + new.held();
    let room = u64::from(limits.most()).saturating_sub(held);
    let room = u32::try_from(room).unwrap_or(u32::MAX);
    new.wanted.saturating_add(room).min(limits.desired)
}

/// As many fewer old ones as may go: first those that are not available anyway, then others.
fn shrunk(limits: Limits, new: Share, olds: &[Share]) -> Vec<u32> {
    let wanted: u64 = olds.iter().map(|old| u64::from(old.wanted)).sum::<u64>() + u64::from(new.wanted);
    let available: u64 =
        olds.iter().map(|old| u64::from(old.lasting())).sum::<u64>() + u64::from(new.lasting());
    let least = u64::from(limits.least());
    // What is not available may become so again, perhaps all of it at once: as many are kept as have to be available, beside new
    // ones that have not proven themselves.
    let unproven = u64::from(new.wanted - new.lasting());
    let mut may_go = wanted.saturating_sub(least + unproven);
    let mut targets: Vec<u32> = olds.iter().map(|old| old.wanted).collect();
    for (target, old) in targets.iter_mut().zip(olds) {
        let useless = old.wanted - old.lasting();
        *target -= take(&mut may_go, useless);
    }
    may_go = may_go.min(available.saturating_sub(least));
    for target in &mut targets {
        *target -= take(&mut may_go, *target);
    }
    targets
}

fn take(from: &mut u64, most: u32) -> u32 {
    let taken = u32::try_from(*from).unwrap_or(u32::MAX).min(most);
    *from -= u64::from(taken);
    taken
}

#[cfg(test)]
mod tests {
    use setpoint_types::quantity::CountOrPercent::{Count, Percent};

    use super::*;

    fn limits(desired: u32, surge: u32, unavailable: u32) -> Limits {
        Limits { desired, surge, unavailable }
    }

    /// All of them there and available.
    fn well(count: u32) -> Share {
        Share { wanted: count, present: count, available: count }
    }

    fn starting(count: u32) -> Share {
        Share { wanted: count, present: count, available: 0 }
    }

    fn check(limits: Limits, new: Share, olds: &[Share], expected: (u32, &[u32])) {
        let step = rolling(limits, new, olds);
        assert_eq!((step.new, step.olds.as_slice()), expected, "{limits:?} {new:?} {olds:?}");
    }

    #[test]
    fn shares_are_rounded_so_that_more_rather_than_fewer_run() {
        let rollout = |surge, unavailable| Rollout {
            max_surge: surge,
            max_unavailable: unavailable,
            ..Rollout::default()
        };
        assert_eq!(Limits::of(&rollout(Percent(25), Percent(25)), 10), limits(10, 3, 2));
        assert_eq!(Limits::of(&rollout(Percent(25), Percent(25)), 1), limits(1, 1, 0));
        assert_eq!(Limits::of(&rollout(Percent(0), Percent(5)), 10), limits(10, 0, 1));
        assert_eq!(Limits::of(&rollout(Count(2), Count(50)), 10), limits(10, 2, 10));
    }

    #[test]
    fn a_rollout_goes_from_old_to_new_within_its_limits() {
        let ten = limits(10, 3, 2);
        check(ten, Share::default(), &[well(10)], (3, &[8]));
        // The two that go are still there.
        check(ten, starting(3), &[Share { wanted: 8, present: 10, available: 8 }], (3, &[8]));
        check(ten, starting(3), &[well(8)], (5, &[8]));
        check(ten, well(5), &[well(8)], (5, &[3]));
        check(ten, well(10), &[], (10, &[]));
    }

    #[test]
    fn new_ones_that_never_become_available_stop_it() {
        check(limits(10, 3, 2), starting(5), &[well(8)], (5, &[8]));
        check(limits(4, 1, 0), starting(1), &[well(4)], (1, &[4]));
    }

    #[test]
    fn old_ones_that_are_not_available_go_first_but_not_all_at_once() {
        let half = Share { wanted: 10, present: 10, available: 5 };
        check(limits(10, 3, 2), Share::default(), &[half], (3, &[8]));
        let none = Share { wanted: 10, present: 10, available: 0 };
        check(limits(10, 3, 2), Share::default(), &[none], (3, &[8]));
    }

    #[test]
    fn the_oldest_revision_goes_first() {
        check(limits(6, 2, 1), starting(2), &[well(2), well(4)], (2, &[1, 4]));
    }

    #[test]
    fn without_surge_room_comes_from_those_that_are_gone() {
        let one = limits(1, 0, 1);
        check(one, Share::default(), &[well(1)], (0, &[0]));
        check(one, Share::default(), &[Share { wanted: 0, present: 1, available: 0 }], (0, &[0]));
        check(one, Share::default(), &[Share::default()], (1, &[0]));
    }

    #[test]
    fn recreating_waits_for_the_last_old_one() {
        let three = limits(3, 1, 1);
        assert_eq!(recreate(three, Share::default(), &[well(3)]), Step { new: 0, olds: vec![0] });
        let stopping = Share { wanted: 0, present: 1, available: 0 };
        assert_eq!(recreate(three, Share::default(), &[stopping]), Step { new: 0, olds: vec![0] });
        assert_eq!(recreate(three, Share::default(), &[Share::default()]), Step { new: 3, olds: vec![0] });
    }
}
