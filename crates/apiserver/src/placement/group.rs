//! A group of binds: decided on this node's copy, and made one commit.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::bind_rejection::Reason;
use setpoint_store::commit::{Commit, Guard, Op};
use setpoint_store::{Epoch, Fence, LeaseName};
use setpoint_types::kinds::BindingSpec;
use setpoint_types::{LeaseId, Revision, Timestamp, Uid};

use super::books;
use super::decide::{self, Fitting, For, Situation};
use super::decision::{self, Known};
use super::local::Local;
use super::rejection::Rejected;
use super::seen::BindingSeen;
use super::write::{self, BINDING, Given, REPLICA};
use crate::access::Caller;
use crate::objects::Refusal;
use crate::objects::write::Draw;
use crate::objects::write::options::Options;

/// Where the leases of nodes are.
pub const LEASES: &str = "setpoint-system";

pub fn node_lease(node: &str) -> LeaseName {
    LeaseName::new(LEASES, format!("node-{node}"))
}

/// A group as it was asked for.
pub struct Group {
    /// Its place in the request.
    pub place: usize,
    pub asked: pb::BindGroup,
    pub options: Options,
}

/// What deciding on a group came to.
pub enum Decided {
    Commit(Box<Proposed>),
    /// It had been done, at this revision.
    Done(Revision),
    Rejected(Rejected),
}

/// A commit, and what its parts are for.
pub struct Proposed {
    /// Shared with its way into the log, so that what was wanted is known if it is refused.
    pub commit: Arc<Commit>,
    pub bytes: usize,
    guards: Vec<Held>,
    ops: Vec<(usize, Option<For>)>,
}

/// What a guard holds fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The caller's lease.
    Caller,
    /// The lease of the node that a bind is for, and where the node was last changed.
    Node(usize, Revision),
    /// What was read.
    Seen,
}

/// What changes from one decision to the next.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    pub now: Timestamp,
    pub draw: &'a Draw,
}

impl Group {
    pub fn new(
        place: usize,
        asked: pb::BindGroup,
        fence: &Option<pb::Fence>,
        caller: &Caller,
    ) -> Result<Self, Refusal> {
        let wire = pb::WriteOptions {
            manager: write::MANAGER.to_owned(),
            operation: asked.operation.clone(),
            fence: fence.clone(),
            ..pb::WriteOptions::default()
        };
        // Whoever sends it again may have a later epoch by then.
        let options = Options::new(wire, caller, 0, || [&b"bind"[..], &asked.encode_to_vec()].concat())
            .map_err(|refusal| refusal.within(&format!("groups[{place}]")))?;
        Ok(Self { place, asked, options })
    }

    pub fn decide(&self, local: &mut Local<'_>, moment: &Moment<'_>) -> Result<Decided, Refusal> {
        let operation = self.options.operation.as_ref();
        match operation.and_then(|it| Some((it.fingerprint, local.store.operation(&it.id)?))) {
            Some((fingerprint, done)) if done.fingerprint == fingerprint => {
                return Ok(Decided::Done(done.revision));
            }
            Some((_, done)) => return Ok(Decided::Rejected(reused(done.revision))),
            None => {}
        }
        if let Some(done) = self.bound_before(local)? {
            return Ok(Decided::Done(done));
        }
        let fence = self.options.fence.clone();
        let mut proposed = Proposed {
            commit: Arc::new(Commit {
                operation: self.options.operation.clone(),
                author: Some(self.options.author.clone()),
                guards: fence.iter().cloned().map(Guard::Fence).collect(),
                ops: Vec::new(),
            }),
            bytes: 0,
            guards: fence.iter().map(|_| Held::Caller).collect(),
            ops: Vec::new(),
        };
        for at in 0..self.asked.binds.len() {
            if let Err(rejected) = self.add(at, local, moment, &mut proposed)? {
                return Ok(Decided::Rejected(rejected.of_bind(at)));
            }
        }
        proposed.bytes = proposed.commit.ops.iter().map(stored_bytes).sum();
        Ok(Decided::Commit(Box::new(proposed)))
    }

    /// Where the group was bound by this very operation, though its id may be forgotten.
    fn bound_before(&self, local: &Local<'_>) -> Result<Option<Revision>, Refusal> {
        let mut at = Revision::NONE;
        for bind in &self.asked.binds {
            let Some(kv) = local.read(write::key(BINDING, &bind.namespace, &bind.replica))? else {
                return Ok(None);
            };
            let made = kv.created;
            let same = |it: &BindingSeen| {
                !it.spec.operation.is_empty()
                    && it.spec.operation == self.asked.operation
                    && it.spec.replica_uid.as_str() == bind.replica_uid
                    && it.spec.node_uid.as_str() == bind.node_uid
            };
            if !BindingSeen::of(kv).is_some_and(|it| same(&it)) {
                return Ok(None);
            }
            at = made;
        }
        Ok((!at.is_none()).then_some(at))
    }

