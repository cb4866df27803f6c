//! However notifications are repeated, dropped, delayed or reordered by what happens to streams, the cache equals the store in the end,
//! and the last state of every key was reconciled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use proptest::prelude::*;
use setpoint_client::{Client, DeleteOptions, Patch, Typed, WriteOptions};
use setpoint_runtime::cache::Cache;
use setpoint_runtime::informer::Selection;
use setpoint_runtime::{
    Action, Controller, Manager, ManagerSettings, ReconcileError, Reconciler, Run, WallClock,
};
use setpoint_testkit::{Fault, Faults, Plan, World};
use setpoint_types::Revision;
use setpoint_types::kinds::{Node, NodeSpec};
use tokio_util::sync::CancellationToken;

const KEYS: u8 = 5;

/// What happens.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Somebody writes a key, or makes it if there is none.
    Put(u8),
    Delete(u8),
    Wrong(Fault),
    Compact,
    Pass(Duration),
    /// The controller ends and is started again.
    Restart,
}

fn fault() -> impl Strategy<Value = Fault> {
    let time = (1u64..40).prop_map(Duration::from_secs);
    prop_oneof![
        time.clone().prop_map(Fault::Hold),
        Just(Fault::Cut),
        (0u64..8).prop_map(|seconds| Fault::Lag(Duration::from_secs(seconds))),
        time.clone().prop_map(Fault::Miss),
        time.clone().prop_map(Fault::Gone),
        time.clone().prop_map(Fault::Refuse),
        time.prop_map(Fault::Freeze),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..KEYS).prop_map(Step::Put),
        2 => (0..KEYS).prop_map(Step::Delete),
        3 => fault().prop_map(Step::Wrong),
        1 => Just(Step::Compact),
        3 => (1u64..20_000).prop_map(|millis| Step::Pass(Duration::from_millis(millis))),
        1 => Just(Step::Restart),
    ]
}

/// What a controller last saw of each key: its revision, or that it is not there.
type Seen = Arc<Mutex<BTreeMap<String, Option<Revision>>>>;

struct Onlooker {
    nodes: Cache<Node>,
    seen: Seen,
}

impl Reconciler for Onlooker {
    type Observed = ();
    type Plan = ();

    async fn observe(&self, run: &Run) -> Result<Option<()>, ReconcileError> {
        let revision = self.nodes.get(run.key()).map(|node| node.revision());
        self.seen.lock().insert(run.key().name().to_owned(), revision);
        Ok(None)
    }

    fn plan(&self, (): &()) {}

    async fn execute(&self, _: &Run, (): &(), (): ()) -> Result<Action, ReconcileError> {
        Ok(Action::Done)
    }
}

/// A controller that runs until it is stopped, and its cache.
struct Life {
    nodes: Cache<Node>,
    stop: CancellationToken,
    seen: Seen,
}

fn start(faults: &Faults) -> Life {
    let client = faults.process("controller").client();
    let manager = Manager::new(client, ManagerSettings::named("onlooker").without_election()).expect("good");
    let manager = manager.with_clock(WallClock::new(setpoint_testkit::now));
    let nodes = manager.informers().cache::<Node>(Selection::everywhere());
    let (seen, stop) = (Seen::default(), CancellationToken::new());
    let onlooker = Onlooker { nodes: nodes.clone(), seen: seen.clone() };
    manager.add(Controller::new("onlooker", onlooker).for_kind(&nodes)).expect("good");
    let stopped = stop.clone().cancelled_owned();
    tokio::spawn(async move { manager.run(stopped).await });
    Life { nodes, stop, seen }
}

async fn put(client: &Client, key: u8, number: usize) {
    let (nodes, name) = (client.api::<Node>(), format!("n{key}"));
    let node = Typed::new(&*name, NodeSpec { zone: "z".into(), ..NodeSpec::default() });
    if nodes.create(&node, &WriteOptions::default()).await.is_err() {
        let patch = Patch::Merge(serde_json::json!({"metadata": {"labels": {"number": number.to_string()}}}));
        nodes.patch(&name, &patch, &Default::default()).await.expect("it is there");
    }
}

async fn play(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let world = World::new();
    let faults = Faults::new(&world, &Plan::default());
    let others = world.client();
    let mut life = start(&faults);
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Step::Put(key) => put(&others, key, number).await,
            Step::Delete(key) => {
                others.api::<Node>().delete(&format!("n{key}"), &DeleteOptions::default()).await.ok();
            }
            Step::Wrong(fault) => faults.inject(fault),
            Step::Compact => world.compact(),
            Step::Pass(time) => world.pass(time).await,
            Step::Restart => {
                life.stop.cancel();
                life = start(&faults);
            }
        }
    }
    // Beyond the longest fault, with every wait of client and informer after it.
    world.pass(Duration::from_secs(300)).await;
    let stored: BTreeMap<String, Revision> = world
        .state()
        .all::<Node>()
        .into_iter()
        .map(|node| (node.metadata.name, node.metadata.revision))
        .collect();
    let cached: BTreeMap<String, Revision> =
        life.nodes.snapshot().iter().map(|it| (it.key().name().to_owned(), it.revision())).collect();
    prop_assert_eq!(&cached, &stored, "R1: the cache is not the store");
    let seen = life.seen.lock().clone();
    for (name, revision) in &stored {
        prop_assert_eq!(
            seen.get(name).copied().flatten(),
            Some(*revision),
            "R2: {} was not reconciled",
            name
        );
    }
    for (name, revision) in seen.iter().filter(|(name, _)| !stored.contains_key(*name)) {
        prop_assert_eq!(*revision, None, "R2: nobody was told that {} went", name);
    }
    life.stop.cancel();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn the_last_state_of_every_key_is_reconciled(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(play(steps))?;
    }
}
