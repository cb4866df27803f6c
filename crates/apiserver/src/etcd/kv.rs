//! Keys: Range, RangeStream, Put, DeleteRange, Txn, Compact.

use futures::Stream;
use prost::Message;
use setpoint_access::{Need, Verb};
use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::kv_server::Kv;
use setpoint_store::command::{Command, Range, Txn};
use setpoint_store::{Page, PageMax, Response as Verdict};
use setpoint_types::{KeyRange, LeaseId};
use std::pin::Pin;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::context::{Context, mismatched, revision};
use super::error::{EtcdError, too_many};
use super::{check, convert, permit};
use crate::access::Pass;

/// Ranges that may touch more keys than this leave the async workers to others.
const INLINE_KEYS_MAX: i64 = 64;

/// Ranges that may answer with more keys than this take one of the few seats for that.
const BULK_KEYS_MIN: i64 = 1000;

/// A streamed range starts with a small chunk and doubles up to so many keys, or about so many bytes.
const CHUNK_BYTES: usize = 1 << 20;
const CHUNK_KEYS_FIRST: usize = 16;
const CHUNK_KEYS_MAX: usize = 4096;

pub struct KvService(pub Context);

#[tonic::async_trait]
impl Kv for KvService {
    async fn range(&self, request: Request<pb::RangeRequest>) -> Result<Response<pb::RangeResponse>, Status> {
        self.0.may_read(&request, permit::range)?;
        check::range(request.get_ref())?;
        if !request.get_ref().serializable {
            self.0.barrier().await?;
        }
        let _seat = match is_bulk(request.get_ref()) {
            true => Some(self.0.load.to_bulk(request.extensions()).await.map_err(too_many)?),
            false => None,
        };
        let read = convert::range(request.into_inner());
        let soon = if is_small(&read) { self.0.replica.store.range_soon(&read) } else { None };
        let result = match soon {
            Some(result) => result,
            None => {
                let store = self.0.replica.store.clone();
                blocking(move || store.range(&read)).await?
            }
        };
        let result = result.map_err(|failure| self.0.read_failure(failure))?;
        let header = self.0.header(result.revision);
        Ok(Response::new(convert::range_response(result, header)))
    }

    type RangeStreamStream = Pin<Box<dyn Stream<Item = Result<pb::RangeStreamResponse, Status>> + Send>>;

    async fn range_stream(
        &self,
        request: Request<pb::RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        self.0.may_read(&request, permit::range)?;
        let request = request.into_inner();
        check::range(&request)?;
        if !request.serializable {
            self.0.barrier().await?;
        }
        let read = convert::range(request);
        if !read.is_natural() {
            return Err(Status::unimplemented(
                "etcdserver: range stream supports no sorting and no revision bounds",
            ));
        }
        let (chunks, output) = mpsc::channel(2);
        let context = self.0.clone();
        tokio::spawn(async move {
            if let Err(status) = stream_range(&context, read, &chunks).await {
                let _ = chunks.send(Err(status)).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(output))))
    }

    async fn put(&self, request: Request<pb::PutRequest>) -> Result<Response<pb::PutResponse>, Status> {
        self.0.may_attach(&request, |it| [LeaseId(it.lease)]).await?;
        let pass = self.0.may_write(&request, permit::put)?;
        let done = self.write_put(request.into_inner()).await;
        Ok(Response::new(pass.settle(done, |it| revision(it.header.as_ref())).await?))
    }

    async fn delete_range(
        &self,
        request: Request<pb::DeleteRangeRequest>,
    ) -> Result<Response<pb::DeleteRangeResponse>, Status> {
        let pass = self.0.may_write(&request, permit::delete_range)?;
        let done = self.write_delete(request.into_inner()).await;
        Ok(Response::new(pass.settle(done, |it| revision(it.header.as_ref())).await?))
    }

    async fn txn(&self, request: Request<pb::TxnRequest>) -> Result<Response<pb::TxnResponse>, Status> {
        self.0.may_attach(&request, permit::leases).await?;
        let mut pass = self.0.may_write(&request, permit::txn)?;
        let done = self.write_txn(request.into_inner(), &mut pass).await;
        Ok(Response::new(pass.settle(done, |it| revision(it.header.as_ref())).await?))
    }

    async fn compact(
        &self,
        request: Request<pb::CompactionRequest>,
    ) -> Result<Response<pb::CompactionResponse>, Status> {
        let need = |it: &pb::CompactionRequest| Need::cluster(Verb::Update, "compact").about(it.revision);
        let pass = self.0.may_write(&request, |it| vec![need(it)])?;
        let request = request.into_inner();
        let done = match self.0.propose(Command::Compact { revision: request.revision }).await {
            Ok(Verdict::Compact { revision }) => {
                Ok(pb::CompactionResponse { header: self.0.header(revision) })
            }
            Ok(other) => Err(mismatched(&other)),
            Err(status) => Err(status),
        };
        let answer = pass.settle(done, |it| revision(it.header.as_ref())).await?;
        if request.physical {
            self.0.collected(request.revision).await?;
        }
        Ok(Response::new(answer))
    }
}

