//! The leader killed: how long after kill -9 a newly sent write succeeds again on one of the other nodes.

use std::time::{Duration, Instant};

use super::{LoadError, Sample};
use crate::connection::connection;
use crate::metric::Metric;
use crate::options::Plan;
use crate::probe;
use crate::system::Cluster;

const RECOVERY_LIMIT: Duration = Duration::from_secs(60);
/// Time for a restarted node to take its place again before the next leader goes.
const PAUSE: Duration = Duration::from_secs(1);

pub async fn measure(cluster: &mut Cluster, plan: &Plan) -> Result<Sample, LoadError> {
    let mut sample = Sample::default();
    for _ in 0..plan.kills {
        tokio::time::sleep(PAUSE).await;
        let leader = cluster.leader().await?;
        let others: Vec<_> = cluster.indices().filter(|node| *node != leader).collect();
        let connections: Vec<_> = others.iter().map(|node| connection(cluster.address(*node))).collect();
        for other in &connections {
            // The connection is up before the kill, so that making it is not part of the time.
            probe::write(other.clone()).await.map_err(LoadError::prepare("write"))?;
        }
        let killed = Instant::now();
        cluster.kill(leader)?;
        let recovered = probe::first_success(killed, RECOVERY_LIMIT, &connections, probe::write).await;
        let seconds = RECOVERY_LIMIT.as_secs();
        let recovered =
            recovered.ok_or(LoadError::TooSlow { what: "a write after the leader's death", seconds })?;
        sample.observe_duration(Metric::Recovery, recovered);
        sample.operations += 1;
        cluster.restart(leader).await?;
    }
    Ok(sample)
}
