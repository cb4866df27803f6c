//! What the server wants of this node, and what follows for each replica.

use std::collections::BTreeSet;

use setpoint_client::{Client, Error, Scope, Typed};
use setpoint_runtime::cache::Key;
use setpoint_types::Uid;
use setpoint_types::kinds::{Binding, BindingState, Replica, ReplicaEndpoint};

use super::ward::{self, Ward};
use super::{Event, Supervisor, effects};
use crate::desired::{Standing, Verdict, judge};
use crate::lifecycle::{Grant, Input, Life, Memory, Rules, Want};
use crate::node::hold::Held;
use crate::ports;
use crate::record::Record;

impl Supervisor {
    /// Looks at all records of this node that the caches have.
    pub(super) fn sync(&mut self) {
        let Some(node) = self.registered.borrow_and_update().clone() else { return };
        let Some(held) = self.lease.borrow().clone() else { return };
        if self.parts.bindings.revision().is_none() || self.parts.replicas.revision().is_none() || self.ending
        {
            return;
        }
        let mut seen = BTreeSet::new();
        for cached in self.parts.bindings.snapshot().iter() {
            let Ok(binding) = cached.read() else { continue };
            let key = Key::new(&binding.metadata.namespace, &binding.spec.replica);
            let replica = self.parts.replicas.read(&key).ok().flatten();
            let uid = binding.spec.replica_uid.clone();
            seen.insert(uid.clone());
            // What there is of it is being found out.
            if self.unsettled.contains_key(&uid) {
                continue;
            }
            let known = self.wards.contains_key(&uid);
            let standing = Standing { node: &node, epoch: held.fence.epoch, known };
            let verdict = judge(&binding, replica.as_ref(), standing);
            self.obey(&uid, verdict, &binding, replica, &held);
        }
        let unseen: Vec<Uid> = self.wards.keys().filter(|uid| !seen.contains(*uid)).cloned().collect();
        for uid in unseen {
            self.confirm(&uid);
        }
        // The server has said all it wants here, and these are not among it: nobody can take them up.
        for (uid, strays) in &self.strays {
            if self.clearing.insert(uid.clone()) {
                self.tasks.spawn(effects::clear(uid.clone(), strays.clone()));
            }
        }
    }

    fn obey(
        &mut self,
        uid: &Uid,
        verdict: Verdict,
        binding: &Typed<Binding>,
        replica: Option<Typed<Replica>>,
        held: &Held,
    ) {
        let known = self.wards.contains_key(uid);
        match (known, verdict) {
            (false, Verdict::Wait | Verdict::Done) => {}
            // It is known here, and the cache does not show it.
            (true, Verdict::Wait) => self.confirm(uid),
            (false, Verdict::Run) => {
                if let Some(replica) = replica
                    && !self.strays.contains_key(uid)
                {
                    self.take(binding, &replica, held);
                }
            }
            (false, Verdict::Stop) => self.refuse(binding, replica, held),
            (true, Verdict::Run) => {}
            (true, Verdict::Stop | Verdict::Done) => {
                if let Some(ward) = self.wards.get_mut(uid) {
                    ward.given_back |= verdict == Verdict::Done;
                }
                self.step(uid, Input::Want(Want::Stop));
            }
        }
    }

    /// A new replica.
    fn take(&mut self, binding: &Typed<Binding>, replica: &Typed<Replica>, held: &Held) {
        let taken = self.wards.values().filter(|ward| !ward.life.is_over()).map(|ward| &ward.record);
        let taken = taken.chain(self.unsettled.values());
        let taken = taken.flat_map(|record| record.endpoints.iter().map(|it| it.port)).collect();
        let endpoints = match ports::choose(&replica.spec.template.ports, &self.parts.host, &taken) {
            Ok(endpoints) => endpoints,
            Err(error) => {
                tracing::error!(replica = replica.metadata.name, %error, "no ports for a replica: trying again");
                return;
            }
        };
        let record = record(binding, Some(replica), endpoints);
        tracing::info!(namespace = record.namespace, replica = record.name, "a replica for this node");
        let life = Life::new(Rules::of(&record.spec), ward::grant(&record, held));
        // Before the server hears of it: from here on a crash forgets nothing.
        if let Err(error) = self.parts.records.save(&record) {
            tracing::error!(replica = record.name, %error, "a record cannot be written: trying again");
            return;
        }
        setpoint_failpoint::hit("agent.recorded");
        let uid = record.uid.clone();
        self.wards.insert(uid.clone(), Ward::new(record, life));
        self.step(&uid, Input::Tick);
    }

