//! The quota controller through every fault: what a quota shows is what the ledgers of its namespace say, and a leak is named.

use std::collections::BTreeSet;
use std::time::Duration;

use setpoint_client::{Bind, BindGroup, Client, Error, Patch, PatchOptions, Typed, WriteOptions};
use setpoint_controllers::node_monitor::SYSTEM;
use setpoint_controllers::quota::NAME;
use setpoint_controllers::reservations;
use setpoint_controllers::reservations::settings::ReservationsSettings;
use setpoint_controllers::settings::Settings;
use setpoint_testkit::{Limits, Scenario, State, sweep};
use setpoint_types::ObjectKey;
use setpoint_types::kinds::{
    Binding, Lease, Node, NodeSpec, NodeStatus, Quota, QuotaSpec, Replica, ReplicaSpec, ZoneLimits,
};
use setpoint_types::object::{Condition, ConditionStatus};
use setpoint_types::quantity::Amounts;

use crate::operations::stage::{Agents, condition, namespace, run, template};
use crate::rules::nothing_is_left;

fn cpu(amount: i64) -> Amounts {
    [("cpu".to_owned(), amount)].into_iter().collect()
}

/// A node with room, whose agent is there, and a quota.
async fn set_up(client: Client, agents: Agents) -> Result<(), Error> {
    agents.forget();
    namespace(&client, SYSTEM).await?;
    let spec = NodeSpec { zone: "a".to_owned(), capacity: cpu(4_000), ..NodeSpec::default() };
    let nodes = client.api::<Node>();
    let mut node = nodes.create(&Typed::new("a1", spec), &WriteOptions::default()).await?.object;
    agents.start(&client, "a1").await?;
    let lease = client.api::<Lease>().namespace(SYSTEM).get("node-a1").await?;
    let ready = Condition {
        kind: "Ready".to_owned(),
        status: ConditionStatus::True,
        reason: "AgentRuns".to_owned(),
        ..Condition::default()
    };
    let epoch = lease.status.unwrap_or_default().epoch;
    node.status = Some(NodeStatus { epoch, conditions: vec![ready], ..NodeStatus::default() });
    nodes.update_status(&node, &WriteOptions::default()).await?;
    let zones = vec![ZoneLimits { zone: "a".to_owned(), limits: cpu(500) }];
    let quota = Typed::<Quota>::new("team", QuotaSpec { limits: cpu(1_000), zones });
    client.api::<Quota>().create(&quota, &WriteOptions::default()).await.map(drop)
}

/// A replica comes, and is bound.
async fn bind(client: Client, name: &str, amount: i64) -> Result<(), Error> {
    let mut template = template(60);
    template.resources = cpu(amount);
    let spec = ReplicaSpec { workload: "web".to_owned(), template, ..ReplicaSpec::default() };
    let replicas = client.api::<Replica>();
    let replica = replicas.create(&Typed::new(name, spec), &WriteOptions::default()).await?.object;
    let node = client.api::<Node>().get("a1").await?;
    let bind = Bind {
        namespace: "default".to_owned(),
        replica: name.to_owned(),
        replica_uid: replica.metadata.uid,
        replica_generation: replica.metadata.generation,
        node: "a1".to_owned(),
        node_uid: node.metadata.uid,
        node_revision: node.metadata.revision,
        node_epoch: node.status.unwrap_or_default().epoch,
        ..Bind::default()
    };
    let group = BindGroup { operation: format!("bind {name}"), binds: vec![bind], ..BindGroup::default() };
    let results = client.placement().bind(vec![group]).await?;
    assert!(results[0].is_ok(), "{results:?}");
    Ok(())
}

/// A binding is torn out by force, past its finalizer, as nobody should: what it has reserved stays.
async fn tear_out(client: Client, name: &str) -> Result<(), Error> {
    let freed = Patch::Merge(serde_json::json!({"metadata": {"finalizers": null}}));
    client.api::<Binding>().patch(name, &freed, &PatchOptions::default()).await?;
    let key = ObjectKey::new("Binding", "default", name);
    client.transaction().delete(&key, None, None).commit(&WriteOptions::default()).await.map(drop)
}

/// What is shown is what was bound; and once a binding was torn out, that it does not add up.
fn converged(state: &State) -> Result<(), String> {
    let quota = state.one::<Quota>("default", "team").ok_or("there is no quota")?;
    let status = quota.status.unwrap_or_default();
    let reserved: i64 =
        state.all::<Replica>().iter().filter_map(|it| it.spec.template.resources.get("cpu")).sum();
    let used = status.used.get("cpu").unwrap_or(0);
    let in_zone = status.zones.first().and_then(|zone| zone.used.get("cpu")).unwrap_or(0);
    if (used, in_zone) != (reserved, reserved) {
        return Err(format!("{used} and {in_zone} are shown, not {reserved}"));
    }
    let is_torn = state.all::<Binding>().len() < state.all::<Replica>().len();
    let consistent = if is_torn { "False Deviation" } else { "True AsBindings" };
    let shown = ["InForce", "WithinLimits", "Consistent"].map(|kind| condition(&status.conditions, kind));
    match shown == ["True LedgersFollow", "True WithinLimits", consistent] {
        true => Ok(()),
        false => Err(format!("shown is {:?}", status.conditions)),
    }
}

/// The sweeper finds what is reserved for nobody, by its owner, and gives it back; what bindings have reserved stays.
#[test]
fn what_is_reserved_for_nobody_is_given_back() {
    let agents = Agents::default();
    let settings =
        || Settings { reservations: ReservationsSettings { every_seconds: 30 }, ..Settings::default() };
    let scenario = Scenario::new(move |client, stop| run(client, stop, &[reservations::NAME], settings()))
        .setup(move |client| set_up(client, agents.clone()))
        .step("something is bound", |client| bind(client, "first", 300))
        .step("something else is bound", |client| bind(client, "second", 100))
        .step("a binding is torn out", |client| tear_out(client, "second"))
        .converged(|state| {
            let held = state.all::<Binding>().len();
            let owners: BTreeSet<&str> = state.reservations().map(|it| it.1).collect();
            if owners.len() != held {
                return Err(format!("{owners:?} have reserved something, and there are {held} bindings"));
            }
            nothing_is_left(state)
        })
        .limits(Limits { places_max: 2, drawn: 2, quiet: Duration::from_secs(120), ..Limits::default() });
    sweep(&scenario);
}

#[test]
fn what_a_quota_shows_is_what_is_reserved_and_a_leak_is_named() {
    let agents = Agents::default();
    let scenario = Scenario::new(|client, stop| run(client, stop, &[NAME], Settings::default()))
        .setup(move |client| set_up(client, agents.clone()))
        .step("something is bound", |client| bind(client, "first", 300))
        .step("something else is bound", |client| bind(client, "second", 100))
        .step("a binding is torn out", |client| tear_out(client, "second"))
        .converged(converged)
        .may_differ(|object| {
            object.status.as_object_mut().map(|status| status.remove("observedRevision"));
            true
        })
        // Nobody gives it back here, so it is told of again and again: one Event, counted.
        .may_write(|change| change.key.kind == "Event")
        .limits(Limits { places_max: 2, drawn: 2, quiet: Duration::from_secs(120), ..Limits::default() });
    sweep(&scenario);
}