impl KvService {
    async fn write_put(&self, request: pb::PutRequest) -> Result<pb::PutResponse, Status> {
        check::put(&request)?;
        self.0.admit(request.encoded_len(), true).await?;
        match self.0.propose(Command::Put(convert::put(request))).await? {
            Verdict::Put { revision, previous } => {
                Ok(convert::put_response(previous, self.0.header(revision)))
            }
            other => Err(mismatched(&other)),
        }
    }

    async fn write_delete(&self, request: pb::DeleteRangeRequest) -> Result<pb::DeleteRangeResponse, Status> {
        check::delete_range(&request)?;
        self.0.admit(request.encoded_len(), false).await?;
        match self.0.propose(Command::DeleteRange(convert::delete_range(request))).await? {
            Verdict::DeleteRange { revision, deleted, previous } => {
                Ok(convert::delete_response(deleted, previous, self.0.header(revision)))
            }
            other => Err(mismatched(&other)),
        }
    }

    /// Tells the pass which of the writes it could do it did.
    async fn write_txn(&self, request: pb::TxnRequest, pass: &mut Pass) -> Result<pb::TxnResponse, Status> {
        check::txn(&request, self.0.limits.txn_ops)?;
        let serializable = is_serializable(&request);
        let size = request.encoded_len();
        let txn = convert::txn(request);
        if txn.is_read_only() {
            return self.read_txn(txn, serializable).await;
        }
        self.0.admit(size, txn.has_puts()).await?;
        let kept = pass.records().then(|| txn.clone());
        match self.0.propose(Command::Txn(txn)).await? {
            Verdict::Txn(result) => {
                if let Some(txn) = kept {
                    pass.wrote(|| permit::written(&txn, &result));
                }
                let header = self.0.header(result.revision);
                Ok(convert::txn_response(result, header))
            }
            other => Err(mismatched(&other)),
        }
    }

    async fn read_txn(&self, txn: Txn, serializable: bool) -> Result<pb::TxnResponse, Status> {
        if !serializable {
            self.0.barrier().await?;
        }
        let store = self.0.replica.store.clone();
        let result = blocking(move || store.read_txn(&txn)).await?;
        let result = result.map_err(|failure| self.0.read_failure(failure))?;
        let header = self.0.header(result.revision);
        Ok(convert::txn_response(result, header))
    }
}

/// Runs a read that may take long outside the async workers.
pub(super) async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    tokio::task::spawn_blocking(read).await.map_err(|_| EtcdError::Stopped.into())
}

fn is_small(read: &Range) -> bool {
    let limited = read.limit > 0 && read.limit <= INLINE_KEYS_MAX && read.revision <= 0 && read.is_natural();
    matches!(read.range, KeyRange::Single(_)) || limited || (read.count_only && read.revision <= 0)
}

/// Whether the answer may be a large one.
fn is_bulk(request: &pb::RangeRequest) -> bool {
    let many = request.limit <= 0 || request.limit > BULK_KEYS_MIN;
    many && !request.range_end.is_empty() && !request.count_only
}

/// A transaction may be answered from local state if everything it can do is a range that asks for no more.
fn is_serializable(request: &pb::TxnRequest) -> bool {
    use pb::request_op::Request as Op;
    request.success.iter().chain(&request.failure).all(|op| match &op.request {
        Some(Op::RequestRange(range)) => range.serializable,
        _ => false,
    })
}

/// Sends a range in chunks, all of one revision. What describes the whole answer comes with the last chunk.
async fn stream_range(
    context: &Context,
    read: Range,
    chunks: &mpsc::Sender<Result<pb::RangeStreamResponse, Status>>,
) -> Result<(), Status> {
    let store = context.replica.store.clone();
    let opened = blocking(move || store.open_pages(&read)).await?;
    let mut pages = opened.map_err(|failure| context.read_failure(failure))?;
    let mut keys = CHUNK_KEYS_FIRST;
    loop {
        let store = context.replica.store.clone();
        let (page, turned) = blocking(move || {
            let page = store.next_page(&mut pages, PageMax { keys, bytes: CHUNK_BYTES });
            (page, pages)
        })
        .await?;
        pages = turned;
        let Page { kvs, last } = page.map_err(|failure| context.read_failure(failure))?;
        let mut response = pb::RangeResponse {
            kvs: kvs.into_iter().map(convert::key_value).collect(),
            ..Default::default()
        };
        keys = next_chunk(keys, response.encoded_len());
        if last {
            let whole = pages.whole();
            response.header = context.header(whole.revision);
            response.count = whole.count as i64;
            response.more = whole.more;
        }
        let chunk = pb::RangeStreamResponse { range_response: Some(response) };
        if chunks.send(Ok(chunk)).await.is_err() || last {
            return Ok(());
        }
    }
}

/// How many keys to choose next, so that few are chosen that `CHUNK_BYTES` then leaves for later.
fn next_chunk(keys: usize, bytes: usize) -> usize {
    if bytes >= CHUNK_BYTES { (keys / 2).max(1) } else { (keys * 2).min(CHUNK_KEYS_MAX) }
}
