//! Filling a store before it is measured.

use std::ops::Range;

use bytes::Bytes;
use setpoint_api::etcdserverpb::kv_client::KvClient;
use setpoint_api::etcdserverpb::{PutRequest, RangeRequest, RequestOp, TxnRequest, request_op};
use tokio::task::JoinSet;
use tonic::Status;
use tonic::transport::Channel;

use super::LoadError;
use crate::connection::{Connections, kv};
use crate::system::Cluster;

/// How entries are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// Many puts in a transaction, which is fast. etcd refuses more than 128 by default.
    Hundred,
    /// Each by a put of its own, as most entries of a log come.
    Single,
}

/// Puts an entry for each number, made by `entry`, in an unspecified order.
pub async fn preload<E>(
    cluster: &Cluster,
    numbers: Range<usize>,
    batch: Batch,
    entry: E,
) -> Result<(), LoadError>
where
    E: Fn(usize) -> (Bytes, Bytes) + Clone + Send + Sync + 'static,
{
    let (size, writers) = match batch {
        Batch::Hundred => (100, 24),
        Batch::Single => (1, 300),
    };
    let connections = Connections::new(&cluster.addresses(), writers);
    let mut tasks = JoinSet::new();
    for writer in 0..writers {
        let mut service = kv(connections.of_client(writer));
        let (entry, numbers) = (entry.clone(), numbers.clone());
        tasks.spawn(async move {
            for first in (numbers.start + writer * size..numbers.end).step_by(writers * size) {
                let entries = (first..(first + size).min(numbers.end)).map(&entry);
                write(&mut service, batch, entries).await?;
            }
            Ok(())
        });
    }
    while let Some(written) = tasks.join_next().await {
        written?.map_err(LoadError::prepare("fill the store"))?;
    }
    Ok(())
}

async fn write(
    service: &mut KvClient<Channel>,
    batch: Batch,
    entries: impl Iterator<Item = (Bytes, Bytes)>,
) -> Result<(), Status> {
    let puts = entries.map(|(key, value)| PutRequest { key, value, ..PutRequest::default() });
    match batch {
        Batch::Single => {
            for put in puts {
                service.put(put).await?;
            }
        }
        Batch::Hundred => {
            let operation = |put| RequestOp { request: Some(request_op::Request::RequestPut(put)) };
            let success = puts.map(operation).collect();
            service.txn(TxnRequest { success, ..TxnRequest::default() }).await?;
        }
    }
    Ok(())
}

/// The store's revision now.
pub async fn revision(service: &mut KvClient<Channel>) -> Result<i64, Status> {
    let request = RangeRequest { key: Bytes::from_static(b"/probe"), ..RangeRequest::default() };
    let answer = service.range(request).await?.into_inner();
    Ok(answer.header.map_or(0, |header| header.revision))
}
