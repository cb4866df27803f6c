//! Reading what a replica writes.

use bytes::Bytes;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::sessions_client::SessionsClient;
use setpoint_types::Timestamp;
use tonic::Streaming;

use super::{Sessions, failed};
use crate::call::Call;
use crate::error::Error;
use crate::pool::Slot;

/// Which lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Go on with what is written from now on, until the run has ended.
    pub follow: bool,
    /// Only the last so many that are there.
    pub tail: Option<u64>,
    /// Only what was written since.
    pub since: Option<Timestamp>,
    /// With the time before each line, in milliseconds since 1970.
    pub timestamps: bool,
}

/// What a replica writes, as it comes.
pub struct LogStream {
    stream: Streaming<pb::LogsResponse>,
    call: Call,
    /// Counts as a request while it lasts.
    _slot: Slot,
}

impl Sessions {
    pub async fn logs(&self, replica: &str, query: &LogQuery) -> Result<LogStream, Error> {
        let home = self.client.home();
        let call = Call::read("logs", format!("Replica {}/{replica}", home.name())).apart();
        let request = pb::LogsRequest {
            namespace: home.name().to_owned(),
            replica: replica.to_owned(),
            follow: query.follow,
            tail_lines: query.tail,
            since_ms: query.since.map(|since| since.0),
            timestamps: query.timestamps,
        };
        let opened = self.client.open(&call, request, |wire, request| async move {
            SessionsClient::new(wire).logs(request).await
        });
        let (answer, slot) = opened.await?;
        Ok(LogStream { stream: answer.into_inner(), call, _slot: slot })
    }
}

impl LogStream {
    /// What comes next, cut anywhere. None: there is no more, or, if it is followed, the run has ended.
    ///
    /// Safe to drop and call again: nothing is lost.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        match self.stream.message().await {
            Ok(answer) => Ok(answer.map(|answer| answer.text)),
            Err(status) => Err(failed(&self.call, status)),
        }
    }
}