    fn add(
        &self,
        at: usize,
        local: &mut Local<'_>,
        moment: &Moment<'_>,
        proposed: &mut Proposed,
    ) -> Result<Result<(), Rejected>, Refusal> {
        let bind = &self.asked.binds[at];
        let look = local.look(bind)?;
        let situation = look.situation(bind, &self.asked.observed, moment.now);
        let fitting = match decide::decide(&situation) {
            Ok(fitting) => fitting,
            Err(rejected) => return Ok(Err(rejected)),
        };
        let version =
            look.policies.first().and_then(Option::as_ref).map(|it| it.version()).unwrap_or_default();
        let known = Known {
            operation: &self.asked.operation,
            policy_version: &version,
            observed: &self.asked.observed,
            epoch: self.options.fence.as_ref().map_or(0, |it| it.epoch.0),
            trace: &self.options.author.trace,
            now: moment.now,
            random: (moment.draw)(),
        };
        let record = match decision::record(bind, &known) {
            Ok(record) => record,
            Err(rejected) => return Ok(Err(rejected)),
        };
        proposed.guard(&situation, &fitting, at);
        proposed.write(&situation, &fitting, at, record, &known, moment);
        Ok(Ok(()))
    }
}

impl Proposed {
    /// Nobody else has it yet: nothing is copied.
    fn building(&mut self) -> &mut Commit {
        Arc::make_mut(&mut self.commit)
    }

    fn hold(&mut self, held: Held, guard: Guard) {
        self.building().guards.push(guard);
        self.guards.push(held);
    }

    fn guard(&mut self, situation: &Situation<'_>, fitting: &Fitting<'_>, at: usize) {
        let (bind, node) = (situation.bind, fitting.node);
        let replica = &fitting.replica.raw;
        let seen = |key: Bytes, revision| Guard::Revision { key, revision };
        self.hold(Held::Seen, seen(write::key(REPLICA, &bind.namespace, &bind.replica), replica.at));
        self.hold(Held::Seen, seen(write::key(BINDING, &bind.namespace, &bind.replica), Revision::NONE));
        self.hold(Held::Seen, seen(write::key("Node", "", &bind.node), node.at));
        let fence = Fence { lease: node_lease(&bind.node), epoch: Epoch(bind.node_epoch) };
        self.hold(Held::Node(at, node.at), Guard::Fence(fence));
        for (named, policy) in bind.policies.iter().zip(situation.policies) {
            let revision = policy.as_ref().map_or(Revision::NONE, |it| it.at);
            self.hold(Held::Seen, seen(write::key("PlacementPolicy", "", &named.name), revision));
        }
    }

    fn write(
        &mut self,
        situation: &Situation<'_>,
        fitting: &Fitting<'_>,
        at: usize,
        record: Option<decision::Record>,
        known: &Known<'_>,
        moment: &Moment<'_>,
    ) {
        let (bind, now) = (situation.bind, moment.now);
        let Fitting { replica, node } = fitting;
        let uid = Uid::from_random((moment.draw)());
        let owner = books::owner(&bind.namespace, &bind.replica, uid.as_str());
        let taken = decide::reservations(situation, fitting, &owner);
        let decision = record.as_ref().map_or_else(String::new, |it| it.name.clone());
        let spec = BindingSpec {
            replica: bind.replica.clone(),
            replica_uid: Uid::new(bind.replica_uid.as_str()),
            node: bind.node.clone(),
            node_uid: Uid::new(bind.node_uid.as_str()),
            node_revision: Revision::new(bind.node_revision),
            node_epoch: setpoint_types::Epoch(bind.node_epoch),
            boot_id: node.boot_id.clone(),
            zone: node.zone.clone(),
            reservations: taken.iter().filter_map(|(_, op)| write::reservation(op)).collect(),
            policy_version: known.policy_version.to_owned(),
            scheduler_epoch: setpoint_types::Epoch(known.epoch),
            decision: decision.clone(),
            operation: known.operation.to_owned(),
        };
        let given = Given { node: &bind.node, node_uid: &bind.node_uid, decision: &decision };
        let put = |kind, value| {
            let key = write::key(kind, &bind.namespace, &bind.replica);
            Op::Put { key, value, lease: LeaseId::NONE }
        };
        self.act(at, None, put(REPLICA, write::bound(&replica.raw, &given, now)));
        self.act(at, None, put(BINDING, write::binding(&spec, &replica.raw, uid.as_str(), now)));
        if let Some(record) = record {
            self.act(at, None, record.op);
        }
        for (what, op) in taken {
            self.act(at, Some(what), op);
        }
    }

    fn act(&mut self, bind: usize, what: Option<For>, op: Op) {
        self.building().ops.push(op);
        self.ops.push((bind, what));
    }

    pub fn held(&self, guard: usize) -> Option<Held> {
        self.guards.get(guard).copied()
    }

    /// What a reservation of this commit is for, with the bind it belongs to.
    pub fn taken(&self, op: usize) -> Option<(usize, For, &Op)> {
        let (bind, what) = self.ops.get(op)?;
        Some((*bind, (*what)?, self.commit.ops.get(op)?))
    }
}

fn stored_bytes(op: &Op) -> usize {
    match op {
        Op::Put { value, .. } | Op::Stamped { value, .. } => value.len(),
        _ => 0,
    }
}

pub fn reused(revision: Revision) -> Rejected {
    let text =
        format!("the operation id was used for other binds, which made revision {revision}; use a new id");
    Rejected::new(Reason::Invalid, text).at(revision)
}
