//! Puts of 256-byte values over ten thousand keys chosen at random.

use std::sync::Arc;

use bytes::Bytes;
use setpoint_api::etcdserverpb::PutRequest;

use super::clients::{Operation, OperationError, closed_loop};
use super::{LoadError, Sample};
use crate::connection::{Connections, Lanes};
use crate::options::Plan;
use crate::system::Cluster;
use crate::workload::{Random, Values, pod_keys};

const KEYS: usize = 10_000;
const VALUE_BYTES: usize = 256;

pub async fn measure(cluster: &Cluster, plan: &Plan, clients: usize) -> Result<Sample, LoadError> {
    closed_loop(cluster, plan, puts(cluster, clients)).await
}

/// That many clients that put.
pub fn puts(cluster: &Cluster, clients: usize) -> Vec<Put> {
    let connections = Connections::new(&cluster.addresses(), clients);
    let objects = Arc::new(Objects { keys: pod_keys(KEYS), values: Values::of_length(VALUE_BYTES) });
    let client = |client| Put {
        lanes: connections.lanes(client),
        random: Random::for_client(client),
        objects: objects.clone(),
    };
    (0..clients).map(client).collect()
}

/// One client's puts.
pub struct Put {
    lanes: Lanes,
    random: Random,
    objects: Arc<Objects>,
}

/// What is put, shared by all clients.
pub struct Objects {
    pub keys: Vec<Bytes>,
    pub values: Values,
}

impl Operation for Put {
    async fn call(&mut self) -> Result<(), OperationError> {
        let request = self.objects.draw(&mut self.random);
        let answer = self.lanes.next().put(request).await?.into_inner();
        match answer.header {
            Some(header) if header.revision > 1 => Ok(()),
            _ => Err(OperationError::Wrong("a put without a new revision")),
        }
    }
}

impl Objects {
    pub fn draw(&self, random: &mut Random) -> PutRequest {
        let key = self.keys[random.below(self.keys.len())].clone();
        PutRequest { key, value: self.values.draw(random), ..PutRequest::default() }
    }
}
