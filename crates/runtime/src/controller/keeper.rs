//! Read your writes: holds back the end of a run until the caches have seen what it wrote.
//!
//! For the queue a key runs until then, so it is not handed out again, its changes are remembered, and its backoff is kept; no
//! worker waits. One task lets go of keys as the caches come further. After a write of unknown outcome it reads a revision that
//! is surely later, and waits for that one. Not here: which key waits for what (`parking.rs`, `cache/expectations.rs`).

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, OptionFuture};
use parking_lot::Mutex;
use setpoint_client::{Client, Error, ListOptions, Scope};
use setpoint_types::{ObjectKey, Revision};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::feed::Feed;
use super::parking::Parking;
use super::settings::Options;
use crate::cache::{Expectations, Key};
use crate::informer::Informers;
use crate::queue::{Outcome, Running};

/// Between two reads of the present revision that fail.
const READ_AGAIN: Duration = Duration::from_secs(1);

pub(super) struct Keeper {
    pub expectations: Arc<Expectations>,
    informers: Informers,
    feed: Arc<Feed>,
    present: Present,
    visible_within: Duration,
    parking: Mutex<Parking<Ended>>,
    /// Something was parked.
    parked: Notify,
}

/// A run that has ended, but for the queue.
struct Ended {
    running: Running<Key>,
    outcome: Outcome,
    key: ObjectKey,
    since: Instant,
}

/// Reads what the present revision of the cluster is.
pub(super) struct Present {
    pub client: Client,
    pub kind: Arc<str>,
    pub scope: Scope,
}

impl Present {
    /// One that every write acknowledged before is not later than.
    pub async fn read(&self) -> Result<Revision, Error> {
        let one = ListOptions { page: 1, ..ListOptions::default() };
        let api = self.client.shaped::<setpoint_client::Partial<()>>(&self.kind, self.scope.clone());
        Ok(api.list(&one).await?.revision)
    }

    /// The same, however long it takes.
    pub async fn wait(&self) -> Revision {
        loop {
            match self.read().await {
                Ok(revision) => return revision,
                Err(error) => {
                    tracing::debug!(kind = &*self.kind, %error, "the present revision is not known")
                }
            }
            sleep(READ_AGAIN).await;
        }
    }
}

impl Keeper {
    pub fn new(informers: Informers, feed: Arc<Feed>, present: Present, options: &Options) -> Arc<Self> {
        let visible_within = options.visible_within();
        let (expectations, parking, parked) = (Arc::default(), Mutex::default(), Notify::new());
        Arc::new(Self { expectations, informers, feed, present, visible_within, parking, parked })
    }

    pub fn present(&self) -> &Present {
        &self.present
    }

    /// A run has ended: the queue is told when the caches have seen what it wrote. `in_doubt`: it may have written what nobody
    /// told of.
    pub fn settle(&self, running: Running<Key>, outcome: Outcome, in_doubt: bool) {
        let key = running.key().of_kind(&self.feed.primary.kind);
        let ended = Ended { running, outcome, key, since: Instant::now() };
        if in_doubt {
            let mut parking = self.parking.lock();
            parking.park_in_doubt(ended);
            self.note(&parking);
            self.parked.notify_one();
        } else if self.finish_or_park(ended) {
            self.parked.notify_one();
        }
    }

    /// True if it has to wait.
    fn finish_or_park(&self, ended: Ended) -> bool {
        match self.expectations.pending(&ended.key, |kind| self.informers.seen(kind)) {
            None => ended.running.finish(ended.outcome),
            Some(pending) => {
                let mut parking = self.parking.lock();
                parking.park(pending, ended);
                self.note(&parking);
                return true;
            }
        }
        false
    }

    fn note(&self, parking: &Parking<Ended>) {
        self.feed.counters.parked.set(i64::try_from(parking.len()).unwrap_or(i64::MAX));
    }

    /// Lets go of keys as the caches come further, until it is told to stop; then of all.
    pub async fn run(&self, stop: CancellationToken) {
        let mut reading: Option<(Vec<Ended>, BoxFuture<'_, Revision>)> = None;
        let mut changes = self.feed.ownership.changes();
        // To look through all of them whenever a cache moves would cost more than it finds.
        let mut check_at = Instant::now() + self.visible_within;
        loop {
            let moved = self.informers.moved().notified();
            tokio::pin!(moved);
            // From here on no movement is missed.
            moved.as_mut().enable();
            self.release();
            let is_time = Instant::now() >= check_at;
            if is_time {
                check_at = Instant::now() + self.visible_within;
            }
            if reading.is_none() && (self.parking.lock().has_doubts() || is_time && self.any_overdue()) {
                let asking = self.parking.lock().take_doubts();
                reading = Some((asking, Box::pin(self.present.wait())));
            }
            let waits = self.parking.lock().len() > 0;
            let read: OptionFuture<_> = reading.as_mut().map(|(_, read)| read).into();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Ok(()) = changes.changed() => self.drop_lost(),
                Some(present) = read => {
                    let asked = reading.take().map(|(asked, _)| asked).unwrap_or_default();
                    self.learn(asked, present);
                }
                () = moved, if waits => {}
                () = self.parked.notified() => {}
                () = sleep_until(check_at), if waits => {}
            }
        }
        let left = self.parking.lock().take_if(|_, _| true);
        left.into_iter().for_each(|ended| ended.running.finish(ended.outcome));
    }

    fn release(&self) {
        let reached = {
            let mut parking = self.parking.lock();
            let reached = parking.take_reached(|kind| self.informers.seen(kind));
            self.note(&parking);
            reached
        };
        // Something else of theirs may not have been seen.
        for ended in reached {
            self.finish_or_park(ended);
        }
    }

    /// Somebody waits for suspiciously long.
    fn any_overdue(&self) -> bool {
        let now = Instant::now();
        let overdue = |ended: &Ended| now.duration_since(ended.since) >= self.visible_within;
        self.parking.lock().iter().any(overdue)
    }

    /// Whatever those in doubt wrote is not later than `present`, unless it is still under way. Whoever waits for something
    /// later than `present` waits for what is no longer there: the cluster was restored from a backup.
    fn learn(&self, asked: Vec<Ended>, present: Revision) {
        for ended in asked {
            for kind in self.informers.kinds() {
                self.expectations.wrote(&ended.key, &kind, present);
            }
            self.finish_or_park(ended);
        }
        let now = Instant::now();
        let stranded = {
            let mut parking = self.parking.lock();
            let is_stranded = |ended: &Ended, until: Option<Revision>| {
                let is_overdue = now.duration_since(ended.since) >= self.visible_within;
                is_overdue && until.is_some_and(|until| until > present)
            };
            parking.take_if(is_stranded)
        };
        for ended in stranded {
            self.expectations.forget(&ended.key);
            ended.running.finish(ended.outcome);
        }
    }

    /// Keys of shards that are another's now are not waited for.
    fn drop_lost(&self) {
        let lost = self.parking.lock().take_if(|ended, _| !self.feed.works_on(ended.running.key()));
        for ended in lost {
            self.expectations.forget(&ended.key);
            ended.running.finish(Outcome::Done);
        }
    }
}
