//! The physical side of compaction: deleting, in small steps, what no kept revision can show.
//!
//! Each record names the one it replaced, so walking the records below the compacted revision finds everything to delete
//! without looking at live keys; the work is proportional to the changes. Records *at* the compacted revision are left
//! for the next compaction: a delete at exactly that revision stays readable, and so does what it replaced (invariant S8).
//!
//! Of the rows that tell which revision a second began with, those go that lie behind the walk, but for the newest of
//! them: it tells which times are too long ago.
//!
//! Replicas collect at their own pace; no answer depends on how far one has come.

use std::ops::ControlFlow;

use setpoint_types::Revision;

use crate::encoding::{self, Damaged, MetaKey, Record, RecordId};
use crate::engine::{Engine, EngineFailure, Table, WriteBatch};
use crate::varint::{get_varint, put_varint};

/// The most one step may do. A step ends between revisions, so it may go beyond by the rest of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepMax {
    /// Records walked.
    pub records: usize,
    /// Bytes of the records walked.
    pub bytes: usize,
}

impl StepMax {
    /// Bounded by records alone.
    pub const fn records(records: usize) -> Self {
        Self { records, bytes: usize::MAX }
    }
}

/// How far the collection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Everything below this revision was walked.
    pub collected: Revision,
    /// Rows deleted by this step.
    pub deleted: usize,
    /// The revision compacted at, up to which there is something to walk.
    pub compacted: Revision,
}

impl Progress {
    /// Nothing is left to do for what is compacted so far.
    pub fn done(&self) -> bool {
        self.collected >= self.compacted
    }

    /// Revisions still to be walked.
    pub fn behind(&self) -> u64 {
        self.compacted.get().saturating_sub(self.collected.get())
    }
}

/// The revision below which everything was walked.
pub(crate) fn collected(engine: &dyn Engine) -> Result<Revision, EngineFailure> {
    let row = engine.get(Table::Meta, &MetaKey::Collected.encode())?;
    Ok(row.and_then(|mut row| get_varint(&mut row)).map_or(Revision::NONE, Revision::new))
}

/// Walks a bounded piece of the way to `compacted`, and writes the deletions and the progress together.
pub(crate) fn step(
    engine: &dyn Engine,
    compacted: Revision,
    max: StepMax,
) -> Result<Progress, EngineFailure> {
    let from = collected(engine)?;
    if from >= compacted {
        return Ok(Progress { collected: from, deleted: 0, compacted });
    }
    let mut batch = WriteBatch::default();
    let (mut walked, mut bytes, mut next) = (0, 0, compacted);
    let mut result = Ok(());
    let (start, end) = (RecordId::first_of(from).encode(), RecordId::first_of(compacted).encode());
    let mut last = from;
    engine.scan(Table::Records, &start, Some(&end), &mut |key, row| {
        let read = RecordId::decode(key).and_then(|id| Record::outline(row).map(|record| (id, record)));
        let (id, record) = match read {
            Ok(read) => read,
            Err(damaged) => {
                result = Err(EngineFailure::from(damaged));
                return ControlFlow::Break(());
            }
        };
        if (walked >= max.records || bytes >= max.bytes) && id.revision != last {
            next = id.revision; // steps end between revisions
            return ControlFlow::Break(());
        }
        last = id.revision;
        walked += 1;
        bytes += row.len();
        if let Some(replaced) = record.replaced {
            forget(&mut batch, record.key, replaced);
        }
        if record.deleted {
            forget(&mut batch, record.key, id);
        }
        ControlFlow::Continue(())
    })?;
    result?;
    forget_seconds(engine, &mut batch, next)?;
    let deleted = batch.operations.len();
    let mut progress = Vec::new();
    put_varint(&mut progress, next.get());
    batch.put(Table::Meta, MetaKey::Collected.encode(), progress);
    setpoint_failpoint::hit("collect.before-write");
    engine.write(batch)?;
    setpoint_failpoint::hit("collect.after-write");
    Ok(Progress { collected: next, deleted, compacted })
}

/// As many at most as revisions were walked, since each has its own.
fn forget_seconds(
    engine: &dyn Engine,
    batch: &mut WriteBatch,
    walked: Revision,
) -> Result<(), EngineFailure> {
    let (start, end) = (MetaKey::Second(0).encode(), MetaKey::Second(u64::MAX).encode());
    let (mut previous, mut result) = (None::<Vec<u8>>, Ok(()));
    engine.scan(Table::Meta, &start, Some(&end), &mut |key, mut row| match get_varint(&mut row) {
        Some(first) if first <= walked.get() => {
            if let Some(older) = previous.replace(key.to_vec()) {
                batch.delete(Table::Meta, older);
            }
            ControlFlow::Continue(())
        }
        Some(_) => ControlFlow::Break(()),
        None => {
            result = Err(Damaged { what: "second" });
            ControlFlow::Break(())
        }
    })?;
    Ok(result?)
}

fn forget(batch: &mut WriteBatch, key: &[u8], id: RecordId) {
    // S6: a version is written once and replaced or deleted once, so it is forgotten once. A key created anew after a
    // delete replaces nothing, so the tombstone is forgotten by its own record alone.
    batch.delete_once(Table::Records, id.encode());
    batch.delete_once(Table::Keys, encoding::key_version(key, id));
}
