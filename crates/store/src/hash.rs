//! A hash over the kept history, to find replicas that disagree.
//!
//! It covers what clients can read: every version above the compacted revision, and of each key the newest one at or
//! below it. How far a replica has collected does not change it.

use std::ops::ControlFlow;

use setpoint_types::Revision;

use crate::encoding::{self, KeyVersion};
use crate::engine::{Engine, EngineFailure, Table};

/// The answer to a hash request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashOfHistory {
    pub hash: u32,
    /// The revision hashed up to.
    pub revision: Revision,
    pub compacted: i64,
    pub newest: Revision,
}

pub(crate) fn history(engine: &dyn Engine, compacted: i64, until: Revision) -> Result<u32, EngineFailure> {
    let mut hash = crc32c::crc32c(&compacted.to_le_bytes());
    let mut key: Vec<u8> = Vec::new();
    let mut has_base = false;
    let mut result = Ok(());
    engine.scan(Table::Keys, &[], None, &mut |row, value| {
        let mut visit = || -> Result<(), EngineFailure> {
            let (escaped, id) = encoding::split_key_version(row)?;
            let revision = id.revision;
            if escaped != key {
                key.clear();
                key.extend_from_slice(escaped);
                has_base = false;
            }
            if revision > until || has_base {
                return Ok(());
            }
            let version = KeyVersion::decode(id, value)?;
            if revision.wire() <= compacted {
                has_base = true;
                if version.deleted && revision.wire() < compacted {
                    return Ok(());
                }
            }
            hash = crc32c::crc32c_append(hash, row);
            hash = crc32c::crc32c_append(hash, value);
            // The record of a delete has nothing that its row has not, but for who deleted an object.
            if !version.deleted || encoding::is_reserved(escaped) {
                let record = engine.get(Table::Records, &id.encode())?;
                hash = crc32c::crc32c_append(hash, &record.unwrap_or_default());
            }
            Ok(())
        };
        match visit() {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                result = Err(failure);
                ControlFlow::Break(())
            }
        }
    })?;
    result.map(|()| hash)
}
