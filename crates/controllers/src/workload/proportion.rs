//! How a changed number of replicas is shared among the revisions that have some, in the middle of a rollout. Pure numbers.
//!
//! In proportion: a revision that has not proven itself gets no more than its part of new ones, and what a rollout has come to is
//! kept. Replicas that have to stay available are not given up for it.

use super::rolling::{Limits, Share};

/// How many each revision is to have, now that `desired` is another number than `before`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaled {
    pub targets: Vec<u32>,
    /// More are to come once there is room: what is being stopped is still there.
    pub is_cut: bool,
}

pub fn scaled(limits: Limits, before: u32, shares: &[Share]) -> Scaled {
    let active = shares.iter().filter(|share| share.wanted > 0).count();
    let total: u64 = shares.iter().map(|share| u64::from(share.wanted)).sum();
    // What there was beyond the number wanted, for the sake of the rollout, there may be again.
    let beyond = if active > 1 { total.saturating_sub(u64::from(before)) } else { 0 };
    let allowed = u64::from(limits.desired) + beyond.min(u64::from(limits.surge));
    let mut targets = proportional(shares, total, if limits.desired == 0 { 0 } else { allowed });
    if allowed < total {
        keep_available(limits, shares, &mut targets);
    }
    let is_cut = cut(limits, shares, &mut targets);
    Scaled { targets, is_cut }
}

/// No more come than there is room for beside what is there.
fn cut(limits: Limits, shares: &[Share], targets: &mut [u32]) -> bool {
    let others_are_there = shares.iter().filter(|share| !share.is_gone()).count() > 1;
    let held: u64 = shares.iter().map(|share| share.held()).sum();
    let mut room = u64::from(limits.most()).saturating_sub(held);
    let mut is_cut = false;
    for (target, share) in targets.iter_mut().zip(shares).filter(|_| others_are_there) {
        let more = target.saturating_sub(share.wanted);
        let taken = u32::try_from(room).unwrap_or(u32::MAX).min(more);
        room -= u64::from(taken);
        is_cut |= taken < more;
        *target -= more - taken;
    }
    is_cut
}

/// `allowed` in the proportions of what each has: rounded down, and what is left over to the largest remainders, of two equal ones to
/// the first.
fn proportional(shares: &[Share], total: u64, allowed: u64) -> Vec<u32> {
    if total == 0 {
        return vec![0; shares.len()];
    }
    let part = |share: &Share| u64::from(share.wanted) * allowed;
    let mut targets: Vec<u64> = shares.iter().map(|share| part(share) / total).collect();
    let left_over = allowed - targets.iter().sum::<u64>();
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by_key(|place| (std::cmp::Reverse(part(&shares[*place]) % total), *place));
    for place in order.into_iter().take(usize::try_from(left_over).unwrap_or(usize::MAX)) {
        targets[place] += 1;
    }
    targets.into_iter().map(|target| u32::try_from(target).unwrap_or(u32::MAX)).collect()
}

/// Lets revisions keep what has to stay available, at the cost of those that have more than is available.
fn keep_available(limits: Limits, shares: &[Share], targets: &mut [u32]) {
    let available: u32 = shares.iter().map(|share| share.lasting()).sum();
    let kept = |targets: &[u32]| -> u32 {
        shares.iter().zip(targets).map(|(share, target)| share.lasting().min(*target)).sum()
    };
    let mut missing = limits.least().min(available).saturating_sub(kept(targets));
    let mut owed = 0;
    for (target, share) in targets.iter_mut().zip(shares) {
        let more = share.lasting().saturating_sub(*target).min(missing);
        *target += more;
        missing -= more;
        owed += more;
    }
    for (target, share) in targets.iter_mut().zip(shares) {
        let less = target.saturating_sub(share.lasting()).min(owed);
        *target -= less;
        owed -= less;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn well(count: u32) -> Share {
        Share { wanted: count, present: count, available: count }
    }

    fn starting(count: u32) -> Share {
        Share { wanted: count, present: count, available: 0 }
    }

    fn limits(desired: u32, surge: u32, unavailable: u32) -> Limits {
        Limits { desired, surge, unavailable }
    }

    #[test]
    fn one_revision_gets_the_whole_number() {
        assert_eq!(scaled(limits(20, 5, 5), 10, &[well(10)]).targets, [20]);
        assert_eq!(scaled(limits(4, 1, 1), 10, &[well(10), Share::default()]).targets, [4, 0]);
        assert_eq!(scaled(limits(0, 0, 1), 10, &[well(10)]).targets, [0]);
    }

    #[test]
    fn several_get_their_parts_and_what_was_beyond_stays_beyond() {
        assert_eq!(scaled(limits(20, 5, 5), 10, &[well(8), starting(5)]).targets, [14, 9]);
        assert_eq!(scaled(limits(5, 2, 1), 10, &[well(8), well(5)]).targets, [4, 3]);
    }

    #[test]
    fn what_has_to_be_available_is_not_given_up() {
        assert_eq!(scaled(limits(10, 3, 2), 20, &[well(13), starting(12)]).targets, [8, 5]);
    }

    #[test]
    fn what_is_still_being_stopped_leaves_no_room() {
        let stopping = Share { wanted: 0, present: 3, available: 0 };
        let scaled = scaled(limits(2, 1, 2), 3, &[stopping, starting(1)]);
        assert_eq!(scaled, Scaled { targets: vec![0, 1], is_cut: true });
    }

    proptest! {
        #[test]
        fn the_sum_is_right_and_enough_stay_available(
            desired in 0_u32..40, before in 0_u32..40, surge in 0_u32..5, unavailable in 0_u32..5,
            numbers in prop::collection::vec((0_u32..30, 0_u32..30), 1..4),
        ) {
            let limits = limits(desired, surge, unavailable.min(desired));
            let shares: Vec<Share> = numbers
                .iter()
                .map(|(wanted, available)| Share { wanted: *wanted, present: *wanted, available: *available })
                .collect();
            let total: u32 = shares.iter().map(|it| it.wanted).sum();
            let targets = scaled(limits, before, &shares).targets;
            let sum: u32 = targets.iter().sum();
            let available: u32 = shares.iter().map(|it| it.lasting()).sum();
            let kept: u32 = shares.iter().zip(&targets).map(|(it, target)| it.lasting().min(*target)).sum();
            prop_assert!(kept >= limits.least().min(available) || total == 0, "{targets:?}");
            prop_assert!(sum <= limits.most().max(total), "{targets:?}");
            if total > 0 && desired > 0 && sum > limits.most() {
                // More than allowed only to keep what has to be available.
                prop_assert!(kept == limits.least().min(available), "{targets:?}");
            }
            for (target, share) in targets.iter().zip(&shares) {
                prop_assert!(share.wanted > 0 || *target == 0);
            }
        }
    }
}
