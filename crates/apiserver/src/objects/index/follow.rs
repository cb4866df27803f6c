//! The task that keeps the index at the newest revision.
//!
//! It reads everything once, at one revision, and follows the changes since. It starts anew when a compaction overtook it,
//! which a snapshot that was installed may also be the reason for. A kind that is new, or is selected by other fields than
//! before, is read by itself, at the revision the index is at; until then its lists scan.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use setpoint_store::command::Range;
use setpoint_store::{Change, PageMax, ReadFailure, Record, Store};
use setpoint_types::{KeyRange, Revision};
use tokio_util::sync::CancellationToken;

use super::live::{Draft, Index, Update};
use crate::objects::attributes::Attributes;
use crate::objects::catalog::{Catalog, Kind};
use crate::objects::feed::{Batch, Feed, FeedEnd};
use crate::objects::key::{self, ObjectName};
use crate::objects::reader::begin;
use crate::replica::Halt;
use crate::watch::Hub;

/// What is read at a time.
const PAGE: PageMax = PageMax { keys: 1024, bytes: 4 << 20 };
const HISTORY_BYTES: usize = 4 << 20;

impl Index {
    /// Runs until `stop`, or until the node's storage fails.
    pub async fn run(
        self: Arc<Self>,
        store: Arc<Store>,
        hub: Arc<Hub>,
        catalog: Arc<Catalog>,
        halt: Halt,
        stop: CancellationToken,
    ) {
        let follow = async {
            loop {
                match self.follow(&store, &hub, &catalog).await {
                    Err(FeedEnd::Overtaken { oldest }) => {
                        tracing::info!(%oldest, "the index starts anew, a compaction overtook it");
                    }
                    Err(FeedEnd::Storage(failure)) => return halt.because(&failure),
                    Err(FeedEnd::Stopping) => return,
                }
            }
        };
        stop.run_until_cancelled(follow).await;
    }

    /// Ends only with a reason.
    async fn follow(
        &self,
        store: &Arc<Store>,
        hub: &Arc<Hub>,
        catalog: &Arc<Catalog>,
    ) -> Result<Infallible, FeedEnd> {
        let mut version = catalog.version();
        version.mark_unchanged();
        let mut known = Known::of(catalog);
        let mut at = self.build(store, &known).await?;
        let mut feed = Feed::open(hub, store, key::all(), at);
        loop {
            let Batch { sets, until, more } = feed.take(HISTORY_BYTES).await?;
            let records = sets.iter().flat_map(|set| &set.changes.records);
            let updates = records.filter_map(|record| known.update(record));
            self.update(updates.collect(), until);
            at = until.max(at);
            if version.has_changed().unwrap_or(false) {
                version.mark_unchanged();
                self.renew(store, catalog, &mut known, at).await?;
            }
            if more {
                tokio::task::consume_budget().await;
                continue;
            }
            tokio::select! {
                () = feed.changed() => {}
                _ = version.changed() => version.mark_changed(),
            }
        }
    }

    /// Reads every object, all at one revision.
    async fn build(&self, store: &Arc<Store>, known: &Known) -> Result<Revision, FeedEnd> {
        let (draft, revision) = self.read(store, known, key::all(), None).await?;
        self.replace(draft, revision);
        Ok(revision)
    }

    /// Reads the kinds that are new or have changed, and forgets those that are gone, at the revision of the rest.
    async fn renew(
        &self,
        store: &Arc<Store>,
        catalog: &Catalog,
        known: &mut Known,
        at: Revision,
    ) -> Result<(), FeedEnd> {
        let now = Known::of(catalog);
        for gone in known.0.keys().filter(|name| !now.0.contains_key(*name)) {
            self.forget(gone);
        }
        for (name, kind) in &now.0 {
            if known.0.get(name).is_some_and(|before| before.fields == kind.fields) {
                continue;
            }
            let only = Known(HashMap::from([(name.clone(), kind.clone())]));
            let (draft, _) = self.read(store, &only, key::of_kind(name), Some(at)).await?;
            self.add(draft);
        }
        *known = now;
        Ok(())
    }

    /// An index of what a range has at a revision; at the newest, if none is named.
    async fn read(
        &self,
        store: &Arc<Store>,
        known: &Known,
        range: KeyRange,
        at: Option<Revision>,
    ) -> Result<(Draft, Revision), FeedEnd> {
        let (reading, known) = (store.clone(), known.clone());
        let (mut draft, bytes_max) = (Draft::of(known.0.values()), self.bytes_max());
        let built = begin(move || {
            let (mut pages, revision) = match at {
                Some(at) => (reading.open_pages_at(range, at)?, at),
                None => {
                    let pages = reading.open_pages(&Range::latest(range))?;
                    let revision = pages.whole().revision;
                    (pages, revision)
                }
            };
            loop {
                let page = reading.next_page(&mut pages, PAGE)?;
                let updates = page.kvs.iter().filter_map(|kv| known.put(&kv.key, &kv.value));
                draft.add(updates.collect(), bytes_max);
                if page.last {
                    return Ok((draft, revision));
                }
            }
        });
        match built.await.map_err(|_| FeedEnd::Stopping)? {
            Ok(read) => Ok(read),
            Err(ReadFailure::Engine(failure)) => Err(failure.into()),
            Err(ReadFailure::Rejected(_) | ReadFailure::Overtaken) => {
                Err(FeedEnd::Overtaken { oldest: Revision::new(store.compacted().max(1) as u64) })
            }
        }
    }
}

/// The kinds that are indexed, as they were when they were read. The catalog may be ahead.
#[derive(Clone)]
struct Known(HashMap<String, Arc<Kind>>);

impl Known {
    fn of(catalog: &Catalog) -> Self {
        Self(catalog.all().into_iter().map(|kind| (kind.name().to_owned(), kind)).collect())
    }

    /// What a change is to the index; none if it is not of an object, or of a kind that is not indexed yet.
    fn update<'r>(&self, record: &'r Record) -> Option<Update<'r>> {
        match &record.change {
            Change::Put { value, .. } => self.put(&record.key, value),
            Change::Delete => {
                let (kind, name) = ObjectName::within_kind(&record.key)?;
                Some(Update::Remove { kind, name })
            }
        }
    }

    fn put<'r>(&self, key: &'r [u8], value: &'r [u8]) -> Option<Update<'r>> {
        let (kind, name) = ObjectName::within_kind(key)?;
        let attributes = Attributes::of(value, &self.0.get(kind)?.fields);
        Some(Update::Put { kind, name, attributes })
    }
}
