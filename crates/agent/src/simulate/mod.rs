//! Many nodes in one process that only pretend: they register, hold their leases, accept what is bound to them and say that it serves.
//! For tests of load: everything that the server sees of an agent is there, nothing runs.
//!
//! - [`fleet`]: the nodes and their leases; this file: what is bound to them
//!
//! One watch of all bindings serves all nodes, and of replicas only metadata is kept, so that a node costs its lease and little else.

mod fleet;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use setpoint_client::{
    BindingReference, Client, Error, Partial, Patch, PatchOptions, ReleaseReason, Scope, Typed,
};
use setpoint_runtime::cache::{Cache, Key};
use setpoint_runtime::informer::{InformerSettings, Informers, Selection};
use setpoint_types::kinds::{Binding, BindingState, Replica};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use self::fleet::Fleet;
use crate::agent::AgentError;
use crate::clock::Clock;
use crate::http::{self, Shared};
use crate::metrics::AgentMetrics;
use crate::settings::RunArgs;

/// Requests under way at a time. More would only wait in the server.
const UNDER_WAY_MAX: usize = 256;

/// Between attempts of what failed.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// What is to be done about a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Deed {
    /// Say that it serves.
    Serve,
    /// Say that it has stopped, and give back what is reserved.
    Stop,
}

/// Runs so many simulated nodes until it is told to stop.
pub async fn run(
    args: &RunArgs,
    count: u32,
    client: Client,
    clock: Clock,
    stop: CancellationToken,
) -> Result<(), AgentError> {
    let checked = args.check()?;
    let fleet = Arc::new(Fleet::new(args, &checked, count, &client, clock.clone()));
    let metrics = Arc::new(AgentMetrics::new());
    let ready = fleet.ready();
    let listener = TcpListener::bind(args.listen_http).await;
    let listener =
        listener.map_err(|source| AgentError::Listen { address: args.listen_http.to_string(), source })?;
    let mut tasks = JoinSet::new();
    tasks.spawn(fleet.clone().run(stop.clone()));
    let (shared, stopped) = (Shared { metrics: metrics.clone(), lease: None, ready }, stop.clone());
    tasks.spawn(async move {
        http::serve(listener, shared, stopped).await.ok();
    });
    if args.simulation.simulate_idle {
        stop.cancelled().await;
    } else {
        accept(args, fleet, client, clock, metrics, stop).await;
    }
    tasks.abort_all();
    while tasks.join_next().await.is_some() {}
    Ok(())
}

/// Does what agents do about bindings, until it is told to stop.
async fn accept(
    args: &RunArgs,
    fleet: Arc<Fleet>,
    client: Client,
    clock: Clock,
    metrics: Arc<AgentMetrics>,
    stop: CancellationToken,
) {
    let informers = Informers::new(client.clone(), InformerSettings::default());
    let simulation = Simulation {
        fleet,
        client,
        bindings: informers.cache::<Binding>(Selection::everywhere()),
        replicas: informers.metadata::<Replica>(Selection::everywhere()),
        clock,
        metrics,
        start: Duration::from_millis(args.simulation.simulate_start_ms),
        stop: Duration::from_millis(args.simulation.simulate_stop_ms),
        known: BTreeMap::new(),
        due: BTreeSet::new(),
        under_way: JoinSet::new(),
        touched: Arc::default(),
    };
    stop.run_until_cancelled(simulation.run()).await;
    informers.shutdown().await;
}

struct Simulation {
    fleet: Arc<Fleet>,
    client: Client,
    bindings: Cache<Binding>,
    replicas: Cache<Partial<Replica>>,
    clock: Clock,
    metrics: Arc<AgentMetrics>,
    start: Duration,
    stop: Duration,
    /// What was done last about each binding, or is being done.
    known: BTreeMap<Key, Deed>,
    due: BTreeSet<(Instant, Key, Deed)>,
    under_way: JoinSet<(Key, Deed, Result<(), Error>)>,
    touched: Arc<Touched>,
}

/// The bindings and replicas that something happened to.
#[derive(Default)]
struct Touched {
    keys: Mutex<BTreeSet<Key>>,
    notify: Notify,
}

impl Simulation {
    async fn run(mut self) {
        for_changes(&self.bindings, &self.touched);
        for_changes(&self.replicas, &self.touched);
        loop {
            let next =
                self.due.first().map(|(at, _, _)| *at).filter(|_| self.under_way.len() < UNDER_WAY_MAX);
            tokio::select! {
                () = self.touched.notify.notified() => self.look(),
                // A node that came back, or came late, has bindings that were passed over.
                () = self.fleet.changed() => self.look_at_all(),
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => self.begin(),
                Some(done) = self.under_way.join_next(), if !self.under_way.is_empty() => {
                    if let Ok((key, deed, result)) = done {
                        self.done(key, deed, result);
                    }
                }
            }
        }
    }

    fn look_at_all(&mut self) {
        let keys: Vec<Key> = self.bindings.snapshot().iter().map(|cached| cached.key().clone()).collect();
        keys.into_iter().for_each(|key| self.consider(&key));
    }

