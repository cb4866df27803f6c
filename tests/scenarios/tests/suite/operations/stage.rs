//! What all tests here play with: controllers as a process starts them, agents that keep their leases, and objects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use setpoint_client::{AcquireOptions, Client, Error, Patch, PatchOptions, Typed, WriteOptions};
use setpoint_controllers::node_monitor::{SYSTEM, lease_of};
use setpoint_controllers::registry;
use setpoint_controllers::settings::Settings;
use setpoint_runtime::{Manager, ManagerSettings, WallClock};
use setpoint_types::kinds::{
    Binding, BindingSpec, Namespace, NamespaceSpec, Node, NodeSpec, Replica, ReplicaSpec, ReplicaStatus,
    ReplicaTemplate, Stage, Workload, WorkloadSpec,
};
use setpoint_types::object::Object;
use setpoint_types::object::{Condition, find_condition};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// How long an agent's lease lasts, and how often it is kept.
pub const TTL: Duration = Duration::from_secs(40);
const KEEP: Duration = Duration::from_secs(10);

/// Controllers, as their program starts them.
pub async fn run(client: Client, stop: CancellationToken, names: &[&str], settings: Settings) {
    let manager = Manager::new(client, ManagerSettings::named("controllers")).expect("good settings");
    let manager = manager.with_clock(WallClock::new(setpoint_testkit::now));
    for name in names {
        let entry = registry::find(name).expect("a controller of this name");
        manager.add((entry.build)(&manager, &settings).expect("good knobs")).expect("a good controller");
    }
    manager.run(stop.cancelled_owned()).await.expect("it runs until it is stopped");
}

/// Agents that live until they are told to die. Of one run at a time.
#[derive(Clone, Default)]
pub struct Agents(Arc<Mutex<BTreeMap<String, CancellationToken>>>);

impl Agents {
    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<String, CancellationToken>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A new run has none.
    pub fn forget(&self) {
        self.with(BTreeMap::clear);
    }

    /// An agent takes the lease of its node, and keeps it.
    pub async fn start(&self, client: &Client, node: &str) -> Result<(), Error> {
        let options = AcquireOptions {
            namespace: SYSTEM.to_owned(),
            lease: lease_of(node),
            holder: format!("agent-{node}"),
            ttl: Some(TTL),
            ..AcquireOptions::default()
        };
        let acquired = client.leases().acquire(&options).await?;
        assert!(acquired.acquired, "{node} has an agent already");
        let dies = CancellationToken::new();
        self.with(|agents| drop(agents.insert(node.to_owned(), dies.clone())));
        let (client, holder) = (client.clone(), options.holder);
        tokio::spawn(dies.run_until_cancelled_owned(async move {
            let mut stream = client.leases().keep_alive().await.expect("a stream");
            loop {
                sleep(KEEP).await;
                stream.keep(&acquired.fence, &holder, &BTreeMap::new()).await.expect("an answer");
            }
        }));
        Ok(())
    }

    /// It is not heard any more; its lease runs out.
    pub fn kill(&self, node: &str) {
        if let Some(agent) = self.with(|agents| agents.remove(node)) {
            agent.cancel();
        }
    }
}

pub async fn namespace(client: &Client, name: &str) -> Result<(), Error> {
    let namespaces = client.api::<Namespace>();
    match namespaces.create(&Typed::new(name, NamespaceSpec::default()), &WriteOptions::default()).await {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => Ok(()),
    }
}

pub async fn node(client: &Client, name: &str, zone: &str) -> Result<(), Error> {
    let spec = NodeSpec { zone: zone.to_owned(), ..NodeSpec::default() };
    client.api::<Node>().create(&Typed::new(name, spec), &WriteOptions::default()).await.map(drop)
}

pub fn template(grace_seconds: u32) -> ReplicaTemplate {
    ReplicaTemplate {
        command: vec!["serve".to_owned()],
        unknown_grace_seconds: grace_seconds,
        ..ReplicaTemplate::default()
    }
}

pub async fn workload(client: &Client, name: &str, replicas: u32) -> Result<(), Error> {
    let spec = WorkloadSpec { replicas, template: template(60), ..WorkloadSpec::default() };
    client.api::<Workload>().create(&Typed::new(name, spec), &WriteOptions::default()).await.map(drop)
}

