//! A controller whose reconciler does what the test says, and notes when it ran.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::{Value, json};
use setpoint_client::{Dynamic, Scope, WriteOptions};
use setpoint_runtime::cache::{Cache, Index};
use setpoint_runtime::informer::{Informers, Selection};
use setpoint_runtime::{
    Action, Controller, Manager, ManagerError, ManagerSettings, ReconcileError, Reconciler, Run, WallClock,
};
use setpoint_types::Timestamp;
use setpoint_types::object::{Object, OwnerReference};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::server::Store;

/// What the controller is for, and what its parts are. The first is a kind with conditions.
pub const KIND: &str = "Workload";
pub const PART: &str = "Part";
pub const NAMESPACE: &str = "default";

/// Longer than anything here takes by itself.
const PATIENCE: Duration = Duration::from_secs(3600);

pub type Result<T = Action> = std::result::Result<T, ReconcileError>;
type Act = Box<dyn for<'a> Fn(&'a Run, Seen) -> BoxFuture<'a, Result> + Send + Sync>;

/// What a run sees.
#[derive(Clone, Debug)]
pub struct Seen {
    pub object: Object,
    pub parts: Vec<String>,
    /// Counted over all keys, from 1.
    pub run: usize,
}

/// One run that has begun.
#[derive(Clone, Debug)]
pub struct Began {
    pub at: Duration,
    pub name: String,
    pub attempt: u32,
    pub parts: usize,
}

struct Actor {
    objects: Cache<Dynamic>,
    parts: Cache<Dynamic>,
    act: Act,
    began: watch::Sender<Vec<Began>>,
    start: Instant,
    panics_in: Option<&'static str>,
}

#[derive(Serialize)]
struct Plan {
    spec: Value,
    parts: Vec<String>,
}

impl Reconciler for Actor {
    type Observed = Seen;
    type Plan = Plan;

    async fn observe(&self, run: &Run) -> Result<Option<Seen>> {
        let Some(object) = self.objects.read(run.key())? else { return Ok(None) };
        let parts: Vec<String> = self
            .parts
            .find("owner", object.metadata.uid.as_str())
            .iter()
            .map(|part| part.key().name().to_owned())
            .collect();
        let mut began = self.began.borrow().clone();
        let (at, name, attempt) = (self.start.elapsed(), run.key().name().to_owned(), run.attempt());
        began.push(Began { at, name, attempt, parts: parts.len() });
        let seen = Seen { object, parts, run: began.len() };
        self.began.send_replace(began);
        assert!(self.panics_in != Some("observe"), "as the test wants it");
        Ok(Some(seen))
    }

    fn plan(&self, seen: &Seen) -> Plan {
        assert!(self.panics_in != Some("plan"), "as the test wants it");
        let (spec, parts) = (seen.object.spec.clone(), seen.parts.clone());
        Plan { spec, parts }
    }

    async fn execute(&self, run: &Run, seen: &Seen, _: Plan) -> Result {
        (self.act)(run, seen.clone()).await
    }
}

pub struct Rig {
    pub manager: Arc<Manager>,
    began: watch::Receiver<Vec<Began>>,
    stop: CancellationToken,
    task: JoinHandle<std::result::Result<(), ManagerError>>,
}

/// How a rig differs from the usual.
pub struct Setup {
    pub seed: u64,
    pub settings: ManagerSettings,
    pub panics_in: Option<&'static str>,
}

impl Default for Setup {
    fn default() -> Self {
        let settings = ManagerSettings::named("rig").without_election();
        Self { seed: 1, settings, panics_in: None }
    }
}

