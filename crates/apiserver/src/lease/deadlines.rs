//! When each lease runs out, as the leader counts. Pure: time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_store::GrantedLease;
use setpoint_types::LeaseId;
use tokio::time::Instant;

#[derive(Default)]
pub struct Deadlines {
    leases: BTreeMap<LeaseId, Counted>,
    queue: BTreeSet<(Instant, LeaseId)>,
}

struct Counted {
    ttl: Duration,
    /// Which of the leases that had this id it is.
    granted_at: u64,
    deadline: Instant,
    /// Its expiry was proposed: it can no longer be renewed.
    expiring: bool,
}

/// What is known about one lease's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Time left.
    Remaining(Duration),
    /// Its time is up, and its keys go with the next entries of the log.
    Expiring,
}

/// A lease whose time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    pub id: LeaseId,
    granted_at: u64,
}

impl Deadlines {
    /// Takes all leases as they are: those that are gone are forgotten.
    pub fn follow(&mut self, leases: &[GrantedLease], now: Instant, term: u64, grace: Duration) {
        let live: BTreeSet<LeaseId> = leases.iter().map(|lease| lease.id).collect();
        let gone: Vec<LeaseId> = self.leases.keys().filter(|id| !live.contains(id)).copied().collect();
        gone.into_iter().for_each(|id| self.forget(id));
        for lease in leases {
            self.take(lease, now, term, grace);
        }
    }

    /// Takes a lease as it is: a new one gets its time from now, as does one that was revoked and granted again since. One
    /// granted under another leader than that of `term` gets `grace` on top.
    pub fn take(&mut self, lease: &GrantedLease, now: Instant, term: u64, grace: Duration) {
        let counted = self.leases.get(&lease.id);
        if counted.is_none_or(|counted| counted.granted_at != lease.granted_at) {
            let ttl = Duration::from_secs(u64::try_from(lease.ttl).unwrap_or(0));
            // S11: the last leader may have renewed it, so it starts anew and is never cut short.
            let grace = if lease.granted_in == term { Duration::ZERO } else { grace };
            let deadline = now + ttl + grace;
            let counted = Counted { ttl, granted_at: lease.granted_at, deadline, expiring: false };
            self.set(lease.id, counted);
        }
    }

    pub fn clear(&mut self) {
        self.leases.clear();
        self.queue.clear();
    }

    /// Starts the lease's time anew. None if there is no such lease, or its expiry is under way.
    pub fn renew(&mut self, id: LeaseId, now: Instant) -> Option<Duration> {
        let counted = self.leases.get(&id).filter(|counted| !counted.expiring)?;
        let ttl = counted.ttl;
        self.set(id, Counted { deadline: now + ttl, ..*counted });
        Some(ttl)
    }

    pub fn lifetime(&self, id: LeaseId, now: Instant) -> Option<Lifetime> {
        let counted = self.leases.get(&id)?;
        let remaining = counted.deadline.saturating_duration_since(now);
        Some(if counted.expiring { Lifetime::Expiring } else { Lifetime::Remaining(remaining) })
    }

    /// Takes up to `most` leases whose time is up. They count as expiring until they are gone, or `retry` is called.
    pub fn take_expired(&mut self, now: Instant, most: usize) -> Vec<Expired> {
        let due: Vec<_> = self.queue.range(..=(now, LeaseId(i64::MAX))).take(most).copied().collect();
        let mut expired = Vec::with_capacity(due.len());
        for (deadline, id) in due {
            self.queue.remove(&(deadline, id));
            if let Some(counted) = self.leases.get_mut(&id) {
                counted.expiring = true;
                expired.push(Expired { id, granted_at: counted.granted_at });
            }
        }
        expired
    }

    /// The expiry was not applied: it is due again at `at`, unless the lease is gone and another has its id.
    pub fn retry(&mut self, expired: Expired, at: Instant) {
        let counted = self.leases.get(&expired.id);
        if let Some(counted) = counted.filter(|counted| counted.granted_at == expired.granted_at) {
            self.set(expired.id, Counted { deadline: at, expiring: true, ..*counted });
        }
    }

    fn set(&mut self, id: LeaseId, counted: Counted) {
        self.forget(id);
        self.queue.insert((counted.deadline, id));
        self.leases.insert(id, counted);
    }

