//! What a node does by itself: says who it is, minds its space, and, as the leader, compacts history, lets learners vote
//! once they have caught up and forgets members that are gone.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use setpoint_consensus::{MemberError, Role};
use setpoint_store::command::{Command, MemberAttributes};
use setpoint_types::Revision;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::quota::Quota;
use crate::replica::Replica;

/// How much history is kept. Compaction keeps everything that any of the two asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Keep what is younger than this.
    pub age: Option<Duration>,
    /// Keep so many of the newest revisions.
    pub revisions: Option<u64>,
}

pub struct Housekeeping {
    replica: Replica,
    quota: Arc<Quota>,
    attributes: MemberAttributes,
    retention: Retention,
}

const TICK: Duration = Duration::from_millis(500);
/// A node that just started looks this often whether it is a member by now.
const PUBLISH_RETRY: Duration = Duration::from_millis(20);
/// Compacting more often would cost a log entry each time and free little.
const COMPACT_EVERY: Duration = Duration::from_secs(10);

impl Housekeeping {
    pub fn new(
        replica: Replica,
        quota: Arc<Quota>,
        attributes: MemberAttributes,
        retention: Retention,
    ) -> Self {
        Self { replica, quota, attributes, retention }
    }

    pub async fn run(self, stop: CancellationToken) {
        // Nobody should wait for a tick to learn who we are: until then the node does not count as ready.
        let published = async {
            while !self.publish().await {
                sleep(PUBLISH_RETRY).await;
            }
        };
        if stop.run_until_cancelled(published).await.is_none() {
            return;
        }
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut past = Past::default();
        let mut compact_at = Instant::now();
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            self.quota.observe(self.replica.store.size().total);
            // Again, because a restored backup or a snapshot may know us by what we were before.
            self.publish().await;
            past.note(self.replica.store.revision(), Instant::now(), self.retention.age);
            if self.replica.status().role != Role::Leader {
                continue;
            }
            self.promote_learners().await;
            self.forget_removed().await;
            if Instant::now() >= compact_at {
                compact_at = Instant::now() + COMPACT_EVERY;
                self.compact(&past).await;
            }
        }
    }

    /// Tells the cluster our name and addresses, unless it knows them. True if it does now.
    async fn publish(&self) -> bool {
        let member = self.replica.identity.member;
        if self.replica.store.members().get(&member) == Some(&self.attributes) {
            return true;
        }
        if !self.replica.status().members.contains_key(&member) {
            return false;
        }
        let attributes = self.attributes.clone();
        match self.replica.propose(Command::PublishMember { member, attributes }).await {
            Ok(_) => true,
            Err(error) => {
                tracing::debug!(%error, "our name and addresses are not published yet");
                false
            }
        }
    }

    async fn promote_learners(&self) {
        let expected = self.replica.store.expected_voters();
        for learner in self.replica.status().learners().filter(|learner| expected.contains(learner)) {
            match self.replica.node.promote(learner).await {
                Ok(()) => tracing::info!(member = %learner, "a learner has caught up and votes now"),
                Err(MemberError::LearnerNotReady { .. }) => {}
                Err(error) => tracing::debug!(member = %learner, %error, "a learner was not promoted"),
            }
        }
    }

    /// Deletes what members had published that are gone. Usually done by whoever removed them, unless it went itself.
    async fn forget_removed(&self) {
        let published = self.replica.store.members();
        // Looked at afterwards: whoever has published was a member before.
        let status = self.replica.node.current_status();
        for member in published.into_keys().filter(|id| !status.members.contains_key(id)) {
            if let Err(error) = self.replica.propose(Command::RemoveMember { member }).await {
                tracing::debug!(%member, %error, "what a removed member had published is not deleted yet");
            }
        }
    }

    async fn compact(&self, past: &Past) {
        let newest = self.replica.store.revision();
        let Some(revision) = keep_from(self.retention, newest, past.before_horizon()) else { return };
        if revision.wire() <= self.replica.store.compacted() {
            return;
        }
        match self.replica.propose(Command::Compact { revision: revision.wire() }).await {
            Ok(_) => tracing::info!(%revision, "history was compacted"),
            Err(error) => tracing::warn!(%error, %revision, "history was not compacted; it is tried again"),
        }
    }
}

/// The oldest revision anybody asked to keep, if there is something older to drop.
fn keep_from(retention: Retention, newest: Revision, aged: Option<Revision>) -> Option<Revision> {
    let by_revisions = retention.revisions.map(|keep| Revision::new(newest.get().saturating_sub(keep)));
    let by_age = retention.age.map(|_| aged.unwrap_or(Revision::NONE));
    let keep = match (by_revisions, by_age) {
        (Some(a), Some(b)) => a.min(b),
        (a, b) => a.or(b)?,
    };
    (!keep.is_none()).then_some(keep)
}

/// Which revision was the newest when, as far back as history is kept by age.
#[derive(Default)]
struct Past {
    seen: VecDeque<(Instant, Revision)>,
    horizon: Option<Revision>,
}

impl Past {
    fn note(&mut self, revision: Revision, now: Instant, age: Option<Duration>) {
        let Some(age) = age else { return };
        if self.seen.back().is_none_or(|(_, last)| *last != revision) {
            self.seen.push_back((now, revision));
        }
        while self.seen.len() > 1 && self.seen[1].0 + age <= now {
            self.seen.pop_front();
        }
        self.horizon = self.seen.front().filter(|(at, _)| *at + age <= now).map(|(_, revision)| *revision);
    }

    /// The newest revision at the edge of what is kept by age.
    fn before_horizon(&self) -> Option<Revision> {
        self.horizon
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn both_rules_together_keep_what_either_asks_for() {
        let rule = |age: Option<u64>, revisions| Retention { age: age.map(Duration::from_secs), revisions };
        let r = Revision::new;
        assert_eq!(keep_from(rule(None, Some(10)), r(100), None), Some(r(90)));
        assert_eq!(keep_from(rule(None, Some(1000)), r(100), None), None);
        assert_eq!(keep_from(rule(Some(5), None), r(100), Some(r(40))), Some(r(40)));
        assert_eq!(keep_from(rule(Some(5), None), r(100), None), None);
        assert_eq!(keep_from(rule(Some(5), Some(10)), r(100), Some(r(40))), Some(r(40)));
        assert_eq!(keep_from(Retention::default(), r(100), Some(r(40))), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_horizon_is_what_was_newest_when_the_age_began() {
        let (mut past, start, age) = (Past::default(), Instant::now(), Some(SECOND * 10));
        past.note(Revision::new(5), start, age);
        past.note(Revision::new(8), start + SECOND * 4, age);
        assert_eq!(past.before_horizon(), None);
        past.note(Revision::new(9), start + SECOND * 11, age);
        assert_eq!(past.before_horizon(), Some(Revision::new(5)));
        past.note(Revision::new(9), start + SECOND * 14, age);
        assert_eq!(past.before_horizon(), Some(Revision::new(8)));
    }
}
