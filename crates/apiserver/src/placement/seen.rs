//! Stored objects as far as placement looks at them: a bind reads a handful of fields of each, and must not cost what a write
//! of any kind of object costs.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use setpoint_api::setpoint::v1 as pb;
use setpoint_objects::Metadata;
use setpoint_store::KeyValue;
use setpoint_types::kinds::{
    Activation, BindingSpec, BindingState, NodeSpec, NodeStatus, OnDisconnect, PlacementPolicySpec, Port,
    Spread, Stage, Taint, Toleration,
};
use setpoint_types::object::ConditionStatus;
use setpoint_types::quantity::Amounts;
use setpoint_types::selector::LabelSelector;
use setpoint_types::{Revision, Timestamp};

use crate::objects::write::convert;

/// A stored object whose spec and status are still bytes.
#[derive(Clone, Debug)]
pub struct Raw {
    pub metadata: Metadata,
    pub spec: Bytes,
    pub status: Bytes,
    pub at: Revision,
}

impl Raw {
    /// None if these bytes are no object.
    pub fn of(kv: KeyValue) -> Option<Self> {
        let object = pb::Object::decode(kv.value).ok()?;
        let metadata = convert::metadata(object.metadata.unwrap_or_default());
        Some(Self { metadata, spec: object.spec, status: object.status, at: kv.modified })
    }

    pub fn is_deleting(&self) -> bool {
        self.metadata.deleted_ms.is_some()
    }
}

/// A status: JSON, or nothing if nobody has written it yet.
fn read<T: DeserializeOwned + Default>(json: &Bytes) -> Option<T> {
    if json.is_empty() { Some(T::default()) } else { serde_json::from_slice(json).ok() }
}

/// A replica: what it asks for, and how far it has come.
#[derive(Clone, Debug)]
pub struct ReplicaSeen {
    pub raw: Raw,
    pub wants: Wants,
    pub stands: Stands,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Wants {
    pub workload: String,
    pub template: Template,
    pub replaces: Option<String>,
    #[serde(rename = "deadlineMs")]
    pub deadline: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Template {
    pub ports: Vec<Port>,
    pub resources: Amounts,
    pub placement: Fit,
    pub priority_class: Option<String>,
    pub termination_grace_seconds: u32,
    pub on_disconnect: OnDisconnect,
}

/// What of its placement the server proves. Nearness to other replicas is the scheduler's alone.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Fit {
    pub zones: Vec<String>,
    pub node_selector: LabelSelector,
    pub tolerations: Vec<Toleration>,
    pub spread: Vec<Spread>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Stands {
    pub stage: Stage,
    pub binding: String,
}

impl ReplicaSeen {
    pub fn of(kv: KeyValue) -> Option<Self> {
        let raw = Raw::of(kv)?;
        Some(Self { wants: serde_json::from_slice(&raw.spec).ok()?, stands: read(&raw.status)?, raw })
    }
}

/// A node: whom it takes.
#[derive(Clone, Debug)]
pub struct NodeSeen {
    pub at: Revision,
    pub name: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    pub deleting: bool,
    pub ready: bool,
    pub unschedulable: bool,
    pub zone: String,
    pub taints: Vec<Taint>,
    pub boot_id: String,
    pub epoch: u64,
}

impl NodeSeen {
    pub fn of(kv: KeyValue) -> Option<Self> {
        let raw = Raw::of(kv)?;
        let spec: NodeSpec = serde_json::from_slice(&raw.spec).ok()?;
        let status: NodeStatus = read(&raw.status)?;
        let is_ready =
            |it: &setpoint_types::object::Condition| it.kind == "Ready" && it.status == ConditionStatus::True;
        Some(Self {
            at: raw.at,
            deleting: raw.is_deleting(),
            ready: status.conditions.iter().any(is_ready),
            unschedulable: spec.unschedulable || spec.drain,
            zone: spec.zone,
            taints: spec.taints,
            boot_id: status.agent.map(|it| it.boot_id).unwrap_or_default(),
            epoch: status.epoch.0,
            name: raw.metadata.name,
            uid: raw.metadata.uid,
            labels: raw.metadata.labels,
        })
    }

    /// Its place among those of a kind. None if it is in none.
    pub fn domain(&self, topology_key: &str) -> Option<&str> {
        match topology_key {
            "zone" => Some(&self.zone),
            "node" => Some(&self.name),
            label => self.labels.get(label).map(String::as_str),
        }
    }
}

/// A version of a policy.
#[derive(Clone, Debug)]
pub struct PolicyStands {
    pub at: Revision,
    pub generation: u64,
    pub spec: PlacementPolicySpec,
    pub activation_revision: Revision,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Activated {
    activation_revision: Revision,
}

impl PolicyStands {
    pub fn of(kv: KeyValue) -> Option<Self> {
        let raw = Raw::of(kv)?;
        let spec = serde_json::from_slice(&raw.spec).ok()?;
        let Activated { activation_revision } = read(&raw.status)?;
        Some(Self { at: raw.at, generation: raw.metadata.generation, spec, activation_revision })
    }

    pub fn is_active(&self) -> bool {
        self.spec.activation == Activation::Active
    }

    /// `policy/version`, as bindings and decisions name it.
    pub fn version(&self) -> String {
        format!("{}/{}", self.spec.policy, self.spec.version)
    }
}

/// A binding: what it holds, and whether it still does.
#[derive(Clone, Debug)]
pub struct BindingSeen {
    pub raw: Raw,
    pub spec: BindingSpec,
    pub state: Held,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Held {
    pub state: BindingState,
    #[serde(rename = "sinceMs")]
    pub since: Timestamp,
    #[serde(rename = "stoppedMs")]
    pub stopped: Option<Timestamp>,
    pub released_revision: Revision,
}

impl BindingSeen {
    pub fn of(kv: KeyValue) -> Option<Self> {
        let raw = Raw::of(kv)?;
        let spec = serde_json::from_slice(&raw.spec).ok()?;
        Some(Self { spec, state: read(&raw.status)?, raw })
    }

    pub fn is_released(&self) -> bool {
        self.state.state == BindingState::Released
    }
}
