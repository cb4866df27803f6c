//! The supervisor: one loop that has all replicas of the node in its care. It takes in what the server wants and what happens on the
//! host, steps each replica's life, writes down what has to survive, and only then does what the life says.
//!
//! - [`ward`]: one replica; [`wishes`]: what the server wants; [`effects`]: doing what a life says; [`push`]: telling the server
//! - [`adopt`]: what an agent before this one left, and what runs that no record tells of
//!
//! Nothing here waits: whatever takes time is a task whose result comes back to the loop. There is one task per effect of a replica,
//! and each replica has few.

mod adopt;
mod effects;
pub mod push;
mod ward;
mod wishes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use setpoint_client::Client;
use setpoint_runtime::cache::{Cache, Key};
use setpoint_types::Uid;
use setpoint_types::kinds::{Binding, Replica};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use self::push::{PushError, Pusher};
use self::ward::{Push, Told, Ward};
use self::wishes::Answer;
use crate::artifact::Fetcher;
use crate::clock::Clock;
use crate::lifecycle::{Grant, Input, Want};
use crate::machine::BootTime;
use crate::metrics::AgentMetrics;
use crate::node::hold::Held;
use crate::record::{Record, Records};
use crate::runtime::{Found, RunId, Runtime, Runtimes};

/// What the supervisor works with.
#[derive(Clone)]
pub struct Parts {
    pub node: String,
    /// Where others reach the ports of this node's replicas.
    pub host: String,
    pub client: Client,
    pub bindings: Cache<Binding>,
    pub replicas: Cache<Replica>,
    pub records: Records,
    pub runtimes: Arc<Runtimes>,
    pub fetcher: Fetcher,
    pub clock: Clock,
    pub metrics: Arc<AgentMetrics>,
    /// Processes and threads of a replica, at most.
    pub pids: Option<u64>,
    /// How long what an ended replica wrote is kept.
    pub keep_ended: Duration,
}

/// Between attempts of what failed.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// How often everything is looked at, whether something happened or not.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Ended replicas whose logs are kept, at most.
const ENDED_MAX: usize = 256;

/// Something that took time is over.
enum Event {
    Happened {
        uid: Uid,
        input: Input,
    },
    Told {
        uid: Uid,
        told: Told,
        result: Result<(), PushError>,
    },
    Confirmed {
        uid: Uid,
        answer: Answer,
    },
    /// What became of a run of before is known at last.
    Settled {
        uid: Uid,
        found: Found,
    },
    /// All runs of which something is left.
    Runs(Vec<Stray>),
    /// Runs that nobody knew of are gone.
    Cleared {
        uid: Uid,
    },
    /// Nothing is left of an ended replica.
    Forgotten {
        uid: Uid,
    },
    Nothing,
}

/// A run, and who has it.
type Stray = (Arc<dyn Runtime>, RunId);

/// The supervisor of a node.
pub struct Supervisor {
    parts: Parts,
    wards: BTreeMap<Uid, Ward>,
    tasks: JoinSet<Event>,
    lease: watch::Receiver<Option<Held>>,
    /// Of the Node object; none before it is registered.
    registered: watch::Receiver<Option<Uid>>,
    moved: Arc<Notify>,
    /// Replicas of before of which it is not known yet what became of them.
    unsettled: BTreeMap<Uid, Record>,
    /// Replicas of which something runs that no record tells of.
    strays: BTreeMap<Uid, Vec<Stray>>,
    clearing: BTreeSet<Uid>,
    /// What they left is being taken away.
    forgetting: BTreeSet<Uid>,
    /// The runtimes are being asked what they have.
    counting: bool,
    /// Until when the lease of the agent before was good.
    good_until: BootTime,
    looked: Option<BootTime>,
    /// Everything is to end here.
    ending: bool,
}

impl Supervisor {
    fn follow(&self) {
        for_changes(&self.parts.bindings, &self.moved);
        for_changes(&self.parts.replicas, &self.moved);
    }

