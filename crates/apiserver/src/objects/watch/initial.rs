//! The state a watch begins with: everything selected at one revision, in chunks that grow, the next one read while one
//! is being sent.

use std::sync::Arc;

use bytes::Bytes;
use setpoint_api::raw::{Part, RawEvent, RawObject, RawWatchResponse, StateEvents};
use setpoint_store::{Census, KeyValue, PageMax, Pages, ReadFailure, Store};
use setpoint_types::Revision;
use tokio::task::JoinHandle;

use crate::objects::event::View;
use crate::objects::list::{read_some, together};
use crate::objects::reader::begin;

/// Objects in the first chunk, so that it is there at once, and in the largest.
const FIRST: usize = 16;
const MOST: usize = 4096;

/// What an event has beside its object, rounded up.
const AROUND: usize = 32;
/// Bytes of an object; larger ones cost a copy.
const USUAL: usize = 4 << 10;

pub struct Initial {
    revision: Revision,
    /// None after the last chunk.
    reading: Option<JoinHandle<Result<Chunk, ReadFailure>>>,
}

/// Where the objects come from.
pub enum Source {
    /// A range in the order of its keys; what is not selected is left out.
    Range(Pages),
    /// The same in any order.
    Census(Census),
    /// Those the index found, as `namespace/name`; and whether it is sure of them.
    Found { names: std::vec::IntoIter<Arc<str>>, sure: bool },
}

struct Chunk {
    events: RawEvent,
    /// None if this was the last one.
    rest: Option<Reading>,
}

/// What is left to read.
struct Reading {
    store: Arc<Store>,
    view: Arc<View>,
    revision: Revision,
    source: Source,
    max: PageMax,
}

impl Initial {
    pub fn start(
        store: Arc<Store>,
        view: Arc<View>,
        revision: Revision,
        source: Source,
        bytes: usize,
    ) -> Self {
        let max = PageMax { keys: FIRST, bytes };
        let reading = Reading { store, view, revision, source, max };
        Self { revision, reading: Some(reading.spawn()) }
    }

    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The next chunk; none when all is sent. Fails if a compaction overtook the revision, or storage failed.
    pub async fn next(&mut self) -> Result<Option<RawWatchResponse>, ReadFailure> {
        while let Some(reading) = self.reading.take() {
            // A read that was cancelled means that the node stops; its client finds out otherwise.
            let chunk = reading.await.unwrap_or(Err(ReadFailure::Overtaken))?;
            self.reading = chunk.rest.map(Reading::spawn);
            if !chunk.events.is_empty() {
                return Ok(Some(RawWatchResponse { events: vec![Arc::new(chunk.events)] }));
            }
        }
        Ok(None)
    }
}

impl Reading {
    fn spawn(self) -> JoinHandle<Result<Chunk, ReadFailure>> {
        begin(move || self.read())
    }

    fn read(mut self) -> Result<Chunk, ReadFailure> {
        let (part, max) = (self.view.part, self.max);
        let (events, bytes, last) = match &mut self.source {
            Source::Range(pages) => {
                let page = self.store.next_page(pages, max)?;
                let bytes = page.kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
                let selected = page.kvs.into_iter().filter(|kv| self.view.selects(&kv.key, &kv.value));
                (joined(selected.collect(), part), bytes, page.last)
            }
            Source::Census(census) => {
                let room = max.keys.saturating_mul(USUAL).min(max.bytes + USUAL);
                let (mut events, mut bytes) = (StateEvents::with_capacity(room), 0);
                let more = self.store.continue_census(census, max, &mut |it| {
                    bytes += it.key.len() + it.value.len();
                    if self.view.selects(it.key, it.value) {
                        push(&mut events, it.value, it.modified, part);
                    }
                })?;
                (events.into_events(), bytes, !more)
            }
            Source::Found { names, sure } => {
                let (mut chosen, mut bytes) = (Vec::new(), 0);
                while chosen.len() < max.keys && bytes < max.bytes && names.len() > 0 {
                    let room = (max.keys - chosen.len()).min(names.len());
                    let count = together(chosen.len(), bytes, max.bytes).min(room);
                    let some = &names.as_slice()[..count];
                    for kv in read_some(&self.store, &self.view, some, self.revision, *sure)? {
                        // What does not fit comes again with the next chunk.
                        if bytes >= max.bytes {
                            break;
                        }
                        names.next();
                        bytes += kv.as_ref().map_or(0, |kv| kv.key.len() + kv.value.len());
                        chosen.extend(kv);
                    }
                }
                (joined(chosen, part), bytes, names.len() == 0)
            }
        };
        // What of a chunk is read only to be left for the next one should be little.
        self.max.keys = if bytes >= max.bytes { (max.keys / 2).max(FIRST) } else { (max.keys * 2).min(MOST) };
        Ok(Chunk { events, rest: (!last).then_some(self) })
    }
}

fn joined(chosen: Vec<KeyValue>, part: Part) -> RawEvent {
    let mut events = StateEvents::with_capacity(chosen.iter().map(|kv| kv.value.len() + AROUND).sum());
    for kv in chosen {
        push(&mut events, &kv.value, kv.modified, part);
    }
    events.into_events()
}

fn push(events: &mut StateEvents, stored: &[u8], revision: Revision, part: Part) {
    match part {
        Part::Whole => events.push(stored, revision.get()),
        Part::Metadata => {
            let stored = Bytes::copy_from_slice(stored);
            events.push(&RawObject::of(stored, revision.get(), part).stored, revision.get());
        }
    }
}
