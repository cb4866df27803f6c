//! Placement: giving replicas a node, and taking it back.
//!
//! Not here: choosing nodes (the scheduler), and what the words mean in full (`proto/setpoint/v1/placement.proto`).

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::bind_result::Result as BindWire;
use setpoint_api::setpoint::v1::placement_client::PlacementClient;
use setpoint_api::setpoint::v1::release_result::Result as ReleaseWire;
use setpoint_types::kinds::DecisionSpec;
use setpoint_types::{Epoch, Generation, ObjectKey, Revision, Uid};

use crate::attempt::Safety;
use crate::call::Call;
use crate::client::Client;
use crate::convert;
use crate::error::Error;
use crate::options::WriteOptions;

/// Which replicas have which nodes.
///
/// **Guarantees**: a group is bound at one revision or not at all, and only if everything [`BindReason`] lists is in order at
/// that revision. A group sent again with its operation is not bound twice, as long as its bindings exist. Every request carries
/// the client's fence, if it has one.
///
/// **Does not promise** an order between groups, or that a call which failed as a whole ([`Error::is_ambiguous`]) did
/// nothing: send it again, with the same operations.
#[derive(Clone)]
pub struct Placement {
    client: Client,
}

/// What is bound together or not at all: usually one replica, more for a gang.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BindGroup {
    /// By what it is recognised when it is sent again. Needed.
    pub operation: String,
    pub binds: Vec<Bind>,
    /// Up to which revision each kind had been seen.
    pub observed: BTreeMap<String, Revision>,
}

/// A replica and the node it shall have, as the caller saw both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bind {
    pub namespace: String,
    pub replica: String,
    pub replica_uid: Uid,
    pub replica_generation: Generation,
    pub node: String,
    pub node_uid: Uid,
    pub node_revision: Revision,
    pub node_epoch: Epoch,
    /// The versions of policies that the decision follows; Binding and Decision name the first.
    pub policies: Vec<PolicySeen>,
    /// One for every rule that makes the replica wait rather than be placed unevenly.
    pub spread: Vec<SpreadSeen>,
    /// What the server knows better is filled in there.
    pub decision: Option<Box<DecisionSpec>>,
}

/// A version of a placement policy, as seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicySeen {
    /// Of the PlacementPolicy object.
    pub name: String,
    pub revision: Revision,
    pub generation: Generation,
}

/// A rule of spreading, as understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpreadSeen {
    /// `zone`, `node`, or a label of nodes.
    pub topology_key: String,
    /// The place of the node.
    pub domain: String,
    pub max_skew: u32,
    /// The places that count. Empty: the emptiest counts as having none.
    pub domains: Vec<String>,
}

/// A group that was bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    pub revision: Revision,
    /// It had been done before, at this revision.
    pub repeated: bool,
}

/// Why nothing of a group was bound. New ones may come: match with a wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum BindReason {
    ReplicaGone,
    AlreadyBound,
    OldGeneration,
    Deleting,
    ReplicaEnded,
    AwaitingRelease,
    NodeGone,
    NodeNotReady,
    NodeUnschedulable,
    NodeTainted,
    NodeUnsuitable,
    NodeNotLeased,
    NoRoom,
    PortTaken,
    QuotaExceeded,
    Skew,
    PolicyInactive,
    /// The caller's lease is not held at the epoch of its fence: stop.
    Fenced,
    StaleCache,
    /// Sending it again does not help.
    Invalid,
    Contention,
    /// One this client does not know.
    Unknown,
}

/// Why nothing of a group was bound, with what a program needs to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindRejection {
    pub reason: BindReason,
    /// One sentence for people, with the next step.
    pub message: String,
    /// Which bind of the group.
    pub bind: usize,
    /// See everything up to here before deciding again.
    pub catch_up_to: Revision,
    pub lacking: Option<Lacking>,
}

/// A ledger that has not enough left; both in the dimensions that do not suffice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lacking {
    pub ledger: String,
    pub needed: BTreeMap<String, u64>,
    pub left: BTreeMap<String, u64>,
}

/// Which binding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BindingReference {
    pub namespace: String,
    pub binding: String,
    /// Empty: whichever is there.
    pub uid: Uid,
}

/// A binding that has nothing reserved any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    pub revision: Revision,
    /// It had been released before, at this revision.
    pub repeated: bool,
}

/// Why a binding was not released. New ones may come: match with a wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ReleaseReason {
    /// Nothing is reserved by it.
    BindingGone,
    NotStopped,
    StillHeld,
    MayStillRun,
    /// The caller's lease is not held at the epoch of its fence: stop.
    Fenced,
    Contention,
    Invalid,
    /// One this client does not know.
    Unknown,
}

