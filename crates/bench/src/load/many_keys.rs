//! Many keys (a million by default): memory and disk per node, and how long a restarted node takes to serve.
//!
//! The keys come in random order. Most are written a hundred per transaction to save time, but the last eighth by puts
//! of their own: with a million keys that is enough log entries for etcd to take a snapshot and cut its log, as it does
//! in real use, where otherwise it would hold and replay everything. Memory and disk are read some seconds after the
//! last write. One node is then restarted by request (SIGTERM) and another after kill -9; a node serves when it answers
//! a linearizable read.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::preload::{Batch, preload};
use super::{LoadError, Sample};
use crate::metric::Metric;
use crate::options::Plan;
use crate::system::Cluster;
use crate::workload::{Random, pod_key, write_object};

const VALUE_BYTES: usize = 256;
/// A prime, so that multiples of it reach every number below any count that is not its multiple.
const STRIDE: usize = 982_451_653;
/// Time for a restarted node to take its place again before the next one goes.
const PAUSE: Duration = Duration::from_millis(500);

pub async fn measure(cluster: &mut Cluster, plan: &Plan) -> Result<Sample, LoadError> {
    let count = plan.keys;
    let started = Instant::now();
    let entry = move |number| entry(shuffled(number, count));
    let bulk = count - count / 8;
    preload(cluster, 0..bulk, Batch::Hundred, entry).await?;
    preload(cluster, bulk..count, Batch::Single, entry).await?;
    let loaded = started.elapsed();
    tokio::time::sleep(plan.settle).await;

    let nodes = cluster.size() as f64;
    let resident = cluster.resident()?;
    let disk = cluster.disk_bytes()?;
    let mut sample = Sample { operations: count as u64, ..Sample::default() };
    sample.observe_duration(Metric::LoadTime, loaded);
    sample.observe(Metric::Resident, resident.total as f64 / nodes);
    sample.observe(Metric::ResidentAnonymous, resident.anonymous as f64 / nodes);
    sample.observe(Metric::ResidentFileMapped, resident.file_mapped as f64 / nodes);
    sample.observe(Metric::Disk, disk as f64 / nodes);

    let (first, second) = cluster.two_nodes();
    cluster.terminate(first)?;
    sample.observe_duration(Metric::Restart, cluster.restart(first).await?);
    tokio::time::sleep(PAUSE).await;
    cluster.kill(second)?;
    sample.observe_duration(Metric::RestartAfterKill, cluster.restart(second).await?);
    Ok(sample)
}

/// A key with a value that no other key has.
fn entry(number: usize) -> (Bytes, Bytes) {
    let mut value = Vec::with_capacity(VALUE_BYTES + 64);
    write_object(&mut Random::new(number as u64), VALUE_BYTES, &mut value);
    (pod_key(number), Bytes::from(value))
}

/// Each number below `count` once, in an order that looks random.
fn shuffled(position: usize, count: usize) -> usize {
    ((position as u128 * STRIDE as u128) % count as u128) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_key_comes_once() {
        for count in [1_000, 99_999, 100_000] {
            let seen: HashSet<usize> = (0..count).map(|position| shuffled(position, count)).collect();
            assert_eq!(seen.len(), count);
        }
    }

    #[test]
    fn values_differ_between_keys() {
        assert_ne!(entry(1).1, entry(2).1);
        assert_eq!(entry(1).1.len(), VALUE_BYTES);
    }
}
