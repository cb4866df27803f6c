//! Taking nodes back: everything a binding has reserved is given back once nothing of its replica runs there any more, and
//! not before.
//!
//! That is so if the agent says it (`status.stopped`). If the agent is out of reach and the release was asked for, then once the agent
//! has had the time to stop the replica by itself, or its host has started anew.

use std::sync::Arc;

use futures::future::join_all;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::release_refusal::Reason;
use setpoint_api::setpoint::v1::release_result::Result as Outcome;
use setpoint_objects::Metadata;
use setpoint_store::commit::{Commit, Guard, Op};
use setpoint_store::{Committed, Rejection};
use setpoint_types::kinds::{BindingState, OnDisconnect};
use setpoint_types::{Revision, Timestamp};

use super::Placer;
use super::books;
use super::group::node_lease;
use super::local::Local;
use super::seen::{BindingSeen, NodeSeen, ReplicaSeen};
use super::write::{self, BINDING, REPLICA};
use crate::access::Caller;
use crate::coordination::lease_moment;
use crate::objects::Refusal;
use crate::objects::key;
use crate::objects::reader::{Reader, blocking};
use crate::objects::write::CommitError;
use crate::objects::write::commit::failure;
use crate::objects::write::options::Options;
use crate::replica::ProposeError;

/// Why a binding is not released.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    reason: Reason,
    message: String,
    at: Revision,
    wait_ms: u64,
}

/// Why nothing of the replica runs any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The agent says so.
    Stopped,
    /// Nobody has held the node's lease for long enough.
    Unheld,
    /// The host has started anew; the node as it was read.
    Restarted(Revision),
}

impl Proof {
    fn word(self) -> &'static str {
        match self {
            Self::Stopped => "Stopped",
            Self::Unheld => "NodeSilent",
            Self::Restarted(_) => "NodeRestarted",
        }
    }
}

/// What is known of the node of a binding.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host<'a> {
    pub node: Option<&'a NodeSeen>,
    /// The epoch at which the lease is held now.
    pub held: Option<u64>,
    /// When the last hold ended, if nobody holds it.
    pub ended: Option<Timestamp>,
}

/// How long the agent may need to stop the replica by itself, if it has to.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    pub exclusive: bool,
    pub stop_ms: u64,
}

/// Whether a binding may be released. Pure.
pub fn judge(
    binding: &BindingSeen,
    host: Host<'_>,
    patience: Patience,
    now: Timestamp,
) -> Result<Proof, Kept> {
    let node = &binding.spec.node;
    let kept = |reason, message: String, wait_ms| Err(Kept { reason, message, at: binding.raw.at, wait_ms });
    if binding.state.stopped.is_some() {
        return Ok(Proof::Stopped);
    }
    if binding.state.state != BindingState::ReleaseRequested {
        let text =
            "the agent has not confirmed the stop, and nobody has asked for the release; ask for it, or wait";
        return kept(Reason::NotStopped, text.to_owned(), 0);
    }
    let restarted = |it: &&NodeSeen| {
        it.uid == binding.spec.node_uid.as_str()
            && !it.boot_id.is_empty()
            && !binding.spec.boot_id.is_empty()
            && it.boot_id != binding.spec.boot_id
            && it.epoch > binding.spec.node_epoch.0
    };
    if let Some(node) = host.node.filter(restarted) {
        return Ok(Proof::Restarted(node.at));
    }
    if host.held.is_some() {
        let text =
            format!("the agent of {node} holds its lease and has yet to confirm the stop; wait for it");
        return kept(Reason::StillHeld, text, 0);
    }
    if !patience.exclusive {
        return Ok(Proof::Unheld);
    }
    // Without a Lease object nobody knows when the last hold ended, but the release was asked for after that.
    let since = host.ended.unwrap_or(binding.state.since);
    let free = since.0.saturating_add(patience.stop_ms);
    if now.0 < free {
        let text = format!("the agent of {node} may still be stopping the replica by itself; wait");
        return kept(Reason::MayStillRun, text, free - now.0);
    }
    Ok(Proof::Unheld)
}

/// A release as a commit, or why there is none.
enum Decided {
    Commit(Arc<Commit>, usize),
    Before(Revision),
    Kept(Kept),
}

