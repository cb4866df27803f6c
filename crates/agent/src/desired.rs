//! What the server's records mean for the agent of a node; pure.

use setpoint_client::Typed;
use setpoint_types::kinds::{Binding, BindingState, Replica};
use setpoint_types::{Epoch, Uid};

/// What is to become of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is to run here.
    Run,
    /// It is not to run any more, and what is reserved for it can be given back once it does not.
    Stop,
    /// Nothing can be said yet: not everything that is needed was seen.
    Wait,
    /// Nothing is reserved for it, and nothing has to be told.
    Done,
}

/// What the agent knows besides the records.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// Of the Node object that the agent speaks for.
    pub node: &'a Uid,
    /// Of the lease it holds now.
    pub epoch: Epoch,
    /// It has taken this binding before, and knows what became of it.
    pub known: bool,
}

/// Judges a binding of this node by itself and its replica, as far as seen.
pub fn judge(binding: &Typed<Binding>, replica: Option<&Typed<Replica>>, standing: Standing<'_>) -> Verdict {
    let spec = &binding.spec;
    let state = binding.status.as_ref().map(|status| status.state).unwrap_or_default();
    match state {
        BindingState::Released => return Verdict::Done,
        BindingState::ReleaseRequested => return Verdict::Stop,
        BindingState::Bound | BindingState::Unknown => {}
    }
    // A node of this name that is no more: whatever ran there, it is not known here.
    if spec.node_uid != *standing.node || binding.metadata.is_terminating() {
        return Verdict::Stop;
    }
    let Some(replica) = replica.filter(|replica| replica.metadata.uid == spec.replica_uid) else {
        return Verdict::Wait;
    };
    if replica.metadata.is_terminating() {
        return Verdict::Stop;
    }
    // Decided for a time with the lease that is over: what never ran is not begun, for it may be released and replaced at any
    // moment. What runs from then goes on, unless it is exclusive; its life knows.
    match spec.node_epoch == standing.epoch || standing.known {
        true => Verdict::Run,
        false => Verdict::Stop,
    }
}

#[cfg(test)]
mod tests {
    use setpoint_types::Timestamp;
    use setpoint_types::kinds::{BindingSpec, BindingStatus, ReplicaSpec};

    use super::*;

    fn binding(state: BindingState, epoch: u64) -> Typed<Binding> {
        let spec = BindingSpec {
            replica: "web-0".into(),
            replica_uid: Uid::new("r"),
            node: "n1".into(),
            node_uid: Uid::new("n"),
            node_epoch: Epoch(epoch),
            ..BindingSpec::default()
        };
        let mut binding = Typed::new("web-0", spec);
        binding.status = Some(BindingStatus { state, ..BindingStatus::default() });
        binding
    }

    fn replica() -> Typed<Replica> {
        let mut replica = Typed::new("web-0", ReplicaSpec::default());
        replica.metadata.uid = Uid::new("r");
        replica
    }

    fn check(binding: &Typed<Binding>, replica: Option<&Typed<Replica>>, known: bool) -> Verdict {
        judge(binding, replica, Standing { node: &Uid::new("n"), epoch: Epoch(5), known })
    }

    #[test]
    fn a_binding_of_this_time_with_the_lease_is_run_and_an_older_one_is_not_begun() {
        let replica = replica();
        assert_eq!(check(&binding(BindingState::Bound, 5), Some(&replica), false), Verdict::Run);
        assert_eq!(check(&binding(BindingState::Bound, 4), Some(&replica), false), Verdict::Stop);
        assert_eq!(check(&binding(BindingState::Unknown, 4), Some(&replica), true), Verdict::Run);
    }

    #[test]
    fn what_is_asked_back_is_stopped_and_what_is_given_back_is_done() {
        let replica = replica();
        assert_eq!(check(&binding(BindingState::ReleaseRequested, 5), Some(&replica), true), Verdict::Stop);
        assert_eq!(check(&binding(BindingState::Released, 5), Some(&replica), true), Verdict::Done);
    }

    #[test]
    fn a_deleted_replica_is_stopped_and_one_that_was_not_seen_is_waited_for() {
        let bound = binding(BindingState::Bound, 5);
        let mut deleted = replica();
        deleted.metadata.deleted = Some(Timestamp(1));
        assert_eq!(check(&bound, Some(&deleted), true), Verdict::Stop);
        assert_eq!(check(&bound, None, false), Verdict::Wait);
        let mut later = replica();
        later.metadata.uid = Uid::new("another");
        assert_eq!(check(&bound, Some(&later), false), Verdict::Wait);
    }

    #[test]
    fn another_node_of_the_name_does_not_run_what_was_bound_to_the_first() {
        let mut bound = binding(BindingState::Bound, 5);
        bound.spec.node_uid = Uid::new("before");
        assert_eq!(check(&bound, Some(&replica()), false), Verdict::Stop);
    }
}
