//! The autoscaler through every fault; and what the lessons tell of autoscalers: who reacts to readiness winds up, and who takes fields by
//! force fights.

use std::time::Duration;

use serde_json::json;
use setpoint_client::{Client, Error, Typed, WriteOptions};
use setpoint_controllers::autoscaler::NAME;
use setpoint_controllers::settings::Settings;
use setpoint_testkit::{Faults, Limits, Plan, Scenario, State, World, sweep};
use setpoint_types::kinds::{
    Autoscaler, AutoscalerSpec, Metric, MetricType, PendingReason, Quota, QuotaSpec, ScaleTarget, Workload,
};
use setpoint_types::object::Object;
use setpoint_types::quantity::Amounts;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::fleet::{Fleet, Shape};
use crate::operations::stage::{condition, follow, only_conditions, patch, run, unsized_workload, until};
use crate::rules::{audit, watched};
use crate::whole::{controllers, scheduler};

const DAY: u32 = 86_400;

async fn autoscaler(client: &Client, max_age_seconds: u32) -> Result<(), Error> {
    let metric = Metric {
        name: "queue".to_owned(),
        kind: MetricType::Total,
        target: "10".to_owned(),
        max_age_seconds,
    };
    let spec = AutoscalerSpec {
        target: ScaleTarget { kind: "Workload".to_owned(), name: "web".to_owned() },
        min_replicas: 1,
        max_replicas: 10,
        metrics: vec![metric],
        tolerance_percent: 10,
        ..AutoscalerSpec::default()
    };
    client.api::<Autoscaler>().create(&Typed::new("web", spec), &WriteOptions::default()).await.map(drop)
}

/// Somebody reports the length of the queue.
async fn report(client: &Client, length: u32) -> Result<(), Error> {
    let value = format!("{length}@{}", setpoint_testkit::now().0);
    let change = json!({"metadata": {"annotations": {"metric.setpoint/queue": value}}});
    patch(client, "Autoscaler", "web", change, false).await
}

fn replicas(state: &State) -> u32 {
    state.one::<Workload>("default", "web").map_or(0, |workload| workload.spec.replicas)
}

fn shown(world: &World, kind: &str) -> String {
    let autoscaler = world.state().one::<Autoscaler>("default", "web").expect("an autoscaler");
    condition(&autoscaler.status.map(|status| status.conditions).unwrap_or_default(), kind)
}

/// A workload of which nobody has decided the number, with somebody who follows it.
async fn set_up(client: Client, max_age_seconds: u32) -> Result<(), Error> {
    unsized_workload(&client, "web").await?;
    follow(client.clone(), "web");
    autoscaler(&client, max_age_seconds).await
}

fn start(world: &World) {
    let client = world.client_as("controllers");
    tokio::spawn(async move { run(client, CancellationToken::new(), &[NAME], Settings::default()).await });
}

#[test]
fn the_number_follows_what_is_reported() {
    let scenario = Scenario::new(|client, stop| run(client, stop, &[NAME], Settings::default()))
        .setup(|client| set_up(client, DAY))
        .step("a queue of 35", |client| async move { report(&client, 35).await })
        .step("a queue of 500", |client| async move { report(&client, 500).await })
        .step("a queue of 8", |client| async move { report(&client, 8).await })
        .converged(|state| {
            let autoscaler = state.one::<Autoscaler>("default", "web").ok_or("no autoscaler")?;
            let length: Option<u32> = autoscaler
                .metadata
                .annotations
                .get("metric.setpoint/queue")
                .and_then(|text| text.split('@').next()?.parse().ok());
            let wanted = length.map_or(1, |length| length.div_ceil(10).clamp(1, 10));
            match replicas(state) {
                found if found == wanted => Ok(()),
                found => Err(format!("{found} replicas, not {wanted}")),
            }
        })
        .invariant("the number is always within the bounds", |moment| match replicas(&moment.state) {
            0..=10 => Ok(()),
            more => Err(format!("{more} replicas")),
        })
        // When something was reported and recommended is another on every way.
        .may_differ(|object| {
            if object.kind == "Autoscaler" {
                object.metadata.annotations.clear();
                only_conditions(&mut object.status);
            }
            true
        })
        // Somebody else's status: it is written whenever the number changes.
        .may_write(|change| change.key.kind == "Workload")
        .limits(Limits { places_max: 2, drawn: 2, quiet: Duration::from_secs(120), ..Limits::default() });
    sweep(&watched(scenario));
}