impl Rig {
    pub async fn start<A>(store: &Store, build: impl FnOnce(Controller) -> Controller, act: A) -> Self
    where
        A: for<'a> Fn(&'a Run, Seen) -> BoxFuture<'a, Result> + Send + Sync + 'static,
    {
        Self::with(Setup::default(), store, |_, controller| build(controller), act).await
    }

    /// Started, and ready.
    pub async fn with<A>(
        setup: Setup,
        store: &Store,
        build: impl FnOnce(&Informers, Controller) -> Controller,
        act: A,
    ) -> Self
    where
        A: for<'a> Fn(&'a Run, Seen) -> BoxFuture<'a, Result> + Send + Sync + 'static,
    {
        let manager = Manager::new(store.client(setup.seed), setup.settings).expect("good settings");
        let manager = Arc::new(manager.with_clock(WallClock::following_tokio(Timestamp(1_000_000))));
        let objects = manager.informers().dynamic(KIND, true, Selection::everywhere());
        let parts = manager.informers().dynamic(PART, true, Selection::everywhere());
        parts.add_index(Index::owner());
        let (sender, began) = watch::channel(Vec::new());
        let actor = Actor {
            objects: objects.clone(),
            parts: parts.clone(),
            act: Box::new(act),
            began: sender,
            start: Instant::now(),
            panics_in: setup.panics_in,
        };
        let controller = Controller::new("rig", actor).for_kind(&objects).owns(&parts);
        let controller = build(manager.informers(), controller.concurrency(1));
        manager.add(controller).expect("a good controller");
        let stop = CancellationToken::new();
        let (running, stopped) = (manager.clone(), stop.clone());
        let task = tokio::spawn(async move { running.run(stopped.cancelled_owned()).await });
        let mut ready = manager.ready();
        timeout(PATIENCE, ready.wait_for(|ready| *ready)).await.expect("in time").expect("it lives");
        Self { manager, began, stop, task }
    }

    pub fn began(&self) -> Vec<Began> {
        self.began.borrow().clone()
    }

    /// How often a key has begun to run.
    pub fn runs(&self, name: &str) -> usize {
        self.began.borrow().iter().filter(|began| began.name == name).count()
    }

    /// Waits until so many runs have begun.
    pub async fn ran(&mut self, count: usize) {
        let enough = self.began.wait_for(|began| began.len() >= count);
        let waited = timeout(PATIENCE, enough).await.map(|enough| enough.is_ok());
        assert_eq!(waited, Ok(true), "{count} runs, there were {:?}", self.began());
    }

    /// The value of a metric of the controller, 0 if there is none.
    pub fn metric(&self, line: &str) -> f64 {
        let text = self.manager.metrics();
        let value = text.lines().find_map(|it| it.strip_prefix(line)).map(str::trim);
        value.map_or(0.0, |value| value.parse().expect("a number"))
    }

    pub async fn stop(self) -> std::result::Result<(), ManagerError> {
        self.stop.cancel();
        timeout(PATIENCE, self.task).await.expect("in time").expect("no panic")
    }
}

/// Lets everything happen that is to happen by now.
pub async fn settle() {
    sleep(Duration::from_millis(50)).await;
}

/// Makes an object of the controller's kind.
pub fn object(store: &Store, name: &str, size: u64) -> u64 {
    store.put(KIND, NAMESPACE, name, "somebody", json!({"size": size}))
}

/// Makes a part of the run's object.
pub async fn create_part(run: &Run, seen: &Seen, name: &str) -> Result<()> {
    let mut part = Object::new(PART, NAMESPACE, name);
    part.metadata.owners = vec![OwnerReference {
        kind: KIND.into(),
        name: seen.object.metadata.name.clone(),
        uid: seen.object.metadata.uid.clone(),
        controller: true,
        block_owner_deletion: true,
    }];
    let api = run.client().dynamic(PART, Scope::namespace(NAMESPACE));
    api.create(&part, &WriteOptions::default()).await?;
    Ok(())
}

/// Writes the run's object as it was seen.
pub async fn update_self(run: &Run, seen: &Seen) -> Result<()> {
    let api = run.client().dynamic(KIND, Scope::namespace(NAMESPACE));
    api.update(&seen.object, &WriteOptions::default()).await?;
    Ok(())
}