    /// Until it is told to stop. What runs goes on, unless `end` says that it shall not: then until all of it has ended, or its time
    /// is up.
    pub async fn run(mut self, stop: CancellationToken, end: Option<Duration>) {
        let mut over: Option<BootTime> = None;
        loop {
            let now = self.parts.clock.now();
            if over.is_some_and(|over| over <= now.boot || self.all_released()) {
                return;
            }
            let wake = self.next_wake().into_iter().chain(over).min();
            let pause = wake.map_or(LOOK_EVERY, |wake| now.boot.until(wake)).min(LOOK_EVERY);
            tokio::select! {
                () = stop.cancelled(), if over.is_none() => match end {
                    None => return,
                    Some(limit) => {
                        over = Some(self.parts.clock.now().boot.after(limit));
                        self.ending = true;
                        self.end_all();
                    }
                },
                Some(done) = self.tasks.join_next(), if !self.tasks.is_empty() => match done {
                    Ok(event) => self.handle(event),
                    Err(error) => tracing::error!(%error, "a task has panicked"),
                },
                Ok(()) = self.lease.changed() => self.regrant(),
                Ok(()) = self.registered.changed() => self.sync(),
                () = self.moved.notified() => self.sync(),
                () = sleep(pause) => {}
            }
            self.tick();
        }
    }

    fn all_released(&self) -> bool {
        self.unsettled.is_empty() && self.wards.values().all(|ward| ward.told.released)
    }

    fn end_all(&mut self) {
        for uid in self.wards.keys().cloned().collect::<Vec<_>>() {
            self.step(&uid, Input::Want(Want::Stop));
        }
    }

    fn next_wake(&self) -> Option<BootTime> {
        let now = self.parts.clock.now();
        let lives = self.wards.values().filter_map(|ward| ward.life.wake_at(now));
        let pushes = self.wards.values().filter_map(|ward| match ward.push {
            Push::Retry(at) => Some(at),
            _ => None,
        });
        let unwritten = self.wards.values().any(|ward| !ward.unwritten.is_empty());
        lives.chain(pushes).chain(unwritten.then(|| now.boot.after(TRY_AGAIN))).min()
    }

    /// What is due by the time.
    fn tick(&mut self) {
        let now = self.parts.clock.now();
        let is_due = |ward: &Ward| {
            !ward.unwritten.is_empty()
                || matches!(ward.push, Push::Retry(at) if at <= now.boot)
                || ward.life.wake_at(now).is_some_and(|at| at <= now.boot)
        };
        let due: Vec<Uid> =
            self.wards.values().filter(|ward| is_due(ward)).map(|ward| ward.uid().clone()).collect();
        for uid in due {
            self.step(&uid, Input::Tick);
        }
        if self.looked.is_none_or(|looked| looked.after(LOOK_EVERY) <= now.boot) {
            self.looked = Some(now.boot);
            self.sync();
            self.forget();
            self.count();
        }
    }

    /// How long exclusive replicas may be there has changed.
    fn regrant(&mut self) {
        let Some(held) = self.lease.borrow_and_update().clone() else { return };
        let exclusive = self.wards.values().filter(|ward| ward.life.rules().exclusive);
        let grants: Vec<(Uid, Grant)> =
            exclusive.map(|ward| (ward.uid().clone(), ward.grant(&held))).collect();
        for (uid, grant) in grants {
            self.step(&uid, Input::Grant(grant));
        }
        self.sync();
        for uid in self.wards.keys().cloned().collect::<Vec<_>>() {
            self.tell(&uid);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Happened { uid, input } => {
                if let Input::Started { number, result: Ok(()) } = &input {
                    self.watch_over(&uid, *number);
                }
                self.step(&uid, input);
            }
            Event::Told { uid, told, result } => self.was_told(&uid, told, result),
            Event::Confirmed { uid, answer } => self.confirmed(&uid, answer),
            Event::Settled { uid, found } => self.settled(&uid, found),
            Event::Runs(runs) => self.counted(runs),
            Event::Forgotten { uid } => {
                self.forgetting.remove(&uid);
            }
            Event::Cleared { uid } => {
                self.clearing.remove(&uid);
                self.strays.remove(&uid);
                self.sync();
            }
            Event::Nothing => {}
        }
    }

    /// Steps a life, writes down what has to survive, does what it says, and tells the server.
    fn step(&mut self, uid: &Uid, input: Input) {
        let now = self.parts.clock.now();
        let Some(ward) = self.wards.get_mut(uid) else { return };
        let mut effects = std::mem::take(&mut ward.unwritten);
        effects.extend(ward.life.step(input, now));
        if *ward.life.memory() != ward.record.memory && !ward.refused {
            let record = Record { memory: ward.life.memory().clone(), ..ward.record.clone() };
            if let Err(error) = self.parts.records.save(&record) {
                tracing::error!(replica = record.name, %error, "a record cannot be written: trying again");
                ward.unwritten = effects;
                return;
            }
            ward.record = record;
        }
        for effect in effects {
            effects::perform(self, uid, effect);
        }
        self.tell(uid);
    }

