//! What the tutorial changes in this controller, compiled and run: docs/tutorial/your-first-controller.md, sections 4 and 7.
//!
//! Every block of Rust in the document stands here as it stands there, but for the sketch of a scenario, so that a reader who copies one
//! gets what this test got. Not here: the commands (`tests/cluster`, binary `tutorial`), and this file in a crate of
//! `setpoint new controller`.

use std::time::Duration;

use greeter::kind::{Greeter, GreeterSpec};
use greeter::reconciler::{GreeterReconciler, Observed, Plan};
use serde_json::json;
use setpoint_client::{Client, Dynamic, Error, Patch, PatchOptions, Scope, Typed, WriteOptions};
use setpoint_runtime::cache::Cache;
use setpoint_runtime::ensure::{ensure_applied, ensure_status};
use setpoint_runtime::informer::Selection;
use setpoint_runtime::recorder::Note;
use setpoint_runtime::{Action, Controller, Manager, ManagerSettings, ReconcileError, Reconciler, Run};
use setpoint_testkit::{Limits, Scenario, State, World, replay};
use setpoint_types::kinds::{Event, KindDefinition, KindDefinitionSpec, Workload};

/// The reconciler of section 4.
struct Telling(GreeterReconciler);

impl Reconciler for Telling {
    type Observed = Observed;
    type Plan = Plan;

    async fn observe(&self, run: &Run) -> Result<Option<Observed>, ReconcileError> {
        self.0.observe(run).await
    }

    fn plan(&self, observed: &Observed) -> Plan {
        self.0.plan(observed)
    }

    async fn execute(&self, run: &Run, seen: &Observed, plan: Plan) -> Result<Action, ReconcileError> {
        let namespace = run.key().namespace();
        let workloads = run.client().dynamic("Workload", Scope::namespace(namespace));
        let applied = ensure_applied(&workloads, seen.workload.as_ref(), &plan.workload, false).await?;
        if applied.wrote() {
            let message = format!("{} replicas say it", plan.workload.spec["replicas"]);
            run.event(Note::normal(run.reference(), "Applied").message(message)).await;
        }
        show(run, seen, plan).await
    }
}

/// That of section 7.
struct Hasty(GreeterReconciler);

impl Reconciler for Hasty {
    type Observed = Observed;
    type Plan = Plan;

    async fn observe(&self, run: &Run) -> Result<Option<Observed>, ReconcileError> {
        self.0.observe(run).await
    }

    fn plan(&self, observed: &Observed) -> Plan {
        self.0.plan(observed)
    }

    async fn execute(&self, run: &Run, seen: &Observed, plan: Plan) -> Result<Action, ReconcileError> {
        let namespace = run.key().namespace();
        let generation = seen.greeter.metadata.generation;
        if seen.greeter.status.as_ref().is_some_and(|it| it.observed_generation == generation) {
            return Ok(Action::Done); // why do it twice?
        }
        let greeters = run.client().api::<Greeter>().namespace(namespace);
        let wanted = Typed { status: Some(plan.status), ..seen.greeter.clone() };
        ensure_status(&greeters, &seen.greeter, wanted).await?;

        let workloads = run.client().dynamic("Workload", Scope::namespace(namespace));
        ensure_applied(&workloads, seen.workload.as_ref(), &plan.workload, false).await?;
        Ok(Action::Done)
    }
}

/// The rest of `execute`, which stays as it is.
async fn show(run: &Run, seen: &Observed, plan: Plan) -> Result<Action, ReconcileError> {
    let greeters = run.client().api::<Greeter>().namespace(run.key().namespace());
    let wanted = Typed { status: Some(plan.status), ..seen.greeter.clone() };
    ensure_status(&greeters, &seen.greeter, wanted).await?;
    Ok(Action::Done)
}

