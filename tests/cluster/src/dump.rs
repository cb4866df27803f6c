//! A node's whole log of changes, read by a watch.

use std::time::Duration;

use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::watch_request::RequestUnion;
use setpoint_api::mvccpb;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::client::Client;
use crate::history::Version;
use crate::model::Change;

/// How long a watch may stay silent before it has failed.
const SILENCE: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    #[error("the watch failed")]
    Failed(#[from] tonic::Status),
    #[error("the watch was cancelled: {0}")]
    Cancelled(String),
    #[error("the watch was silent for too long, at revision {0}")]
    Silent(i64),
}

/// A stream of everything from a revision on, and the end that keeps it open.
pub struct Changes {
    pub requests: mpsc::Sender<pb::WatchRequest>,
    pub responses: Streaming<pb::WatchResponse>,
}

/// Opens a watch of all keys.
pub async fn watch_all(client: &Client, start: i64) -> Result<Changes, tonic::Status> {
    let (requests, stream) = mpsc::channel(4);
    let all = bytes::Bytes::from_static(&[0]);
    let create = pb::WatchCreateRequest {
        key: all.clone(),
        range_end: all,
        start_revision: start,
        ..Default::default()
    };
    let request = pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
    let _ = requests.send(request).await;
    let responses = client.watch().watch(ReceiverStream::new(stream)).await?.into_inner();
    Ok(Changes { requests, responses })
}

/// The log from `first` up to and including `last`, which must be the revision of a change.
pub async fn dump(client: &Client, first: i64, last: i64) -> Result<Vec<Change>, DumpError> {
    Ok(events(client, first, last).await?.into_iter().map(change).collect())
}

/// The same, as it was sent.
pub async fn events(client: &Client, first: i64, last: i64) -> Result<Vec<mvccpb::Event>, DumpError> {
    let mut changes = watch_all(client, first).await?;
    let mut log: Vec<mvccpb::Event> = Vec::new();
    let newest =
        |log: &[mvccpb::Event]| log.last().and_then(|event| event.kv.as_ref()).map(|kv| kv.mod_revision);
    while newest(&log).unwrap_or(first - 1) < last {
        let at = newest(&log).unwrap_or(0);
        let received = tokio::time::timeout(SILENCE, changes.responses.message()).await;
        let response = received.map_err(|_| DumpError::Silent(at))??.ok_or(DumpError::Silent(at))?;
        if response.canceled {
            return Err(DumpError::Cancelled(format!(
                "{} (compacted {})",
                response.cancel_reason, response.compact_revision
            )));
        }
        log.extend(response.events);
    }
    Ok(log)
}

pub fn change(event: mvccpb::Event) -> Change {
    let deleted = event.r#type() == mvccpb::event::EventType::Delete;
    let now = event.kv.map(version).unwrap_or_else(|| version(mvccpb::KeyValue::default()));
    Change { revision: now.modified, deleted, now }
}

pub fn version(kv: mvccpb::KeyValue) -> Version {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Version {
        key: text(&kv.key),
        value: text(&kv.value),
        created: kv.create_revision,
        modified: kv.mod_revision,
        version: kv.version,
    }
}
