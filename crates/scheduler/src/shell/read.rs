//! What objects mean to the engine. Only the fields that decide something are read, and only those are kept in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use setpoint_client::{Parts, Typed};
use setpoint_runtime::cache::{Entry, Transform};
use setpoint_types::kinds::{
    BindingState, Blocked, Node, Placement, PlacementPolicy, Port, Protocol, Quota, Reservation, Stage,
};
use setpoint_types::object::{Condition, ConditionStatus};
use setpoint_types::quantity::Amounts;
use setpoint_types::{FieldProblem, Timestamp};

use crate::core::class::Wants;
use crate::core::cluster::Cluster;
use crate::core::cluster::bound::{Held, Traits};
use crate::core::cluster::node::{self, Attributes, Readiness};
use crate::core::cluster::quota::Limits;
use crate::core::cluster::tally::GroupKey;
use crate::core::engine::{Waiting, fingerprint};
use crate::core::policy::Version;

/// What is read of a replica's spec.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ReplicaPart {
    workload: String,
    template: TemplatePart,
    priority: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<Timestamp>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TemplatePart {
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ports: Vec<Port>,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    resources: Amounts,
    #[serde(skip_serializing_if = "is_default")]
    placement: Placement,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority_class: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ReplicaState {
    stage: Stage,
    node: String,
    blocked: Option<Blocked>,
    schedule_attempts: u32,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BindingPart {
    node: String,
    zone: String,
    reservations: Vec<Reservation>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BindingStatePart {
    state: BindingState,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Keeps of a replica that has a node what others are placed by.
pub fn bound_replica() -> Transform {
    Transform::new("scheduler-bound-replica", |parts| {
        slim(parts);
        if let Ok(mut spec) = parts.spec::<ReplicaPart>() {
            spec.template = TemplatePart { image: spec.template.image, ..TemplatePart::default() };
            spec.deadline_ms = None;
            parts.spec = serde_json::to_vec(&spec).unwrap_or_default().into();
        }
        parts.status = bytes_of("{}");
    })
}

/// Keeps of a binding what it holds, and whether it does.
pub fn binding() -> Transform {
    Transform::new("scheduler-binding", |parts| {
        slim(parts);
        parts.metadata.labels.clear();
        if let Ok(mut spec) = parts.spec::<BindingPart>() {
            let own = [format!("node/{}", spec.node), format!("ports/{}", spec.node)];
            spec.reservations.retain(|it| own.contains(&it.ledger));
            parts.spec = serde_json::to_vec(&spec).unwrap_or_default().into();
        }
        if let Ok(Some(status)) = parts.status::<BindingStatePart>() {
            parts.status = serde_json::to_vec(&status).unwrap_or_default().into();
        }
    })
}

fn slim(parts: &mut Parts) {
    parts.metadata.managed_fields.clear();
    parts.metadata.annotations.clear();
    parts.metadata.owners.clear();
    parts.metadata.finalizers.clear();
}

fn bytes_of(text: &'static str) -> bytes::Bytes {
    bytes::Bytes::from_static(text.as_bytes())
}

/// A replica that waits for a node; none if it is not to have one.
pub fn waiting(entry: &Entry) -> Result<Option<Waiting>, FieldProblem> {
    let parts = entry.parts()?;
    let state: ReplicaState = parts.status()?.unwrap_or_default();
    let has_ended = matches!(state.stage, Stage::Stopping | Stage::Succeeded | Stage::Failed);
    if parts.metadata.is_terminating() || has_ended || !state.node.is_empty() {
        return Ok(None);
    }
    let spec: ReplicaPart = parts.spec()?;
    let metadata = parts.metadata;
    let template = spec.template;
    let fixed = template.ports.iter().filter(|it| it.port != 0);
    let wants = Wants {
        namespace: metadata.namespace.as_str().into(),
        workload: spec.workload.as_str().into(),
        labels: Arc::new(metadata.labels),
        resources: template.resources,
        ports: fixed.map(|it| (it.protocol, it.port)).collect(),
        placement: template.placement,
        priority: spec.priority,
        priority_class: template.priority_class,
        image: template.image.map(Into::into),
    };
    Ok(Some(Waiting {
        uid: metadata.uid,
        generation: metadata.generation,
        wants,
        since: metadata.created.0,
        deadline: spec.deadline_ms.map(|it| it.0),
        shown: state.blocked.map_or(0, |it| fingerprint(it.reason, &it.message)),
        attempts: state.schedule_attempts,
    }))
}

/// What a replica says that has a node.
pub fn traits(entry: &Entry) -> Result<Traits, FieldProblem> {
    let parts = entry.parts()?;
    let spec: ReplicaPart = parts.spec()?;
    Ok(Traits {
        group: GroupKey {
            namespace: parts.metadata.namespace.as_str().into(),
            workload: spec.workload.as_str().into(),
            labels: Arc::new(parts.metadata.labels),
        },
        priority: spec.priority,
        artifact: spec.template.image.map(Into::into),
    })
}

/// The workload of a replica: those of one are one scheduler's.
pub fn workload(entry: &Entry) -> Result<String, FieldProblem> {
    #[derive(Deserialize)]
    struct Spec {
        workload: String,
    }
    Ok(entry.parts()?.spec::<Spec>()?.workload)
}

/// What a binding holds; none if it is released.
pub fn held(entry: &Entry, cluster: &mut Cluster) -> Result<Option<Held>, FieldProblem> {
    let parts = entry.parts()?;
    let spec: BindingPart = parts.spec()?;
    let state = parts.status::<BindingStatePart>()?.unwrap_or_default().state;
    if state == BindingState::Released {
        return Ok(None);
    }
    let reserved =
        |ledger: String| spec.reservations.iter().find(|it| it.ledger == ledger).map(|it| &it.amounts);
    let demand =
        reserved(format!("node/{}", spec.node)).map(|amounts| cluster.dimensions_mut().demand(amounts));
    let ports = reserved(format!("ports/{}", spec.node));
    Ok(Some(Held {
        node: cluster.slot(&spec.node, &spec.zone),
        // What is empty takes no memory of its own.
        demand: demand.unwrap_or_default(),
        ports: ports.map_or_else(Arc::default, |it| it.iter().filter_map(|it| port(it.0)).collect()),
        is_going: state == BindingState::ReleaseRequested,
    }))
}

/// As the ledger of a node's ports has it: "tcp-8080".
fn port(name: &str) -> Option<node::Port> {
    let (protocol, number) = name.split_once('-')?;
    let protocol = match protocol {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => return None,
    };
    Some((protocol, number.parse().ok()?))
}

/// A node, and what its ledger is limited to.
pub fn node(node: &Typed<Node>) -> (Attributes, Amounts) {
    let spec = &node.spec;
    let status = node.status.clone().unwrap_or_default();
    let attributes = Attributes {
        uid: node.metadata.uid.clone(),
        epoch: status.epoch,
        zone: spec.zone.clone(),
        labels: node.metadata.labels.clone(),
        taints: spec.taints.clone(),
        unschedulable: spec.unschedulable || spec.drain || node.metadata.is_terminating(),
        readiness: readiness(&status.conditions),
        runtimes: status.agent.map(|it| it.runtimes).unwrap_or_default(),
    };
    let left = |(name, amount): (&str, i64)| (name.to_owned(), amount - spec.reserved.get(name).unwrap_or(0));
    (attributes, spec.capacity.iter().map(left).collect())
}

fn readiness(conditions: &[Condition]) -> Readiness {
    let status = |kind: &str| conditions.iter().find(|it| it.kind == kind).map(|it| it.status);
    if status("Ready") != Some(ConditionStatus::True) {
        return Readiness::NotReady;
    }
    match () {
        () if status("Reachable").is_some_and(|it| it != ConditionStatus::True) => Readiness::Unreachable,
        () if status("DiskPressure") == Some(ConditionStatus::True) => Readiness::DiskPressure,
        () if status("MemoryPressure") == Some(ConditionStatus::True) => Readiness::MemoryPressure,
        () => Readiness::Ready,
    }
}

pub fn limits(quota: &Typed<Quota>, cluster: &mut Cluster) -> Limits {
    let zones: Vec<_> = quota.spec.zones.iter().map(|it| (it.zone.clone(), it.limits.clone())).collect();
    let zones: BTreeMap<_, _> = zones
        .into_iter()
        .map(|(zone, limits)| {
            (cluster.topologies_mut().zone(&zone), cluster.dimensions_mut().limits(&limits))
        })
        .collect();
    Limits {
        everywhere: cluster.dimensions_mut().limits(&quota.spec.limits),
        zones,
        revision: quota.metadata.revision,
    }
}

pub fn version(policy: &Typed<PlacementPolicy>) -> Version {
    Version {
        generation: policy.metadata.generation,
        created: policy.metadata.created,
        spec: policy.spec.clone(),
    }
}
