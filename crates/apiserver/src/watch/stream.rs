//! One watch stream: many watches, one task, one ordered output.
//!
//! The task takes what the hub has for it, reads a slice of history for watches that are behind, and otherwise waits. All
//! output passes through one bounded channel in order, so a progress notification can promise that everything up to its
//! revision was sent (invariant S10). While the client does not read, the task waits and holds only revisions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use setpoint_access::{Share, key_watch};
use setpoint_store::{EngineFailure, KeyValue, ReadFailure, Rejection, Store};
use setpoint_types::Revision;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::hub::{Hub, Load, Taken};
use super::ring::{PreviousMissing, Published};
use super::router::Slot;
use super::watcher::{State, WatchId, WatchSpec, Watcher};
use super::watches::Watches;
use crate::access::{Denied, Standing};
use crate::load::sentence;

/// What a client sends on the stream.
#[derive(Debug)]
pub enum Command {
    Create {
        /// Chosen by the client, or none to have one assigned.
        id: Option<WatchId>,
        spec: WatchSpec,
    },
    /// A create request that cannot be served; it is answered in its turn.
    Refuse {
        reason: String,
    },
    Cancel {
        id: WatchId,
    },
    Progress,
}

/// What the stream answers.
#[derive(Debug)]
pub enum Output {
    Created {
        id: WatchId,
        revision: Revision,
    },
    Refused {
        reason: String,
        revision: Revision,
    },
    Events {
        id: WatchId,
        revision: Revision,
        events: Vec<Event>,
        fragment: bool,
    },
    Canceled {
        id: WatchId,
        revision: Revision,
    },
    /// A compaction overtook the watch; its changes are no longer to be had.
    Compacted {
        id: WatchId,
        compacted: Revision,
    },
    /// Whoever watches may do so no longer.
    Denied {
        id: WatchId,
        denied: Denied,
    },
    /// Everything up to the revision was sent; of one watch, or of the whole stream.
    Progress {
        id: Option<WatchId>,
        revision: Revision,
    },
    /// The stream ends, and the client should go on elsewhere.
    Ended(StreamEnd),
}

#[derive(Clone, Debug)]
pub struct Event {
    pub deleted: bool,
    pub current: KeyValue,
    pub previous: Option<KeyValue>,
}

#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// Between two progress notifications of a quiet watch.
    pub progress_interval: Duration,
    /// An answer takes no further revision beyond this.
    pub response_bytes: usize,
    /// Watches one stream may have.
    pub watches_max: usize,
}

pub struct WatchStream {
    hub: Arc<Hub>,
    store: Arc<Store>,
    slot: Slot,
    wake: Arc<Notify>,
    options: StreamOptions,
    watches: Watches,
    /// Ids of watches that a compaction ended, or that are no longer allowed. A client that has not read that yet may cancel them, so they are not
    /// given out anew before it does.
    ended: BTreeSet<WatchId>,
    next_id: WatchId,
    /// Everything up to here was taken from the hub and sent.
    sent: Revision,
    output: mpsc::Sender<Output>,
    reported: Load,
    /// What its client has of the node's watches; none if nobody counts.
    share: Option<Share>,
    /// That its client may watch at all, which may end before the stream does.
    standing: Standing,
}

/// Why the task ended.
#[derive(Debug, thiserror::Error)]
pub enum StreamEnd {
    #[error("the client left")]
    ClientGone,
    #[error("there is no leader, and the client asked not to be served without one")]
    NoLeader,
    #[error(transparent)]
    Storage(#[from] EngineFailure),
}

type Flow = Result<(), StreamEnd>;

impl WatchStream {
    pub fn new(
        hub: Arc<Hub>,
        store: Arc<Store>,
        options: StreamOptions,
        output: mpsc::Sender<Output>,
    ) -> Self {
        let wake = Arc::new(Notify::new());
        let slot = hub.open_stream(wake.clone());
        let sent = hub.newest();
        Self {
            hub,
            store,
            slot,
            wake,
            options,
            watches: Watches::default(),
            ended: BTreeSet::new(),
            next_id: 0,
            sent,
            output,
            reported: Load::default(),
            share: None,
            standing: Standing::default(),
        }
    }

    /// Its watches count as its client's.
    pub fn counted(mut self, share: Share) -> Self {
        self.share = Some(share);
        self
    }

    /// Its watches last only as long as its client may have them.
    pub fn guarded(mut self, standing: Standing) -> Self {
        self.standing = standing;
        self
    }