/// Why a binding was not released, with what a program needs to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseRefusal {
    pub reason: ReleaseReason,
    /// One sentence for people, with the next step.
    pub message: String,
    /// See everything up to here before deciding again.
    pub catch_up_to: Revision,
    /// If it may still run: how much longer.
    pub wait: Duration,
}

impl Placement {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Binds groups, each on its own; one result per group, in their order.
    pub async fn bind(&self, groups: Vec<BindGroup>) -> Result<Vec<Result<Bound, BindRejection>>, Error> {
        let keys: Vec<Vec<ObjectKey>> = groups.iter().map(written).collect();
        let named = groups.iter().all(|group| !group.operation.is_empty());
        let safety = if named { Safety::Repeatable } else { Safety::Once };
        let call = Call::write("bind", format!("{} groups", groups.len()), safety);
        let groups = groups.into_iter().map(wire_group).collect();
        let request = pb::BindRequest { groups, fence: self.client.fence().map(convert::wire_fence) };
        let answer = self.client.call(&call, request, |wire, request| async move {
            PlacementClient::new(wire).bind(request).await
        });
        let results = answer.await?.0.into_inner().results;
        if results.len() != keys.len() {
            return Err(call.unreadable(format!("{} results for {} groups", results.len(), keys.len())));
        }
        let mut answers = Vec::with_capacity(results.len());
        for (result, keys) in results.into_iter().zip(keys) {
            let answer = match result.result {
                Some(BindWire::Bound(pb::Bound { revision, repeated })) => {
                    Ok(Bound { revision: Revision::new(revision), repeated })
                }
                Some(BindWire::Rejected(rejection)) => Err(rejected(rejection)),
                None => return Err(call.unreadable("a group has no result")),
            };
            if let Ok(bound) = &answer {
                keys.iter().for_each(|key| self.client.wrote(key, bound.revision, &WriteOptions::default()));
            }
            answers.push(answer);
        }
        Ok(answers)
    }

    /// Releases bindings, each on its own; one result per binding, in their order. Asking again does no harm.
    pub async fn release(
        &self,
        bindings: &[BindingReference],
    ) -> Result<Vec<Result<Released, ReleaseRefusal>>, Error> {
        let call = Call::write("release", format!("{} bindings", bindings.len()), Safety::Repeatable);
        let request = pb::ReleaseBindingsRequest {
            bindings: bindings.iter().map(wire_reference).collect(),
            fence: self.client.fence().map(convert::wire_fence),
        };
        let answer = self.client.call(&call, request, |wire, request| async move {
            PlacementClient::new(wire).release(request).await
        });
        let results = answer.await?.0.into_inner().results;
        if results.len() != bindings.len() {
            return Err(call.unreadable(format!(
                "{} results for {} bindings",
                results.len(),
                bindings.len()
            )));
        }
        let mut answers = Vec::with_capacity(results.len());
        for (result, binding) in results.into_iter().zip(bindings) {
            answers.push(match result.result {
                Some(ReleaseWire::Released(pb::Released { revision, repeated })) => {
                    let revision = Revision::new(revision);
                    let key = key("Binding", &binding.namespace, &binding.binding);
                    self.client.wrote(&key, revision, &WriteOptions::default());
                    Ok(Released { revision, repeated })
                }
                Some(ReleaseWire::Refused(refusal)) => Err(refused(refusal)),
                None => return Err(call.unreadable("a binding has no result")),
            });
        }
        Ok(answers)
    }
}

