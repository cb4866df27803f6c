//! Taking a lease, or waiting for it: read, decide, commit; again, whenever the lease changes.
//!
//! A hold that this node's copy shows may have ended; so whoever seems to have the lease already is told so only after the
//! leader has renewed it. That somebody else has it is said only after a read barrier.

use std::time::Duration;

use prost::Message;
use setpoint_access::{FlowKey, Full, Share};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_objects::Object;
use setpoint_store::commit::{Commit, Op};
use setpoint_store::{Author, Hold, LeaseName, Rejection};
use setpoint_types::kinds::{LeaseSpec, LeaseStatus, LeaseWaiter};
use setpoint_types::{LeaseId, Timestamp, Uid};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::decide::{Step, Want, decide};
use super::object;
use super::queue;
use super::state::{Moment, Stored, object_key};
use super::wake::Wake;
use super::{CoordinationLimits, Coordinator, holder_name, lease_name, stopping};
use crate::access::Caller;
use crate::lease::Observed;
use crate::objects::Refusal;
use crate::objects::write::commit::{CommitError, Extra, Setback, setback};
use crate::objects::write::contents::Base;
use crate::objects::write::convert;
use crate::objects::write::options::Options;
use crate::replica::ProposeError;

/// Seconds.
const TTL_MAX: u32 = 3600;
/// How long the end of a hold that the leader no longer renews is waited for at a time.
const ENDING: Duration = Duration::from_millis(500);
/// How often one request enters the queue: again if it was dropped, as by a node whose clock is ahead.
const ENTRIES_MAX: usize = 4;

/// A request, checked.
struct Ask {
    lease: LeaseName,
    holder: String,
    /// Seconds; 0 leaves it to the object.
    ttl: u32,
    preferred: String,
    options: Options,
    deadline: Instant,
    /// How often it is decided anew after a lost race.
    attempts: usize,
}

impl Ask {
    fn new(
        request: pb::AcquireRequest,
        caller: &Caller,
        limits: &CoordinationLimits,
    ) -> Result<Self, Refusal> {
        if request.ttl_seconds > TTL_MAX {
            return Err(Refusal::invalid("ttl_seconds", format!("must be at most {TTL_MAX}")));
        }
        let wire = pb::WriteOptions {
            manager: object::MANAGER.to_owned(),
            operation: request.operation.clone(),
            ..Default::default()
        };
        let bytes = || [b"acquire", &request.encode_to_vec()[..]].concat();
        let options = Options::new(wire, caller, 0, bytes)?;
        let preferred = if request.preferred_holder.is_empty() {
            String::new()
        } else {
            holder_name(request.preferred_holder)?
        };
        let wait = Duration::from_millis(request.wait_ms.into()).min(limits.wait);
        // Whoever waits may meet everybody else who does, on the way in and on the way out.
        let others = if wait.is_zero() { 0 } else { 4 * limits.queue };
        Ok(Self {
            lease: lease_name(&request.namespace, &request.lease)?,
            holder: holder_name(request.holder)?,
            ttl: request.ttl_seconds,
            preferred,
            options,
            deadline: Instant::now() + wait,
            attempts: limits.attempts + others,
        })
    }

    fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

impl Coordinator {
    pub async fn acquire(
        &self,
        request: pb::AcquireRequest,
        caller: &Caller,
    ) -> Result<pb::AcquireResponse, Refusal> {
        let waits = request.wait_ms > 0;
        let ask = Ask::new(request, caller, &self.limits)?;
        if !waits {
            return self.attempt(&ask).await;
        }
        let place = self.waiting_place(caller)?;
        // In a task of its own, so that a requester that goes away does not leave its place behind.
        let (mut answer, answered) = oneshot::channel();
        let coordinator = self.clone();
        tokio::spawn(async move {
            let _place = place;
            let outcome = tokio::select! {
                outcome = coordinator.attempt(&ask) => outcome,
                () = answer.closed() => Err(stopping()),
                () = coordinator.stopping.cancelled() => Err(stopping()),
            };
            if outcome.is_err() {
                coordinator.give_up(&ask).await;
            }
            let _ = answer.send(outcome);
        });
        answered.await.unwrap_or_else(|_| Err(stopping()))
    }