    fn look(&mut self) {
        let keys = std::mem::take(&mut *self.touched.keys.lock());
        keys.iter().for_each(|key| self.consider(key));
    }

    fn consider(&mut self, key: &Key) {
        let Some(binding) = self.bindings.read(key).ok().flatten() else {
            self.known.remove(key);
            return;
        };
        let Some(deed) = self.wanted(key, &binding) else { return };
        if self.known.get(key).is_some_and(|known| *known >= deed) {
            return;
        }
        self.known.insert(key.clone(), deed);
        let after = if deed == Deed::Serve { self.start } else { self.stop };
        self.due.insert((Instant::now() + after, key.clone(), deed));
    }

    fn wanted(&self, key: &Key, binding: &Typed<Binding>) -> Option<Deed> {
        let (fence, _) = self.fleet.held(&binding.spec.node)?;
        let status = binding.status.clone().unwrap_or_default();
        if status.state == BindingState::Released {
            return None;
        }
        let replica = self.replicas.read(key).ok().flatten();
        let unwanted = replica.is_some_and(|replica| replica.is_terminating());
        match status.state {
            BindingState::ReleaseRequested => Some(Deed::Stop),
            _ if unwanted => Some(Deed::Stop),
            // As an agent does: what was bound before the present time with the lease, and not accepted, is not begun.
            _ if binding.spec.node_epoch != fence.epoch && !status.accepted => Some(Deed::Stop),
            _ if !status.accepted => Some(Deed::Serve),
            _ => None,
        }
    }

    fn begin(&mut self) {
        let Some((at, key, deed)) = self.due.pop_first() else { return };
        if at > Instant::now() {
            self.due.insert((at, key, deed));
            return;
        }
        let Some(binding) = self.bindings.read(&key).ok().flatten() else { return };
        let Some((fence, host)) = self.fleet.held(&binding.spec.node) else {
            self.due.insert((Instant::now() + TRY_AGAIN, key, deed));
            return;
        };
        let client = self.client.with_fence(fence);
        let now = self.clock.now().wall.0;
        self.under_way.spawn(async move {
            let result = match deed {
                Deed::Serve => serve(&client, &binding, &host, now).await,
                Deed::Stop => stopped(&client, &binding, now).await,
            };
            (key, deed, result)
        });
    }

    fn done(&mut self, key: Key, deed: Deed, result: Result<(), Error>) {
        match result {
            Ok(()) => {
                self.metrics.starts.inc();
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                self.metrics.push_failures.inc();
                tracing::warn!(binding = %key, %error, "the server could not be told");
                self.due.insert((Instant::now() + TRY_AGAIN, key, deed));
            }
        }
    }
}

/// The replica serves, and the binding is accepted: two writes, as an agent makes them.
async fn serve(client: &Client, binding: &Typed<Binding>, host: &str, now: u64) -> Result<(), Error> {
    let scope = || Scope::namespace(&binding.metadata.namespace);
    let (name, spec) = (&binding.metadata.name, &binding.spec);
    let status = json!({"status": {
        "stage": "serving",
        "blocked": null,
        "stages": {"startingMs": now, "readyMs": now, "servingMs": now},
        "endpoints": [{"name": "main", "host": host, "port": 1}],
    }});
    let options =
        PatchOptions { uid: Some(spec.replica_uid.clone()), status: true, ..PatchOptions::default() };
    let replicas = client.shaped::<Partial<Replica>>("Replica", scope());
    replicas.patch(&spec.replica, &Patch::Merge(status), &options).await?;
    let options =
        PatchOptions { uid: Some(binding.metadata.uid.clone()), status: true, ..PatchOptions::default() };
    let bindings = client.shaped::<Partial<Binding>>("Binding", scope());
    let accepted = json!({"status": {"accepted": true}});
    bindings.patch(name, &Patch::Merge(accepted), &options).await.map(drop)
}

async fn stopped(client: &Client, binding: &Typed<Binding>, now: u64) -> Result<(), Error> {
    let options =
        PatchOptions { uid: Some(binding.metadata.uid.clone()), status: true, ..PatchOptions::default() };
    let scope = Scope::namespace(&binding.metadata.namespace);
    let bindings = client.shaped::<Partial<Binding>>("Binding", scope);
    let patch = json!({"status": {"stoppedMs": now}});
    bindings.patch(&binding.metadata.name, &Patch::Merge(patch), &options).await?;
    let reference = BindingReference {
        namespace: binding.metadata.namespace.clone(),
        binding: binding.metadata.name.clone(),
        uid: binding.metadata.uid.clone(),
    };
    for refusal in client.placement().release(&[reference]).await?.into_iter().filter_map(Result::err) {
        if refusal.reason != ReleaseReason::BindingGone {
            tracing::warn!(message = refusal.message, "a release was refused");
        }
    }
    Ok(())
}

fn for_changes<K: setpoint_client::Shape>(cache: &Cache<K>, touched: &Arc<Touched>) {
    let touched = Arc::downgrade(touched);
    cache.observe(Box::new(move |delta| {
        if let Some(touched) = touched.upgrade() {
            touched.keys.lock().insert(delta.key.clone());
            touched.notify.notify_one();
        }
    }));
}