fn key(kind: &str, namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

/// What binding a group writes, as far as others wait for it.
fn written(group: &BindGroup) -> Vec<ObjectKey> {
    let kinds = ["Replica", "Binding"];
    group.binds.iter().flat_map(|it| kinds.map(|kind| key(kind, &it.namespace, &it.replica))).collect()
}

fn wire_group(group: BindGroup) -> pb::BindGroup {
    pb::BindGroup {
        operation: group.operation,
        binds: group.binds.into_iter().map(wire_bind).collect(),
        observed: group.observed.into_iter().map(|(kind, revision)| (kind, revision.get())).collect(),
    }
}

fn wire_bind(bind: Bind) -> pb::Bind {
    let decision = bind.decision.map_or_else(Bytes::new, |decision| {
        serde_json::to_vec(&decision).expect("a decision has string keys only").into()
    });
    pb::Bind {
        namespace: bind.namespace,
        replica: bind.replica,
        replica_uid: bind.replica_uid.as_str().to_owned(),
        replica_generation: bind.replica_generation.0,
        node: bind.node,
        node_uid: bind.node_uid.as_str().to_owned(),
        node_revision: bind.node_revision.get(),
        node_epoch: bind.node_epoch.0,
        policies: bind.policies.into_iter().map(wire_policy).collect(),
        spread: bind.spread.into_iter().map(wire_spread).collect(),
        decision,
    }
}

fn wire_policy(policy: PolicySeen) -> pb::PolicySeen {
    let PolicySeen { name, revision, generation } = policy;
    pb::PolicySeen { name, revision: revision.get(), generation: generation.0 }
}

fn wire_spread(spread: SpreadSeen) -> pb::SpreadSeen {
    let SpreadSeen { topology_key, domain, max_skew, domains } = spread;
    pb::SpreadSeen { topology_key, domain, max_skew, domains }
}

fn wire_reference(binding: &BindingReference) -> pb::BindingReference {
    pb::BindingReference {
        namespace: binding.namespace.clone(),
        binding: binding.binding.clone(),
        uid: binding.uid.as_str().to_owned(),
    }
}

fn rejected(rejection: pb::BindRejection) -> BindRejection {
    BindRejection {
        reason: bind_reason(rejection.reason()),
        message: rejection.message,
        bind: rejection.bind as usize,
        catch_up_to: Revision::new(rejection.catch_up_to),
        lacking: rejection.lacking.map(|it| Lacking { ledger: it.ledger, needed: it.needed, left: it.left }),
    }
}

fn bind_reason(reason: pb::bind_rejection::Reason) -> BindReason {
    use pb::bind_rejection::Reason as Wire;
    match reason {
        Wire::ReplicaGone => BindReason::ReplicaGone,
        Wire::AlreadyBound => BindReason::AlreadyBound,
        Wire::OldGeneration => BindReason::OldGeneration,
        Wire::Deleting => BindReason::Deleting,
        Wire::ReplicaEnded => BindReason::ReplicaEnded,
        Wire::AwaitingRelease => BindReason::AwaitingRelease,
        Wire::NodeGone => BindReason::NodeGone,
        Wire::NodeNotReady => BindReason::NodeNotReady,
        Wire::NodeUnschedulable => BindReason::NodeUnschedulable,
        Wire::NodeTainted => BindReason::NodeTainted,
        Wire::NodeUnsuitable => BindReason::NodeUnsuitable,
        Wire::NodeNotLeased => BindReason::NodeNotLeased,
        Wire::NoRoom => BindReason::NoRoom,
        Wire::PortTaken => BindReason::PortTaken,
        Wire::QuotaExceeded => BindReason::QuotaExceeded,
        Wire::Skew => BindReason::Skew,
        Wire::PolicyInactive => BindReason::PolicyInactive,
        Wire::Fenced => BindReason::Fenced,
        Wire::StaleCache => BindReason::StaleCache,
        Wire::Invalid => BindReason::Invalid,
        Wire::Contention => BindReason::Contention,
        Wire::Unspecified => BindReason::Unknown,
    }
}

fn refused(refusal: pb::ReleaseRefusal) -> ReleaseRefusal {
    use pb::release_refusal::Reason as Wire;
    let reason = match refusal.reason() {
        Wire::BindingGone => ReleaseReason::BindingGone,
        Wire::NotStopped => ReleaseReason::NotStopped,
        Wire::StillHeld => ReleaseReason::StillHeld,
        Wire::MayStillRun => ReleaseReason::MayStillRun,
        Wire::Fenced => ReleaseReason::Fenced,
        Wire::Contention => ReleaseReason::Contention,
        Wire::Invalid => ReleaseReason::Invalid,
        Wire::Unspecified => ReleaseReason::Unknown,
    };
    ReleaseRefusal {
        reason,
        message: refusal.message,
        catch_up_to: Revision::new(refusal.catch_up_to),
        wait: Duration::from_millis(refusal.wait_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_of_the_contract_is_known() {
        let plain = |name: &str| name.chars().filter(|it| *it != '_').collect::<String>();
        for number in 1..=21 {
            let reason = pb::bind_rejection::Reason::try_from(number).expect("no gaps");
            let read = rejected(pb::BindRejection { reason: number, ..Default::default() });
            assert_eq!(format!("{:?}", read.reason).to_uppercase(), plain(reason.as_str_name()));
        }
        for number in 1..=7 {
            let reason = pb::release_refusal::Reason::try_from(number).expect("no gaps");
            let read = refused(pb::ReleaseRefusal { reason: number, ..Default::default() });
            assert_eq!(format!("{:?}", read.reason).to_uppercase(), plain(reason.as_str_name()));
        }
    }
}
