//! Start, shutdown, and what must not be added.

use std::time::Duration;

use setpoint_runtime::cache::Transform;
use setpoint_runtime::election::{self, Election};
use setpoint_runtime::informer::{Informers, Selection};
use setpoint_runtime::{
    Action, Controller, ControllerSettings, Manager, ManagerError, ManagerSettings, Predicate, Reconciler,
    Run,
};
use setpoint_types::kinds::KindDefinitionSpec;
use tokio::time::{Instant, sleep};

use crate::rig::{KIND, Result, Rig, Setup, object};
use crate::server::Store;

struct Nothing;

impl Reconciler for Nothing {
    type Observed = ();
    type Plan = ();

    async fn observe(&self, _: &Run) -> Result<Option<()>> {
        Ok(None)
    }

    fn plan(&self, (): &()) {}

    async fn execute(&self, _: &Run, (): &(), (): ()) -> Result {
        Ok(Action::Done)
    }
}

#[tokio::test(start_paused = true)]
async fn at_shutdown_runs_may_end_and_none_begins() {
    let store = Store::default();
    object(&store, "a", 1);
    object(&store, "b", 1);
    let mut rig = Rig::start(
        &store,
        |it| it,
        |_, _| {
            Box::pin(async {
                sleep(Duration::from_secs(10)).await;
                Ok(Action::Done)
            })
        },
    )
    .await;
    rig.ran(1).await;
    let (manager, start) = (rig.manager.clone(), Instant::now());
    rig.stop().await.expect("in order");
    assert!((9..=11).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    let done = "setpoint_controller_reconciles_total{controller=\"rig\",result=\"done\"} 1";
    assert!(manager.metrics().contains(done), "the one that ran has ended, the other did not begin");
    assert!(!*manager.ready().borrow());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_does_not_end_is_dropped_at_shutdown() {
    let store = Store::default();
    object(&store, "a", 1);
    let mut settings = ManagerSettings::named("rig").without_election();
    settings.shutdown_ms = 3_000;
    let setup = Setup { settings, ..Setup::default() };
    let mut rig =
        Rig::with(setup, &store, |_, it| it, |_, _| Box::pin(async { std::future::pending().await })).await;
    rig.ran(1).await;
    let start = Instant::now();
    rig.stop().await.expect("in order");
    assert!((3..=4).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_makes_no_sense_is_refused_by_name() {
    let store = Store::default();
    let manager =
        Manager::new(store.client(1), ManagerSettings::named("x").without_election()).expect("good");
    let cache = manager.informers().dynamic(KIND, true, Selection::everywhere());
    let elsewhere = Informers::new(store.client(2), Default::default());
    let foreign = elsewhere.dynamic(KIND, true, Selection::everywhere());
    let settings = ControllerSettings { concurrency: 0, ..Default::default() };
    let named = |name: &str| Controller::new(name, Nothing);
    let refused = [
        ("", named("").for_kind(&cache)),
        ("Upper", named("Upper").for_kind(&cache)),
        ("nothing", named("nothing")),
        ("two", named("two").for_kind(&cache).for_kind(&cache)),
        ("early", named("early").only_if(Predicate::labels_changed()).for_kind(&cache)),
        ("foreign", named("foreign").for_kind(&foreign)),
        ("idle", named("idle").for_kind(&cache).settings(settings)),
    ];
    for (name, controller) in refused {
        let error = manager.add(controller).expect_err(name);
        assert_eq!(error.to_string(), format!("the controller {name} cannot be added"));
    }
    manager.add(named("good").for_kind(&cache)).expect("a good one");
    assert!(manager.add(named("good").for_kind(&cache)).is_err(), "not twice");
    assert!(Manager::new(store.client(1), ManagerSettings::named("")).is_err());
}

/// A process of a program that runs on two machines of one name, say.
async fn twin(store: &Store, seed: u64) -> Rig {
    let setup = Setup { seed, settings: ManagerSettings::named("rig"), ..Setup::default() };
    Rig::with(setup, store, |_, it| it, |_, _| Box::pin(async { Ok(Action::Done) })).await
}

#[tokio::test(start_paused = true)]
async fn two_processes_of_one_identity_are_two_and_one_of_them_works() {
    let store = Store::with_leases();
    object(&store, "a", 1);
    let (first, mut second) = (twin(&store, 1).await, twin(&store, 2).await);
    sleep(Duration::from_secs(60)).await;
    assert_ne!(first.manager.identity(), second.manager.identity());
    assert_eq!((first.runs("a"), second.runs("a")), (1, 0), "L5: not both");
    let holder = || store.leases(|leases| leases["rig.shard-0-of-1"].holder.clone());
    assert!(holder().starts_with(first.manager.identity()), "{}", holder());
    // Neither mistakes the other's lease for its own.
    first.stop().await.expect("in order");
    second.ran(1).await;
    assert!(holder().starts_with(second.manager.identity()), "{}", holder());
}

#[tokio::test(start_paused = true)]
async fn elections_under_one_identity_hold_under_names_of_their_own() {
    let store = Store::default();
    let holder = |seed| {
        let (client, options) =
            (store.client(seed), election::Settings::default().check().expect("defaults"));
        let informers = Informers::new(client.clone(), Default::default());
        let election = Election::new(&client, &informers, "x", "host-a", options).expect("good names");
        election.holder().to_owned()
    };
    assert_ne!(holder(1), holder(2));
    assert!(holder(1).starts_with("host-a-"));
}

#[tokio::test(start_paused = true)]
async fn if_a_part_dies_all_ends_with_an_error() {
    let store = Store::default();
    let build = |informers: &Informers, controller: Controller| {
        let bomb = Transform::new("bomb", |_| panic!("as the test wants it"));
        let _bombs = informers.dynamic("Bomb", true, Selection::everywhere().transform(bomb));
        controller
    };
    let rig = Rig::with(Setup::default(), &store, build, |_, _| Box::pin(async { Ok(Action::Done) })).await;
    store.put("Bomb", "default", "b", "somebody", serde_json::json!({}));
    let mut ready = rig.manager.ready();
    ready.wait_for(|ready| !ready).await.expect("it is told");
    let ended = rig.stop().await;
    assert!(matches!(ended, Err(ManagerError::Informers)), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn the_kind_that_a_controller_brings_along_is_defined_before_it_is_ready() {
    let store = Store::default();
    store.down(true);
    let later = store.clone();
    tokio::spawn(async move {
        sleep(Duration::from_secs(40)).await;
        assert!(later.asked().is_empty(), "nobody was reached");
        later.down(false);
    });
    let build = |_: &Informers, controller: Controller| {
        controller.defines(KindDefinitionSpec::of::<setpoint_types::kinds::Workload>())
    };
    let rig = Rig::with(Setup::default(), &store, build, |_, _| Box::pin(async { Ok(Action::Done) })).await;
    let asked: Vec<_> = store.asked().into_iter().map(|it| (it.method, it.name, it.manager)).collect();
    assert_eq!(asked, [("apply", "workloads".to_owned(), "rig".to_owned())]);
    rig.stop().await.expect("in order");
}
