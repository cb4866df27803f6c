//! Leases: who may act now.
//!
//! Not here: the loop that acquires, keeps and gives back (`setpoint-runtime`).

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::coordination_client::CoordinationClient;
use setpoint_types::object::Fence;
use setpoint_types::{Epoch, Revision};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::attempt::{Health, Safety};
use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::options::{OperationId, WriteOptions};
use crate::pool::Slot;
use crate::refusal::Refusal;

/// The leases of a cluster.
///
/// **Guarantees**: a lease has one holder at a time, each with an epoch of its own, as the server counts. **Does not promise**
/// that a holder learns in time that it is none any more: count the time yourself, from before the request was sent, and put
/// the [`Fence`] into every write.
#[derive(Clone)]
pub struct Leases {
    client: Client,
}

/// How to ask for a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcquireOptions {
    /// Empty: "default".
    pub namespace: String,
    pub lease: String,
    /// Unique among all who may ask.
    pub holder: String,
    /// Whole seconds; none: as the Lease object says.
    pub ttl: Option<Duration>,
    /// If somebody else holds it, waits so long; a minute at most.
    pub wait: Duration,
    /// Who should have it if several want it.
    pub preferred_holder: Option<String>,
    pub operation: OperationId,
}

/// Who has a lease now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquired {
    /// It is the one who asked.
    pub acquired: bool,
    pub holder: String,
    pub ttl: Duration,
    pub revision: Revision,
    /// For the writes of the holder, whoever that is.
    pub fence: Fence,
}

/// Whether a lease is still held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// False: it was lost. Stop at once.
    pub held: bool,
    /// Of the present holder.
    pub epoch: Epoch,
    /// From when the request was sent.
    pub ttl: Duration,
}

/// A holder, and what it has seen, as the leader knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub holder: String,
    pub fence: Fence,
    pub remaining: Duration,
    /// Up to where it has seen each kind.
    pub observed: BTreeMap<String, Revision>,
}

impl Leases {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Takes a lease if it is free, or becomes so while waiting. Asking again as its holder keeps the epoch.
    pub async fn acquire(&self, options: &AcquireOptions) -> Result<Acquired, Error> {
        let write = WriteOptions { operation: options.operation.clone(), ..WriteOptions::default() };
        let (wire, safety) = self.client.options(&write);
        let target = named(&options.namespace, &options.lease);
        let mut call = Call::write("acquire", target, safety);
        call.server_wait = options.wait;
        let request = pb::AcquireRequest {
            namespace: options.namespace.clone(),
            lease: options.lease.clone(),
            holder: options.holder.clone(),
            ttl_seconds: options.ttl.map_or(0, |ttl| u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX)),
            wait_ms: u32::try_from(options.wait.as_millis()).unwrap_or(u32::MAX),
            preferred_holder: options.preferred_holder.clone().unwrap_or_default(),
            operation: wire.operation,
        };
        let answer = self
            .client
            .coordination(&call, request, |mut client, request| async move { client.acquire(request).await });
        let answer = answer.await?;
        Ok(Acquired {
            acquired: answer.acquired,
            holder: answer.holder,
            ttl: Duration::from_secs(answer.ttl_seconds.into()),
            revision: Revision::new(answer.revision),
            fence: fence(&options.namespace, &options.lease, answer.epoch),
        })
    }

    /// Gives a lease back. False if it was not held so (any more): asking twice does no harm.
    pub async fn release(&self, fence: &Fence, holder: &str) -> Result<bool, Error> {
        let call = Call::write("release", named(&fence.namespace, &fence.lease), Safety::Repeatable);
        let request = pb::ReleaseRequest {
            namespace: fence.namespace.clone(),
            lease: fence.lease.clone(),
            holder: holder.to_owned(),
            epoch: fence.epoch.0,
        };
        let answer = self
            .client
            .coordination(&call, request, |mut client, request| async move { client.release(request).await });
        Ok(answer.await?.released)
    }

    /// Everybody who holds a lease in a namespace; in all of them if it is empty.
    pub async fn holders(&self, namespace: &str) -> Result<Vec<Holder>, Error> {
        let call = Call::read("holders", namespace);
        let request = pb::HoldersRequest { namespace: namespace.to_owned() };
        let answer = self
            .client
            .coordination(&call, request, |mut client, request| async move { client.holders(request).await });
        Ok(answer.await?.holders.into_iter().map(holder).collect())
    }

    /// A stream on which any number of leases are kept.
    pub async fn keep_alive(&self) -> Result<KeepAlive, Error> {
        let call = Call::write("keep alive", "leases", Safety::Repeatable);
        let opened = self.client.open(&call, (), |wire, request| async move {
            // One request is under way at a time.
            let (sender, receiver) = mpsc::channel(1);
            let request = request.map(|()| ReceiverStream::new(receiver));
            let answer = CoordinationClient::new(wire).keep_alive(request).await?;
            Ok((sender, answer.into_inner()))
        });
        let ((requests, answers), slot) = opened.await?;
        Ok(KeepAlive { requests, answers, slot, patience: self.client.attempt_timeout() })
    }
}

