//! Range reads, at the newest revision from the index and at older ones from the `Keys` table.
//!
//! Which keys answer, how many there are and in what order is decided without values; only what is returned is fetched.
//! A key's record never changes once written, so it may be fetched after the lock over the index is gone.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use bytes::Bytes;
use setpoint_types::{KeyRange, Revision};

use crate::command::{Bounds, Order, Range, SortTarget};
use crate::encoding::{self, Change, Damaged, KeyVersion, Record, RecordId};
use crate::engine::{Engine, EngineFailure, Table};
use crate::index::{Index, KeyState};
use crate::machine::{Pending, State};
use crate::verdict::{KeyValue, RangeResult, Rejection};

/// Why a read has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReadFailure {
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// A record was collected while the read ran, because a compaction overtook it.
    #[error("the revision was compacted during the read")]
    Overtaken,
    #[error(transparent)]
    Engine(#[from] EngineFailure),
}

impl ReadFailure {
    /// Inside `apply` revisions were checked and nothing is collected, so only storage can fail.
    pub(crate) fn into_engine(self) -> EngineFailure {
        match self {
            Self::Engine(failure) => failure,
            Self::Rejected(_) | Self::Overtaken => Damaged { what: "record" }.into(),
        }
    }
}

/// The newest state, and the past behind it.
pub(crate) struct View<'a> {
    pub index: &'a Index,
    /// What `revision` in an answer's header says.
    pub revision: Revision,
    pub engine: &'a dyn Engine,
    pub pending: &'a Pending,
}

/// A key that answers, before its value is fetched.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub key: Bytes,
    pub state: KeyState,
}

/// The keys that answer a range, and how many there were before limit and bounds.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub hits: Vec<Hit>,
    pub count: u64,
}

impl<'a> View<'a> {
    pub fn latest(state: &'a State, engine: &'a dyn Engine, pending: &'a Pending) -> Self {
        Self { index: &state.index, revision: state.revision, engine, pending }
    }

    /// Answers a range whose revision was checked.
    pub fn range(&self, read: &Range) -> Result<RangeResult, ReadFailure> {
        let newest = read.revision <= 0 || read.revision >= self.revision.wire();
        let selection = if newest {
            select_newest(self.index, read)
        } else {
            select_at(self.engine, read, Revision::new(read.revision as u64), self.pending)?
        };
        answer(self.engine, self.pending, read, selection, self.revision)
    }
}

/// How many hits can be of use.
fn wanted(read: &Range) -> usize {
    match usize::try_from(read.limit) {
        _ if read.count_only => 0,
        Ok(limit) if limit > 0 && read.is_natural() => limit,
        // Without an order etcd cuts before it sorts: the first keys by name, and one more to know that there are more.
        Ok(limit) if limit > 0 && read.is_unordered() => limit.saturating_add(1),
        _ => usize::MAX,
    }
}

