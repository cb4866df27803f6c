//! What compaction takes from puts: the rate while it runs, as a share of the rate while none does.
//!
//! The store starts with a long history. Puts run all the time; the undisturbed rate is the mean of a window before
//! and one after, so that a drift over the row cancels. In between the history is compacted and then compacted again
//! and again up to the present, each time waiting until the space is physically free, as etcd's clients can ask.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use setpoint_api::etcdserverpb::CompactionRequest;
use tonic::Status;

use super::clients::Clients;
use super::preload::{Batch, preload, revision};
use super::put::puts;
use super::{LoadError, Sample};
use crate::connection::{connection, kv};
use crate::metric::Metric;
use crate::options::Plan;
use crate::system::Cluster;
use crate::workload::{Random, Values, pod_key};

const CLIENTS: usize = 100;
const HISTORY_KEYS: usize = 20_000;
const HISTORY_VERSIONS: usize = 10;
const PAUSE: Duration = Duration::from_millis(100);
const COMPACTION_LIMIT: Duration = Duration::from_secs(60);

pub async fn measure(cluster: &Cluster, plan: &Plan) -> Result<Sample, LoadError> {
    let values = Values::of_length(256);
    let versions = if plan.quick { 2 } else { HISTORY_VERSIONS };
    preload(cluster, 0..HISTORY_KEYS * versions, Batch::Hundred, move |number| {
        (pod_key(number % HISTORY_KEYS), values.draw(&mut Random::new(number as u64)))
    })
    .await?;

    let clients = Clients::start(puts(cluster, CLIENTS));
    tokio::time::sleep(plan.warm_up).await;
    let before = clients.measure(cluster, plan.window / 2).await?;
    let stop = Arc::new(AtomicBool::new(false));
    let compacting = tokio::spawn(compact_until(stop.clone(), cluster.addresses()[0]));
    let during = clients.measure(cluster, plan.window).await?;
    stop.store(true, Ordering::Relaxed);
    // The last compaction must have ended before the undisturbed rate is measured again.
    let ended = tokio::time::timeout(COMPACTION_LIMIT, compacting).await;
    let seconds = COMPACTION_LIMIT.as_secs();
    let ended = ended.map_err(|_| LoadError::TooSlow { what: "the end of a compaction", seconds })?;
    let compactions = ended?.map_err(LoadError::prepare("compact"))?;
    tokio::time::sleep(plan.warm_up).await;
    let after = clients.measure(cluster, plan.window / 2).await?;
    clients.stop().await;

    let undisturbed = (before.rate() + after.rate()) / 2.0;
    let mut sample = during.sample();
    sample.operations += before.latency.count() + after.latency.count();
    sample.errors += before.errors + after.errors;
    sample.first_error = sample.first_error.or(before.first_error).or(after.first_error);
    sample.observe(Metric::RateUndisturbed, undisturbed);
    sample.observe(Metric::RateCompacting, during.rate());
    sample.observe(Metric::RateKept, during.rate() / undisturbed);
    sample.observe(Metric::CompactionsDone, f64::from(compactions));
    Ok(sample)
}

/// Compacts up to the present over and over until told to stop; returns how often.
async fn compact_until(stop: Arc<AtomicBool>, address: SocketAddr) -> Result<u32, Status> {
    let mut service = kv(connection(address));
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        let revision = revision(&mut service).await?;
        service.compact(CompactionRequest { revision, physical: true }).await?;
        done += 1;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(done)
}