    /// Serves the stream until the client leaves. When the client stops sending, its watches go on.
    pub async fn run<E>(mut self, commands: impl Stream<Item = Result<Command, E>>) -> StreamEnd {
        let mut commands = std::pin::pin!(commands.fuse());
        let mut sending = true;
        let output = self.output.clone();
        let first = Instant::now() + self.options.progress_interval;
        let mut progress = interval_at(first, self.options.progress_interval);
        progress.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let behind = match self.advance().await {
                Ok(behind) => behind,
                Err(end) => return end,
            };
            let (wake, look_again) = (self.wake.clone(), self.standing.look_again());
            let flow = tokio::select! {
                biased;
                () = output.closed() => Err(StreamEnd::ClientGone),
                command = commands.next(), if sending => match command {
                    Some(Ok(command)) => self.command(command).await,
                    Some(Err(_)) => Err(StreamEnd::ClientGone),
                    None => { sending = false; Ok(()) }
                },
                _ = progress.tick() => self.notify_progress().await,
                () = wake.notified() => Ok(()),
                () = sleep_until(look_again.unwrap_or(first)), if look_again.is_some() => Ok(()),
                () = tokio::task::yield_now(), if behind => Ok(()),
            };
            if let Err(end) = flow {
                return end;
            }
        }
    }

    async fn command(&mut self, command: Command) -> Flow {
        match command {
            Command::Create { id, spec } => self.create(id, spec).await,
            Command::Refuse { reason } => self.refuse(reason).await,
            Command::Cancel { id } => {
                if self.remove(id) || self.ended.remove(&id) {
                    let revision = self.hub.newest();
                    self.send(Output::Canceled { id, revision }).await?;
                }
                Ok(())
            }
            Command::Progress => self.answer_progress().await,
        }
    }

    async fn refuse(&mut self, reason: String) -> Flow {
        let revision = self.hub.newest();
        self.send(Output::Refused { reason, revision }).await
    }

    async fn create(&mut self, id: Option<WatchId>, spec: WatchSpec) -> Flow {
        if id.is_some_and(|id| self.is_taken(id)) {
            return self.refuse("mvcc: duplicate watch ID provided on the WatchStream".to_owned()).await;
        }
        if self.watches.len() >= self.options.watches_max {
            return self
                .refuse(format!("the stream has {} watches, its most; open another", self.watches.len()))
                .await;
        }
        if let Some(Err(full)) = self.share.as_mut().map(Share::grow) {
            let why = sentence(full, "watches", "max-watches");
            return self.refuse(format!("etcdserver: too many requests; {why}")).await;
        }
        let id = id.unwrap_or_else(|| self.free_id());
        let newest = self.hub.watch(self.slot, &spec.range);
        let next = spec.start.unwrap_or(newest.successor());
        let state = if next > newest { State::Live } else { State::Behind };
        self.watches.insert(id, Watcher { spec, next, state, active: false });
        self.send(Output::Created { id, revision: newest }).await?;
        let compacted = self.store.compacted();
        // Refused although the ring may still hold it: what is compacted cannot be watched, on any node.
        if next.wire() < compacted {
            return self.cancel_compacted(id, Revision::new(compacted.max(0) as u64)).await;
        }
        Ok(())
    }

    fn free_id(&mut self) -> WatchId {
        while self.is_taken(self.next_id) {
            self.next_id += 1;
        }
        self.next_id += 1;
        self.next_id - 1
    }

    fn is_taken(&self, id: WatchId) -> bool {
        self.watches.contains(id) || self.ended.contains(&id)
    }

    fn remove(&mut self, id: WatchId) -> bool {
        let Some(watcher) = self.watches.remove(id) else { return false };
        self.hub.unwatch(self.slot, &watcher.spec.range);
        self.share.iter_mut().for_each(Share::shrink);
        true
    }

    /// Sends what there is to send. True if some watch still has history to read.
    async fn advance(&mut self) -> Result<bool, StreamEnd> {
        self.cancel_denied().await?;
        self.deliver().await?;
        self.hand_over();
        self.report();
        let Some(from) = self.watches.first_behind() else { return Ok(false) };
        self.catch_up(from).await?;
        Ok(true)
    }

    fn report(&mut self) {
        let load = Load { watchers: self.watches.len(), behind: self.watches.behind() };
        if load != self.reported {
            self.reported = load;
            self.hub.report(self.slot, load);
        }
    }

    /// Passes on what the hub has for the watches that keep up.
    async fn deliver(&mut self) -> Flow {
        match self.hub.take(self.slot) {
            Taken::Changes { sets, until } => {
                self.distribute(&sets, until, false).await?;
                self.watches.settle();
                self.sent = until;
            }
            Taken::Behind { from } => self.watches.fall_behind(from, self.sent),
        }
        Ok(())
    }

    /// Lets watches whose next revision the ring holds keep up from there.
    fn hand_over(&mut self) {
        if self.watches.hand_over(|next| self.hub.resume(self.slot, next)) {
            self.wake.notify_one();
        }
    }

    /// Reads one slice of history for the watches that are behind.
    async fn catch_up(&mut self, from: Revision) -> Flow {
        let (store, bytes) = (self.store.clone(), self.options.response_bytes);
        // Looked at before the read: what is published meanwhile may be missing from it.
        let published = self.hub.newest();
        let read = tokio::task::spawn_blocking(move || store.changes(from, bytes)).await;
        let sets = match read {
            Ok(Ok(sets)) => sets,
            Ok(Err(ReadFailure::Engine(failure))) => return Err(failure.into()),
            Ok(Err(ReadFailure::Rejected(Rejection::Compacted { oldest }))) => {
                return self.cancel_below(oldest).await;
            }
            // The store refuses history for no other reason; a cancelled read means that the node stops.
            Ok(Err(_)) | Err(_) => return Err(StreamEnd::ClientGone),
        };
        let Some(last) = sets.last().map(|set| set.revision) else {
            self.watches.skip_to(published.successor());
            return Ok(());
        };
        let sets: Vec<_> = sets.into_iter().map(|set| Arc::new(self.hub.shelved(set))).collect();
        self.distribute(&sets, published.max(last), true).await?;
        self.watches.skip_to(last.successor());
        Ok(())
    }