/// Says what the pending replicas of the workload wait for, found at a revision.
async fn pend(client: &Client, count: u32, reason: PendingReason, revision: u64) {
    let reasons = json!([{"reason": reason, "count": count, "revision": revision}]);
    let reasons = if count == 0 { json!([]) } else { reasons };
    patch(client, "Workload", "web", json!({"status": {"pendingReasons": reasons}}), true)
        .await
        .expect("a status");
}

/// Reads readiness, and not why: what the lesson warns of.
async fn weak_autoscaler(client: Client) {
    let api = client.api::<Workload>();
    loop {
        sleep(Duration::from_secs(15)).await;
        let Ok(workload) = api.get("web").await else { continue };
        let serving = workload.status.as_ref().map_or(0, |status| status.replicas.serving);
        if serving < workload.spec.replicas && workload.spec.replicas < 10 {
            let more = json!({"spec": {"replicas": workload.spec.replicas + 1}});
            patch(&client, "Workload", "web", more, false).await.ok();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pending_after_a_rollback_the_number_waits_for_a_reason_it_can_believe() {
    let world = World::new();
    let client = world.client_as("author");
    set_up(client.clone(), DAY).await.expect("objects");
    let limits = [("cpu".to_owned(), 1_000)].into_iter().collect();
    let quota = Typed::<Quota>::new("risk", QuotaSpec { limits, ..QuotaSpec::default() });
    let quota = client.api::<Quota>().create(&quota, &WriteOptions::default()).await.expect("a quota").object;
    start(&world);
    report(&client, 40).await.expect("a report");
    until("four", || replicas(&world.state()) == 4).await;
    // After the rollback two wait for the quota, as it was before it was last changed.
    pend(&client, 2, PendingReason::Quota, quota.metadata.revision.get() - 1).await;
    report(&client, 80).await.expect("a report");
    until("it waits", || shown(&world, "Limited") == "True StaleReason").await;
    sleep(Duration::from_secs(300)).await;
    assert_eq!(replicas(&world.state()), 4);
    // The scheduler looks again, and finds the same.
    pend(&client, 2, PendingReason::Quota, world.revision().get()).await;
    until("it is held", || shown(&world, "Limited") == "True Quota").await;
    sleep(Duration::from_secs(300)).await;
    assert_eq!(replicas(&world.state()), 4, "a quota that is used up is no reason for more");
    // Fewer are always allowed.
    report(&client, 20).await.expect("a report");
    until("two", || replicas(&world.state()) == 2).await;
    pend(&client, 0, PendingReason::Quota, 0).await;
    report(&client, 80).await.expect("a report");
    until("eight", || replicas(&world.state()) == 8).await;
}

/// The same in a whole cluster: six of eight serve after a policy was taken back, two wait for the quota, and the scheduler sees quotas twenty
/// seconds late. That it is behind shows in the revisions; nobody adds capacity because of it, and nobody has to do anything.
#[tokio::test(start_paused = true)]
async fn pending_after_a_rollback_the_lag_of_the_scheduler_shows_and_passes() {
    let behind = Duration::from_secs(20);
    let (world, fleet) = (World::new(), Fleet::default());
    let client = world.client_as("author");
    fleet.begin(&client).await.expect("a namespace");
    for (name, zone) in [("a1", "a"), ("b1", "b"), ("c1", "c")] {
        fleet.add(Shape::new(name, zone, 8_000));
    }
    let cpu = |amount| -> Amounts { [("cpu".to_owned(), amount)].into_iter().collect() };
    let quota = Typed::<Quota>::new("risk", QuotaSpec { limits: cpu(6_000), ..QuotaSpec::default() });
    client.api::<Quota>().create(&quota, &WriteOptions::default()).await.expect("a quota");
    tokio::spawn(controllers(world.client_as("controller"), CancellationToken::new()));
    let faults = Faults::new(&world, &Plan::default());
    faults.delay("Quota", behind);
    let process = faults.process("scheduler");
    tokio::spawn(scheduler(process.client(), CancellationToken::new()));
    let mut web = Object::new("Workload", "default", "web");
    web.spec = json!({"template": {"command": ["serve"], "resources": {"cpu": "1"}}});
    client.dynamic("Workload", client.home()).create(&web, &WriteOptions::default()).await.expect("web");
    autoscaler(&client, DAY).await.expect("an autoscaler");
    report(&client, 80).await.expect("a report");
    let status =
        || world.state().one::<Workload>("default", "web").and_then(|it| it.status).unwrap_or_default();
    let waits = || status().pending_reasons.into_iter().find(|it| it.reason == PendingReason::Quota);
    until("six of eight serve, and two wait for the quota", || {
        replicas(&world.state()) == 8
            && status().replicas.serving == 6
            && waits().is_some_and(|it| it.count == 2)
    })
    .await;
    for (version, weight) in [("v4", 100), ("v5", 20)] {
        let spec = json!({"policy": "risk", "version": version, "weight": weight, "activation": "Active"});
        let mut policy = Object::new("PlacementPolicy", "", format!("risk-{version}"));
        policy.spec = spec;
        let api = client.dynamic("PlacementPolicy", setpoint_client::Scope::Cluster);
        api.create(&policy, &WriteOptions::default()).await.expect("a policy");
    }
    patch(&client, "PlacementPolicy", "risk-v5", json!({"spec": {"activation": "Inactive"}}), false)
        .await
        .expect("the rollback");
    report(&client, 100).await.expect("a report");
    until("more would not help", || shown(&world, "Limited").starts_with("True")).await;
    // The quota has room again, and whoever decides about nodes does not know it yet.
    let found_at = waits().expect("they wait").revision;
    patch(&client, "Quota", "risk", json!({"spec": {"limits": {"cpu": "8"}}}), false).await.expect("a quota");
    let (raised, since) = (world.revision(), tokio::time::Instant::now());
    sleep(behind - Duration::from_secs(2)).await;
    assert!(found_at < raised, "what is known of the quota is of {found_at}, and it is at {raised}");
    assert_eq!((status().replicas.serving, replicas(&world.state())), (6, 8), "nobody adds to it");
    assert_eq!(shown(&world, "Limited"), "True StaleReason");
    until("eight serve by themselves", || status().replicas.serving == 8).await;
    assert!(since.elapsed() >= behind, "it was seen late");
    audit(&world.history()).expect("everything holds at every revision");
}

#[tokio::test(start_paused = true)]
async fn the_weak_autoscaler_winds_up_while_a_quota_blocks() {
    let world = World::new();
    let client = world.client_as("author");
    set_up(client.clone(), DAY).await.expect("objects");
    tokio::spawn(weak_autoscaler(world.client_as("weak")));
    pend(&client, 1, PendingReason::Quota, 1).await;
    sleep(Duration::from_secs(600)).await;
    assert_eq!(replicas(&world.state()), 10, "the weak one stood still");
}

/// How often the number was changed.
fn changes(world: &World) -> usize {
    let is_change = |change: &setpoint_testkit::Change| {
        let number = |it: &Option<std::sync::Arc<Object>>| it.as_ref().map(|it| it.spec["replicas"].clone());
        change.key.kind == "Workload"
            && change.before.is_some()
            && number(&change.before) != number(&change.after)
    };
    world.history().changes().filter(|(_, change)| is_change(change)).count()
}

/// Sets the number again and again, by force.
async fn stubborn(client: Client, number: u32) {
    let api = client.dynamic("Workload", client.home());
    let mut wanted = Object::new("Workload", "default", "web");
    wanted.spec = json!({"replicas": number});
    loop {
        api.apply(&wanted, true, &WriteOptions::default()).await.ok();
        sleep(Duration::from_secs(15)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn five_against_three_ends_in_a_named_conflict_and_not_in_a_fight() {
    let world = World::new();
    let client = world.client_as("author");
    set_up(client.clone(), DAY).await.expect("objects");
    start(&world);
    report(&client, 50).await.expect("a report");
    until("five", || replicas(&world.state()) == 5).await;
    // Whoever asks politely is told who decides.
    let gitops = world.client_as("gitops").with_manager("gitops");
    let mut three = Object::new("Workload", "default", "web");
    three.spec = json!({"replicas": 3});
    let refused =
        gitops.dynamic("Workload", gitops.home()).apply(&three, false, &WriteOptions::default()).await;
    let conflicts = refused.expect_err("a conflict").refusal().expect("a refusal").conflicts;
    assert_eq!(
        conflicts.first().map(|it| (it.path.as_str(), it.manager.as_str())),
        Some((".spec.replicas", NAME))
    );
    // Whoever takes it has it.
    tokio::spawn(stubborn(gitops, 3));
    until("the conflict is named", || shown(&world, "Active") == "False FieldTaken").await;
    let before = changes(&world);
    sleep(Duration::from_secs(900)).await;
    assert_eq!((replicas(&world.state()), changes(&world)), (3, before), "nobody fights");
}

#[tokio::test(start_paused = true)]
async fn two_who_use_force_fight_for_ever() {
    let world = World::new();
    let client = world.client_as("author");
    unsized_workload(&client, "web").await.expect("a workload");
    tokio::spawn(stubborn(world.client_as("a").with_manager("a"), 5));
    sleep(Duration::from_secs(7)).await;
    tokio::spawn(stubborn(world.client_as("b").with_manager("b"), 3));
    sleep(Duration::from_secs(900)).await;
    assert!(changes(&world) > 100, "{} changes", changes(&world));
}
