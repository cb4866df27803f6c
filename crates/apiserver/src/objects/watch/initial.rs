//! The state a watch begins with: everything selected at one revision, in chunks that grow, the next one read while one
//! is being sent.

use std::sync::Arc;

use setpoint_api::raw::{RawEvent, RawWatchResponse};
use setpoint_store::{PageMax, Pages, ReadFailure, Store};
use setpoint_types::Revision;
use tokio::task::JoinHandle;

use crate::objects::event::{self, View};
use crate::objects::list::{read_some, together};
use crate::objects::reader::begin;

/// Objects in the first chunk, so that it is there at once, and in the largest.
const FIRST: usize = 16;
const MOST: usize = 4096;

pub struct Initial {
    revision: Revision,
    /// None after the last chunk.
    reading: Option<JoinHandle<Result<Chunk, ReadFailure>>>,
}

/// Where the objects come from.
pub enum Source {
    /// All of a range; what is not selected is left out.
    Range(Pages),
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
        let mut chosen = Vec::new();
        let mut bytes = 0;
        let last = match &mut self.source {
            Source::Range(pages) => {
                let page = self.store.next_page(pages, self.max)?;
                bytes = page.kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
                chosen.extend(page.kvs.into_iter().filter(|kv| self.view.selects(&kv.key, &kv.value)));
                page.last
            }
            Source::Found { names, sure } => {
                while chosen.len() < self.max.keys && bytes < self.max.bytes && names.len() > 0 {
                    let room = (self.max.keys - chosen.len()).min(names.len());
                    let count = together(chosen.len(), bytes, self.max.bytes).min(room);
                    let some = &names.as_slice()[..count];
                    for kv in read_some(&self.store, &self.view, some, self.revision, *sure)? {
                        // What does not fit comes again with the next chunk.
                        if bytes >= self.max.bytes {
                            break;
                        }
                        names.next();
                        bytes += kv.as_ref().map_or(0, |kv| kv.key.len() + kv.value.len());
                        chosen.extend(kv);
                    }
                }
                names.len() == 0
            }
        };
        // What of a chunk is read only to be left for the next one should be little.
        let keys = self.max.keys;
        self.max.keys = if bytes >= self.max.bytes { (keys / 2).max(FIRST) } else { (keys * 2).min(MOST) };
        let room = chosen.iter().map(|kv| kv.value.len() + 32).sum();
        let part = self.view.part;
        let events = chosen.into_iter().map(|kv| event::initial(kv.value, kv.modified, part));
        let events = RawEvent::joined(events, room);
        Ok(Chunk { events, rest: (!last).then_some(self) })
    }
}
