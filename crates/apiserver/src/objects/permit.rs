//! What each request needs to be allowed, from the message alone: before anything of it is decoded or looked up.
//!
//! A write inside a transaction needs what it would need alone. Guards, fences included, tell of what they are about, so
//! they need what reading it would. A kind that this node does not know is one of the whole cluster.

use setpoint_access::{Need, Verb};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::guard::Guard;
use setpoint_api::setpoint::v1::write::Write;

use super::catalog::Catalog;
use crate::coordination::LEASE;

const NAMESPACE: &str = "default";

/// Says what requests need, of the kinds that are served.
pub struct Needs<'c>(pub &'c Catalog);

impl Needs<'_> {
    /// One object that a request names.
    pub fn one(&self, verb: Verb, key: Option<&pb::ObjectKey>, status: bool) -> Vec<Need> {
        let Some(key) = key else { return Vec::from([self.object(verb, None, status)]) };
        vec![Need::object(verb, &key.kind, status, self.namespace(&key.kind, &key.namespace), &key.name)]
    }

    /// All objects of a kind.
    pub fn many(&self, verb: Verb, kind: &str, namespace: &str) -> Vec<Need> {
        let namespaced = self.0.get(kind).is_some_and(|it| it.info.namespaced);
        vec![Need::all(verb, kind, if namespaced { namespace } else { "" })]
    }

    /// One object that a request carries.
    pub fn sent(&self, verb: Verb, object: Option<&pb::Object>, status: bool) -> Vec<Need> {
        vec![self.object(verb, object, status)]
    }

    pub fn transact(&self, request: &pb::TransactRequest) -> Vec<Need> {
        let guards = request.guards.iter().filter_map(|it| it.guard.as_ref()).flat_map(|it| self.guard(it));
        let writes = request.writes.iter().filter_map(|it| it.write.as_ref()).flat_map(|it| self.write(it));
        guards.chain(writes).collect()
    }

    /// What the options of a write need besides.
    pub fn options(&self, options: Option<&pb::WriteOptions>) -> Option<Need> {
        options.and_then(|it| it.fence.as_ref()).map(|it| self.fence(it))
    }

    pub fn lease(&self, verb: Verb, namespace: &str, name: &str) -> Vec<Need> {
        vec![Need::object(verb, LEASE, false, self.namespace(LEASE, namespace), name)]
    }

    fn guard(&self, guard: &Guard) -> Vec<Need> {
        match guard {
            Guard::Object(at) => self.one(Verb::Get, at.key.as_ref(), false),
            Guard::Headroom(headroom) => vec![Need::ledger(Verb::Get, &headroom.ledger)],
            Guard::Fence(fence) => vec![self.fence(fence)],
        }
    }

    fn fence(&self, fence: &pb::Fence) -> Need {
        Need::object(Verb::Get, LEASE, false, self.namespace(LEASE, &fence.namespace), &fence.lease)
    }

    fn write(&self, write: &Write) -> Vec<Need> {
        let ledger = |name: &str| vec![Need::ledger(Verb::Transact, name)];
        match write {
            Write::Create(object) => self.sent(Verb::Create, Some(object), false),
            Write::Update(object) => self.sent(Verb::Update, Some(object), false),
            Write::UpdateStatus(object) => self.sent(Verb::Update, Some(object), true),
            Write::Apply(apply) => self.sent(Verb::Apply, apply.object.as_ref(), apply.status),
            Write::Patch(patch) => self.one(Verb::Patch, patch.key.as_ref(), patch.status),
            Write::Delete(delete) => self.one(Verb::Delete, delete.key.as_ref(), false),
            Write::Reserve(it) => ledger(&it.ledger),
            Write::Release(it) => ledger(&it.ledger),
            Write::Limits(it) => ledger(&it.ledger),
        }
    }

    fn object(&self, verb: Verb, object: Option<&pb::Object>, status: bool) -> Need {
        let kind = object.map_or("", |it| it.kind.as_str());
        let metadata = object.and_then(|it| it.metadata.as_ref());
        let (namespace, name) = metadata.map_or(("", ""), |it| (it.namespace.as_str(), it.name.as_str()));
        Need::object(verb, kind, status, self.namespace(kind, namespace), name)
    }

    /// Where an object of the kind is, if a request names `namespace`.
    fn namespace<'n>(&self, kind: &str, namespace: &'n str) -> &'n str {
        match self.0.get(kind).map(|it| it.info.namespaced) {
            Some(true) if namespace.is_empty() => NAMESPACE,
            Some(false) => "",
            _ => namespace,
        }
    }
}
