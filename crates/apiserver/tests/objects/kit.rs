//! A node without a cluster. Objects are written as commits, straight into the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use prometheus_client::metrics::counter::Counter;
use prost::Message;
use setpoint_api::setpoint::v1 as pb;
use setpoint_apiserver::load::Load;
use setpoint_apiserver::objects::definitions::Definitions;
use setpoint_apiserver::objects::key::ObjectName;
use setpoint_apiserver::objects::{Barrier, Catalog, Index, Kind, ReadLimits, Reader, Refusal};
use setpoint_apiserver::replica::Halt;
use setpoint_apiserver::watch::Hub;
use setpoint_store::command::{Command, Proposal, ProposalId};
use setpoint_store::commit::{Commit, Op};
use setpoint_store::{Author, Body, Entry, MemoryEngine, Position, StepMax, Store};
use setpoint_types::{LeaseId, NodeId, Revision, Timestamp};
use tokio_util::sync::CancellationToken;

pub struct Node {
    pub reader: Reader,
    pub engine: Arc<MemoryEngine>,
    log_index: u64,
    /// What the leader's clock says, in milliseconds.
    pub now: u64,
    /// Whether the node knows a leader.
    pub led: Arc<AtomicBool>,
    _running: tokio_util::sync::DropGuard,
}

/// A leader that answers at once, if there is one.
struct Leader(Arc<AtomicBool>);

impl Barrier for Leader {
    fn pass(&self) -> BoxFuture<'_, Result<(), Refusal>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_led(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Draft {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub labels: Vec<(String, String)>,
    pub spec: String,
    pub status: String,
}

impl Draft {
    pub fn key(&self) -> Bytes {
        ObjectName { kind: &self.kind, namespace: &self.namespace, name: &self.name }.key()
    }

    fn stored(&self) -> Bytes {
        let metadata = pb::Metadata {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            labels: self.labels.iter().cloned().collect::<BTreeMap<_, _>>(),
            ..Default::default()
        };
        let object = pb::Object {
            kind: self.kind.clone(),
            metadata: Some(metadata),
            spec: self.spec.clone().into(),
            status: self.status.clone().into(),
        };
        object.encode_to_vec().into()
    }

    pub fn put(&self) -> Op {
        Op::Put { key: self.key(), value: self.stored(), lease: LeaseId::NONE }
    }

    pub fn delete(&self) -> Op {
        Op::Delete { key: self.key() }
    }
}

pub fn kinds() -> Catalog {
    let kind = |kind: &str, namespaced, fields: &[&str]| {
        Kind::new(pb::KindInfo {
            kind: kind.to_owned(),
            plural: format!("{}s", kind.to_lowercase()),
            namespaced,
            selectable_fields: fields.iter().map(|field| (*field).to_owned()).collect(),
            ..Default::default()
        })
    };
    Catalog::new([kind("Replica", true, &["spec.nodeName", "status.stage"]), kind("Node", false, &[])])
}

impl Node {
    /// To be called inside a runtime, which then also runs the index.
    pub fn new(ring_bytes: usize, limits: ReadLimits) -> Self {
        Self::with_index(ring_bytes, limits, 64 << 20)
    }

    pub fn with_index(ring_bytes: usize, limits: ReadLimits, index_bytes: usize) -> Self {
        let engine = Arc::new(MemoryEngine::new());
        let store = Arc::new(Store::open(engine.clone()).expect("an empty store opens"));
        let hub = Arc::new(Hub::new(store.revision(), ring_bytes));
        let (stop, halt) = (CancellationToken::new(), Halt::new(CancellationToken::new()));
        let (index, catalog) = (Arc::new(Index::new(index_bytes)), Arc::new(kinds()));
        let running =
            index.clone().run(store.clone(), hub.clone(), catalog.clone(), halt.clone(), stop.clone());
        tokio::spawn(running);
        let led = Arc::new(AtomicBool::new(true));
        let (barrier, watches_overtaken) = (Arc::new(Leader(led.clone())), Counter::default());
        let definitions = Arc::new(Definitions::new(store.clone(), catalog.clone()));
        let load = Load::default();
        let reader = Reader {
            store,
            hub,
            barrier,
            catalog,
            definitions,
            index,
            limits,
            load,
            watches_overtaken,
            halt,
        };
        Self { reader, engine, log_index: 0, now: 1_000, led, _running: stop.drop_guard() }
    }

    pub fn commit(&mut self, ops: Vec<Op>) -> Revision {
        let author = Author { principal: "user:jane".into(), manager: "test".into(), ..Author::default() };
        self.apply(Command::Commit(Arc::new(Commit { author: Some(author), ops, ..Commit::default() })))
    }

    pub fn compact(&mut self, revision: u64) {
        self.apply(Command::Compact { revision: revision as i64 });
        while !self.reader.store.collect(StepMax::records(3)).expect("collects").done() {}
    }

    fn apply(&mut self, command: Command) -> Revision {
        self.log_index += 1;
        let id = ProposalId { node: NodeId(1), sequence: self.log_index };
        let commands = vec![Proposal { id, command }.encode()];
        let body = Body::Commands { stamp: Timestamp(self.now), commands };
        let entry = Entry { position: Position { term: 1, index: self.log_index }, body };
        let outcome = self.reader.store.apply(&[entry], NodeId(1)).expect("applies");
        for (_, verdict) in &outcome.verdicts {
            verdict.as_ref().expect("accepted");
        }
        self.reader.hub.publish(outcome.changes);
        self.reader.store.revision()
    }
}

/// Limits under which pages and chunks are small enough to be seen.
pub fn small_limits() -> ReadLimits {
    ReadLimits { wait: Duration::from_secs(3), ..ReadLimits::default() }
}