    /// A place among those who wait. One client has a quarter of them at most, so that others can wait, too.
    fn waiting_place(&self, caller: &Caller) -> Result<Share, Refusal> {
        let client = FlowKey::of(Some(&caller.principal), caller.source.map(|source| source.ip()));
        let mut place = self.waiters.share(client);
        let text = match place.grow() {
            Ok(()) => return Ok(place),
            Err(Full::Client(most)) => {
                format!("{most} requests of yours wait for leases, which is the most; wait for one of them")
            }
            Err(Full::Node(_)) => {
                "more requests wait for leases than this node takes on; try again, or another node".to_owned()
            }
        };
        Err(Refusal::new(Reason::TooManyRequests, text))
    }

    async fn attempt(&self, ask: &Ask) -> Result<pb::AcquireResponse, Refusal> {
        let wake = Wake::new(self.writer.reader.hub.clone(), &ask.lease);
        let (mut attempts, mut entries, mut current) = (0, 0, false);
        while attempts < ask.attempts {
            let done = self.writer.done_before(&ask.options)?.is_some();
            let moment = self.moment(&ask.lease).await?;
            let want = Want {
                holder: &ask.holder,
                preferred: &ask.preferred,
                wait: ask.remaining(),
                done,
                may_enter: entries < ENTRIES_MAX,
            };
            let now = self.writer.clock.now();
            let step = decide(&moment, want, now);
            match step {
                Step::Keep(hold) => {
                    let ttl = self.keeper.renew(hold.id, Observed::new()).await?;
                    if ttl > 0 {
                        return Ok(answer(true, &moment));
                    }
                    // Its time is up: its end is on its way here.
                    attempts += 1;
                    let _ = timeout(ENDING, wake.changed()).await;
                }
                Step::Wait(time) => {
                    // Woken or not, the lease is looked at again.
                    let _ = timeout(time, wake.changed()).await;
                }
                // What is refused or denied must not be so because this node is behind.
                Step::Leave(None) if !current => {
                    self.writer.reader.barrier.pass().await?;
                    current = true;
                }
                Step::Leave(None) => return Ok(answer(false, &moment)),
                Step::Leave(Some(queue)) => {
                    attempts += 1;
                    self.requeue(ask, &moment, queue, now).await?;
                }
                Step::Take(queue) => {
                    attempts += 1;
                    if let Some(taken) = self.take(ask, &moment, queue, now).await? {
                        return Ok(taken);
                    }
                }
                Step::Enter(queue) => {
                    attempts += 1;
                    entries += usize::from(self.enter(ask, &moment, queue, now).await?);
                }
            }
        }
        Err(too_many_races())
    }

    /// Gives the lease to the requester. None if somebody was faster.
    async fn take(
        &self,
        ask: &Ask,
        moment: &Moment,
        queue: Vec<LeaseWaiter>,
        now: Timestamp,
    ) -> Result<Option<pb::AcquireResponse>, Refusal> {
        let (object, Base { mut guards, ops: base }) = self.object(ask, moment, now).await?;
        // Of an object that is made now, policies have had their say about what was asked for.
        let made = matches!(moment.object, Stored::Nothing);
        let ttl = if made || ask.ttl == 0 { object::spec(Some(&object)).ttl_seconds } else { ask.ttl };
        let Some(epoch) = moment.epoch.next() else {
            return Err(Refusal::new(Reason::Internal, "the lease has no epoch left; take another name"));
        };
        let (ttl, id) = (self.keeper.granted(ttl.into()), self.fresh_lease());
        let hold = Hold { holder: ask.holder.clone(), epoch, ttl, id };
        let status = object::taken(object::status(Some(&object)), &hold, queue, now);
        let value = convert::encoded(&mut object::with_status(&object, &status, now)?);
        guards.extend(moment.guards(&ask.lease));
        let bytes = value.len();
        let (lease, holder) = (ask.lease.clone(), ask.holder.clone());
        let mut ops = vec![
            Op::Hold { lease, holder, epoch, ttl, id },
            Op::Put { key: object_key(&ask.lease), value, lease: LeaseId::NONE },
        ];
        ops.extend(base);
        let (operation, author) = (ask.options.operation.clone(), Some(ask.options.author.clone()));
        match self.writer.commits.commit(Commit { operation, author, guards, ops }.into(), bytes).await {
            // Done by an earlier request: what became of it is seen by looking again.
            Ok(done) if done.repeated => Ok(None),
            Ok(done) => {
                let held = Moment { hold: Some(hold), epoch, hold_at: done.revision, ..moment.clone() };
                Ok(Some(answer(true, &held)))
            }
            Err(error) => raced(error, &ask.options).map(|()| None),
        }
    }

