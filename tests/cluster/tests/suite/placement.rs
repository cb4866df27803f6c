//! Two schedulers race for the same replicas through different nodes, and the leader is killed: each replica has one node, and
//! neither nodes nor the quota have given more than they had, at any revision (P1 to P3).

use std::collections::BTreeMap;
use std::time::Duration;

use prost::Message;
use setpoint_api::setpoint::v1 as pb;
use setpoint_client::{
    AcquireOptions, Bind, BindGroup, BindReason, BindRejection, Bound, Client, Settings, Typed, WriteOptions,
};
use setpoint_cluster_tests::dump::events;
use setpoint_cluster_tests::ledger::Row;
use setpoint_cluster_tests::testbed::{Testbed, patiently};
use setpoint_types::kinds::{
    AgentInfo, Binding, BindingSpec, BindingState, BindingStatus, Namespace, NamespaceSpec, Node, NodeSpec,
    NodeStatus, Quota, QuotaSpec, Replica, ReplicaSpec, ReplicaStatus, ReplicaTemplate,
};
use setpoint_types::object::{Condition, ConditionStatus};
use setpoint_types::quantity::Amounts;

/// Of a call. The machine may be busy, and elections take their time.
const CALL: Duration = Duration::from_secs(120);
const NODES: usize = 4;
/// Thousandths of a processor, of each node.
const CAPACITY: i64 = 10_000;
const REPLICAS: usize = 60;
const QUOTA: i64 = 35_000;
/// Groups of one request.
const BATCH: usize = 8;

fn client(addresses: &[String]) -> Client {
    let endpoints = addresses.iter().map(|address| address.parse().expect("an address")).collect();
    let mut settings = Settings::new(endpoints);
    settings.timeouts.call = CALL;
    settings.attempts_max = 1000;
    Client::new(settings).expect("settings that fit").with_manager("test")
}

fn cpu(amount: i64) -> Amounts {
    [("cpu".to_owned(), amount)].into_iter().collect()
}

async fn furnish(client: &Client) {
    let options = WriteOptions::default();
    let system = Typed::<Namespace>::new("setpoint-system", NamespaceSpec::default());
    client.api::<Namespace>().create(&system, &options).await.expect("a namespace");
    for number in 0..NODES {
        let name = format!("n{number}");
        let lease = AcquireOptions {
            namespace: "setpoint-system".into(),
            lease: format!("node-{name}"),
            holder: name.clone(),
            // Longer than the test: nobody keeps it.
            ttl: Some(Duration::from_secs(3_600)),
            ..AcquireOptions::default()
        };
        let held = client.leases().acquire(&lease).await.expect("a free lease");
        let spec = NodeSpec { zone: "a".into(), capacity: cpu(CAPACITY), ..NodeSpec::default() };
        let mut node =
            client.api::<Node>().create(&Typed::new(&name, spec), &options).await.expect("a node").object;
        let ready = Condition {
            kind: "Ready".into(),
            status: ConditionStatus::True,
            reason: "Told".into(),
            ..Condition::default()
        };
        node.status = Some(NodeStatus {
            epoch: held.fence.epoch,
            agent: Some(AgentInfo { boot_id: "b".into(), ..AgentInfo::default() }),
            conditions: vec![ready],
            ..NodeStatus::default()
        });
        client.api::<Node>().update_status(&node, &options).await.expect("its status");
    }
    let quota = Typed::<Quota>::new("all", QuotaSpec { limits: cpu(QUOTA), zones: Vec::new() });
    client.api::<Quota>().create(&quota, &options).await.expect("a quota");
    for number in 0..REPLICAS {
        let template = ReplicaTemplate {
            command: vec!["run".into()],
            resources: cpu(1_000),
            ..ReplicaTemplate::default()
        };
        let spec = ReplicaSpec { workload: "web".into(), template, ..ReplicaSpec::default() };
        let replica = Typed::<Replica>::new(format!("r{number}"), spec);
        client.api::<Replica>().create(&replica, &options).await.expect("a replica");
    }
}

/// What one scheduler was told, by replica.
type Told = BTreeMap<String, Result<Bound, BindRejection>>;

/// Tries every replica on every node, until it is bound, somebody else has bound it, or the quota is used up.
async fn schedule(client: Client, number: usize) -> Told {
    let nodes = nodes_of(&client).await;
    let (replicas, _) = client.api::<Replica>().list_all(&Default::default()).await.expect("replicas");
    let mut told = Told::new();
    let mut open: Vec<(Typed<Replica>, usize)> = replicas.into_iter().map(|it| (it, 0)).collect();
    if number == 1 {
        open.reverse();
    }
    while !open.is_empty() {
        let batch: Vec<_> = open.drain(..open.len().min(BATCH)).collect();
        let groups = batch.iter().map(|(replica, tried)| {
            let node = &nodes[(tried + number) % NODES];
            BindGroup {
                operation: format!("s{number}-{}-{tried}", replica.metadata.name),
                binds: vec![bind(replica, node)],
                ..BindGroup::default()
            }
        });
        let results = client.placement().bind(groups.collect()).await.expect("an answer");
        for ((replica, tried), result) in batch.into_iter().zip(results) {
            match result {
                Err(BindRejection { reason: BindReason::NoRoom, .. }) if tried + 1 < NODES => {
                    open.push((replica, tried + 1));
                }
                Err(BindRejection { reason: BindReason::Contention, .. }) => open.push((replica, tried)),
                result => drop(told.insert(replica.metadata.name, result)),
            }
        }
    }
    told
}