/// A release that was asked for.
struct Item {
    place: usize,
    asked: pb::BindingReference,
}

impl Placer {
    pub async fn release(
        &self,
        request: pb::ReleaseBindingsRequest,
        caller: &Caller,
    ) -> Result<pb::ReleaseBindingsResponse, Refusal> {
        let pb::ReleaseBindingsRequest { bindings, fence } = request;
        if bindings.len() > self.limits.groups {
            let text = format!("must be at most {}; make it several requests", self.limits.groups);
            return Err(Refusal::invalid("bindings", text));
        }
        for (at, it) in bindings.iter().enumerate() {
            let twice = bindings[..at]
                .iter()
                .any(|other| (&other.namespace, &other.binding) == (&it.namespace, &it.binding));
            if !key::is_name(&it.namespace) || !key::is_name(&it.binding) || twice {
                return Err(Refusal::invalid(
                    &format!("bindings[{at}]"),
                    "must name a namespace and a binding, each once",
                ));
            }
        }
        let wire = pb::WriteOptions { manager: write::MANAGER.to_owned(), fence, ..Default::default() };
        let options = Options::new(wire, caller, 0, Vec::new)?;
        let mut results: Vec<Option<Outcome>> = Vec::new();
        results.resize_with(bindings.len(), || None);
        let items = bindings.into_iter().enumerate();
        let mut open: Vec<Item> = items.map(|(place, asked)| Item { place, asked }).collect();
        let mut current = false;
        for _ in 0..self.limits.attempts {
            if open.is_empty() {
                break;
            }
            let (again, doubtful) = self.release_round(open, &options, current, &mut results).await?;
            if !doubtful.is_empty() {
                self.writer.reader.barrier.pass().await?;
                current = true;
            }
            open = again;
            open.extend(doubtful);
        }
        for item in open {
            let message = "others changed the binding or its replica each time; try again".to_owned();
            let kept = Kept { reason: Reason::Contention, message, at: self.newest(), wait_ms: 0 };
            results[item.place] = Some(Outcome::Refused(refused(kept)));
        }
        let results = results.into_iter().map(|result| pb::ReleaseResult { result }).collect();
        Ok(pb::ReleaseBindingsResponse { results })
    }

    async fn release_round(
        &self,
        open: Vec<Item>,
        options: &Options,
        current: bool,
        results: &mut [Option<Outcome>],
    ) -> Result<(Vec<Item>, Vec<Item>), Refusal> {
        let (reader, options, now) = (self.writer.reader.clone(), options.clone(), self.writer.clock.now());
        let margin = u64::try_from(self.limits.release_margin.as_millis()).unwrap_or(u64::MAX);
        let decided = blocking(move || -> Result<Vec<(Item, Decided)>, Refusal> {
            let decide = |item: Item| Ok((decide(&item.asked, &reader, &options, now, margin)?, item));
            open.into_iter().map(decide).map(|it| it.map(|(decided, item)| (item, decided))).collect()
        })
        .await??;
        let (mut doubtful, mut commits) = (Vec::new(), Vec::new());
        for (item, decided) in decided {
            match decided {
                Decided::Commit(commit, bytes) => commits.push((item, commit, bytes)),
                Decided::Before(revision) => {
                    let released = pb::Released { revision: revision.get(), repeated: true };
                    results[item.place] = Some(Outcome::Released(released));
                }
                Decided::Kept(kept) if current => results[item.place] = Some(Outcome::Refused(refused(kept))),
                Decided::Kept(_) => doubtful.push(item),
            }
        }
        // Without asking for room: it must be possible on a full disk.
        let verdicts = commits.iter().map(|(_, commit, _)| self.writer.commits.commit(commit.clone(), 0));
        let verdicts = join_all(verdicts).await;
        let (mut again, mut failed) = (Vec::new(), None);
        for ((item, commit, _), verdict) in commits.into_iter().zip(verdicts) {
            match verdict {
                Ok(Committed { revision, repeated, .. }) => {
                    let released = pb::Released { revision: revision.get(), repeated };
                    results[item.place] = Some(Outcome::Released(released));
                }
                Err(CommitError::Proposal(ProposeError::Rejected(Rejection::Guard { index, .. }))) => {
                    if !matches!(commit.guards.get(index), Some(Guard::Fence(_))) {
                        again.push(item);
                        continue;
                    }
                    let message = "the caller's lease is not held at the epoch of its fence; stop".to_owned();
                    let kept = Kept { reason: Reason::Fenced, message, at: self.newest(), wait_ms: 0 };
                    results[item.place] = Some(Outcome::Refused(refused(kept)));
                }
                Err(error) => failed = Some(failure(error)),
            }
        }
        failed.map_or(Ok((again, doubtful)), Err)
    }
}