    async fn enter(
        &self,
        ask: &Ask,
        moment: &Moment,
        queue: Vec<LeaseWaiter>,
        now: Timestamp,
    ) -> Result<bool, Refusal> {
        if queue.len() > self.limits.queue {
            let most = self.limits.queue;
            let text = format!("{most} wait for this lease already, which is the most; try again later");
            return Err(Refusal::new(Reason::TooManyRequests, text));
        }
        self.requeue(ask, moment, queue, now).await
    }

    /// Writes the queue. False if somebody else was faster.
    async fn requeue(
        &self,
        ask: &Ask,
        moment: &Moment,
        queue: Vec<LeaseWaiter>,
        now: Timestamp,
    ) -> Result<bool, Refusal> {
        let (object, Base { mut guards, ops: base }) = self.object(ask, moment, now).await?;
        let status = LeaseStatus { queue, ..object::status(Some(&object)) };
        let value = convert::encoded(&mut object::with_status(&object, &status, now)?);
        guards.extend(moment.guards(&ask.lease));
        let bytes = value.len();
        let mut ops = vec![Op::Put { key: object_key(&ask.lease), value, lease: LeaseId::NONE }];
        ops.extend(base);
        // A place in the queue is not what was asked for: of all revisions only that of the hold is the operation's.
        let author = Author { operation: String::new(), ..ask.options.author.clone() };
        let commit = Commit { operation: None, author: Some(author), guards, ops };
        match self.writer.commits.commit(commit.into(), bytes).await {
            Ok(_) => Ok(true),
            Err(error) => raced(error, &ask.options).map(|()| false),
        }
    }

    /// Leaves the queue, if that is possible at once; else the place is lost at its deadline.
    async fn give_up(&self, ask: &Ask) {
        for _ in 0..self.limits.attempts {
            let Ok(moment) = self.moment(&ask.lease).await else { return };
            let now = self.writer.clock.now();
            let mut waiting = object::status(moment.object()).queue;
            let before = waiting.len();
            queue::leave(&mut waiting, &ask.holder);
            if waiting.len() == before || self.requeue(ask, &moment, waiting, now).await.is_err() {
                return;
            }
        }
    }

    /// The object that tells of the lease, new if there is none, and what a new one stands on.
    async fn object(&self, ask: &Ask, moment: &Moment, now: Timestamp) -> Result<(Object, Base), Refusal> {
        match &moment.object {
            Stored::Object(object) if object.metadata.deleted_ms.is_some() => {
                Err(object::deleting(&ask.lease))
            }
            Stored::Object(object) => Ok((Object::clone(object), Base::default())),
            Stored::Damaged => Err(object::damaged()),
            Stored::Nothing => {
                let ttl_seconds = if ask.ttl == 0 { LeaseSpec::default().ttl_seconds } else { ask.ttl };
                let spec = LeaseSpec { ttl_seconds, preferred_holder: ask.preferred.clone() };
                let uid = Uid::from_random((self.writer.draw)());
                let draft = || object::draft(&ask.lease, &spec, uid.as_str(), now);
                self.writer.make(object::kind(), draft, &ask.options).await
            }
        }
    }

    /// A positive number no etcd lease has. Should it be taken meanwhile, that is a race like any other.
    fn fresh_lease(&self) -> LeaseId {
        loop {
            let id = LeaseId(((self.writer.draw)() >> 65) as i64 | 1);
            if self.writer.reader.store.lease(id).is_none() {
                return id;
            }
        }
    }
}

fn answer(acquired: bool, moment: &Moment) -> pb::AcquireResponse {
    let hold = moment.hold.clone().unwrap_or_default();
    let epoch = if moment.hold.is_some() { hold.epoch } else { moment.epoch };
    pb::AcquireResponse {
        acquired,
        epoch: epoch.0,
        holder: hold.holder,
        ttl_seconds: u32::try_from(hold.ttl).unwrap_or(u32::MAX),
        revision: moment.hold_at.get(),
    }
}

/// Nothing, if a commit was refused because somebody else was faster; else what the requester is told.
pub fn raced(error: CommitError, options: &Options) -> Result<(), Refusal> {
    if let CommitError::Proposal(ProposeError::Rejected(
        Rejection::Guard { .. }
        | Rejection::NotFree { .. }
        | Rejection::NotHeld { .. }
        | Rejection::LeaseExists,
    )) = error
    {
        return Ok(());
    }
    match setback(error, options, &Extra::default()) {
        Setback::Race => Ok(()),
        Setback::Refused(refusal) => Err(refusal),
    }
}

pub fn too_many_races() -> Refusal {
    Refusal::new(Reason::Conflict, "others changed the lease faster than this request could; try again")
}
