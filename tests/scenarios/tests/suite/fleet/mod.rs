//! A fleet of hosts that only pretend: each has an agent which registers its node, keeps its lease, accepts what the server has bound to it,
//! says how far it is, stops it and gives its node back. Hosts die and come back, agents stall and are cut off.
//!
//! - `host`: one host, and what runs there
//! - `agent`: what its agent does
//! - `witness`: what ran where and when, by one clock (F6)
//!
//! Not here: which node somebody gets. That is the scheduler's and the server's own.

mod agent;
mod host;
mod witness;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use host::Shape;
use host::{Host, Mode};
use setpoint_client::{Client, Error, Typed, WriteOptions};
use setpoint_controllers::node_monitor::SYSTEM;
use setpoint_runtime::cache::Cache;
use setpoint_runtime::informer::{InformerSettings, Informers, Selection};
use setpoint_types::kinds::{Binding, Namespace, NamespaceSpec, Replica};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
pub use witness::Witness;

/// How long the lease of a node lasts, and how often it is kept.
pub const TTL: Duration = Duration::from_secs(40);
const KEEP: Duration = Duration::from_secs(10);
/// Between two looks of an agent.
const TICK: Duration = Duration::from_secs(1);
/// How long starting and stopping take, if nothing is slow.
const START: Duration = Duration::from_secs(2);
const STOP: Duration = Duration::from_secs(2);

/// The hosts of one run at a time. Clones are the same.
#[derive(Clone, Default)]
pub struct Fleet(Arc<Mutex<Inside>>);

#[derive(Default)]
struct Inside {
    client: Option<Client>,
    eyes: Option<Eyes>,
    hosts: BTreeMap<String, Host>,
    witness: Witness,
}

/// What agents see: one pair of caches for all, with which nothing goes wrong.
#[derive(Clone)]
struct Eyes {
    bindings: Cache<Binding>,
    replicas: Cache<Replica>,
    _informers: Arc<Informers>,
}

impl Fleet {
    fn with<T>(&self, work: impl FnOnce(&mut Inside) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A new world begins, without hosts.
    pub async fn begin(&self, client: &Client) -> Result<(), Error> {
        let system = Typed::<Namespace>::new(SYSTEM, NamespaceSpec::default());
        client.api::<Namespace>().create(&system, &WriteOptions::default()).await?;
        let informers = Informers::new(client.clone(), InformerSettings::default());
        let eyes = Eyes {
            bindings: informers.cache::<Binding>(Selection::everywhere()),
            replicas: informers.cache::<Replica>(Selection::everywhere()),
            _informers: Arc::new(informers),
        };
        self.with(|inside| {
            *inside = Inside { client: Some(client.clone()), eyes: Some(eyes), ..Inside::default() };
        });
        Ok(())
    }

    /// A host comes, and its agent with it.
    pub fn add(&self, shape: Shape) {
        let name = shape.name.clone();
        self.with(|inside| drop(inside.hosts.insert(name.clone(), Host::new(shape))));
        self.start(&name);
    }

    fn start(&self, name: &str) {
        let dies = CancellationToken::new();
        let client = self.with(|inside| {
            if let Some(host) = inside.hosts.get_mut(name) {
                host.agent = Some(dies.clone());
            }
            inside.client.clone()
        });
        let client = client.expect("the fleet has begun");
        let agent = agent::Agent::new(self.clone(), client, name.to_owned());
        tokio::spawn(dies.run_until_cancelled_owned(agent.work()));
    }

    /// The host ends, and with it everything that runs there.
    pub fn crash(&self, name: &str) {
        self.with(|inside| {
            let Some(host) = inside.hosts.get_mut(name) else { return };
            if let Some(agent) = host.agent.take() {
                agent.cancel();
            }
            for run in std::mem::take(&mut host.runs).into_keys() {
                inside.witness.stopped(&run, name);
            }
        });
    }

    /// It starts anew, if it ended; and whatever else was wrong with it is over.
    pub fn heal(&self, name: &str) {
        let is_down = self.with(|inside| {
            let host = inside.hosts.get_mut(name)?;
            (host.mode, host.stalled_until, host.fetch) = (Mode::Well, None, Duration::ZERO);
            let is_down = host.agent.is_none();
            host.boot += u32::from(is_down);
            Some(is_down)
        });
        if is_down == Some(true) {
            self.start(name);
        }
    }

    /// Nothing reaches the server from there, and nothing comes back. What runs goes on, until its agent's own deadline.
    pub fn isolate(&self, name: &str) {
        self.with(|inside| {
            if let Some(host) = inside.hosts.get_mut(name) {
                host.mode = Mode::Isolated;
            }
        });
    }

    /// The lease is not kept for so long; everything else goes on.
    pub fn stall(&self, name: &str, time: Duration) {
        self.with(|inside| {
            if let Some(host) = inside.hosts.get_mut(name) {
                host.stalled_until = Some(Instant::now() + time);
            }
        });
    }

    /// To fetch what is to run takes so much longer.
    pub fn slow_fetch(&self, name: &str, time: Duration) {
        self.with(|inside| {
            if let Some(host) = inside.hosts.get_mut(name) {
                host.fetch = time;
            }
        });
    }

    /// What ran where, so far.
    pub fn witness(&self) -> Witness {
        self.with(|inside| inside.witness.clone())
    }
}
