//! Reading the past in order: what a watch needs to catch up.

use std::ops::ControlFlow;
use std::sync::Arc;

use setpoint_types::Revision;

use crate::encoding::{Record, RecordId};
use crate::engine::{Engine, EngineFailure, Table};
use crate::machine::ChangeSet;

/// Whole revisions from `from` up to and including `until`, ending early (but never inside a revision, nor before the
/// first) once `bytes_max` is reached. The caller knows that `from` is not compacted, before and after the call.
pub(crate) fn changes(
    engine: &dyn Engine,
    from: Revision,
    until: Revision,
    bytes_max: usize,
) -> Result<Vec<Arc<ChangeSet>>, EngineFailure> {
    let mut sets: Vec<ChangeSet> = Vec::new();
    let mut bytes = 0;
    let mut result = Ok(());
    let (start, end) = (RecordId::first_of(from).encode(), RecordId::first_of(until.successor()).encode());
    engine.scan(Table::Records, &start, Some(&end), &mut |key, row| {
        let read = RecordId::decode(key)
            .and_then(|id| Record::decode(bytes::Bytes::copy_from_slice(row)).map(|record| (id, record)));
        let (id, record) = match read {
            Ok(read) => read,
            Err(damaged) => {
                result = Err(damaged.into());
                return ControlFlow::Break(());
            }
        };
        if sets.last().is_none_or(|set| set.revision != id.revision) {
            if !sets.is_empty() && bytes >= bytes_max {
                return ControlFlow::Break(());
            }
            sets.push(ChangeSet { revision: id.revision, records: Vec::new() });
        }
        bytes += row.len();
        sets.last_mut().expect("pushed above if there was none").records.push(record);
        ControlFlow::Continue(())
    })?;
    result.map(|()| sets.into_iter().map(Arc::new).collect())
}
