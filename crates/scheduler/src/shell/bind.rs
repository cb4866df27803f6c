//! Sending binds, and what their answers mean.

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_client::{Bind, BindGroup, BindReason, BindRejection, Client, PolicySeen, SpreadSeen};
use setpoint_runtime::election::Claim;
use setpoint_runtime::recorder::Detail;
use setpoint_types::Revision;
use setpoint_types::kinds::{DecisionSpec, DetailLevel, Outcome, PendingReason, Verdict};
use setpoint_types::object::ObjectReference;

use super::record::COMPONENT;
use crate::core::engine::{Answer, BindItem};

/// Binds of one shard, to be sent together.
pub struct Batch {
    pub items: Vec<BindItem>,
    /// The lease under which they were decided; none if there is no other scheduler.
    pub claim: Option<Claim>,
    /// Up to which revision each kind had been seen.
    pub observed: BTreeMap<String, Revision>,
}

/// What came of a batch.
pub struct Sent {
    /// By replica.
    pub answers: Vec<(Arc<str>, Answer)>,
    /// Why those were refused that were, for the metrics.
    pub refusals: Vec<BindReason>,
    /// The shard is another scheduler's now.
    pub fenced: Option<Claim>,
    /// Nobody knows whether these were bound.
    pub unknown: Vec<Arc<str>>,
}

/// Sends a batch. The client repeats it until there is an answer or its time is up.
pub async fn send(client: Client, batch: Batch, detail: Detail) -> Sent {
    let client = match &batch.claim {
        Some(claim) => client.with_fence(claim.fence.clone()),
        None => client,
    };
    let (groups, members) = groups(&client, &batch, &detail);
    let mut sent = Sent { answers: Vec::new(), refusals: Vec::new(), fenced: None, unknown: Vec::new() };
    let results = match client.placement().bind(groups).await {
        Ok(results) => results,
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "binds were not answered");
            let all = members.into_iter().flatten();
            if error.is_ambiguous() {
                sent.unknown.extend(all);
            } else {
                let message = "the server did not take the request: it is sent again".to_owned();
                let answer = refused(PendingReason::Conflict, message, Revision::NONE);
                sent.answers.extend(all.map(|it| (it, answer.clone())));
            }
            if error.is_fenced() {
                sent.fenced = batch.claim;
            }
            return sent;
        }
    };
    for (result, members) in results.into_iter().zip(members) {
        let answer = match result {
            Ok(bound) => Answer::Bound(bound.revision),
            Err(rejection) => {
                sent.refusals.push(rejection.reason);
                if rejection.reason == BindReason::Fenced {
                    sent.fenced.clone_from(&batch.claim);
                }
                meaning(rejection)
            }
        };
        sent.answers.extend(members.into_iter().map(|it| (it, answer.clone())));
    }
    sent
}

/// Those with the same number together.
fn groups(client: &Client, batch: &Batch, detail: &Detail) -> (Vec<BindGroup>, Vec<Vec<Arc<str>>>) {
    let (mut groups, mut members): (Vec<BindGroup>, Vec<Vec<Arc<str>>>) = (Vec::new(), Vec::new());
    let mut last = None;
    for item in &batch.items {
        if last != Some(item.group) {
            last = Some(item.group);
            let operation = client.entropy().operation();
            groups.push(BindGroup { operation, binds: Vec::new(), observed: batch.observed.clone() });
            members.push(Vec::new());
        }
        if let (Some(group), Some(members)) = (groups.last_mut(), members.last_mut()) {
            group.binds.push(bind(item, detail));
            members.push(item.replica.clone());
        }
    }
    (groups, members)
}

fn bind(item: &BindItem, detail: &Detail) -> Bind {
    let (namespace, replica) = item.replica.split_once('/').unwrap_or(("", &item.replica));
    let policies = item.policies.iter().map(|(name, generation, revision)| PolicySeen {
        name: name.clone(),
        revision: *revision,
        generation: *generation,
    });
    let spread = item.spread.iter().map(|it| SpreadSeen {
        topology_key: it.topology_key.clone(),
        domain: it.domain.clone(),
        max_skew: it.max_skew,
        domains: it.domains.to_vec(),
    });
    Bind {
        namespace: namespace.to_owned(),
        replica: replica.to_owned(),
        replica_uid: item.uid.clone(),
        replica_generation: item.generation,
        node: item.node.to_string(),
        node_uid: item.node_uid.clone(),
        node_revision: item.node_revision,
        node_epoch: item.node_epoch,
        policies: policies.collect(),
        spread: spread.collect(),
        decision: decision(item, namespace, replica, detail),
    }
}

/// What is written down about a bind: all of it if it was hard to find, follows a policy that is being tried, or is in the sample.
/// Otherwise the binding says enough.
fn decision(item: &BindItem, namespace: &str, replica: &str, detail: &Detail) -> Option<Box<DecisionSpec>> {
    let object = ObjectReference {
        kind: "Replica".to_owned(),
        namespace: namespace.to_owned(),
        name: replica.to_owned(),
        uid: item.uid.clone(),
    };
    let explained = item.explanation.as_deref().cloned().unwrap_or_default();
    let spec = DecisionSpec {
        object,
        generation: item.generation,
        action: "Place".to_owned(),
        queue_wait_ms: item.waited_ms,
        attempt: item.attempt,
        component: COMPONENT.to_owned(),
        policy_version: item.policy_version.clone(),
        search: Some(item.search.clone()),
        verdict: Verdict { outcome: Outcome::Accepted, node: item.node.to_string(), ..Verdict::default() },
        detail: DetailLevel::Full,
        ..explained
    };
    let is_wanted = item.attempt > 1 || item.is_canary || detail.level(&spec) == DetailLevel::Full;
    is_wanted.then(|| Box::new(spec))
}

fn refused(reason: PendingReason, message: String, catch_up_to: Revision) -> Answer {
    Answer::Refused { reason, message, catch_up_to }
}

/// What a rejection means to the replica.
fn meaning(rejection: BindRejection) -> Answer {
    let reason = match rejection.reason {
        BindReason::Fenced => return Answer::Dropped,
        BindReason::QuotaExceeded => PendingReason::Quota,
        BindReason::NoRoom | BindReason::PortTaken => PendingReason::Capacity,
        BindReason::Skew => PendingReason::Topology,
        BindReason::PolicyInactive => PendingReason::PolicyPaused,
        BindReason::StaleCache => PendingReason::StaleCache,
        BindReason::AwaitingRelease => PendingReason::AwaitingRelease,
        _ => PendingReason::Conflict,
    };
    refused(reason, rejection.message, rejection.catch_up_to)
}
