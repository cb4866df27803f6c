//! The policy rollout through every fault; and the stale canary: a policy is fresh, and what it is applied to is twenty seconds old.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use setpoint_client::{AcquireOptions, Client, Error, ListOptions, Typed, WriteOptions};
use setpoint_controllers::policy_rollout::NAME;
use setpoint_controllers::settings::Settings;
use setpoint_testkit::{Fault, Limits, Moment, Scenario, State, World, sweep};
use setpoint_types::kinds::{
    Activation, Binding, PlacementPolicy, PlacementPolicySpec, PolicyGate, Replica, ReplicaSpec, Workload,
};
use setpoint_types::{KindType, Revision};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::operations::stage::{bound, condition, node, only_conditions, patch, run, template, until};
use crate::rules::watched;

const REPLICAS: usize = 40;

/// A version with this annotation finds a node for nobody.
const UNPLACEABLE: &str = "unplaceable";

/// Stands for the scheduler: holds its lease, tells what it has seen, and finds a node for every replica but those of versions that find
/// none. Of nodes it is behind by so long.
async fn scheduler(client: &Client, nodes_behind: Duration) -> Result<(), Error> {
    let options = AcquireOptions {
        namespace: "default".to_owned(),
        lease: "scheduler.shard-0-of-1".to_owned(),
        holder: "scheduler-1".to_owned(),
        ttl: Some(Duration::from_secs(15)),
        ..AcquireOptions::default()
    };
    let acquired = client.leases().acquire(&options).await?;
    let client = client.clone();
    tokio::spawn(async move {
        let mut stream = client.leases().keep_alive().await.expect("a stream");
        let mut seen: Vec<(Instant, Revision)> = Vec::new();
        loop {
            let revision = place(&client).await.expect("nothing goes wrong with this client");
            seen.push((Instant::now(), revision));
            let past = seen.iter().rev().find(|(at, _)| at.elapsed() >= nodes_behind);
            let nodes = past.map_or(Revision::INITIAL, |(_, revision)| *revision);
            let observed: BTreeMap<String, Revision> =
                [("PlacementPolicy".to_owned(), revision), ("Node".to_owned(), nodes)].into();
            stream.keep(&acquired.fence, "scheduler-1", &observed).await.expect("an answer");
            sleep(Duration::from_secs(2)).await;
        }
    });
    Ok(())
}

/// One look at everything, and at which revision that was.
async fn place(client: &Client) -> Result<Revision, Error> {
    let (mut versions, revision) = client.api::<PlacementPolicy>().list_all(&ListOptions::default()).await?;
    versions.retain(|it| it.spec.activation == Activation::Active);
    versions.sort_by_key(|it| (std::cmp::Reverse(it.metadata.created), it.metadata.name.clone()));
    let (replicas, _) = client.api::<Replica>().list_all(&ListOptions::default()).await?;
    for replica in replicas {
        let uid = replica.metadata.uid.as_str();
        let mut below = 0;
        let version = versions.iter().find(|it| {
            below += it.spec.weight;
            it.spec.draw(uid) < below
        });
        let finds_none = version.is_some_and(|it| it.metadata.annotations.contains_key(UNPLACEABLE));
        let is_blocked = replica.status.as_ref().is_some_and(|it| it.blocked.is_some());
        if finds_none == is_blocked {
            continue;
        }
        let status = match finds_none {
            true => json!({"stage": "queued", "blocked": {"reason": "Topology", "revision": revision}}),
            false => json!({"stage": "serving", "blocked": null}),
        };
        patch(client, "Replica", &replica.metadata.name, json!({"status": status}), true).await?;
    }
    Ok(revision)
}

async fn policy(client: &Client, version: &str, weight: u32, gate: PolicyGate) -> Result<(), Error> {
    let spec = PlacementPolicySpec {
        policy: "risk".to_owned(),
        version: version.to_owned(),
        weight,
        activation: Activation::Active,
        gate,
        ..PlacementPolicySpec::default()
    };
    let policy = Typed::<PlacementPolicy>::new(format!("risk-{version}"), spec);
    client.api::<PlacementPolicy>().create(&policy, &WriteOptions::default()).await.map(drop)
}

fn gate() -> PolicyGate {
    PolicyGate {
        step: 40,
        interval_seconds: 60,
        required_components: vec!["scheduler".to_owned()],
        ..PolicyGate::default()
    }
}

