//! What was told and is not written yet, as a state machine: the time and all randomness come in as arguments.
//!
//! ```text
//! tell ──▶ counted into the tally of its topic and variant ──due──▶ next ──▶ (written by somebody) ──▶ done
//! ```
//!
//! **The first of a reason.** A topic nobody told of yet (one object, one component, one reason) always gets a tally of its own. If
//! there is no room, topics that are written and have not been told of for the longest are forgotten; if there is none of these either,
//! the teller is asked to wait (`tell` gives back what it was given). A topic that was forgotten is a first again, and its record is
//! found by its name. Nothing else waits: repetitions are counted into the tally that is there, variants that find no room or come too
//! fast are counted as dropped on a tally of their topic.
//!
//! Not here: writing (`writer.rs`), waiting and metrics (`mod.rs`, `flush.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use setpoint_client::Backoff;
use setpoint_types::object::ObjectReference;

use super::settings::RecorderSettings;
use super::tally::{Delta, Known, Tallied, Told, Topic, Variant, name};
use super::writer::Sent;
use crate::queue::Moment;
use crate::queue::core::Bucket;

/// Which tally. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TallyId(u64);

/// One record.
struct Tally<T: Tallied> {
    topic: Arc<Topic>,
    namespace: String,
    name: String,
    spec: T::Spec,
    /// Counted since.
    pending: Delta<T::Latest>,
    /// Handed out to be written, and not confirmed. It stays as it is until it is, so that nothing is counted twice.
    sending: Option<Delta<T::Latest>>,
    /// Whether somebody is writing it now.
    under_way: bool,
    /// A write of `sending` of which nobody knows whether it was done.
    unsure: Option<Box<Sent<T>>>,
    known: Option<Known<T::Status>>,
    failures: u32,
    due: Option<Moment>,
}

/// All that is said of one topic.
struct Spoken {
    /// In the order they came: the first is the first of its reason.
    variants: Vec<(Variant, TallyId)>,
    touched: u64,
}

/// Somebody is to write this, and to tell how it went by [`Book::done`].
pub struct Job<T: Tallied> {
    pub id: TallyId,
    pub namespace: String,
    pub name: String,
    pub spec: T::Spec,
    pub delta: Delta<T::Latest>,
    pub known: Option<Known<T::Status>>,
    pub unsure: Option<Box<Sent<T>>>,
}

/// How a write went.
pub enum Wrote<T: Tallied> {
    Done(Known<T::Status>),
    /// It is to be tried again. If nobody knows whether it was done, the same is to be sent again.
    Failed {
        unsure: Option<Box<Sent<T>>>,
    },
    /// The server will never take it.
    Refused,
}

/// What is told of a kind, and not written yet.
///
/// **Guarantees**: no more than `tallies_max` tallies. What was told is, at every moment, once in what was handed out and confirmed, or
/// in what is in memory, or in [`Book::lost`].
pub struct Book<T: Tallied> {
    tallies: BTreeMap<TallyId, Tally<T>>,
    topics: BTreeMap<Arc<Topic>, Spoken>,
    /// Topics of which everything is written, the one told of least lately first.
    idle: BTreeMap<u64, Arc<Topic>>,
    due: BTreeSet<(Moment, TallyId)>,
    /// Of each component and object, and how many topics they have.
    buckets: BTreeMap<(Arc<str>, ObjectReference), (Bucket, usize)>,
    limits: Limits,
    sequence: u64,
    hurrying: bool,
    lost: u64,
}

struct Limits {
    tallies_max: usize,
    variants_room: usize,
    variants_max: usize,
    settle: Duration,
    object_interval: Duration,
    object_burst: u32,
    backoff: Backoff,
}

