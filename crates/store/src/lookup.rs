//! Reads that objects need and keys do not: the versions of one key, the revision at a time, ledgers and leases.
//!
//! Each is bounded by what its caller asks for, and refused rather than wrong if a compaction overtakes it.

use std::ops::ControlFlow;

use bytes::Bytes;
use setpoint_types::{KeyRange, Revision, Timestamp};

use crate::command::{Range, Txn, TxnOp};
use crate::encoding::{self, Damaged, KeyVersion, MetaKey, Record, RecordId};
use crate::engine::{Engine, EngineFailure, Table};
use crate::hold::{Epoch, Hold, LeaseName, LeaseState};
use crate::ledger::{self, Amounts, Ledger};
use crate::read::ReadFailure;
use crate::store::{Moment, OVERTAKEN_MAX, Store};
use crate::varint::get_varint;
use crate::verdict::{Rejection, Response};

/// The most an answer about versions may hold; but one version at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionsMax {
    pub count: usize,
    /// Of their rows; the last may go beyond.
    pub bytes: usize,
}

/// Kept versions of one key, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    pub versions: Vec<Version>,
    /// There are older ones.
    pub more: bool,
    /// Older revisions than this are compacted.
    pub oldest: Revision,
}

/// One change of a key. What a delete deleted is at `record.replaced`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub id: RecordId,
    pub record: Record,
}

impl Store {
    /// The kept versions of a key that are older than `before` (none: from the newest on), newest first.
    pub fn versions(&self, key: &[u8], before: Revision, max: VersionsMax) -> Result<Versions, ReadFailure> {
        for _ in 0..OVERTAKEN_MAX {
            let Moment { engine, newest, compacted } = self.moment();
            let newest = if before.is_none() { newest } else { newest.min(before.predecessor()) };
            let versions = read_versions(&*engine, key, newest, compacted, max);
            // Rows are collected under the scan only if a compaction came in between.
            if self.compacted() == compacted {
                return Ok(versions?);
            }
        }
        Err(ReadFailure::Overtaken)
    }

    /// The newest revision of the second that a time lies in, or of the last one before in which something was written.
    pub fn revision_at(&self, time: Timestamp) -> Result<Revision, ReadFailure> {
        let Moment { engine, newest, .. } = self.moment();
        let next_second = encoding::second(time) + 1;
        let mut next = None;
        let (start, end) = (MetaKey::Second(next_second).encode(), MetaKey::Second(u64::MAX).encode());
        engine.scan(Table::Meta, &start, Some(&end), &mut |_, mut row| {
            next = Some(get_varint(&mut row).ok_or(Damaged { what: "second" }));
            ControlFlow::Break(())
        })?;
        let at = match next.transpose()? {
            Some(first_of_next) => Revision::new(first_of_next).predecessor(),
            None => newest,
        };
        // Checked after the scan: rows collected meanwhile tell of revisions that cannot be read any more.
        let compacted = self.compacted();
        if at.wire() < compacted {
            return Err(Rejection::Compacted { oldest: Revision::new(compacted.max(0) as u64) }.into());
        }
        Ok(at)
    }

    /// None if it does not exist.
    pub fn ledger(&self, name: &str) -> Result<Option<Ledger>, ReadFailure> {
        Ok(self.single(Ledger::key(name))?.map(Ledger::decode).transpose()?)
    }

    /// What an owner has reserved; nothing if it has nothing.
    pub fn reservation(&self, ledger: &str, owner: &str) -> Result<Amounts, ReadFailure> {
        let row = self.single(Ledger::reservation_key(ledger, owner))?;
        Ok(row.map(ledger::decode_reservation).transpose()?.unwrap_or_default())
    }

    /// Who holds a lease, and its last epoch, of one moment.
    pub fn lease_state(&self, lease: &LeaseName) -> Result<LeaseState, ReadFailure> {
        let read = |key| TxnOp::Range(Range::latest(KeyRange::Single(key)));
        let txn = Txn { success: vec![read(lease.epoch_key()), read(lease.hold_key())], ..Txn::default() };
        let mut values = self.read_txn(&txn)?.responses.into_iter().map(|response| match response {
            Response::Range(mut result) => result.kvs.pop().map(|kv| kv.value),
            _ => None,
        });
        let (epoch, hold) = (values.next().flatten(), values.next().flatten());
        Ok(LeaseState {
            epoch: epoch.map(Epoch::decode).transpose()?.unwrap_or(Epoch::NONE),
            hold: hold.map(Hold::decode).transpose()?,
        })
    }

    fn single(&self, key: Bytes) -> Result<Option<Bytes>, ReadFailure> {
        let mut result = self.range(&Range::latest(KeyRange::Single(key)))?;
        Ok(result.kvs.pop().map(|kv| kv.value))
    }
}

/// Which versions of a key are kept: everything at or above the compacted revision, and if there is nothing at it, the
/// version that was live there.
struct Walk {
    newest: Revision,
    compacted: Revision,
    count_max: usize,
    ids: Vec<RecordId>,
    more: bool,
    /// A version at the compacted revision was seen: nothing below it is kept.
    settled: bool,
}

impl Walk {
    /// Takes the next older version.
    fn version(&mut self, id: RecordId, deleted: bool) -> ControlFlow<()> {
        let base = id.revision < self.compacted;
        if base && (deleted || self.settled) {
            return ControlFlow::Break(());
        }
        self.settled |= id.revision == self.compacted;
        if id.revision <= self.newest {
            if self.ids.len() == self.count_max {
                self.more = true;
                return ControlFlow::Break(());
            }
            self.ids.push(id);
        }
        if base { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn read_versions(
    engine: &dyn Engine,
    key: &[u8],
    newest: Revision,
    compacted: i64,
    max: VersionsMax,
) -> Result<Versions, EngineFailure> {
    let compacted = Revision::new(compacted.max(0) as u64);
    let escaped = encoding::key_bound(key);
    // From the compacted revision at least: what is kept below it, only what is there tells.
    let first = RecordId { revision: newest.max(compacted), sub: u32::MAX };
    let (start, end) = (encoding::version_bound(&escaped, first), encoding::versions_end(&escaped));
    let (ids, more, settled) = (Vec::new(), false, false);
    let mut walk = Walk { newest, compacted, count_max: max.count.max(1), ids, more, settled };
    let mut result = Ok(());
    engine.scan(Table::Keys, &start, Some(&end), &mut |row, value| {
        let read = encoding::split_key_version(row)
            .and_then(|(_, id)| KeyVersion::decode(id, value).map(|version| (id, version.deleted)));
        match read {
            Ok((id, deleted)) => walk.version(id, deleted),
            Err(damaged) => {
                result = Err(damaged);
                ControlFlow::Break(())
            }
        }
    })?;
    result?;
    let (mut versions, mut bytes, mut more) = (Vec::new(), 0, walk.more);
    for id in walk.ids {
        if !versions.is_empty() && bytes >= max.bytes {
            more = true;
            break;
        }
        let row = engine.get(Table::Records, &id.encode())?.ok_or(Damaged { what: "record" })?;
        bytes += row.len();
        versions.push(Version { id, record: Record::decode(row)? });
    }
    Ok(Versions { versions, more, oldest: compacted })
}
