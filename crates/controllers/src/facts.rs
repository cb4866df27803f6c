//! What controllers have to know of a replica and its binding, and where in its life that puts the replica. Pure, but for reading it
//! out of an entry of a cache.
//!
//! A template is large and the same for all replicas of a set: it is not read here.

use serde::Deserialize;
use setpoint_client::Typed;
use setpoint_runtime::cache::Entry;
use setpoint_types::kinds::{Binding, BindingSpec, BindingState, BindingStatus, ReplicaStatus, Stage};
use setpoint_types::{FieldProblem, Revision, Timestamp, Uid};

/// A replica that has or may have a process carries it; Release takes it away.
pub const BINDING_FINALIZER: &str = "setpoint/binding";

/// What is known of one replica.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaFacts {
    pub name: String,
    pub uid: Uid,
    pub revision: Revision,
    pub created: Timestamp,
    /// Its deletion has begun.
    pub is_going: bool,
    /// It may not go before its binding is released.
    pub is_held: bool,
    /// The object that controls it.
    pub owner: Uid,
    pub set: String,
    pub completion_index: Option<u32>,
    pub attempt: u32,
    /// The binding whose loss it makes good.
    pub replaces: Option<String>,
    pub status: ReplicaStatus,
    pub binding: Option<BindingFacts>,
}

/// What is known of its binding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BindingFacts {
    pub name: String,
    pub uid: Uid,
    pub node: String,
    pub zone: String,
    pub status: BindingStatus,
}

/// Where a replica is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Life {
    /// Without a node.
    Pending,
    /// With a node, not ready.
    Starting,
    /// Ready, but not for long enough.
    Ready,
    /// Ready for long enough.
    Available,
    /// Its node is out of reach: it may run or not.
    Unknown,
    /// Its node is being taken back.
    Releasing,
    /// Its node was taken back though nobody wanted the replica gone.
    Lost,
    /// It ended by itself.
    Ended,
    /// It is being stopped because it is deleted.
    Stopping,
}

/// The few fields of a replica's spec that are read.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecFacts {
    replica_set: String,
    completion_index: Option<u32>,
    attempt: u32,
    replaces: Option<String>,
}

impl ReplicaFacts {
    /// Reads them; the binding is another object's.
    pub fn read(entry: &Entry) -> Result<Self, FieldProblem> {
        let parts = entry.parts()?;
        let spec: SpecFacts = parts.spec()?;
        let status: ReplicaStatus = parts.status()?.unwrap_or_default();
        let metadata = parts.metadata;
        Ok(Self {
            uid: metadata.uid.clone(),
            revision: entry.revision(),
            created: metadata.created,
            is_going: metadata.is_terminating(),
            is_held: metadata.finalizers.iter().any(|it| it == BINDING_FINALIZER),
            owner: metadata.controller().map(|owner| owner.uid.clone()).unwrap_or_default(),
            set: spec.replica_set,
            completion_index: spec.completion_index,
            attempt: spec.attempt,
            replaces: spec.replaces,
            status,
            binding: None,
            name: metadata.name,
        })
    }

    /// With its binding, if that is the binding of this very replica.
    #[must_use]
    pub fn with_binding(mut self, binding: Option<Typed<Binding>>) -> Self {
        self.binding = binding.filter(|it| it.spec.replica_uid == self.uid).map(|it| {
            let BindingSpec { node, zone, .. } = it.spec;
            let (name, uid, status) = (it.metadata.name, it.metadata.uid, it.status.unwrap_or_default());
            BindingFacts { name, uid, node, zone, status }
        });
        self
    }

    pub fn state(&self) -> Option<BindingState> {
        self.binding.as_ref().map(|binding| binding.status.state)
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.status.stage, Stage::Succeeded | Stage::Failed)
    }

    /// Nothing of it is reserved, and nothing of it runs.
    pub fn is_released(&self) -> bool {
        self.state().is_none_or(|state| state == BindingState::Released)
    }

    pub fn life(&self, min_ready_seconds: u32, now: Timestamp) -> Life {
        if self.is_going {
            return Life::Stopping;
        }
        if self.has_ended() {
            return Life::Ended;
        }
        match self.state() {
            Some(BindingState::Released) => Life::Lost,
            Some(BindingState::ReleaseRequested) => Life::Releasing,
            Some(BindingState::Unknown) => Life::Unknown,
            Some(BindingState::Bound) | None => match self.status.stage {
                Stage::Admitted | Stage::Queued | Stage::Scheduled => Life::Pending,
                Stage::Ready | Stage::Serving => match self.available_at(min_ready_seconds) {
                    Some(at) if at > now => Life::Ready,
                    _ => Life::Available,
                },
                // Its agent stops it, and nobody has asked for that here: it keeps its place until its node is given back.
                Stage::Stopping => Life::Releasing,
                _ => Life::Starting,
            },
        }
    }

    /// From when on it counts as available, if it stays ready. The agent's clock says since when it is ready.
    pub fn available_at(&self, min_ready_seconds: u32) -> Option<Timestamp> {
        let times = &self.status.stages;
        let since = times.ready.or(times.serving)?;
        Some(Timestamp(since.0.saturating_add(u64::from(min_ready_seconds) * 1000)))
    }

    /// When it ended.
    pub fn ended_at(&self) -> Timestamp {
        let exit = self.status.last_exit.as_ref().map(|exit| exit.ended);
        self.status.stages.ended.or(exit).unwrap_or(self.created)
    }
}

#[cfg(test)]
mod tests {
    use setpoint_types::kinds::StageTimes;

    use super::*;

    fn replica(stage: Stage, state: Option<BindingState>) -> ReplicaFacts {
        let status = BindingStatus { state: state.unwrap_or_default(), ..BindingStatus::default() };
        ReplicaFacts {
            status: ReplicaStatus { stage, ..ReplicaStatus::default() },
            binding: state.map(|_| BindingFacts { status, ..BindingFacts::default() }),
            ..ReplicaFacts::default()
        }
    }

    #[test]
    fn what_is_known_of_the_binding_counts_for_more_than_the_stage() {
        use BindingState::{Bound, ReleaseRequested, Released, Unknown};
        let life = |stage, state| replica(stage, state).life(0, Timestamp(1));
        assert_eq!(life(Stage::Queued, None), Life::Pending);
        assert_eq!(life(Stage::Bound, Some(Bound)), Life::Starting);
        assert_eq!(life(Stage::Serving, Some(Bound)), Life::Available);
        assert_eq!(life(Stage::Serving, Some(Unknown)), Life::Unknown);
        assert_eq!(life(Stage::Serving, Some(ReleaseRequested)), Life::Releasing);
        assert_eq!(life(Stage::Serving, Some(Released)), Life::Lost);
        assert_eq!(life(Stage::Failed, Some(Released)), Life::Ended);
        let going = ReplicaFacts { is_going: true, ..replica(Stage::Serving, Some(Bound)) };
        assert_eq!(going.life(0, Timestamp(1)), Life::Stopping);
    }

    #[test]
    fn it_is_available_once_it_was_ready_for_long_enough() {
        let mut ready = replica(Stage::Serving, Some(BindingState::Bound));
        ready.status.stages = StageTimes { ready: Some(Timestamp(1_000)), ..StageTimes::default() };
        assert_eq!(ready.life(5, Timestamp(5_999)), Life::Ready);
        assert_eq!(ready.life(5, Timestamp(6_000)), Life::Available);
    }
}