/// Replicas that serve, one of them bound, so that what becomes of bindings can be seen.
async fn set_up(client: Client, nodes_behind: Duration) -> Result<(), Error> {
    node(&client, "a1", "a").await?;
    crate::operations::stage::workload(&client, "web", 1).await?;
    bound(&client, "web", "web-bound", "a1").await?;
    for number in 0..REPLICAS {
        let spec =
            ReplicaSpec { workload: "web".to_owned(), template: template(60), ..ReplicaSpec::default() };
        let name = format!("web-{number}");
        client.api::<Replica>().create(&Typed::new(&name, spec), &WriteOptions::default()).await?;
        patch(&client, "Replica", &name, json!({"status": {"stage": "serving"}}), true).await?;
    }
    scheduler(&client, nodes_behind).await?;
    policy(&client, "v4", 100, PolicyGate::default()).await
}

/// From now on a version finds no node.
async fn spoil(client: &Client, version: &str) -> Result<(), Error> {
    let spoilt = json!({"metadata": {"annotations": {UNPLACEABLE: "true"}}});
    patch(client, "PlacementPolicy", &format!("risk-{version}"), spoilt, false).await
}

fn version(
    state: &State,
    version: &str,
) -> Option<(Activation, u32, Vec<setpoint_types::object::Condition>)> {
    let policy = state.one::<PlacementPolicy>("", &format!("risk-{version}"))?;
    let conditions = policy.status.map(|status| status.conditions).unwrap_or_default();
    Some((policy.spec.activation, policy.spec.weight, conditions))
}

fn shown(world: &World, name: &str, kind: &str) -> String {
    version(&world.state(), name).map_or_else(String::new, |(_, _, conditions)| condition(&conditions, kind))
}

/// The newest version that did not fail has all replicas, and those before it are inactive.
fn converged(state: &State) -> Result<(), String> {
    let (active, weight, conditions) = version(state, "v4").ok_or("no v4")?;
    let Some(v5) = version(state, "v5") else {
        return match (active, condition(&conditions, "Complete").as_str()) {
            (Activation::Active, "True AllReplicas") => Ok(()),
            other => Err(format!("v4 is {other:?}")),
        };
    };
    let five = (v5.0, v5.1, condition(&v5.2, "Complete"));
    if (active, weight) != (Activation::Inactive, 100) {
        return Err(format!("v4 is {active:?} with {weight}, v5 {five:?}, {:?}", condition(&v5.2, "Gate")));
    }
    if five != (Activation::Active, 100, "True AllReplicas".to_owned()) {
        return Err(format!("v5 is {five:?}"));
    }
    let Some(v6) = version(state, "v6") else { return Ok(()) };
    let six = (v6.0, condition(&v6.2, "RolledBack"));
    if six != (Activation::Inactive, "True GateFailed".to_owned()) {
        return Err(format!("v6 is {six:?}"));
    }
    Ok(())
}

/// Replicas in scope always have a version to be placed by.
fn somebody_is_active(moment: &Moment) -> Result<(), String> {
    let policies = moment.state.all::<PlacementPolicy>();
    let takes_all =
        |it: &Typed<PlacementPolicy>| it.spec.activation == Activation::Active && it.spec.weight == 100;
    match policies.is_empty() || policies.iter().any(takes_all) {
        true => Ok(()),
        false => Err("no version takes all replicas that others leave".to_owned()),
    }
}

#[test]
fn a_version_is_rolled_out_step_by_step_and_a_bad_one_back() {
    let scenario = Scenario::new(|client, stop| run(client, stop, &[NAME], Settings::default()))
        .setup(|client| set_up(client, Duration::ZERO))
        .step("a good version", |client| async move { policy(&client, "v5", 20, gate()).await })
        .step("a bad version", |client| async move {
            policy(&client, "v6", 50, gate()).await?;
            spoil(&client, "v6").await
        })
        .converged(converged)
        // At which revision it was activated, and who had seen what, is another on every way.
        .may_differ(|object| {
            if object.kind == "PlacementPolicy" {
                only_conditions(&mut object.status);
            }
            true
        })
        .invariant("somebody takes the rest", somebody_is_active)
        // Which version is the newest is told by when it was made.
        .without(Fault::JumpBack(Duration::from_secs(3600)))
        .limits(Limits { places_max: 2, drawn: 2, quiet: Duration::from_secs(120), ..Limits::default() });
    sweep(&watched(scenario));
}