/// The program with another reconciler.
async fn program<R: Reconciler>(
    client: Client,
    reconciler: impl FnOnce(GreeterReconciler) -> R,
    stop: impl Future<Output = ()>,
) {
    let manager = Manager::new(client, ManagerSettings::named(greeter::NAME)).expect("good settings");
    let greeters: Cache<Greeter> = manager.informers().cache(Selection::everywhere());
    let workloads: Cache<Dynamic> = manager.informers().dynamic("Workload", true, Selection::everywhere());
    let own = GreeterReconciler { greeters: greeters.clone(), workloads: workloads.clone() };
    let controller = Controller::new(greeter::NAME, reconciler(own))
        .defines(KindDefinitionSpec::of::<Greeter>())
        .for_kind(&greeters)
        .owns(&workloads);
    manager.add(controller).expect("a good controller");
    manager.run(stop).await.expect("it runs until it is stopped");
}

async fn create(client: Client) -> Result<(), Error> {
    let spec = GreeterSpec { message: "Hello!".to_owned(), replicas: 2 };
    client.api::<Greeter>().create(&Typed::new("hello", spec), &WriteOptions::default()).await.map(drop)
}

async fn change(client: Client) -> Result<(), Error> {
    let patch = Patch::Merge(json!({"spec": {"replicas": 3}}));
    client.api::<Greeter>().patch("hello", &patch, &PatchOptions::default()).await.map(drop)
}

fn converged(state: &State) -> Result<(), String> {
    state.one::<KindDefinition>("", "greeters").ok_or("the kind is not defined")?;
    for greeter in state.all::<Greeter>() {
        let workload = state.one::<Workload>("default", &greeter.metadata.name).ok_or("no workload")?;
        if workload.spec.replicas != greeter.spec.replicas {
            return Err(format!("{} replicas", workload.spec.replicas));
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn section_4_tells_of_what_was_written_and_of_nothing_else() {
    let world = World::new();
    tokio::spawn(program(world.client(), Telling, std::future::pending()));
    world.pass(Duration::from_secs(30)).await;
    create(world.client()).await.expect("the kind is defined");
    world.pass(Duration::from_secs(30)).await;
    change(world.client()).await.expect("it is there");
    world.pass(Duration::from_secs(600)).await;
    let told = world.state().all::<Event>();
    let [event] = &told[..] else { panic!("numbers make no other event: {told:?}") };
    assert_eq!((event.spec.reason.as_str(), event.spec.message.as_str()), ("Applied", "2 replicas say it"));
    assert_eq!(event.status.as_ref().map(|it| it.count), Some(2), "when it came, and when it changed");
}

/// One of the plans that a sweep goes through; not all of them, which takes a minute.
#[test]
fn section_7_fails_by_a_crash_between_the_two_writes_and_by_nothing_less() {
    let scenario =
        Scenario::new(|client, stop| async move { program(client, Hasty, stop.cancelled_owned()).await })
            .step("one comes", create)
            .step("it changes", change)
            .converged(converged);
    let without_faults = replay(&scenario, "");
    assert!(without_faults.problem.is_none(), "{:?}", without_faults.problem);
    let writes = without_faults.counts.writes;
    assert!(writes < Limits::default().places_max, "a sweep comes to all of them");
    let crash = |write| replay(&scenario, &format!("crash-before-answer@write:{write}"));
    let found = (1..=writes).map(crash).find(|outcome| outcome.problem.is_some()).expect("it is found");
    let problem = found.problem.as_ref().map(ToString::to_string).unwrap_or_default();
    assert!(problem.contains("no workload") || problem.contains("replicas"), "{problem}");
}

/// Text without the spaces at the beginning of lines, which depend on where it stands.
fn plain(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_code_of_the_document_is_that_of_this_test_or_of_the_example() {
    let document = include_str!("../../../docs/tutorial/your-first-controller.md");
    let here = plain(include_str!("tutorial.rs"));
    let blocks: Vec<&str> =
        document.split("```rust\n").skip(1).filter_map(|it| it.split("```").next()).collect();
    let is_sketch = |block: &&&str| block.contains("/* the program */");
    assert_eq!(blocks.iter().filter(is_sketch).count(), 1, "one of them is a sketch");
    for block in blocks.iter().filter(|block| !is_sketch(block)) {
        assert!(here.contains(&plain(block)), "this is not tested:\n{block}");
    }
    assert_eq!(blocks.len(), 3);
    assert!(document.contains("`use setpoint_runtime::recorder::Note;`"));
}