/// A workload whose number nobody has decided.
pub async fn unsized_workload(client: &Client, name: &str) -> Result<(), Error> {
    let mut object = Object::new("Workload", "default", name);
    object.spec = serde_json::json!({"template": {"command": ["serve"]}});
    client.dynamic("Workload", client.home()).create(&object, &WriteOptions::default()).await.map(drop)
}

/// Stands for the workload controller: says of every generation of a workload that all its replicas serve, until somebody says what they
/// wait for instead.
pub fn follow(client: Client, name: &'static str) {
    tokio::spawn(async move {
        let api = client.api::<Workload>();
        loop {
            sleep(Duration::from_secs(1)).await;
            let Ok(mut workload) = api.get(name).await else { continue };
            let mut status = workload.status.clone().unwrap_or_default();
            let waits: u32 = status.pending_reasons.iter().map(|it| it.count).sum();
            status.observed_generation = workload.metadata.generation;
            status.replicas.admitted = workload.spec.replicas;
            status.replicas.pending = waits;
            status.replicas.serving = workload.spec.replicas.saturating_sub(waits);
            if workload.status.as_ref() != Some(&status) {
                workload.status = Some(status);
                api.update_status(&workload, &WriteOptions::default()).await.ok();
            }
        }
    });
}

/// A replica that serves on a node, as Bind and the agent leave it.
pub async fn bound(client: &Client, workload: &str, name: &str, node: &str) -> Result<(), Error> {
    let spec =
        ReplicaSpec { workload: workload.to_owned(), template: template(60), ..ReplicaSpec::default() };
    let replicas = client.api::<Replica>();
    let mut replica = replicas.create(&Typed::new(name, spec), &WriteOptions::default()).await?.object;
    replica.status =
        Some(ReplicaStatus { stage: Stage::Serving, node: node.to_owned(), ..ReplicaStatus::default() });
    let replica = replicas.update_status(&replica, &WriteOptions::default()).await?.object;
    let node = client.api::<Node>().get(node).await?;
    let spec = BindingSpec {
        replica: name.to_owned(),
        replica_uid: replica.metadata.uid,
        node: node.metadata.name,
        node_uid: node.metadata.uid,
        ..BindingSpec::default()
    };
    client.api::<Binding>().create(&Typed::new(name, spec), &WriteOptions::default()).await.map(drop)
}

/// Changes a part of a spec, as a person does.
pub async fn edit(client: &Client, kind: &str, name: &str, spec: serde_json::Value) -> Result<(), Error> {
    patch(client, kind, name, serde_json::json!({"spec": spec}), false).await
}

pub async fn patch(
    client: &Client,
    kind: &str,
    name: &str,
    change: serde_json::Value,
    status: bool,
) -> Result<(), Error> {
    let kind_info = &setpoint_types::registry::kind(kind).expect("a kind").info;
    let scope = if kind_info.namespaced { client.home() } else { setpoint_client::Scope::Cluster };
    let options = PatchOptions { status, ..PatchOptions::default() };
    client.dynamic(kind, scope).patch(name, &Patch::Merge(change), &options).await.map(drop)
}

/// `True Confirmed`
pub fn condition(conditions: &[Condition], kind: &str) -> String {
    find_condition(conditions, kind).map_or_else(String::new, |it| format!("{:?} {}", it.status, it.reason))
}

/// What a status comes to, without the way there: its conditions, each with its reason. For sweeps, whose runs take different ways.
pub fn only_conditions(status: &mut serde_json::Value) {
    let brief = |it: &serde_json::Value| serde_json::json!([it["type"], it["status"], it["reason"]]);
    let conditions = status["conditions"].as_array().map(|all| all.iter().map(brief).collect::<Vec<_>>());
    *status = serde_json::json!({"conditions": conditions});
}

/// Waits until something is so, in simulated time.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..7_200 {
        if holds() {
            return;
        }
        sleep(Duration::from_millis(500)).await;
    }
    panic!("it did not come to this within an hour: {what}");
}
