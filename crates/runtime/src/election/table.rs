//! Which shards this process has, as the driver says and the workers ask.

use parking_lot::Mutex;
use setpoint_types::object::Fence;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::claim::Claim;
use super::shard::ShardId;

/// Shared by the driver, which writes it, and all who work.
pub(super) struct Table {
    rows: Mutex<Vec<Option<Row>>>,
    changes: watch::Sender<u64>,
    /// Tells the driver that there is something in the table to look at.
    wake: Notify,
}

/// A shard that is held.
struct Row {
    claim: Claim,
    running: usize,
    /// No run begins.
    closed: bool,
    /// A write was refused for want of it.
    fenced: bool,
}

/// What the driver should know.
pub(super) enum News {
    /// The last run on a closed shard has ended.
    Drained(ShardId, Fence),
    Fenced(ShardId, Fence),
}

impl Table {
    pub fn new(shards: u32) -> Self {
        let rows = Mutex::new((0..shards).map(|_| None).collect());
        Self { rows, changes: watch::Sender::new(0), wake: Notify::new() }
    }

    /// Counts gains and losses.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub fn grant(&self, shard: ShardId, fence: Fence, until: Instant) {
        let claim = Claim::new(shard, fence, until);
        let row = Row { claim, running: 0, closed: false, fenced: false };
        self.rows.lock()[shard.index()] = Some(row);
        self.changed();
    }

    pub fn extend(&self, shard: ShardId, until: Instant) {
        if let Some(row) = &self.rows.lock()[shard.index()] {
            row.claim.term().extend(until);
        }
    }

    /// Closes a shard to new runs, or opens it again.
    pub fn close(&self, shard: ShardId, closed: bool) {
        if let Some(row) = &mut self.rows.lock()[shard.index()] {
            row.closed = closed;
        }
        self.changed();
        self.wake.notify_one();
    }

    pub fn revoke(&self, shard: ShardId) {
        if let Some(row) = self.rows.lock()[shard.index()].take() {
            row.claim.term().end();
        }
        self.changed();
    }

    pub fn revoke_all(&self) {
        let rows: Vec<Row> = self.rows.lock().iter_mut().filter_map(Option::take).collect();
        for row in &rows {
            row.claim.term().end();
        }
        if !rows.is_empty() {
            self.changed();
        }
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// The claim to a shard on which runs may begin.
    pub fn claim(&self, shard: ShardId, now: Instant) -> Option<Claim> {
        open(&mut self.rows.lock()[shard.index()], now).map(|row| row.claim.clone())
    }

    pub fn held(&self, now: Instant) -> Vec<Claim> {
        self.rows.lock().iter_mut().filter_map(|row| open(row, now)).map(|row| row.claim.clone()).collect()
    }

    /// Counts a run, if one may begin.
    pub fn begin_run(&self, shard: ShardId, now: Instant) -> Option<Claim> {
        let mut rows = self.rows.lock();
        let row = open(&mut rows[shard.index()], now)?;
        row.running += 1;
        Some(row.claim.clone())
    }

    pub fn end_run(&self, claim: &Claim) {
        let mut rows = self.rows.lock();
        if let Some(row) = same(&mut rows[claim.shard.index()], claim) {
            row.running -= 1;
            if row.running == 0 && row.closed {
                self.wake.notify_one();
            }
        }
    }

    pub fn fenced(&self, claim: &Claim) {
        let mut rows = self.rows.lock();
        if let Some(row) = same(&mut rows[claim.shard.index()], claim) {
            // At once: the next write would be refused, too.
            row.claim.term().end();
            row.fenced = true;
            self.wake.notify_one();
        }
    }

    /// Waits until there may be news.
    pub async fn woken(&self) {
        self.wake.notified().await;
    }

    pub fn news(&self) -> Vec<News> {
        let rows = self.rows.lock();
        let news = rows.iter().flatten().filter_map(|row| {
            let (shard, fence) = (row.claim.shard, || row.claim.fence.clone());
            match row {
                Row { fenced: true, .. } => Some(News::Fenced(shard, fence())),
                Row { closed: true, running: 0, .. } => Some(News::Drained(shard, fence())),
                _ => None,
            }
        });
        news.collect()
    }
}

fn open(row: &mut Option<Row>, now: Instant) -> Option<&mut Row> {
    row.as_mut().filter(|row| !row.closed && row.claim.is_valid(now))
}

/// The row of this claim, and not of a later one to the same shard.
fn same<'a>(row: &'a mut Option<Row>, claim: &Claim) -> Option<&'a mut Row> {
    row.as_mut().filter(|row| row.claim.same(claim))
}
