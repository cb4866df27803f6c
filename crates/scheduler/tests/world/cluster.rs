//! A small cluster: two nodes whose agents hold their leases, and replicas as the replica controller makes them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use serde_json::json;
use setpoint_client::{AcquireOptions, Client, Patch, PatchOptions, Typed, WriteOptions};
use setpoint_runtime::WallClock;
use setpoint_scheduler::shell::scheduler::Scheduler;
use setpoint_scheduler::shell::settings::Settings;
use setpoint_testkit::{State, now};
use setpoint_types::kinds::{
    Binding, BindingState, Namespace, NamespaceSpec, Node, NodeSpec, Replica, ReplicaSpec, ReplicaTemplate,
};
use setpoint_types::object::Object;
use setpoint_types::quantity::{Amounts, Unit};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::Result;

/// Longer than most tests: agents are not what is tested.
const LEASE: Duration = Duration::from_secs(3600);

pub async fn set_up(client: Client) -> Result<()> {
    let namespace = Typed::<Namespace>::new("setpoint-system", NamespaceSpec::default());
    client.api::<Namespace>().create(&namespace, &WriteOptions::default()).await?;
    add_node(client.clone(), "a", "2").await?;
    add_node(client, "b", "2").await
}

pub async fn add_node(client: Client, name: &str, cpu: &str) -> Result<()> {
    let options = AcquireOptions {
        namespace: "setpoint-system".to_owned(),
        lease: format!("node-{name}"),
        holder: format!("agent-{name}"),
        ttl: Some(LEASE),
        ..AcquireOptions::default()
    };
    let lease = client.leases().acquire(&options).await?;
    let spec = NodeSpec { zone: name.to_owned(), capacity: amounts(cpu), ..NodeSpec::default() };
    let nodes = client.api::<Node>();
    nodes.create(&Typed::new(name, spec), &WriteOptions::default()).await?;
    let status = json!({"status": {
        "epoch": lease.fence.epoch,
        "conditions": [{"type": "Ready", "status": "True", "reason": "AgentReady"}],
    }});
    let options = PatchOptions { status: true, ..PatchOptions::default() };
    nodes.patch(name, &Patch::Merge(status), &options).await.map(drop)
}

pub async fn add_replicas(client: Client, workload: &str, numbers: Range<u32>, cpu: &str) -> Result<()> {
    for number in numbers {
        let template = ReplicaTemplate {
            command: vec!["serve".to_owned()],
            resources: amounts(cpu),
            ..ReplicaTemplate::default()
        };
        let spec = ReplicaSpec { workload: workload.to_owned(), template, ..ReplicaSpec::default() };
        let replica = Typed::<Replica>::new(format!("{workload}-{number}"), spec);
        client.api::<Replica>().create(&replica, &WriteOptions::default()).await?;
    }
    Ok(())
}

fn amounts(cpu: &str) -> Amounts {
    let mut amounts = Amounts::default();
    amounts.insert("cpu", Unit::Milli.parse(cpu).expect("an amount"));
    amounts
}

/// Runs a scheduler until it is stopped.
pub async fn run(client: Client, name: &str, stop: CancellationToken) {
    let settings = Settings { shards: 2, ..Settings::default() };
    let scheduler = Scheduler::new(client, settings).expect("good settings");
    let scheduler = scheduler.with_clock(WallClock::new(now));
    scheduler.run(stop).await.unwrap_or_else(|error| panic!("{name}: {error}"));
}

pub fn start(client: Client, name: &'static str) -> (CancellationToken, JoinHandle<()>) {
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    (stop, tokio::spawn(async move { run(client, name, stopped).await }))
}

/// Everybody has a node or a reason; nobody has a reason while there is room. Each asks for one processor.
pub fn converged(state: &State) -> std::result::Result<(), String> {
    for replica in state.all::<Replica>() {
        let name = &replica.metadata.name;
        let status = replica.status.unwrap_or_default();
        if status.node.is_empty() && status.blocked.is_none() {
            return Err(format!("{name} has neither a node nor a reason"));
        }
    }
    let nodes = state.all::<Node>();
    let room: i64 = nodes.iter().filter_map(|it| it.spec.capacity.get("cpu")).sum();
    let wanted = state.count("Replica").min(usize::try_from(room / 1000).unwrap_or(0));
    match state.count("Binding") {
        bound if bound == wanted => Ok(()),
        bound => Err(format!("{bound} of {wanted} replicas are bound")),
    }
}

/// No node has more bound to it than it can take.
pub fn fits(state: &State) -> std::result::Result<(), String> {
    let mut used: BTreeMap<String, i64> = BTreeMap::new();
    for binding in state.all::<Binding>() {
        let is_held = binding.status.is_none_or(|it| it.state != BindingState::Released);
        let ledger = format!("node/{}", binding.spec.node);
        let reserved = binding.spec.reservations.iter().filter(|it| it.ledger == ledger);
        let cpu: i64 = reserved.filter_map(|it| it.amounts.get("cpu")).sum();
        *used.entry(binding.spec.node).or_default() += if is_held { cpu } else { 0 };
    }
    for node in state.all::<Node>() {
        let (has, takes) =
            (node.spec.capacity.get("cpu").unwrap_or(0), used.get(&node.metadata.name).copied().unwrap_or(0));
        if takes > has {
            return Err(format!("{} has {takes} of {has}", node.metadata.name));
        }
    }
    Ok(())
}

/// Whose a binding is.
pub fn replica_of(binding: &Object) -> String {
    binding.spec["replicaUid"].as_str().unwrap_or_default().to_owned()
}