    /// Tells the server what it does not know, one thing at a time.
    fn tell(&mut self, uid: &Uid) {
        let now = self.parts.clock.now();
        let Some(held) = self.lease.borrow().clone() else { return };
        let Some(ward) = self.wards.get_mut(uid) else { return };
        let is_free = match ward.push {
            Push::Idle => true,
            Push::UnderWay => false,
            Push::Retry(at) => at <= now.boot,
        };
        if !is_free {
            return;
        }
        let Some(wanted) = ward.news() else { return };
        if ward.given_back && ward.life.is_over() {
            self.was_told(uid, wanted, Ok(()));
            return;
        }
        ward.push = Push::UnderWay;
        let pusher = Pusher {
            client: self.parts.client.with_fence(held.fence),
            replicas: self.parts.replicas.clone(),
            bindings: self.parts.bindings.clone(),
        };
        let (uid, record) = (uid.clone(), ward.record.clone());
        self.tasks.spawn(async move {
            let result = pusher.push(&record, &wanted, now.wall).await;
            Event::Told { uid, told: wanted, result }
        });
    }

    fn was_told(&mut self, uid: &Uid, told: Told, result: Result<(), PushError>) {
        let now = self.parts.clock.now();
        let Some(ward) = self.wards.get_mut(uid) else { return };
        match result {
            Ok(()) => {
                ward.push = Push::Idle;
                let newly_accepted = told.accepted && !ward.told.accepted;
                let released = told.released;
                ward.told = told;
                if released && !ward.refused {
                    ward.record.released = Some(now.wall);
                    if let Err(error) = self.parts.records.save(&ward.record) {
                        tracing::error!(%error, "a record cannot be written: its release will be asked for again");
                    }
                }
                if newly_accepted {
                    self.step(uid, Input::Accepted);
                } else {
                    self.tell(uid);
                }
            }
            Err(error) => {
                self.parts.metrics.push_failures.inc();
                tracing::warn!(replica = ward.record.name, error = %chain(&error), "the server could not be told");
                ward.push = Push::Retry(now.boot.after(TRY_AGAIN));
            }
        }
    }

    /// Takes away what ended replicas left, once nobody looks at it any more.
    fn forget(&mut self) {
        let now = self.parts.clock.now();
        let known = self.parts.replicas.revision().is_some();
        let mut ended: Vec<(u64, Uid, bool)> = Vec::new();
        for ward in self.wards.values().filter(|ward| ward.told.released) {
            let released = ward.record.released.map_or(0, |at| at.0);
            let key = Key::new(&ward.record.namespace, &ward.record.name);
            let is_gone = known && self.parts.replicas.get(&key).is_none();
            let age = Duration::from_millis(now.wall.0.saturating_sub(released));
            ended.push((released, ward.uid().clone(), is_gone || age >= self.parts.keep_ended));
        }
        ended.sort();
        let too_many = ended.len().saturating_sub(ENDED_MAX);
        for (place, (_, uid, is_due)) in ended.into_iter().enumerate() {
            if !is_due && place >= too_many {
                continue;
            }
            let Some(ward) = self.wards.remove(&uid) else { continue };
            if !ward.refused {
                // Older ones went when the next was begun.
                let last = ward.record.memory.number;
                let runs = (last.saturating_sub(2).max(1)..=last).map(|number| ward.run_id(number)).collect();
                let runtime = self.parts.runtimes.of(ward.record.spec.template.image.is_some());
                self.forgetting.insert(uid.clone());
                self.tasks.spawn(effects::forget(self.parts.records.clone(), runtime, uid, runs));
            }
        }
        self.parts.metrics.show(self.wards.values().map(|ward| ward.life.report().stage));
    }
}

fn for_changes<K: setpoint_client::Shape>(cache: &Cache<K>, moved: &Arc<Notify>) {
    let moved = Arc::downgrade(moved);
    cache.observe(Box::new(move |_| {
        if let Some(moved) = moved.upgrade() {
            moved.notify_one();
        }
    }));
}

/// An error with all its causes, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}
