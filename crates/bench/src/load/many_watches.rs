//! Memory of watches: what 10,000 watches on single keys, spread over 100 streams, add to the nodes.
//!
//! Connections are open before the first look, so what is counted is streams and watches.

use super::range::preload_pods;
use super::watch_stream::WatchStream;
use super::{LoadError, Sample};
use crate::connection::Connections;
use crate::metric::Metric;
use crate::options::Plan;
use crate::probe;
use crate::system::Cluster;
use crate::workload::pod_key;

use setpoint_api::etcdserverpb::WatchCreateRequest;

const STREAMS: usize = 100;
const WATCHES_PER_STREAM: usize = 100;

pub async fn measure(cluster: &Cluster, plan: &Plan) -> Result<Sample, LoadError> {
    preload_pods(cluster).await?;
    let connections = Connections::new(&cluster.addresses(), STREAMS);
    for client in 0..STREAMS {
        probe::read(connections.of_client(client)).await.map_err(LoadError::prepare("connect"))?;
    }
    tokio::time::sleep(plan.settle).await;
    let before = cluster.resident()?;

    let mut streams = Vec::with_capacity(STREAMS);
    for stream in 0..STREAMS {
        let numbers = (0..WATCHES_PER_STREAM).map(|watch| stream * WATCHES_PER_STREAM + watch);
        let watches = numbers
            .map(|number| WatchCreateRequest { key: pod_key(number), ..WatchCreateRequest::default() });
        let opened = WatchStream::open(connections.of_client(stream), watches.collect()).await;
        streams.push(opened.map_err(LoadError::prepare("open watches"))?);
    }
    tokio::time::sleep(plan.settle).await;
    let after = cluster.resident()?;
    // The watches must exist until the second look.
    drop(streams);

    let mut sample = Sample { operations: (STREAMS * WATCHES_PER_STREAM) as u64, ..Sample::default() };
    sample.observe(Metric::MemoryAdded, after.total as f64 - before.total as f64);
    sample.observe(Metric::MemoryAddedAnonymous, after.anonymous as f64 - before.anonymous as f64);
    Ok(sample)
}
