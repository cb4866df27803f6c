//! When each lease runs out, as the leader counts. Pure: time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_types::LeaseId;
use tokio::time::Instant;

#[derive(Default)]
pub struct Deadlines {
    leases: BTreeMap<LeaseId, Counted>,
    queue: BTreeSet<(Instant, LeaseId)>,
}

struct Counted {
    ttl: Duration,
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

impl Deadlines {
    /// Takes the leases as they are: new ones get their time from now, plus `grace`; gone ones are forgotten.
    pub fn follow(&mut self, leases: &[(LeaseId, i64)], now: Instant, grace: Duration) {
        let live: BTreeSet<LeaseId> = leases.iter().map(|(id, _)| *id).collect();
        let gone: Vec<LeaseId> = self.leases.keys().filter(|id| !live.contains(id)).copied().collect();
        gone.into_iter().for_each(|id| self.forget(id));
        for (id, ttl) in leases {
            if !self.leases.contains_key(id) {
                let ttl = Duration::from_secs(u64::try_from(*ttl).unwrap_or(0));
                self.set(*id, ttl, now + ttl + grace);
            }
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
        self.set(id, ttl, now + ttl);
        Some(ttl)
    }

    pub fn lifetime(&self, id: LeaseId, now: Instant) -> Option<Lifetime> {
        let counted = self.leases.get(&id)?;
        let remaining = counted.deadline.saturating_duration_since(now);
        Some(if counted.expiring { Lifetime::Expiring } else { Lifetime::Remaining(remaining) })
    }

    /// Takes up to `most` leases whose time is up. They count as expiring until they are gone, or `retry` is called.
    pub fn take_expired(&mut self, now: Instant, most: usize) -> Vec<LeaseId> {
        let due: Vec<_> = self.queue.range(..=(now, LeaseId(i64::MAX))).take(most).copied().collect();
        for entry in &due {
            self.queue.remove(entry);
            if let Some(counted) = self.leases.get_mut(&entry.1) {
                counted.expiring = true;
            }
        }
        due.into_iter().map(|(_, id)| id).collect()
    }

    /// The expiry was not applied: it is due again at `at`.
    pub fn retry(&mut self, id: LeaseId, at: Instant) {
        if let Some(ttl) = self.leases.get(&id).map(|counted| counted.ttl) {
            self.set(id, ttl, at);
            if let Some(counted) = self.leases.get_mut(&id) {
                counted.expiring = true;
            }
        }
    }

    /// Leases whose time is counted.
    pub fn counted(&self) -> usize {
        self.leases.len()
    }

    fn set(&mut self, id: LeaseId, ttl: Duration, deadline: Instant) {
        self.forget(id);
        self.leases.insert(id, Counted { ttl, deadline, expiring: false });
        self.queue.insert((deadline, id));
    }

    fn forget(&mut self, id: LeaseId) {
        if let Some(counted) = self.leases.remove(&id) {
            self.queue.remove(&(counted.deadline, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_lease_expires_after_its_time_and_not_before() {
        let (mut deadlines, start) = (Deadlines::default(), Instant::now());
        deadlines.follow(&[(LeaseId(1), 5), (LeaseId(2), 10)], start, Duration::ZERO);
        assert!(deadlines.take_expired(start + SECOND * 5 - Duration::from_millis(1), 10).is_empty());
        assert_eq!(deadlines.take_expired(start + SECOND * 5, 10), [LeaseId(1)]);
        assert_eq!(deadlines.lifetime(LeaseId(1), start), Some(Lifetime::Expiring));
        assert_eq!(deadlines.lifetime(LeaseId(2), start + SECOND), Some(Lifetime::Remaining(SECOND * 9)));
    }

    #[tokio::test(start_paused = true)]
    async fn renewing_starts_anew_until_the_expiry_is_under_way() {
        let (mut deadlines, start) = (Deadlines::default(), Instant::now());
        deadlines.follow(&[(LeaseId(1), 5)], start, Duration::ZERO);
        assert_eq!(deadlines.renew(LeaseId(1), start + SECOND * 4), Some(SECOND * 5));
        assert!(deadlines.take_expired(start + SECOND * 8, 10).is_empty());
        assert_eq!(deadlines.take_expired(start + SECOND * 9, 10), [LeaseId(1)]);
        assert_eq!(deadlines.renew(LeaseId(1), start + SECOND * 9), None);
        assert_eq!(deadlines.renew(LeaseId(7), start), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_leader_only_lengthens_and_what_is_gone_is_forgotten() {
        let (mut deadlines, start) = (Deadlines::default(), Instant::now());
        deadlines.follow(&[(LeaseId(1), 5), (LeaseId(2), 5)], start, SECOND * 2);
        assert!(deadlines.take_expired(start + SECOND * 6, 10).is_empty());
        deadlines.follow(&[(LeaseId(2), 5)], start + SECOND, Duration::ZERO);
        assert_eq!(deadlines.take_expired(start + SECOND * 7, 10), [LeaseId(2)]);
        deadlines.retry(LeaseId(2), start + SECOND * 8);
        assert_eq!(deadlines.renew(LeaseId(2), start + SECOND * 7), None);
        assert_eq!(deadlines.take_expired(start + SECOND * 8, 10), [LeaseId(2)]);
    }
}
