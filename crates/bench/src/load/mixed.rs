//! Nine linearizable reads to one put, over the same keys.

use std::sync::Arc;

use super::clients::{Operation, OperationError, closed_loop};
use super::put::Objects;
use super::range::{preload_pods, read_one};
use super::{LoadError, Sample};
use crate::connection::{Connections, Lanes};
use crate::options::Plan;
use crate::system::Cluster;
use crate::workload::{Random, Values};

const CLIENTS: usize = 100;
const PUTS_PERCENT: usize = 10;

pub async fn measure(cluster: &Cluster, plan: &Plan) -> Result<Sample, LoadError> {
    let objects = Arc::new(Objects { keys: preload_pods(cluster).await?, values: Values::of_length(256) });
    let connections = Connections::new(&cluster.addresses(), CLIENTS);
    let clients = (0..CLIENTS).map(|client| Mixed {
        lanes: connections.lanes(client),
        random: Random::for_client(client),
        objects: objects.clone(),
    });
    closed_loop(cluster, plan, clients).await
}

struct Mixed {
    lanes: Lanes,
    random: Random,
    objects: Arc<Objects>,
}

impl Operation for Mixed {
    async fn call(&mut self) -> Result<(), OperationError> {
        let put = self.objects.draw(&mut self.random);
        if self.random.below(100) < PUTS_PERCENT {
            self.lanes.next().put(put).await?;
            return Ok(());
        }
        read_one(&mut self.lanes, put.key, false).await
    }
}