/// The newest version has the first replicas of the hundred, and the one before it the next: what the newest breaks is not the other's doing,
/// and what it is taken back to is whoever has the rest by then.
#[tokio::test(start_paused = true)]
async fn a_good_version_is_not_blamed_for_a_bad_one_that_came_after_it() {
    let world = World::new();
    let client = world.client_as("author");
    set_up(client.clone(), Duration::ZERO).await.expect("objects");
    start(&world);
    until("v4 is complete", || shown(&world, "v4", "Complete") == "True AllReplicas").await;
    policy(&client, "v5", 20, gate()).await.expect("a policy");
    policy(&client, "v6", 50, gate()).await.expect("a policy");
    spoil(&client, "v6").await.expect("a policy");
    until("both are decided", || converged(&world.state()).is_ok()).await;
    let mut moments = world.history().moments().collect::<Vec<_>>().into_iter();
    let taken_back = moments.find(|moment| {
        version(&moment.state, "v5").is_some_and(|(activation, _, _)| activation != Activation::Active)
    });
    assert!(taken_back.is_none(), "v5 was taken back at {}", taken_back.expect("one").state.revision);
}

fn start(world: &World) {
    let client = world.client_as("controllers");
    tokio::spawn(async move { run(client, CancellationToken::new(), &[NAME], Settings::default()).await });
}

/// Asks who has seen the policy, and not what else they have seen: what the lesson warns of.
async fn weak_rollout(client: Client, seen_at: std::sync::Arc<std::sync::Mutex<Option<Instant>>>) {
    let api = client.api::<PlacementPolicy>();
    loop {
        sleep(Duration::from_secs(1)).await;
        let Ok(policy) = api.get("risk-v5").await else { continue };
        let holders = client.leases().holders("").await.unwrap_or_default();
        let seen = holders.iter().filter_map(|it| it.observed.get("PlacementPolicy")).min();
        if seen.is_some_and(|seen| *seen >= policy.metadata.revision) {
            seen_at.lock().expect("nobody panics with it").get_or_insert(Instant::now());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_canary_waits_until_every_watch_has_passed_its_activation() {
    let behind = Duration::from_secs(20);
    let world = World::new();
    let client = world.client_as("author");
    set_up(client.clone(), behind).await.expect("objects");
    start(&world);
    let weak = std::sync::Arc::default();
    tokio::spawn(weak_rollout(world.client_as("weak"), std::sync::Arc::clone(&weak)));
    sleep(Duration::from_secs(60)).await;
    policy(&client, "v5", 20, PolicyGate { interval_seconds: 0, ..gate() }).await.expect("a policy");
    let began = Instant::now();
    until("it waits", || shown(&world, "v5", "Gate") == "Unknown NotObserved").await;
    let policy = world.state().one::<PlacementPolicy>("", "risk-v5").expect("v5");
    assert_eq!(policy.status.expect("a status").previous_version, "v4");
    until("it steps", || version(&world.state(), "v5").is_some_and(|(_, weight, _)| weight > 20)).await;
    assert!(began.elapsed() >= behind, "it stepped after {:?}, by nodes of before", began.elapsed());
    let weak: Option<Instant> = *weak.lock().expect("nobody panics with it");
    let weak = weak.expect("the weak one steps, too").duration_since(began);
    assert!(weak < behind, "the weak one waited for {weak:?}");
}

#[tokio::test(start_paused = true)]
async fn a_rollback_is_one_revision_and_bindings_stay() {
    let world = World::new();
    let client = world.client_as("author");
    set_up(client.clone(), Duration::ZERO).await.expect("objects");
    start(&world);
    until("v4 is complete", || shown(&world, "v4", "Complete") == "True AllReplicas").await;
    policy(&client, "v5", 50, gate()).await.expect("a policy");
    until("the gate is good", || shown(&world, "v5", "Gate") == "True Satisfied").await;
    spoil(&client, "v5").await.expect("a policy");
    until("it is rolled back", || shown(&world, "v5", "RolledBack") == "True GateFailed").await;
    let (active, weight, _) = version(&world.state(), "v4").expect("v4");
    assert_eq!((active, weight), (Activation::Active, 100));
    let history = world.history();
    let deactivated = history
        .changes()
        .filter(|(_, it)| it.key.name == "risk-v5")
        .find(|(_, it)| it.after.as_ref().is_some_and(|it| it.spec["activation"] == "Inactive"));
    let (revision, change) = deactivated.expect("v5 was deactivated");
    assert_eq!(change.author.manager, NAME);
    let decided = history.changes().any(|(at, it)| at == revision && it.key.kind == "Decision");
    assert!(decided, "why is written at the same revision");
    let touched = history.changes().filter(|(_, it)| it.key.kind == Binding::INFO.name).count();
    assert_eq!(touched, 1, "bindings were only ever created");
    assert!(world.state().one::<Workload>("default", "web").is_some());
}