    /// What must not run here any more, and never did under this agent: said to be stopped, so that it can be replaced.
    fn refuse(&mut self, binding: &Typed<Binding>, replica: Option<Typed<Replica>>, held: &Held) {
        if self.strays.contains_key(&binding.spec.replica_uid) {
            return;
        }
        let record = record(binding, replica.as_ref(), Vec::new());
        tracing::warn!(
            namespace = record.namespace,
            replica = record.name,
            bound_at = record.node_epoch.0,
            epoch = held.fence.epoch.0,
            "not begun: it is asked back, or was bound in an earlier time with the lease"
        );
        let life = Life::new(Rules::of(&record.spec), Grant::Lost);
        let uid = record.uid.clone();
        let mut ward = Ward::new(record, life);
        ward.refused = true;
        self.wards.insert(uid.clone(), ward);
        self.step(&uid, Input::Want(Want::Stop));
    }

    /// A replica of which the caches do not show everything: the server is asked before anything is ended.
    fn confirm(&mut self, uid: &Uid) {
        let Some(ward) = self.wards.get_mut(uid) else { return };
        if ward.confirming || ward.life.is_over() {
            return;
        }
        ward.confirming = true;
        let (record, client) = (ward.record.clone(), self.parts.client.clone());
        self.tasks.spawn(async move {
            let answer = ask(&client, &record).await;
            Event::Confirmed { uid: record.uid, answer: answer.unwrap_or(Answer::Silence) }
        });
    }

    pub(super) fn confirmed(&mut self, uid: &Uid, answer: Answer) {
        let Some(ward) = self.wards.get_mut(uid) else { return };
        ward.confirming = false;
        match answer {
            Answer::Wanted | Answer::Silence => return,
            Answer::NoBinding => ward.given_back = true,
            Answer::NoReplica => {}
        }
        tracing::warn!(replica = ward.record.name, ?answer, "it is not wanted any more");
        self.step(uid, Input::Want(Want::Stop));
    }
}

/// What the server says of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Wanted,
    /// Nothing is reserved for it.
    NoBinding,
    /// It is gone, and what is reserved for it has to be given back.
    NoReplica,
    /// It did not say.
    Silence,
}

async fn ask(client: &Client, record: &Record) -> Result<Answer, Error> {
    let scope = || Scope::namespace(&record.namespace);
    let binding = client.shaped::<Binding>("Binding", scope()).find(&record.name).await?;
    let Some(binding) = binding.filter(|binding| binding.metadata.uid == record.binding) else {
        return Ok(Answer::NoBinding);
    };
    if binding.status.is_some_and(|status| status.state == BindingState::Released) {
        return Ok(Answer::NoBinding);
    }
    let replica = client.shaped::<Replica>("Replica", scope()).find(&record.name).await?;
    let is_there = replica.is_some_and(|replica| replica.metadata.uid == record.uid);
    Ok(if is_there { Answer::Wanted } else { Answer::NoReplica })
}

fn record(
    binding: &Typed<Binding>,
    replica: Option<&Typed<Replica>>,
    endpoints: Vec<ReplicaEndpoint>,
) -> Record {
    Record {
        namespace: binding.metadata.namespace.clone(),
        name: binding.metadata.name.clone(),
        uid: binding.spec.replica_uid.clone(),
        generation: replica.map(|replica| replica.metadata.generation).unwrap_or_default(),
        binding: binding.metadata.uid.clone(),
        node_epoch: binding.spec.node_epoch,
        spec: replica.map(|replica| replica.spec.clone()).unwrap_or_default(),
        endpoints,
        memory: Memory::default(),
        released: None,
    }
}
