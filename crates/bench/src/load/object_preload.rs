//! Filling a store with objects before it is measured, or with the values that stand for them.

use std::ops::Range;
use std::time::Duration;

use setpoint_api::etcdserverpb::RangeRequest;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::objects_client::ObjectsClient;
use setpoint_api::setpoint::v1::write::Write;
use tokio::task::JoinSet;
use tonic::Status;
use tonic::transport::Channel;

use super::insist::insist;
use super::preload::{Batch, preload};
use super::{Interface, LoadError};
use crate::connection::{Connections, connection, kv, objects};
use crate::manifest::{Manifests, key, name, stored_key};
use crate::system::Cluster;

const WRITERS: usize = 12;
/// Objects in one transaction: as many as keys in one of etcd's.
const BATCH: usize = 100;
/// Who has written the objects.
pub const MANAGER: &str = "bench";
/// How far an object may be from the size its row speaks of, as a share of it.
const SIZE_TOLERANCE: f64 = 0.05;

/// Writes the workloads of these numbers in an unspecified order.
pub async fn fill(
    cluster: &Cluster,
    interface: Interface,
    manifests: Manifests,
    numbers: Range<usize>,
) -> Result<(), LoadError> {
    match interface {
        Interface::Etcd => {
            preload(cluster, numbers, Batch::Hundred, move |number| {
                (key(number, manifests.group_size), manifests.value(number, 0, Duration::ZERO))
            })
            .await
        }
        Interface::Objects => {
            let first = numbers.start;
            create(cluster, manifests, numbers).await?;
            check_size(cluster, manifests, first).await
        }
    }
}

async fn create(cluster: &Cluster, manifests: Manifests, numbers: Range<usize>) -> Result<(), LoadError> {
    let connections = Connections::new(&cluster.addresses(), WRITERS);
    let mut tasks = JoinSet::new();
    for writer in 0..WRITERS {
        let (service, numbers) = (objects(connections.of_client(writer)), numbers.clone());
        tasks.spawn(async move {
            for first in (numbers.start + writer * BATCH..numbers.end).step_by(WRITERS * BATCH) {
                let batch = first..(first + BATCH).min(numbers.end);
                let write = |number| pb::Write {
                    write: Some(Write::Create(manifests.workload(number, 0, Duration::ZERO))),
                };
                // Named, so that it is done once however often it is sent.
                let options = pb::WriteOptions { operation: format!("fill-{first}"), ..options() };
                let request = pb::TransactRequest {
                    writes: batch.map(write).collect(),
                    options: Some(options),
                    ..pb::TransactRequest::default()
                };
                insist(|| transact(service.clone(), request.clone())).await?;
            }
            Ok(())
        });
    }
    while let Some(written) = tasks.join_next().await {
        written?.map_err(LoadError::prepare("fill the store with objects"))?;
    }
    Ok(())
}

async fn transact(mut service: ObjectsClient<Channel>, request: pb::TransactRequest) -> Result<(), Status> {
    service.transact(request).await.map(drop)
}

/// What every write of a row carries.
pub fn options() -> pb::WriteOptions {
    pb::WriteOptions { manager: MANAGER.to_owned(), ..pb::WriteOptions::default() }
}

/// Looks whether a stored object has the size it is said to have: else it is compared with something else.
async fn check_size(cluster: &Cluster, manifests: Manifests, number: usize) -> Result<(), LoadError> {
    let request = RangeRequest { key: stored_key(&name(number)), ..RangeRequest::default() };
    let answer = kv(connection(cluster.addresses()[0])).range(request).await;
    let answer = answer.map_err(LoadError::prepare("read an object through the etcd API"))?.into_inner();
    let found = answer.kvs.first().map_or(0, |kv| kv.value.len());
    if is_near(found, manifests.stored_bytes) {
        return Ok(());
    }
    Err(LoadError::ObjectSize { found, expected: manifests.stored_bytes })
}

fn is_near(found: usize, expected: usize) -> bool {
    found.abs_diff(expected) as f64 <= expected as f64 * SIZE_TOLERANCE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_may_be_off_by_a_twentieth() {
        assert!(is_near(2_048, 2_048) && is_near(2_000, 2_048) && is_near(2_100, 2_048));
        assert!(!is_near(1_900, 2_048) && !is_near(2_200, 2_048) && !is_near(0, 2_048));
    }
}
