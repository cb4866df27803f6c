//! The Node object: made if it is not there, and kept true. People's fields (taints, cordon, drain) are left alone.

use setpoint_client::{Client, Error, Patch, PatchOptions, Typed, WriteOptions};
use setpoint_types::kinds::{AgentInfo, Node, NodeSpec};
use setpoint_types::object::{Condition, ConditionStatus, Fence, set_condition};
use setpoint_types::quantity::Amounts;
use setpoint_types::{Timestamp, Uid};
use std::collections::BTreeMap;

use super::pressure::Pressure;

/// What the agent says of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub name: String,
    pub zone: String,
    pub labels: BTreeMap<String, String>,
    pub capacity: Amounts,
    pub reserved: Amounts,
    pub agent: AgentInfo,
}

/// How often a write is tried that others are faster with.
const TRIES: u32 = 8;

/// Why the node is not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    #[error(transparent)]
    Server(#[from] Error),
    #[error(
        "the node {node} is in zone {there}, and this host says {here}: replicas were spread by it. Use that zone, or delete the Node first"
    )]
    Zone { node: String, there: String, here: String },
    #[error("the node {node} is being deleted: wait until it is gone")]
    Deleting { node: String },
    #[error("the node {node} changes faster than this agent can write: try again")]
    Contention { node: String },
}

impl Host {
    /// What replicas can have.
    fn allocatable(&self) -> Amounts {
        let left = |(dimension, amount): (&str, i64)| {
            (dimension.to_owned(), (amount - self.reserved.get(dimension).unwrap_or(0)).max(0))
        };
        self.capacity.iter().map(left).collect()
    }

    /// Brings the Node object in line, and tells its uid. The client has to carry the fence of the node's lease.
    pub async fn register(
        &self,
        client: &Client,
        fence: &Fence,
        pressure: Pressure,
        ready: bool,
        now: Timestamp,
    ) -> Result<Uid, RegisterError> {
        let nodes = client.api::<Node>();
        for _ in 0..TRIES {
            let node = match nodes.find(&self.name).await? {
                Some(node) => node,
                None => match nodes.create(&self.object(), &WriteOptions::default()).await {
                    Ok(written) => written.object,
                    Err(error) if error.is_already_exists() => continue,
                    Err(error) => return Err(error.into()),
                },
            };
            if node.metadata.is_terminating() {
                return Err(RegisterError::Deleting { node: self.name.clone() });
            }
            if node.spec.zone != self.zone {
                let (node, there) = (self.name.clone(), node.spec.zone);
                return Err(RegisterError::Zone { node, there, here: self.zone.clone() });
            }
            let node = match self.write_spec(client, node).await {
                Ok(node) => node,
                Err(error) if error.is_conflict() || error.is_not_found() => continue,
                Err(error) => return Err(error.into()),
            };
            match self.write_status(client, node, fence, self.conditions(pressure, ready), now).await {
                Ok(uid) => return Ok(uid),
                Err(error) if error.is_conflict() || error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(RegisterError::Contention { node: self.name.clone() })
    }

    fn object(&self) -> Typed<Node> {
        let (zone, capacity, reserved) = (self.zone.clone(), self.capacity.clone(), self.reserved.clone());
        let mut node = Typed::new(&self.name, NodeSpec { zone, capacity, reserved, ..NodeSpec::default() });
        node.metadata.labels.clone_from(&self.labels);
        node
    }

    /// Capacity and labels, if they are not so. Labels of others stay.
    async fn write_spec(&self, client: &Client, node: Typed<Node>) -> Result<Typed<Node>, Error> {
        let labelled = self.labels.iter().all(|(name, value)| node.metadata.labels.get(name) == Some(value));
        if node.spec.capacity == self.capacity && node.spec.reserved == self.reserved && labelled {
            return Ok(node);
        }
        let patch = serde_json::json!({
            "metadata": { "labels": self.labels },
            "spec": { "capacity": self.capacity, "reserved": self.reserved },
        });
        let options = PatchOptions {
            uid: Some(node.metadata.uid.clone()),
            revision: Some(node.metadata.revision),
            ..PatchOptions::default()
        };
        let written = client.api::<Node>().patch(&self.name, &Patch::Merge(patch), &options).await?;
        Ok(written.object)
    }

    /// Each with whether it holds, and why in one word.
    fn conditions(&self, pressure: Pressure, ready: bool) -> [(&'static str, bool, &'static str); 3] {
        [
            ("Ready", ready, if ready { "AgentRuns" } else { "AgentStops" }),
            ("DiskPressure", pressure.disk, if pressure.disk { "DiskFull" } else { "DiskFree" }),
            ("MemoryPressure", pressure.memory, if pressure.memory { "MemoryFull" } else { "MemoryFree" }),
        ]
    }

    async fn write_status(
        &self,
        client: &Client,
        mut node: Typed<Node>,
        fence: &Fence,
        conditions: [(&'static str, bool, &'static str); 3],
        now: Timestamp,
    ) -> Result<Uid, Error> {
        let mut status = node.status.clone().unwrap_or_default();
        let generation = node.metadata.generation;
        status.observed_generation = generation;
        status.allocatable = self.allocatable();
        status.agent = Some(self.agent.clone());
        status.epoch = fence.epoch;
        for (kind, holds, reason) in conditions {
            let condition = Condition {
                kind: kind.to_owned(),
                status: if holds { ConditionStatus::True } else { ConditionStatus::False },
                observed_generation: generation,
                last_transition: now,
                reason: reason.to_owned(),
                ..Condition::default()
            };
            set_condition(&mut status.conditions, condition);
        }
        let uid = node.metadata.uid.clone();
        if node.status.as_ref() == Some(&status) {
            return Ok(uid);
        }
        node.status = Some(status);
        client.api::<Node>().update_status(&node, &WriteOptions::default()).await?;
        Ok(uid)
    }
}
