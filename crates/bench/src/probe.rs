//! Finding the moment a service answers: a new call every few milliseconds until one succeeds.
//!
//! Calls overlap on purpose. One that was sent while there was no leader may hang in the server until a timeout, and
//! waiting for it would measure that timeout. A caller that comes along later is served at once, and that is the
//! moment meant.

use std::future::Future;
use std::time::{Duration, Instant};

use bytes::Bytes;
use setpoint_api::etcdserverpb::{PutRequest, RangeRequest};
use tokio::task::JoinSet;
use tonic::Status;
use tonic::transport::Channel;

use crate::connection::kv;

const INTERVAL: Duration = Duration::from_millis(10);
/// Calls under way at once; when all hang, some end by the server's own timeout and make room.
const CALLS_MAX: usize = 1_000;
/// An own key, beside those of the load.
const KEY: Bytes = Bytes::from_static(b"/probe");

/// How long after `since` the first call succeeds on any of the connections; `None` if none does within `limit`.
pub async fn first_success<F, C>(
    since: Instant,
    limit: Duration,
    connections: &[Channel],
    call: C,
) -> Option<Duration>
where
    C: Fn(Channel) -> F,
    F: Future<Output = Result<(), Status>> + Send + 'static,
{
    let mut calls = JoinSet::new();
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // Dropping the set at the end aborts the calls still under way.
    while since.elapsed() < limit {
        tokio::select! {
            _ = ticks.tick() => {
                for connection in connections {
                    if calls.len() < CALLS_MAX {
                        calls.spawn(call(connection.clone()));
                    }
                }
            }
            Some(outcome) = calls.join_next() => {
                if matches!(outcome, Ok(Ok(()))) {
                    return Some(since.elapsed());
                }
            }
        }
    }
    None
}

/// A linearizable read: the node is up, knows the leader, and has caught up with it.
pub async fn read(connection: Channel) -> Result<(), Status> {
    kv(connection).range(RangeRequest { key: KEY, ..RangeRequest::default() }).await.map(drop)
}

/// A write.
pub async fn write(connection: Channel) -> Result<(), Status> {
    let request = PutRequest { key: KEY, value: Bytes::from_static(b"up"), ..PutRequest::default() };
    kv(connection).put(request).await.map(drop)
}