impl<T: Tallied> Book<T>
where
    T::Spec: Clone,
    T::Status: Clone,
{
    pub fn new(settings: &RecorderSettings) -> Self {
        let limits = Limits {
            tallies_max: settings.tallies_max.max(1),
            variants_room: settings.variants_room(),
            variants_max: settings.variants_max.max(1),
            settle: settings.settle(),
            object_interval: settings.object_interval(),
            object_burst: settings.object_burst,
            backoff: Backoff {
                first: Duration::from_millis(settings.backoff_first_ms),
                max: Duration::from_millis(settings.backoff_max_ms),
            },
        };
        Self {
            tallies: BTreeMap::new(),
            topics: BTreeMap::new(),
            idle: BTreeMap::new(),
            due: BTreeSet::new(),
            buckets: BTreeMap::new(),
            limits,
            sequence: 0,
            hurrying: false,
            lost: 0,
        }
    }

    /// Counts something, unless it is the first of its reason and there is no room: then it is given back, to be told again once
    /// something was written. Says whether it was counted or dropped.
    pub fn tell(&mut self, told: Box<Told<T>>, now: Moment) -> Result<Counted, Box<Told<T>>> {
        let Some(spoken) = self.topics.get(&told.topic) else { return self.tell_first(told, now) };
        let first = spoken.variants.first().map(|(_, id)| *id);
        let is_others = spoken.variants.len() >= self.limits.variants_max;
        let own = Variant::Class(told.class.clone());
        let find =
            |variant: &Variant| spoken.variants.iter().find(|(known, _)| known == variant).map(|(_, id)| *id);
        let variant = if is_others && find(&own).is_none() { Variant::Others } else { own };
        let (found, others) = (find(&variant), find(&Variant::Others));
        self.touch(&told.topic);
        if let Some(id) = found {
            self.count(id, *told, now);
            return Ok(Counted::Counted);
        }
        if self.has_token(&told.topic, now) && self.make_room(self.limits.variants_room) {
            self.open(*told, variant, now);
            return Ok(Counted::Counted);
        }
        if let Some(id) = others {
            self.count(id, *told, now);
            return Ok(Counted::Counted);
        }
        if let Some(id) = first {
            self.drop_on(id, now);
        }
        Ok(Counted::Dropped)
    }

    fn tell_first(&mut self, told: Box<Told<T>>, now: Moment) -> Result<Counted, Box<Told<T>>> {
        if !self.make_room(self.limits.tallies_max) {
            return Err(told);
        }
        self.sequence += 1;
        let topic = Arc::new(told.topic.clone());
        self.topics.insert(topic.clone(), Spoken { variants: Vec::new(), touched: self.sequence });
        let limits = &self.limits;
        let bucket = self
            .buckets
            .entry(subject(&topic))
            .or_insert_with(|| (Bucket::every(limits.object_interval, limits.object_burst), 0));
        bucket.1 += 1;
        // The first is written in any case; it counts against what follows.
        bucket.0.take(now).ok();
        let variant = Variant::Class(told.class.clone());
        self.open(*told, variant, now);
        Ok(Counted::Counted)
    }

    /// A new tally, to be written at once.
    fn open(&mut self, told: Told<T>, variant: Variant, now: Moment) {
        self.sequence += 1;
        let id = TallyId(self.sequence);
        let Some((topic, _)) = self.topics.get_key_value(&told.topic) else { return };
        let topic = topic.clone();
        let mut pending = Delta::default();
        pending.count(told.at, told.latest);
        let spec = match variant {
            Variant::Class(_) => told.spec,
            Variant::Others => T::together(told.spec),
        };
        let tally = Tally {
            name: name(&topic, &variant),
            namespace: told.namespace,
            topic: topic.clone(),
            spec,
            pending,
            sending: None,
            under_way: false,
            unsure: None,
            known: None,
            failures: 0,
            due: None,
        };
        self.tallies.insert(id, tally);
        if let Some(spoken) = self.topics.get_mut(&topic) {
            spoken.variants.push((variant, id));
        }
        self.schedule(id, now);
    }

    fn count(&mut self, id: TallyId, told: Told<T>, now: Moment) {
        let Some(tally) = self.tallies.get_mut(&id) else { return };
        tally.pending.count(told.at, told.latest);
        self.schedule(id, now.after(self.limits.settle));
    }

    fn drop_on(&mut self, id: TallyId, now: Moment) {
        let Some(tally) = self.tallies.get_mut(&id) else { return };
        tally.pending.dropped += 1;
        self.schedule(id, now.after(self.limits.settle));
    }

    /// The topic is no longer the one to forget.
    fn touch(&mut self, topic: &Topic) {
        self.sequence += 1;
        let Some(spoken) = self.topics.get_mut(topic) else { return };
        self.idle.remove(&spoken.touched);
        spoken.touched = self.sequence;
    }

    fn has_token(&mut self, topic: &Topic, now: Moment) -> bool {
        self.buckets.get_mut(&subject(topic)).is_none_or(|(bucket, _)| bucket.take(now).is_ok())
    }

    /// Whether there are fewer tallies than this, after idle topics were forgotten as needed.
    fn make_room(&mut self, tallies_max: usize) -> bool {
        while self.tallies.len() >= tallies_max {
            let Some((_, topic)) = self.idle.pop_first() else { return false };
            self.forget(&topic);
        }
        true
    }

    fn forget(&mut self, topic: &Topic) {
        let Some(spoken) = self.topics.remove(topic) else { return };
        for (_, id) in spoken.variants {
            self.tallies.remove(&id);
        }
        let subject = subject(topic);
        if let Some((_, topics)) = self.buckets.get_mut(&subject) {
            *topics -= 1;
            if *topics == 0 {
                self.buckets.remove(&subject);
            }
        }
    }

    /// What is under way is scheduled when it is done.
    fn schedule(&mut self, id: TallyId, at: Moment) {
        let Some(tally) = self.tallies.get_mut(&id) else { return };
        if tally.due.is_none() && !tally.under_way {
            tally.due = Some(at);
            self.due.insert((at, id));
        }
    }

    /// From now on nothing waits to be counted together or for its turn; only what failed waits before it is tried again. For a
    /// shutdown.
    pub fn hurry(&mut self, now: Moment) {
        self.limits.settle = Duration::ZERO;
        self.hurrying = true;
        let waiting = std::mem::take(&mut self.due);
        for (at, id) in waiting {
            let Some(tally) = self.tallies.get_mut(&id) else { continue };
            let at = if tally.failures == 0 { at.min(now) } else { at };
            tally.due = Some(at);
            self.due.insert((at, id));
        }
    }

    /// What is to be written now, if anything.
    pub fn next(&mut self, now: Moment) -> Option<Job<T>> {
        loop {
            let (at, id) = *self.due.first()?;
            if at > now {
                return None;
            }
            self.due.pop_first();
            let tally = self.tallies.get_mut(&id)?;
            tally.due = None;
            // What is new had its token when it came, and what is tried again when it was tried first.
            let needs_token = tally.known.is_some() && tally.sending.is_none();
            let bucket = self.buckets.get_mut(&subject(&tally.topic));
            if needs_token
                && !self.hurrying
                && let Some((bucket, _)) = bucket
                && let Err(later) = bucket.take(now)
            {
                self.schedule(id, later);
                continue;
            }
            tally.under_way = true;
            let delta = tally.sending.get_or_insert_with(|| std::mem::take(&mut tally.pending)).clone();
            return Some(Job {
                id,
                namespace: tally.namespace.clone(),
                name: tally.name.clone(),
                spec: tally.spec.clone(),
                delta,
                known: tally.known.clone(),
                unsure: tally.unsure.take(),
            });
        }
    }

    /// How a write went that was handed out. `fraction` is random, from 0 to 1.
    pub fn done(&mut self, id: TallyId, wrote: Wrote<T>, now: Moment, fraction: f64) {
        let Some(tally) = self.tallies.get_mut(&id) else { return };
        tally.under_way = false;
        let again = match wrote {
            Wrote::Done(known) => {
                tally.failures = 0;
                tally.known = Some(known);
                tally.sending = None;
                self.limits.settle
            }
            Wrote::Failed { unsure } => {
                let wait = self.limits.backoff.wait(tally.failures, fraction);
                tally.failures = tally.failures.saturating_add(1);
                tally.unsure = unsure;
                wait
            }
            Wrote::Refused => {
                self.lost += tally.sending.take().map_or(0, |delta| delta.told());
                tally.failures = 0;
                tally.known = None;
                self.limits.backoff.max
            }
        };
        if tally.sending.is_some() || !tally.pending.is_empty() {
            self.schedule(id, now.after(again));
        } else {
            let topic = tally.topic.clone();
            self.rest(&topic);
        }
    }

    /// A topic of which everything is written may be forgotten.
    fn rest(&mut self, topic: &Arc<Topic>) {
        let Some(spoken) = self.topics.get(topic) else { return };
        let is_clean = |id: &TallyId| {
            self.tallies.get(id).is_none_or(|it| it.sending.is_none() && it.pending.is_empty())
        };
        if spoken.variants.iter().all(|(_, id)| is_clean(id)) {
            self.idle.insert(spoken.touched, topic.clone());
        }
    }

    /// When there is something to write next; none if all is written or under way.
    pub fn next_due(&self) -> Option<Moment> {
        self.due.first().map(|(at, _)| *at)
    }

    pub fn len(&self) -> usize {
        self.tallies.len()
    }

    /// What is told and not confirmed.
    pub fn unwritten(&self) -> u64 {
        let told = |tally: &Tally<T>| tally.pending.told() + tally.sending.as_ref().map_or(0, Delta::told);
        self.tallies.values().map(told).sum()
    }

    /// What was told and will never be written: the server refused it, or there was no time left.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Something was told that nobody will write.
    pub fn lose(&mut self) {
        self.lost += 1;
    }

    /// Gives up what is not written.
    pub fn abandon(&mut self) {
        self.lost += self.unwritten();
        self.tallies.clear();
        self.topics.clear();
        self.idle.clear();
        self.due.clear();
        self.buckets.clear();
    }
}

/// What became of something that was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    Counted,
    /// Only that there was more is written.
    Dropped,
}

fn subject(topic: &Topic) -> (Arc<str>, ObjectReference) {
    (topic.component.clone(), topic.object.clone())
}

#[cfg(test)]
mod tests;
