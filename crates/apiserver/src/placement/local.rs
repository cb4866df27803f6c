//! This node's copy, as far as binds look at it. Nodes, policies and namespaces are read once for all binds of a request: there
//! are few of them, and guards prove them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use setpoint_api::setpoint::v1 as pb;
use setpoint_store::command::Range;
use setpoint_store::{KeyValue, Store};
use setpoint_types::{KeyRange, Timestamp};

use super::decide::Situation;
use super::nodes::Nodes;
use super::seen::{BindingSeen, NodeSeen, PolicyStands, Raw, ReplicaSeen};
use super::write::{self, BINDING, REPLICA};
use crate::objects::{Reader, Refusal};

pub struct Local<'s> {
    pub store: &'s Store,
    reader: &'s Reader,
    /// From requests before.
    known: Option<&'s Nodes>,
    nodes: BTreeMap<String, Option<Arc<NodeSeen>>>,
    policies: BTreeMap<String, Option<PolicyStands>>,
    /// Whether each is being deleted.
    namespaces: BTreeMap<String, bool>,
}

/// What one bind is about, as it is here.
pub struct Look {
    replica: Option<ReplicaSeen>,
    binding: Option<BindingSeen>,
    replaced: Option<BindingSeen>,
    node: Option<Arc<NodeSeen>>,
    namespace_deleting: bool,
    pub policies: Vec<Option<PolicyStands>>,
}

impl<'s> Local<'s> {
    pub fn new(reader: &'s Reader) -> Self {
        let (nodes, policies, namespaces) = Default::default();
        Self { store: &reader.store, reader, known: None, nodes, policies, namespaces }
    }

    /// The same for one who has read nodes before.
    pub fn knowing(reader: &'s Reader, known: &'s Nodes) -> Self {
        Self { known: Some(known), ..Self::new(reader) }
    }

    pub fn read(&self, key: Bytes) -> Result<Option<KeyValue>, Refusal> {
        let read = self.store.range(&Range::latest(KeyRange::Single(key)));
        Ok(read.map_err(|failure| self.reader.read_failure(failure))?.kvs.pop())
    }

    pub fn object(&self, kind: &str, namespace: &str, name: &str) -> Result<Option<KeyValue>, Refusal> {
        self.read(write::key(kind, namespace, name))
    }

    pub fn look(&mut self, bind: &pb::Bind) -> Result<Look, Refusal> {
        let replica = self.object(REPLICA, &bind.namespace, &bind.replica)?.and_then(ReplicaSeen::of);
        let replaces = replica.as_ref().and_then(|it| it.wants.replaces.as_deref());
        let replaced = match replaces {
            Some(name) => self.object(BINDING, &bind.namespace, name)?.and_then(BindingSeen::of),
            None => None,
        };
        Ok(Look {
            binding: self.object(BINDING, &bind.namespace, &bind.replica)?.and_then(BindingSeen::of),
            node: self.node(&bind.node)?,
            policies: bind.policies.iter().map(|it| self.policy(&it.name)).collect::<Result<_, _>>()?,
            namespace_deleting: self.is_deleting(&bind.namespace)?,
            replica,
            replaced,
        })
    }

    fn node(&mut self, name: &str) -> Result<Option<Arc<NodeSeen>>, Refusal> {
        if let Some(node) = self.nodes.get(name) {
            return Ok(node.clone());
        }
        let node = self.read_node(name)?;
        self.nodes.insert(name.to_owned(), node.clone());
        Ok(node)
    }

    fn read_node(&self, name: &str) -> Result<Option<Arc<NodeSeen>>, Refusal> {
        let Some(known) = self.known else {
            return Ok(self.object("Node", "", name)?.and_then(NodeSeen::of).map(Arc::new));
        };
        let key = write::key("Node", "", name);
        let only_key = Range { keys_only: true, ..Range::latest(KeyRange::Single(key.clone())) };
        let found = self.store.range(&only_key).map_err(|failure| self.reader.read_failure(failure))?;
        let Some(kv) = found.kvs.first() else { return Ok(None) };
        if let Some(node) = known.get(name, kv.modified) {
            return Ok(Some(node));
        }
        let node = self.read(key)?.and_then(NodeSeen::of).map(Arc::new);
        node.iter().for_each(|node| known.keep(node));
        Ok(node)
    }

    fn policy(&mut self, name: &str) -> Result<Option<PolicyStands>, Refusal> {
        if let Some(policy) = self.policies.get(name) {
            return Ok(policy.clone());
        }
        let policy = self.object("PlacementPolicy", "", name)?.and_then(PolicyStands::of);
        self.policies.insert(name.to_owned(), policy.clone());
        Ok(policy)
    }

    fn is_deleting(&mut self, namespace: &str) -> Result<bool, Refusal> {
        if let Some(deleting) = self.namespaces.get(namespace) {
            return Ok(*deleting);
        }
        let found = self.object("Namespace", "", namespace)?.and_then(Raw::of);
        let deleting = found.is_some_and(|it| it.is_deleting());
        self.namespaces.insert(namespace.to_owned(), deleting);
        Ok(deleting)
    }
}

impl Look {
    pub fn situation<'a>(
        &'a self,
        bind: &'a pb::Bind,
        observed: &'a BTreeMap<String, u64>,
        now: Timestamp,
    ) -> Situation<'a> {
        Situation {
            bind,
            observed,
            replica: self.replica.as_ref(),
            binding: self.binding.as_ref(),
            replaced: self.replaced.as_ref(),
            namespace_deleting: self.namespace_deleting,
            node: self.node.as_deref(),
            policies: &self.policies,
            now,
        }
    }
}
