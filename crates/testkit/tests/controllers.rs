//! The controller loop over the real store: leases, fences, field ownership and conditions are the server's.

use std::sync::Arc;
use std::time::Duration;

use setpoint_client::{Client, Patch, PatchOptions, Typed, WriteOptions};
use setpoint_runtime::cache::Cache;
use setpoint_runtime::informer::Selection;
use setpoint_runtime::{
    Action, Controller, ControllerSettings, Manager, ManagerSettings, ReconcileError, Reconciler, Run,
};
use setpoint_testkit::World;
use setpoint_types::kinds::{Namespace, NamespaceSpec};
use setpoint_types::object::find_condition;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Gives every namespace a label, and cannot stand those that are called bad.
struct Labeller {
    namespaces: Cache<Namespace>,
}

impl Reconciler for Labeller {
    type Observed = Typed<Namespace>;
    type Plan = bool;

    async fn observe(&self, run: &Run) -> Result<Option<Typed<Namespace>>, ReconcileError> {
        Ok(self.namespaces.read(run.key())?)
    }

    fn plan(&self, namespace: &Typed<Namespace>) -> bool {
        !namespace.metadata.labels.contains_key("tier")
    }

    async fn execute(
        &self,
        run: &Run,
        _: &Typed<Namespace>,
        is_missing: bool,
    ) -> Result<Action, ReconcileError> {
        if is_missing && run.key().name() == "bad" {
            return Err(ReconcileError::terminal("BadName", "it is called bad"));
        }
        if is_missing {
            let label = serde_json::json!({"metadata": {"labels": {"tier": "bronze"}}});
            let api = run.client().api::<Namespace>();
            api.patch(run.key().name(), &Patch::Merge(label), &PatchOptions::default()).await?;
        }
        Ok(Action::Done)
    }
}

/// A process, until it is told to stop.
fn process(world: &World, name: &str) -> (CancellationToken, tokio::task::JoinHandle<()>) {
    let manager = Manager::new(world.client_as(name), ManagerSettings::named(name)).expect("good settings");
    let namespaces = manager.informers().cache::<Namespace>(Selection::everywhere());
    let settings = ControllerSettings { shards: 2, ..ControllerSettings::default() };
    let labeller = Controller::new("labeller", Labeller { namespaces: namespaces.clone() });
    manager.add(labeller.for_kind(&namespaces).settings(settings)).expect("a good controller");
    let (manager, stop) = (Arc::new(manager), CancellationToken::new());
    let stopped = stop.clone().cancelled_owned();
    (stop, tokio::spawn(async move { manager.run(stopped).await.expect("it ends in order") }))
}

async fn create(client: &Client, name: &str) {
    let namespace = Typed::<Namespace>::new(name, NamespaceSpec::default());
    client.api::<Namespace>().create(&namespace, &WriteOptions::default()).await.expect("a namespace");
}

/// The condition that the loop shows, by its reason.
async fn stalled(client: &Client, name: &str) -> Option<String> {
    let namespace = client.api::<Namespace>().get(name).await.expect("a namespace");
    let conditions = namespace.status.map(|status| status.conditions).unwrap_or_default();
    find_condition(&conditions, "Stalled").map(|condition| condition.reason.clone())
}

#[tokio::test(start_paused = true)]
async fn a_controller_works_under_its_leases_shows_what_stalls_and_hands_over() {
    let world = World::new();
    let client = world.client();
    create(&client, "good").await;
    create(&client, "bad").await;
    let (stop_first, first) = process(&world, "first");
    sleep(Duration::from_secs(30)).await;
    let namespaces = client.api::<Namespace>();
    let tier = namespaces.get("good").await.expect("a namespace").metadata.labels.get("tier").cloned();
    assert_eq!(tier.as_deref(), Some("bronze"));
    assert_eq!(stalled(&client, "bad").await.as_deref(), Some("BadName"));

    // In the steady state nothing is written but leases.
    let revision = namespaces.get("bad").await.expect("a namespace").metadata.revision;
    sleep(Duration::from_secs(600)).await;
    assert_eq!(namespaces.get("bad").await.expect("a namespace").metadata.revision, revision);

    let (stop_second, second) = process(&world, "second");
    sleep(Duration::from_secs(60)).await;
    stop_first.cancel();
    first.await.expect("no panic");
    create(&client, "late").await;
    let mended = serde_json::json!({"metadata": {"labels": {"tier": "iron"}}});
    let patched = namespaces.patch("bad", &Patch::Merge(mended), &PatchOptions::default()).await;
    patched.expect("a namespace");
    sleep(Duration::from_secs(30)).await;
    assert_eq!(stalled(&client, "bad").await, None, "another process takes back what the first one showed");
    assert!(namespaces.get("late").await.expect("a namespace").metadata.labels.contains_key("tier"));
    stop_second.cancel();
    second.await.expect("no panic");
}
