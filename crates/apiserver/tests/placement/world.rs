//! Nodes, replicas and quotas by few words, and requests about them.

use prost::Message;
use serde_json::{Value, json};
use setpoint_api::setpoint::v1 as pb;
use setpoint_apiserver::access::Caller;
use setpoint_apiserver::objects::Refusal;
use setpoint_apiserver::placement::{PlacementLimits, Placer};

use crate::kit::Node;

/// The time to live of nodes' leases.
const TTL: u32 = 10;

pub struct World {
    pub node: Node,
    pub placer: Placer,
}

/// A node as a test wants it.
#[derive(Clone, Debug)]
pub struct Host {
    pub name: String,
    pub zone: String,
    pub cpu: u64,
    pub labels: Vec<(String, String)>,
    pub taint: String,
    pub unschedulable: bool,
    pub ready: bool,
    pub boot: String,
}

impl Host {
    pub fn new(name: &str, zone: &str, cpu: u64) -> Self {
        let (labels, taint, boot) = (Vec::new(), String::new(), "b1".to_owned());
        let (name, zone) = (name.to_owned(), zone.to_owned());
        Self { name, zone, cpu, labels, taint, unschedulable: false, ready: true, boot }
    }
}

impl World {
    /// To be made within a runtime whose time is paused.
    pub fn new() -> Self {
        let node = Node::new();
        let placer = Placer::new(node.writer.clone(), PlacementLimits::default());
        Self { node, placer }
    }

    pub async fn get(&self, kind: &str, name: &str) -> Option<pb::Object> {
        let request = pb::GetRequest { key: Some(key(kind, name)), ..pb::GetRequest::default() };
        let found = self.node.writer.reader.get(request).await.ok()?;
        let bytes = found.object.unwrap_or_default().encode_to_vec();
        Some(pb::Object::decode(&bytes[..]).expect("an object"))
    }

    pub async fn create(
        &self,
        kind: &str,
        name: &str,
        labels: &[(String, String)],
        spec: Value,
    ) -> Result<u64, Refusal> {
        let labels = labels.iter().cloned().collect();
        let metadata =
            pb::Metadata { labels, namespace: namespace(kind), name: name.to_owned(), ..Default::default() };
        let object = pb::Object {
            kind: kind.to_owned(),
            metadata: Some(metadata),
            spec: spec.to_string().into(),
            ..Default::default()
        };
        let request = pb::CreateRequest { object: Some(object), options: None };
        Ok(self.node.writer.create(request, &Caller::default()).await?.revision)
    }

    pub async fn patch(&self, kind: &str, name: &str, status: bool, patch: Value) -> Result<u64, Refusal> {
        let request = pb::PatchRequest {
            key: Some(key(kind, name)),
            patch: patch.to_string().into(),
            status,
            ..pb::PatchRequest::default()
        };
        Ok(self.node.writer.patch(request, &Caller::default()).await?.revision)
    }

    pub async fn delete(&self, kind: &str, name: &str) -> Result<bool, Refusal> {
        let request = pb::DeleteRequest { key: Some(key(kind, name)), ..pb::DeleteRequest::default() };
        Ok(self.node.writer.delete(request, &Caller::default()).await?.gone)
    }

    /// The node's lease, and with it its epoch.
    pub async fn register(&self, host: &Host) -> Result<u64, Refusal> {
        let acquire = pb::AcquireRequest {
            namespace: "setpoint-system".to_owned(),
            lease: format!("node-{}", host.name),
            holder: host.name.clone(),
            ttl_seconds: TTL,
            ..pb::AcquireRequest::default()
        };
        if self.get("Namespace", "setpoint-system").await.is_none() {
            self.create("Namespace", "setpoint-system", &[], json!({})).await?;
        }
        let held = self.node.coordinator.acquire(acquire, &Caller::default()).await?;
        assert!(held.acquired, "nobody else acts for a node");
        let taints = match host.taint.is_empty() {
            true => json!([]),
            false => json!([{"key": host.taint, "effect": "NoSchedule"}]),
        };
        let spec = json!({
            "zone": host.zone, "capacity": {"cpu": host.cpu}, "taints": taints, "unschedulable": host.unschedulable,
        });
        match self.get("Node", &host.name).await {
            None => drop(self.create("Node", &host.name, &host.labels, spec).await?),
            Some(_) => drop(self.patch("Node", &host.name, false, json!({"spec": spec})).await?),
        }
        let ready = if host.ready { "True" } else { "False" };
        let status = json!({
            "epoch": held.epoch, "agent": {"bootId": host.boot},
            "conditions": [{"type": "Ready", "status": ready, "reason": "Told"}],
        });
        self.patch("Node", &host.name, true, json!({"status": status})).await?;
        Ok(held.epoch)
    }

    /// A replica of a workload; `template` is added to its template.
    pub async fn replica(
        &self,
        name: &str,
        workload: &str,
        cpu: u64,
        template: Value,
    ) -> Result<u64, Refusal> {
        let mut spec =
            json!({"workload": workload, "template": {"command": ["run"], "resources": {"cpu": cpu}}});
        if let (Value::Object(more), Some(template)) = (template, spec["template"].as_object_mut()) {
            template.extend(more);
        }
        self.create("Replica", name, &[("app".to_owned(), workload.to_owned())], spec).await
    }

    /// A bind as somebody would ask for it who sees everything.
    pub async fn bind_of(&self, replica: &str, node: &str) -> pb::Bind {
        let (replica_object, node_object) =
            (self.get("Replica", replica).await, self.get("Node", node).await);
        let of = |object: &Option<pb::Object>| object.clone().and_then(|it| it.metadata).unwrap_or_default();
        let (replica_is, node_is) = (of(&replica_object), of(&node_object));
        let status: Value =
            node_object.map_or(Value::Null, |it| serde_json::from_slice(&it.status).unwrap_or_default());
        let or = |uid: String| if uid.is_empty() { "none".to_owned() } else { uid };
        pb::Bind {
            namespace: "default".to_owned(),
            replica: replica.to_owned(),
            replica_uid: or(replica_is.uid),
            replica_generation: replica_is.generation,
            node: node.to_owned(),
            node_uid: or(node_is.uid),
            node_revision: node_is.revision,
            node_epoch: status["epoch"].as_u64().unwrap_or(1),
            ..pb::Bind::default()
        }
    }

    pub async fn bind(
        &self,
        groups: Vec<pb::BindGroup>,
        fence: Option<pb::Fence>,
    ) -> Result<Vec<pb::BindResult>, Refusal> {
        let request = pb::BindRequest { groups, fence };
        Ok(self.placer.bind(request, &Caller::default()).await?.results)
    }

    pub async fn release(&self, binding: &str, uid: &str) -> Result<pb::ReleaseResult, Refusal> {
        let bindings = vec![pb::BindingReference {
            namespace: "default".to_owned(),
            binding: binding.to_owned(),
            uid: uid.to_owned(),
        }];
        let request = pb::ReleaseBindingsRequest { bindings, fence: None };
        let results = self.placer.release(request, &Caller::default()).await?.results;
        Ok(results.into_iter().next().expect("one result"))
    }
}

fn namespace(kind: &str) -> String {
    let of_all = ["Node", "PlacementPolicy", "Namespace"];
    if of_all.contains(&kind) { String::new() } else { "default".to_owned() }
}

pub fn key(kind: &str, name: &str) -> pb::ObjectKey {
    pb::ObjectKey { kind: kind.to_owned(), namespace: namespace(kind), name: name.to_owned() }
}