    /// The lease is gone.
    pub fn forget(&mut self, id: LeaseId) {
        if let Some(counted) = self.leases.remove(&id) {
            self.queue.remove(&(counted.deadline, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: u64 = 4;
    const SECOND: Duration = Duration::from_secs(1);

    fn expired(deadlines: &mut Deadlines, now: Instant) -> Vec<LeaseId> {
        deadlines.take_expired(now, 10).into_iter().map(|expired| expired.id).collect()
    }

    fn lease(id: i64, ttl: i64) -> GrantedLease {
        GrantedLease { id: LeaseId(id), ttl, granted_at: 0, granted_in: TERM }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_expires_after_its_time_and_not_before() {
        let (mut deadlines, start) = (Deadlines::default(), Instant::now());
        deadlines.follow(&[lease(1, 5), lease(2, 10)], start, TERM, Duration::ZERO);
        assert!(deadlines.take_expired(start + SECOND * 5 - Duration::from_millis(1), 10).is_empty());
        assert_eq!(expired(&mut deadlines, start + SECOND * 5), [LeaseId(1)]);
        assert_eq!(deadlines.lifetime(LeaseId(1), start), Some(Lifetime::Expiring));
        assert_eq!(deadlines.lifetime(LeaseId(2), start + SECOND), Some(Lifetime::Remaining(SECOND * 9)));
    }

    #[tokio::test(start_paused = true)]
    async fn renewing_starts_anew_until_the_expiry_is_under_way() {
        let (mut deadlines, start) = (Deadlines::default(), Instant::now());
        deadlines.follow(&[lease(1, 5)], start, TERM, Duration::ZERO);
        assert_eq!(deadlines.renew(LeaseId(1), start + SECOND * 4), Some(SECOND * 5));
        assert!(deadlines.take_expired(start + SECOND * 8, 10).is_empty());
        assert_eq!(expired(&mut deadlines, start + SECOND * 9), [LeaseId(1)]);
        assert_eq!(deadlines.renew(LeaseId(1), start + SECOND * 9), None);
        assert_eq!(deadlines.renew(LeaseId(7), start), None);
    }

    /// S11.
    #[tokio::test(start_paused = true)]
    async fn a_new_leader_only_lengthens_and_what_is_gone_is_forgotten() {
        let (mut deadlines, start) = (Deadlines::default(), Instant::now());
        let [one, two] = [1, 2].map(|id| GrantedLease { granted_in: TERM - 1, ..lease(id, 5) });
        deadlines.follow(&[one, two, lease(3, 5)], start, TERM, SECOND * 2);
        assert_eq!(expired(&mut deadlines, start + SECOND * 5), [LeaseId(3)], "ours from the beginning");
        assert!(deadlines.take_expired(start + SECOND * 6, 10).is_empty());
        deadlines.follow(&[two], start + SECOND, TERM, SECOND * 2);
        assert_eq!(expired(&mut deadlines, start + SECOND * 7), [LeaseId(2)]);
        deadlines.retry(Expired { id: LeaseId(2), granted_at: 0 }, start + SECOND * 8);
        assert_eq!(deadlines.renew(LeaseId(2), start + SECOND * 7), None);
        assert_eq!(expired(&mut deadlines, start + SECOND * 8), [LeaseId(2)]);
    }

    /// What came or went, lease by lease, against all leases each time.
    #[tokio::test(start_paused = true)]
    async fn following_the_changes_is_as_good_as_looking_at_all() {
        let start = Instant::now();
        let (mut whole, mut stepwise) = (Deadlines::default(), Deadlines::default());
        let mut leases: BTreeMap<LeaseId, GrantedLease> = BTreeMap::new();
        let mut changed = Vec::new();
        for step in 0..500_u64 {
            // Ids and kinds of changes that repeat only after a long while.
            let (id, now) = (LeaseId((step * step % 7) as i64), start + SECOND * step as u32);
            changed.push(id);
            if leases.remove(&id).is_none() {
                let granted = lease(id.0, 3 + (step % 11) as i64);
                leases.insert(id, GrantedLease { granted_at: step, granted_in: TERM - step % 2, ..granted });
            }
            if step % 5 > 2 {
                continue;
            }
            let all: Vec<_> = leases.values().copied().collect();
            whole.follow(&all, now, TERM, SECOND);
            for id in changed.drain(..) {
                match leases.get(&id) {
                    Some(lease) => stepwise.take(lease, now, TERM, SECOND),
                    None => stepwise.forget(id),
                }
            }
            if let Some(id) = leases.keys().next() {
                assert_eq!(whole.renew(*id, now), stepwise.renew(*id, now));
            }
            assert_eq!(expired(&mut whole, now), expired(&mut stepwise, now));
            assert_eq!(whole.leases.len(), stepwise.leases.len());
            for id in (0..7).map(LeaseId) {
                assert_eq!(whole.lifetime(id, now), stepwise.lifetime(id, now), "{id} in step {step}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_was_granted_anew_has_a_time_of_its_own() {
        let (mut deadlines, start) = (Deadlines::default(), Instant::now());
        deadlines.follow(&[lease(1, 5)], start, TERM, Duration::ZERO);
        let again = GrantedLease { granted_at: 3, ..lease(1, 60) };
        deadlines.follow(&[again], start + SECOND, TERM, Duration::ZERO);
        assert!(deadlines.take_expired(start + SECOND * 60, 10).is_empty());
        assert_eq!(deadlines.renew(LeaseId(1), start + SECOND * 60), Some(SECOND * 60));
        deadlines.follow(&[again], start + SECOND * 70, TERM, Duration::ZERO);
        assert_eq!(expired(&mut deadlines, start + SECOND * 120), [LeaseId(1)]);
        deadlines.follow(
            &[GrantedLease { granted_at: 5, ..again }],
            start + SECOND * 121,
            TERM,
            Duration::ZERO,
        );
        assert_eq!(
            deadlines.lifetime(LeaseId(1), start + SECOND * 121),
            Some(Lifetime::Remaining(SECOND * 60)),
            "the expiry of the one before is not its own"
        );
        deadlines.retry(Expired { id: LeaseId(1), granted_at: 3 }, start + SECOND * 122);
        assert!(deadlines.take_expired(start + SECOND * 130, 10).is_empty());
    }
}