async fn nodes_of(client: &Client) -> Vec<Typed<Node>> {
    client.api::<Node>().list_all(&Default::default()).await.expect("nodes").0
}

fn bind(replica: &Typed<Replica>, node: &Typed<Node>) -> Bind {
    Bind {
        namespace: "default".into(),
        replica: replica.metadata.name.clone(),
        replica_uid: replica.metadata.uid.clone(),
        replica_generation: replica.metadata.generation,
        node: node.metadata.name.clone(),
        node_uid: node.metadata.uid.clone(),
        node_revision: node.metadata.revision,
        node_epoch: node.status.as_ref().map(|it| it.epoch).unwrap_or_default(),
        ..Bind::default()
    }
}

/// Folds the log: at every revision, what nodes and namespace have given is within what they have, and no replica moves.
fn check(rows: &[Row]) {
    let mut bindings: BTreeMap<String, (BindingSpec, BindingStatus)> = BTreeMap::new();
    let mut nodes: BTreeMap<String, String> = BTreeMap::new();
    for of_one in rows.chunk_by(|a, b| a.revision == b.revision) {
        let revision = of_one[0].revision;
        for row in of_one {
            let Some(value) = &row.value else { continue };
            if let Some(name) = row.key.strip_prefix("/setpoint.v1/Binding/") {
                let object = pb::Object::decode(value.clone()).expect("an object");
                let spec = serde_json::from_slice(&object.spec).expect("a binding");
                let status = serde_json::from_slice(&object.status).expect("its status");
                bindings.insert(name.to_owned(), (spec, status));
            } else if row.key.starts_with("/setpoint.v1/Replica/") {
                let object = pb::Object::decode(value.clone()).expect("an object");
                let status: ReplicaStatus = serde_json::from_slice(&object.status).unwrap_or_default();
                if status.node.is_empty() {
                    continue;
                }
                let uid = object.metadata.unwrap_or_default().uid;
                let node = nodes.entry(uid).or_insert_with(|| status.node.clone());
                assert_eq!(*node, status.node, "P1 at {revision}: {}", row.key);
            }
        }
        let mut used: BTreeMap<&str, i64> = BTreeMap::new();
        let held = bindings.values().filter(|(_, status)| status.state != BindingState::Released);
        for (spec, _) in held {
            *used.entry(&spec.node).or_default() += 1_000;
        }
        assert!(used.values().all(|used| *used <= CAPACITY), "P3 at {revision}: {used:?}");
        assert!(used.values().sum::<i64>() <= QUOTA, "P3 at {revision}: {used:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_schedulers_one_wins_each_replica_and_nothing_is_given_twice() {
    let mut bed = Testbed::start("of_two_schedulers").await;
    let addresses = bed.addresses();
    let everywhere = client(&addresses);
    furnish(&everywhere).await;
    let (leader, _) = bed.leader().await;
    // Each begins at another node, and goes on with the others if that one is gone.
    let at = |first: usize| client(&[addresses[first].clone(), addresses[(first + 1) % 3].clone()]);
    let schedulers = [(leader + 1) % 3, (leader + 2) % 3];
    let tasks: Vec<_> = schedulers
        .iter()
        .enumerate()
        .map(|(number, first)| tokio::spawn(schedule(at(*first), number)))
        .collect();
    bed.kill(leader);
    bed.leader_among(&schedulers).await;
    bed.restart(leader).await;
    let mut told = Vec::new();
    for task in tasks {
        told.push(task.await.expect("no panic"));
    }
    let mut bound = 0;
    for replica in (0..REPLICAS).map(|number| format!("r{number}")) {
        let winners = told.iter().filter(|told| told[&replica].is_ok()).count();
        assert!(winners <= 1, "P1: {replica} was given to both");
        bound += winners;
        for refused in told.iter().filter_map(|told| told[&replica].as_ref().err()) {
            let expected = [BindReason::AlreadyBound, BindReason::QuotaExceeded, BindReason::NoRoom];
            assert!(expected.contains(&refused.reason), "{replica}: {refused:?}");
        }
    }
    assert_eq!(bound as i64 * 1_000, QUOTA, "all that the quota allows is placed");
    let (bindings, _) = everywhere.api::<Binding>().list_all(&Default::default()).await.expect("bindings");
    assert_eq!(bindings.len(), bound);
    let last = patiently(|| bed.clients[0].put("the/end", "")).await;
    let log = patiently(|| async {
        let found = events(&bed.clients[0], 1, last).await;
        found.map_err(|error| tonic::Status::unavailable(error.to_string()))
    });
    check(&log.await.into_iter().map(Row::of).collect::<Vec<_>>());
    bed.hashes_agree(last).await;
    bed.no_panics();
}