fn refused(kept: Kept) -> pb::ReleaseRefusal {
    pb::ReleaseRefusal {
        reason: kept.reason.into(),
        message: kept.message,
        catch_up_to: kept.at.get(),
        wait_ms: kept.wait_ms,
    }
}

fn decide(
    asked: &pb::BindingReference,
    reader: &Reader,
    options: &Options,
    now: Timestamp,
    margin_ms: u64,
) -> Result<Decided, Refusal> {
    let local = Local::new(reader);
    let binding = local.object(BINDING, &asked.namespace, &asked.binding)?.and_then(BindingSeen::of);
    let Some(binding) = binding.filter(|it| asked.uid.is_empty() || it.raw.metadata.uid == asked.uid) else {
        let message =
            format!("there is no binding {} with this uid, so nothing is reserved by it", asked.binding);
        let kept = Kept { reason: Reason::BindingGone, message, at: local.store.revision(), wait_ms: 0 };
        return Ok(Decided::Kept(kept));
    };
    if binding.is_released() {
        return Ok(Decided::Before(binding.state.released_revision));
    }
    let node = local.object("Node", "", &binding.spec.node)?.and_then(NodeSeen::of);
    let replica = local.object(REPLICA, &asked.namespace, &binding.spec.replica)?.and_then(ReplicaSeen::of);
    let replica = replica.filter(|it| it.raw.metadata.uid == binding.spec.replica_uid.as_str());
    let lease =
        lease_moment(local.store, &node_lease(&binding.spec.node)).map_err(|it| reader.read_failure(it))?;
    let host = Host { node: node.as_ref(), held: lease.held, ended: lease.ended };
    let template = replica.as_ref().map(|it| &it.wants.template);
    let grace = template.map_or(30, |it| it.termination_grace_seconds);
    let patience = Patience {
        // Of a replica that is gone nobody knows; so it is taken for one that must not run twice.
        exclusive: template.is_none_or(|it| it.on_disconnect == OnDisconnect::Exclusive),
        stop_ms: u64::from(grace).saturating_mul(1_000).saturating_add(margin_ms),
    };
    let proof = match judge(&binding, host, patience, now) {
        Ok(proof) => proof,
        Err(kept) => return Ok(Decided::Kept(kept)),
    };
    Ok(commit(&binding, replica.as_ref(), proof, options, now))
}

fn commit(
    binding: &BindingSeen,
    replica: Option<&ReplicaSeen>,
    proof: Proof,
    options: &Options,
    now: Timestamp,
) -> Decided {
    let Metadata { namespace, name, uid, .. } = &binding.raw.metadata;
    let seen = |key, revision| Guard::Revision { key, revision };
    let mut guards: Vec<_> = options.fence.iter().cloned().map(Guard::Fence).collect();
    guards.push(seen(write::key(BINDING, namespace, name), binding.raw.at));
    match proof {
        Proof::Stopped => {}
        Proof::Unheld => guards.push(seen(node_lease(&binding.spec.node).hold_key(), Revision::NONE)),
        Proof::Restarted(at) => guards.push(seen(write::key("Node", "", &binding.spec.node), at)),
    }
    let mut ops = vec![write::released(binding, proof.word(), now)];
    let owner = books::owner(namespace, name, uid);
    let given_back = binding.spec.reservations.iter();
    ops.extend(given_back.map(|it| Op::Release { ledger: it.ledger.clone(), owner: owner.clone() }));
    if let Some(replica) = replica {
        guards.push(seen(write::key(REPLICA, namespace, &binding.spec.replica), replica.raw.at));
        ops.extend(write::let_go(&replica.raw, now));
    }
    let commit = Commit { operation: None, author: Some(options.author.clone()), guards, ops };
    Decided::Commit(Arc::new(commit), 0)
}
