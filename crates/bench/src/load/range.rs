//! Reads of one key, and of lists of 500 keys.

use std::sync::Arc;

use bytes::Bytes;
use setpoint_api::etcdserverpb::RangeRequest;

use super::clients::{Operation, OperationError, closed_loop};
use super::preload::{Batch, preload};
use super::{LoadError, Sample};
use crate::connection::{Connections, Lanes};
use crate::options::Plan;
use crate::system::Cluster;
use crate::workload::{Random, Values, config_map_key, config_maps_of, pod_key, pod_keys};

const KEYS: usize = 10_000;
const VALUE_BYTES: usize = 256;
const LIST_NAMESPACES: usize = 20;
const LIST_LENGTH: usize = 500;
const LIST_VALUE_BYTES: usize = 1_024;

/// Whether a read may be answered by the node alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    Linearizable,
    Serializable,
}

/// Reads of a key chosen among ten thousand, by 100 clients.
pub async fn measure_single(
    cluster: &Cluster,
    plan: &Plan,
    consistency: Consistency,
) -> Result<Sample, LoadError> {
    let keys = Arc::new(preload_pods(cluster).await?);
    let connections = Connections::new(&cluster.addresses(), 100);
    let serializable = consistency == Consistency::Serializable;
    let clients = (0..100).map(|client| Single {
        lanes: connections.lanes(client),
        random: Random::for_client(client),
        keys: keys.clone(),
        serializable,
    });
    closed_loop(cluster, plan, clients).await
}

/// Linearizable lists of the 500 objects of a namespace, by 10 clients.
pub async fn measure_list(cluster: &Cluster, plan: &Plan) -> Result<Sample, LoadError> {
    let values = Values::of_length(LIST_VALUE_BYTES);
    preload(cluster, 0..LIST_NAMESPACES * LIST_LENGTH, Batch::Hundred, move |number| {
        let key = config_map_key(number % LIST_NAMESPACES, number / LIST_NAMESPACES);
        (key, values.draw(&mut Random::new(number as u64)))
    })
    .await?;
    let connections = Connections::new(&cluster.addresses(), 10);
    let clients =
        (0..10).map(|client| List { lanes: connections.lanes(client), random: Random::for_client(client) });
    closed_loop(cluster, plan, clients).await
}

/// Puts the pods that single-key rows read, and returns their keys.
pub async fn preload_pods(cluster: &Cluster) -> Result<Vec<Bytes>, LoadError> {
    let values = Values::of_length(VALUE_BYTES);
    let entry = move |number| (pod_key(number), values.draw(&mut Random::new(number as u64)));
    preload(cluster, 0..KEYS, Batch::Hundred, entry).await?;
    Ok(pod_keys(KEYS))
}

/// Reads one key and checks that its value came.
pub async fn read_one(lanes: &mut Lanes, key: Bytes, serializable: bool) -> Result<(), OperationError> {
    let request = RangeRequest { key, serializable, ..RangeRequest::default() };
    let answer = lanes.next().range(request).await?.into_inner();
    match answer.kvs.as_slice() {
        [found] if found.value.len() == VALUE_BYTES => Ok(()),
        _ => Err(OperationError::Wrong("a read without the value")),
    }
}

struct Single {
    lanes: Lanes,
    random: Random,
    keys: Arc<Vec<Bytes>>,
    serializable: bool,
}

impl Operation for Single {
    async fn call(&mut self) -> Result<(), OperationError> {
        let key = self.keys[self.random.below(self.keys.len())].clone();
        read_one(&mut self.lanes, key, self.serializable).await
    }
}

struct List {
    lanes: Lanes,
    random: Random,
}

impl Operation for List {
    async fn call(&mut self) -> Result<(), OperationError> {
        let (key, range_end) = config_maps_of(self.random.below(LIST_NAMESPACES));
        let request = RangeRequest { key, range_end, limit: LIST_LENGTH as i64, ..RangeRequest::default() };
        let answer = self.lanes.next().range(request).await?.into_inner();
        if answer.kvs.len() != LIST_LENGTH {
            return Err(OperationError::Wrong("a list of another length"));
        }
        Ok(())
    }
}
