//! Everything that happened on the reference, from a watch over the whole store that is open all the time.
//!
//! It tells which events every other watch owes. It is opened before the first write and never lags, so it does not
//! depend on the parts of a server that the test watches exercise (replay, filters, several watches per stream).

use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::watch_request::RequestUnion;
use tokio::time::Instant;

use crate::blob::Blob;
use crate::book::OpenWatch;
use crate::error::HarnessError;
use crate::side::{PATIENCE, Side};
use crate::stream::WatchStream;

/// `Event.type` of a deletion.
const DELETE: i32 = 1;

/// The keys a watch covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyRange {
    Single(Blob),
    From(Blob),
    Between(Blob, Blob),
}

impl KeyRange {
    /// As a watch request means it: no key stands for the first possible one.
    pub fn of_watch(key: &Blob, end: &Blob) -> Self {
        let key = if key.is_empty() { Blob::fixed(b"\0") } else { key.clone() };
        match end.as_slice() {
            b"" => Self::Single(key),
            b"\0" => Self::From(key),
            _ => Self::Between(key, end.clone()),
        }
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        match self {
            Self::Single(single) => single.as_slice() == key,
            Self::From(first) => first.as_slice() <= key,
            Self::Between(first, end) => first.as_slice() <= key && key < end.as_slice(),
        }
    }
}

#[derive(Debug)]
struct Change {
    revision: i64,
    deleted: bool,
    key: bytes::Bytes,
}

pub struct History {
    stream: WatchStream,
    changes: Vec<Change>,
    reached: i64,
}

impl History {
    /// Starts to listen to what happens after this revision, which must be the store's current one.
    pub async fn attach(side: &Side, revision: i64) -> Result<Self, HarnessError> {
        let stream = WatchStream::open(side.clients().watch, tonic::metadata::MetadataMap::new());
        let everything = pb::WatchCreateRequest {
            key: vec![0].into(),
            range_end: vec![0].into(),
            start_revision: revision + 1,
            ..Default::default()
        };
        stream.send(Some(RequestUnion::CreateRequest(everything))).await;
        let created =
            stream.wait_until(Instant::now() + PATIENCE, |log| log.unreported().next().is_some()).await;
        if !created {
            return Err(HarnessError::HistoryLost { revision });
        }
        Ok(Self { stream, changes: Vec::new(), reached: revision })
    }

    /// Waits until the history includes the revision.
    pub async fn reach(&mut self, revision: i64) -> Result<(), HarnessError> {
        while self.reached < revision {
            let before = self.reached;
            self.stream
                .wait_until(Instant::now() + PATIENCE, |log| {
                    log.unreported().any(|response| !response.events.is_empty())
                })
                .await;
            let arrived = self.stream.take_all().responses.into_iter();
            let events = arrived.flat_map(|arrived| arrived.response.events);
            for event in events {
                let Some(kv) = event.kv else { continue };
                self.reached = self.reached.max(kv.mod_revision);
                let deleted = event.r#type == DELETE;
                self.changes.push(Change { revision: kv.mod_revision, deleted, key: kv.key });
            }
            if self.reached == before {
                return Err(HarnessError::HistoryLost { revision });
            }
        }
        Ok(())
    }

    /// How many events the watch owes up to the revision reached.
    pub fn count(&self, watch: &OpenWatch) -> usize {
        let wanted = |change: &&Change| {
            let kind = if change.deleted { watch.deletes } else { watch.puts };
            change.revision >= watch.start && kind && watch.range.contains(&change.key)
        };
        self.changes.iter().filter(wanted).count()
    }

    /// Forgets what no watch can ask for any more.
    pub fn forget_before(&mut self, compacted: i64) {
        self.changes.retain(|change| change.revision >= compacted);
    }
}
