//! The task that keeps the index at the newest revision.
//!
//! It reads everything once, at one revision, and follows the changes since. It starts anew when a compaction overtook it,
//! which a snapshot that was installed may also be the reason for, and when the kinds change.

use std::sync::Arc;

use bytes::Bytes;
use setpoint_store::command::Range;
use setpoint_store::{Change, PageMax, ReadFailure, Record, Store};
use setpoint_types::Revision;
use tokio_util::sync::CancellationToken;

use super::live::{Index, Update};
use crate::objects::attributes::Attributes;
use crate::objects::catalog::Catalog;
use crate::objects::feed::{Batch, Feed, FeedEnd};
use crate::objects::key::{self, ObjectName};
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
                    Ok(()) => {}
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

    /// Returns when the kinds have changed.
    async fn follow(
        &self,
        store: &Arc<Store>,
        hub: &Arc<Hub>,
        catalog: &Arc<Catalog>,
    ) -> Result<(), FeedEnd> {
        let mut version = catalog.version();
        version.mark_unchanged();
        let revision = self.build(store, catalog).await?;
        let mut feed = Feed::open(hub, store, key::all(), revision);
        loop {
            let Batch { sets, until, more } = feed.take(HISTORY_BYTES).await?;
            let records = sets.iter().flat_map(|set| &set.changes.records);
            let updates = records.filter_map(|record| update(record, catalog));
            self.update(updates.collect(), until);
            if more {
                tokio::task::consume_budget().await;
                continue;
            }
            tokio::select! {
                () = feed.changed() => {}
                _ = version.changed() => return Ok(()),
            }
        }
    }

    /// Reads every object, all at one revision.
    async fn build(&self, store: &Arc<Store>, catalog: &Arc<Catalog>) -> Result<Revision, FeedEnd> {
        let (reading, catalog) = (store.clone(), catalog.clone());
        let (mut draft, bytes_max) = (self.draft(), self.bytes_max());
        let built = tokio::task::spawn_blocking(move || {
            let mut pages = reading.open_pages(&Range::latest(key::all()))?;
            let revision = pages.whole().revision;
            loop {
                let page = reading.next_page(&mut pages, PAGE)?;
                let updates = page.kvs.iter().filter_map(|kv| put(&kv.key, &kv.value, &catalog));
                draft.add(updates.collect(), bytes_max);
                if page.last {
                    return Ok((draft, revision));
                }
            }
        });
        match built.await.map_err(|_| FeedEnd::Stopping)? {
            Ok((draft, revision)) => {
                self.replace(draft, revision);
                Ok(revision)
            }
            Err(ReadFailure::Engine(failure)) => Err(failure.into()),
            Err(ReadFailure::Rejected(_) | ReadFailure::Overtaken) => {
                Err(FeedEnd::Overtaken { oldest: Revision::new(store.compacted().max(1) as u64) })
            }
        }
    }
}

/// What a change is to the index; none if it is not of an object.
fn update(record: &Record, catalog: &Catalog) -> Option<Update> {
    match &record.change {
        Change::Put { value, .. } => put(&record.key, value, catalog),
        Change::Delete => {
            let (kind, name) = ObjectName::within_kind(&record.key)?;
            Some(Update::Remove { kind: kind.to_owned(), name: name.to_owned() })
        }
    }
}

/// Objects of kinds that are not served are left out: nobody can list them.
fn put(key: &[u8], value: &Bytes, catalog: &Catalog) -> Option<Update> {
    let (kind, name) = ObjectName::within_kind(key)?;
    let kind = catalog.get(kind)?;
    let attributes = Attributes::of(value, &kind.fields);
    Some(Update::Put { name: name.to_owned(), attributes, kind })
}
