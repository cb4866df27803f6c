//! Telling the server what there is, many objects in a request, and asking how many there are.

use bytes::Bytes;
use setpoint_api::etcdserverpb::RangeRequest;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::objects_client::ObjectsClient;
use setpoint_api::setpoint::v1::write::Write;
use tokio::task::JoinSet;
use tonic::Status;
use tonic::transport::Channel;

use super::ScaleError;
use super::made::{self, NAMESPACES};
use super::site::Site;
use crate::connection::{connection, kv, objects};
use crate::load::insist;

const WRITERS: usize = 12;
/// Objects in one transaction.
const BATCH: usize = 100;

pub fn options() -> pb::WriteOptions {
    pb::WriteOptions { manager: "bench".to_owned(), ..pb::WriteOptions::default() }
}

/// Namespaces, and a quota in each.
pub async fn tenants(site: &Site, also: &str) -> Result<(), ScaleError> {
    let names: Vec<String> = (0..NAMESPACES).map(made::namespace).chain([also.to_owned()]).collect();
    create(site, "namespaces", names.iter().map(|name| made::namespace_object(name)).collect()).await?;
    create(site, "quotas", names.iter().map(|name| made::quota(name)).collect()).await
}

/// Creates objects in an unspecified order.
pub async fn create(site: &Site, what: &'static str, mut made: Vec<pb::Object>) -> Result<(), ScaleError> {
    let addresses = site.addresses();
    let mut tasks = JoinSet::new();
    let mut shares: Vec<Vec<Vec<pb::Object>>> = vec![Vec::new(); WRITERS];
    let mut next = 0;
    while !made.is_empty() {
        let batch = made.split_off(made.len().saturating_sub(BATCH));
        shares[next % WRITERS].push(batch);
        next += 1;
    }
    for (writer, share) in shares.into_iter().enumerate() {
        let service = objects(connection(addresses[writer % addresses.len()]));
        tasks.spawn(async move {
            for (number, batch) in share.into_iter().enumerate() {
                // Named, so that it is done once however often it is sent.
                let operation = format!("{what}-{writer}-{number}");
                let write = |object| pb::Write { write: Some(Write::Create(object)) };
                let request = pb::TransactRequest {
                    writes: batch.into_iter().map(write).collect(),
                    options: Some(pb::WriteOptions { operation, ..options() }),
                    ..pb::TransactRequest::default()
                };
                insist(|| transact(service.clone(), request.clone())).await?;
            }
            Ok(())
        });
    }
    while let Some(written) = tasks.join_next().await {
        written?.map_err(ScaleError::request("create objects"))?;
    }
    Ok(())
}

async fn transact(mut service: ObjectsClient<Channel>, request: pb::TransactRequest) -> Result<(), Status> {
    service.transact(request).await.map(drop)
}

/// How many objects of a kind one server has. Reads none of them.
pub async fn count(service: Channel, kind: &str) -> Result<u64, ScaleError> {
    let request = RangeRequest {
        key: Bytes::from(format!("/setpoint.v1/{kind}/")),
        range_end: Bytes::from(format!("/setpoint.v1/{kind}0")),
        count_only: true,
        serializable: true,
        ..RangeRequest::default()
    };
    let answer = kv(service).range(request).await.map_err(ScaleError::request("count objects"))?;
    Ok(answer.into_inner().count.max(0) as u64)
}
