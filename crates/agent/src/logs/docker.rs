//! The logs of a container, as its engine keeps them.

use bollard::Docker;
use bollard::query_parameters::LogsOptions;
use bytes::Bytes;
use futures::stream::{Stream, StreamExt};
use setpoint_client::LogQuery;

/// What a container wrote. The engine stamps lines by itself, and counts `since` in whole seconds.
pub fn stream(
    engine: &Docker,
    container: &str,
    query: &LogQuery,
) -> impl Stream<Item = Bytes> + Send + use<> {
    let options = LogsOptions {
        follow: query.follow,
        stdout: true,
        stderr: true,
        since: query.since.and_then(|since| i32::try_from(since.0 / 1000).ok()).unwrap_or(0),
        timestamps: query.timestamps,
        tail: query.tail.map_or_else(|| "all".to_owned(), |tail| tail.to_string()),
        ..LogsOptions::default()
    };
    engine
        .logs(container, Some(options))
        .filter_map(|line| async move { line.ok().map(|line| line.into_bytes()) })
}
