//! One watch stream with any number of watches on it.

use setpoint_api::etcdserverpb::watch_client::WatchClient;
use setpoint_api::etcdserverpb::watch_request::RequestUnion;
use setpoint_api::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

pub struct WatchStream {
    /// Kept because the server ends the stream when the client's half closes.
    _requests: mpsc::Sender<WatchRequest>,
    answers: Streaming<WatchResponse>,
    /// The store's revision when the last watch was created.
    pub created_at: i64,
}

impl WatchStream {
    /// Opens a stream, creates the watches on it, and waits until the server has confirmed each.
    pub async fn open(connection: Channel, watches: Vec<WatchCreateRequest>) -> Result<Self, Status> {
        let count = watches.len();
        let (requests, sent) = mpsc::channel(count.max(1));
        for watch in watches {
            let request = WatchRequest { request_union: Some(RequestUnion::CreateRequest(watch)) };
            requests.try_send(request).map_err(|_| Status::internal("the queue has room for every watch"))?;
        }
        let answers = WatchClient::new(connection).watch(ReceiverStream::new(sent)).await?.into_inner();
        let mut stream = Self { _requests: requests, answers, created_at: 0 };
        for _ in 0..count {
            let answer = stream.next().await?;
            if !answer.created {
                return Err(Status::internal("an event before the watch was confirmed"));
            }
            stream.created_at = answer.header.map_or(0, |header| header.revision);
        }
        Ok(stream)
    }

    /// The next answer; an ended stream or a cancelled watch is an error.
    pub async fn next(&mut self) -> Result<WatchResponse, Status> {
        match self.answers.message().await? {
            None => Err(Status::unavailable("the watch stream ended")),
            Some(answer) if answer.canceled => Err(Status::cancelled(answer.cancel_reason)),
            Some(answer) => Ok(answer),
        }
    }
}