pub(crate) fn select_newest(index: &Index, read: &Range) -> Selection {
    let wanted = wanted(read);
    // Most reads are of one key: it is looked up once, not once to be found and once to be counted.
    if let KeyRange::Single(key) = &read.range {
        let hit = index.get(key).map(|state| Hit { key: key.clone(), state: *state });
        let count = u64::from(hit.is_some());
        return Selection { hits: hit.into_iter().take(wanted).collect(), count };
    }
    let mut hits = Vec::new();
    if wanted > 0 {
        index.visit(&read.range, |key, state| {
            hits.push(Hit { key: Bytes::copy_from_slice(key), state: *state });
            if hits.len() < wanted { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
    }
    Selection { hits, count: index.count(&read.range) as u64 }
}

/// Finds, for each key, its newest version at or before a revision. Records of a running chunk override older rows.
pub(crate) fn select_at(
    engine: &dyn Engine,
    read: &Range,
    at: Revision,
    pending: &Pending,
) -> Result<Selection, ReadFailure> {
    let wanted = wanted(read);
    let overrides = overrides(pending, &read.range, at);
    let mut selection = Selection::default();
    let add = |selection: &mut Selection, key: Bytes, state: KeyState| {
        selection.count += 1;
        if selection.hits.len() < wanted {
            selection.hits.push(Hit { key, state });
        }
    };
    let mut ahead = overrides.iter().peekable();
    visit_at(engine, &read.range, at, |key, state| {
        while let Some((newer, state)) = ahead.next_if(|(newer, _)| ***newer < *key) {
            if let Some(state) = state {
                add(&mut selection, (*newer).clone(), *state);
            }
        }
        if ahead.peek().is_none_or(|(newer, _)| ***newer != *key) {
            add(&mut selection, key, state);
        }
        ControlFlow::Continue(())
    })?;
    for (key, state) in ahead {
        if let Some(state) = state {
            add(&mut selection, key.clone(), *state);
        }
    }
    Ok(selection)
}

fn overrides(pending: &Pending, range: &KeyRange, at: Revision) -> BTreeMap<Bytes, Option<KeyState>> {
    let mut newest = BTreeMap::new();
    let until = RecordId { revision: at, sub: u32::MAX };
    for (id, record) in pending.range(..=until).filter(|(_, record)| range.contains(&record.key)) {
        newest.insert(record.key.clone(), record.live_state(*id));
    }
    newest
}

/// Versions of one key that are passed over one by one; beyond, a new scan jumps over the rest. Starting one costs about
/// as much as passing over so many.
const PASSED_MAX: usize = 16;

/// Calls `visit` for each key of a range that was live at a revision, in order, until it breaks. The work follows the
/// number of keys, not of their versions: what is newer than the revision, or older than the answer, is jumped over.
pub(crate) fn visit_at(
    engine: &dyn Engine,
    range: &KeyRange,
    at: Revision,
    mut visit: impl FnMut(Bytes, KeyState) -> ControlFlow<()>,
) -> Result<(), EngineFailure> {
    if range.is_empty() {
        return Ok(());
    }
    let to = range.end().map(|end| encoding::key_bound(&end));
    let single = matches!(range, KeyRange::Single(_));
    let newest = RecordId { revision: at, sub: u32::MAX };
    let start = encoding::key_bound(range.start());
    let mut next = Some(if single { encoding::version_bound(&start, newest) } else { start });
    while let Some(from) = next {
        let mut walk = Walk { at, key: None, decided: false, passed: 0, resume: None, result: Ok(()) };
        engine.scan(Table::Keys, &from, to.as_deref(), &mut |row, value| {
            let flow = walk.row(row, value, &mut visit);
            if single && walk.decided { ControlFlow::Break(()) } else { flow }
        })?;
        walk.result?;
        // Scans may see different states, but not of versions up to `at`: those are only ever collected, and the
        // caller looks whether a compaction overtook it.
        next = walk.resume;
    }
    Ok(())
}

/// One scan over the versions of keys.
struct Walk {
    at: Revision,
    /// The key whose versions are being walked, escaped.
    key: Option<Vec<u8>>,
    /// Its version at the revision was found.
    decided: bool,
    passed: usize,
    /// Where the next scan begins.
    resume: Option<Vec<u8>>,
    result: Result<(), Damaged>,
}

impl Walk {
    fn row(
        &mut self,
        row: &[u8],
        value: &[u8],
        visit: &mut impl FnMut(Bytes, KeyState) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let read = encoding::split_key_version(row);
        let (escaped, id) = match read {
            Ok(read) => read,
            Err(damaged) => return self.damaged(damaged),
        };
        if self.key.as_deref() != Some(escaped) {
            let key = self.key.get_or_insert_default();
            key.clear();
            key.extend_from_slice(escaped);
            (self.decided, self.passed) = (false, 0);
        }
        if self.decided || id.revision > self.at {
            return self.pass(escaped);
        }
        (self.decided, self.passed) = (true, 0);
        match KeyVersion::decode(id, value) {
            Ok(version) if version.deleted => ControlFlow::Continue(()),
            Ok(version) => visit(encoding::unescape(escaped), version.state),
            Err(damaged) => self.damaged(damaged),
        }
    }

    fn pass(&mut self, escaped: &[u8]) -> ControlFlow<()> {
        self.passed += 1;
        if self.passed < PASSED_MAX {
            return ControlFlow::Continue(());
        }
        let newest = RecordId { revision: self.at, sub: u32::MAX };
        self.resume = Some(if self.decided {
            encoding::versions_end(escaped)
        } else {
            encoding::version_bound(escaped, newest)
        });
        ControlFlow::Break(())
    }

    fn damaged(&mut self, damaged: Damaged) -> ControlFlow<()> {
        self.result = Err(damaged);
        ControlFlow::Break(())
    }
}

/// Filters, sorts and cuts a selection, then fetches the values that are left.
pub(crate) fn answer(
    engine: &dyn Engine,
    pending: &Pending,
    read: &Range,
    selection: Selection,
    revision: Revision,
) -> Result<RangeResult, ReadFailure> {
    let Selection { mut hits, count } = selection;
    if read.count_only {
        return Ok(RangeResult { revision, kvs: Vec::new(), more: false, count });
    }
    let limit = usize::try_from(read.limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    if read.is_natural() {
        let more = count > hits.len() as u64;
        return Ok(RangeResult { revision, kvs: fetch(engine, pending, hits, read.keys_only)?, more, count });
    }
    hits.retain(|hit| within(&hit.state, &read.bounds));
    let more = hits.len() > limit;
    let kvs = if read.by == SortTarget::Value {
        let mut kvs = fetch(engine, pending, hits, false)?;
        kvs.sort_by(|a, b| directed(read.order, a.value.cmp(&b.value)));
        kvs.truncate(limit);
        if read.keys_only {
            kvs.iter_mut().for_each(|kv| kv.value = Bytes::new());
        }
        kvs
    } else {
        sort(&mut hits, read.by, read.order);
        hits.truncate(limit);
        fetch(engine, pending, hits, read.keys_only)?
    };
    Ok(RangeResult { revision, kvs, more, count })
}

/// Equals are left as they are, so whatever the order, they come by key.
fn directed(order: Order, ascending: Ordering) -> Ordering {
    if order == Order::Descending { ascending.reverse() } else { ascending }
}

fn within(state: &KeyState, bounds: &Bounds) -> bool {
    let between = |revision: Revision, min: i64, max: i64| {
        (min == 0 || revision.wire() >= min) && (max == 0 || revision.wire() <= max)
    };
    between(state.modified, bounds.modified_min, bounds.modified_max)
        && between(state.created, bounds.created_min, bounds.created_max)
}

fn sort(hits: &mut [Hit], by: SortTarget, order: Order) {
    hits.sort_by(|a, b| {
        let ascending = match by {
            SortTarget::Key => a.key.cmp(&b.key),
            SortTarget::Version => a.state.version.cmp(&b.state.version),
            SortTarget::Created => a.state.created.cmp(&b.state.created),
            SortTarget::Modified => a.state.modified.cmp(&b.state.modified),
            SortTarget::Value => Ordering::Equal, // sorted once fetched
        };
        directed(order, ascending)
    });
}

/// The same for one that was found in the newest state; read beside everybody else's.
pub(crate) fn fetch_one(engine: &dyn Engine, hit: Hit) -> Result<KeyValue, ReadFailure> {
    let row = engine.get(Table::Records, &hit.id().encode())?.ok_or(ReadFailure::Overtaken)?;
    let damaged = || EngineFailure::from(Damaged { what: "record" });
    let value = Record::value(row).map_err(EngineFailure::from)?.ok_or_else(damaged)?;
    Ok(hit.into_key_value(value))
}

/// Turns hits into answers, reading each value unless only keys are asked for.
pub(crate) fn fetch(
    engine: &dyn Engine,
    pending: &Pending,
    hits: Vec<Hit>,
    keys_only: bool,
) -> Result<Vec<KeyValue>, ReadFailure> {
    if keys_only {
        return Ok(hits.into_iter().map(|hit| hit.into_key_value(Bytes::new())).collect());
    }
    let stored: Vec<_> = hits.iter().map(Hit::id).filter(|id| !pending.contains_key(id)).collect();
    let mut rows = read_records(engine, &stored)?.into_iter();
    hits.into_iter()
        .map(|hit| {
            let value = match pending.get(&hit.id()).map(|record| &record.change) {
                Some(Change::Put { value, .. }) => Some(value.clone()),
                Some(Change::Delete) => None,
                None => {
                    let row = rows.next().flatten().ok_or(ReadFailure::Overtaken)?;
                    Record::value(row).map_err(EngineFailure::from)?
                }
            };
            let damaged = || EngineFailure::from(Damaged { what: "record" });
            Ok(hit.into_key_value(value.ok_or_else(damaged)?))
        })
        .collect()
}

/// The value of a key in the newest state. Nothing may be collected meanwhile.
pub(crate) fn value(
    engine: &dyn Engine,
    pending: &Pending,
    state: &KeyState,
) -> Result<Bytes, EngineFailure> {
    let damaged = || EngineFailure::from(Damaged { what: "record" });
    let id = RecordId { revision: state.modified, sub: state.sub };
    let change = match pending.get(&id) {
        Some(record) => record.change.clone(),
        None => Record::decode(engine.get(Table::Records, &id.encode())?.ok_or_else(damaged)?)?.change,
    };
    match change {
        Change::Put { value, .. } => Ok(value),
        Change::Delete => Err(damaged()),
    }
}

fn read_records(engine: &dyn Engine, ids: &[RecordId]) -> Result<Vec<Option<Bytes>>, EngineFailure> {
    if let [id] = ids {
        return Ok(vec![engine.get(Table::Records, &id.encode())?]);
    }
    let keys: Vec<_> = ids.iter().map(|id| id.encode().to_vec()).collect();
    engine.get_many(Table::Records, &keys)
}

impl Hit {
    fn id(&self) -> RecordId {
        RecordId { revision: self.state.modified, sub: self.state.sub }
    }

    fn into_key_value(self, value: Bytes) -> KeyValue {
        let KeyState { modified, created, version, lease, sub: _ } = self.state;
        KeyValue { key: self.key, value, created, modified, version, lease }
    }
}

impl Record {
    /// The state this change left the key in, or none if it deleted it.
    pub(crate) fn live_state(&self, id: RecordId) -> Option<KeyState> {
        match self.change {
            Change::Put { created, version, lease, .. } => {
                Some(KeyState { modified: id.revision, created, version, lease, sub: id.sub })
            }
            Change::Delete => None,
        }
    }

    /// The key as a client sees it after this change; of a deleted key only its name and the revision.
    pub fn to_key_value(&self, revision: Revision) -> KeyValue {
        let key = self.key.clone();
        match &self.change {
            Change::Put { value, created, version, lease } => KeyValue {
                key,
                value: value.clone(),
                created: *created,
                modified: revision,
                version: *version,
                lease: *lease,
            },
            Change::Delete => KeyValue { key, modified: revision, ..KeyValue::default() },
        }
    }
}