    async fn cancel_below(&mut self, compacted: Revision) -> Flow {
        for id in self.watches.overtaken(compacted) {
            self.cancel_compacted(id, compacted).await?;
        }
        Ok(())
    }

    /// Ends the watches that their client may no longer have (A13).
    async fn cancel_denied(&mut self) -> Flow {
        if !self.standing.is_in_doubt() {
            return Ok(());
        }
        let (standing, mut ended) = (&self.standing, Vec::new());
        for (id, watcher) in self.watches.iter_mut() {
            if let Err(denied) = standing.check(|| key_watch(&watcher.spec.range)) {
                ended.push((id, denied));
            }
        }
        for (id, denied) in ended {
            self.end(id);
            self.send(Output::Denied { id, denied }).await?;
        }
        Ok(())
    }

    async fn cancel_compacted(&mut self, id: WatchId, compacted: Revision) -> Flow {
        self.end(id);
        self.send(Output::Compacted { id, compacted }).await
    }

    /// Removes a watch whose client has not asked for that.
    fn end(&mut self, id: WatchId) {
        self.remove(id);
        // A client that never cancels them must not make us remember more ids than it may have watches.
        if self.ended.len() >= self.options.watches_max {
            self.ended.pop_first();
        }
        self.ended.insert(id);
    }

    /// Gives each watch (that reads history, or that does not) its share of the changes.
    async fn distribute(&mut self, sets: &[Arc<Published>], revision: Revision, behind: bool) -> Flow {
        let mut rest = sets;
        while !rest.is_empty() {
            let shares = self.watches.shares(rest, behind);
            for (id, places) in shares.places {
                let share: Vec<_> = places.into_iter().map(|place| &rest[place]).collect();
                self.distribute_to(id, &share, revision).await?;
            }
            rest = &rest[shares.looked_at..];
        }
        Ok(())
    }

    async fn distribute_to(&mut self, id: WatchId, share: &[&Arc<Published>], revision: Revision) -> Flow {
        let mut rest = share;
        while !rest.is_empty() {
            let Some(watcher) = self.watches.get_mut(id) else { return Ok(()) };
            watcher.next = watcher.next_after(self.sent);
            let (mut events, mut bytes) = (Vec::new(), 0);
            while let Some((set, tail)) = rest.split_first()
                && bytes < self.options.response_bytes
            {
                let before = events.len();
                match watcher.events(set, &self.store, &mut events) {
                    Ok(()) => {}
                    Err(PreviousMissing::Storage(failure)) => return Err(failure.into()),
                    Err(PreviousMissing::Collected) => {
                        let compacted = Revision::new(self.store.compacted().max(0) as u64);
                        return self.cancel_compacted(id, compacted).await;
                    }
                }
                bytes += events[before..].iter().map(Event::bytes).sum::<usize>();
                rest = tail;
            }
            if !events.is_empty() {
                watcher.active = true;
                let fragment = watcher.spec.fragment;
                self.send(Output::Events { id, revision, events, fragment }).await?;
            }
        }
        Ok(())
    }

    /// Answers for the whole stream, if every watch of it keeps up. Otherwise nothing: the client asks again.
    async fn answer_progress(&mut self) -> Flow {
        self.deliver().await?;
        let revision = self.sent;
        if !self.watches.is_empty() && self.watches.iter().all(|watcher| watcher.has_reached(revision)) {
            self.send(Output::Progress { id: None, revision }).await?;
        }
        Ok(())
    }

    async fn notify_progress(&mut self) -> Flow {
        self.deliver().await?;
        let revision = self.sent;
        let mut due = Vec::new();
        for (id, watcher) in self.watches.iter_mut() {
            let quiet = !std::mem::take(&mut watcher.active);
            if watcher.spec.progress && quiet && watcher.has_reached(revision) {
                due.push(id);
            }
        }
        for id in due {
            self.send(Output::Progress { id: Some(id), revision }).await?;
        }
        Ok(())
    }

    async fn send(&mut self, output: Output) -> Flow {
        self.output.send(output).await.map_err(|_| StreamEnd::ClientGone)
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        for watcher in self.watches.iter() {
            self.hub.unwatch(self.slot, &watcher.spec.range);
        }
        self.hub.close_stream(self.slot);
    }
}

impl Event {
    fn bytes(&self) -> usize {
        let size = |kv: &KeyValue| kv.key.len() + kv.value.len() + 32;
        size(&self.current) + self.previous.as_ref().map_or(0, size)
    }
}