/// Keeps leases. After an error the stream is of no more use: open another one.
///
/// **Guarantees**: an answer is the leader's, about the lease and epoch that it names. **Does not promise** that a lease is still held when the
/// answer is read: its time counts from when it was asked for, on the clock of this machine.
pub struct KeepAlive {
    requests: mpsc::Sender<pb::KeepAliveRequest>,
    answers: Streaming<pb::KeepAliveResponse>,
    slot: Slot,
    patience: Duration,
}

impl KeepAlive {
    /// The same stream, on which an answer may take so long.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Keeps one lease, and tells the leader up to where its holder has seen each kind.
    pub async fn keep(
        &mut self,
        fence: &Fence,
        holder: &str,
        observed: &BTreeMap<String, Revision>,
    ) -> Result<Kept, Error> {
        let request = pb::KeepAliveRequest {
            namespace: fence.namespace.clone(),
            lease: fence.lease.clone(),
            holder: holder.to_owned(),
            epoch: fence.epoch.0,
            observed: observed.iter().map(|(kind, revision)| (kind.clone(), revision.get())).collect(),
        };
        let target = named(&fence.namespace, &fence.lease);
        let asked = async {
            let ended = || Status::unavailable("the stream has ended");
            self.requests.send(request).await.map_err(|_| ended())?;
            self.answers.message().await?.ok_or_else(ended)
        };
        let answered = timeout(self.patience, asked).await;
        let status = match answered {
            // Not "lost": the server did not look at the lease.
            Ok(Ok(pb::KeepAliveResponse { error: Some(error), .. })) => {
                let refusal = Box::new(Refusal::of_error(error));
                return Err(Error::Refused { operation: "keep alive", target, refusal });
            }
            Ok(Ok(answer)) => {
                return Ok(Kept {
                    held: answer.held,
                    epoch: Epoch(answer.epoch),
                    ttl: Duration::from_secs(answer.ttl_seconds.into()),
                });
            }
            Ok(Err(status)) => status,
            Err(_) => Status::deadline_exceeded("no answer in time"),
        };
        let refusal = Refusal::of(&status);
        if setpoint_api::status::error_of(&status).is_some() && !refusal.reason.is_transient() {
            return Err(Error::Refused { operation: "keep alive", target, refusal: Box::new(refusal) });
        }
        self.slot.report(Health::Unreachable, None);
        let last = Box::new(status.into());
        Err(Error::Unanswered { operation: "keep alive", target, attempts: 1, ambiguous: true, last })
    }
}

fn named(namespace: &str, lease: &str) -> String {
    if namespace.is_empty() { format!("lease {lease}") } else { format!("lease {namespace}/{lease}") }
}

fn fence(namespace: &str, lease: &str, epoch: u64) -> Fence {
    Fence { namespace: namespace.to_owned(), lease: lease.to_owned(), epoch: Epoch(epoch) }
}

fn holder(holder: pb::Holder) -> Holder {
    Holder {
        fence: fence(&holder.namespace, &holder.lease, holder.epoch),
        holder: holder.holder,
        remaining: Duration::from_millis(holder.remaining_ms),
        observed: holder.observed.into_iter().map(|(kind, at)| (kind, Revision::new(at))).collect(),
    }
}
