//! Elections kept by the server, for clients that do not build them from leases and transactions.

use std::pin::Pin;

use bytes::Bytes;
use futures::Stream;
use setpoint_access::{Need, key_read, key_watch};
use setpoint_api::mvccpb;
use setpoint_api::v3electionpb as pb;
use setpoint_api::v3electionpb::election_server::Election;
use setpoint_store::command::{DeleteRange, Put, TxnOp};
use setpoint_types::{KeyRange, LeaseId, Revision};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Extensions, Request, Response, Status};

use super::context::{Context, revision};
use super::error::EtcdError;
use super::{permit, succession};
use crate::access::Pass;
use crate::load::Seat;
use crate::watch::{Event, Filters};

/// Announcements that may wait for one observer.
const ANNOUNCEMENTS: usize = 4;

pub struct ElectionService(pub Context);

type Announcements = Pin<Box<dyn Stream<Item = Result<pb::LeaderResponse, Status>> + Send>>;

#[tonic::async_trait]
impl Election for ElectionService {
    async fn campaign(
        &self,
        request: Request<pb::CampaignRequest>,
    ) -> Result<Response<pb::CampaignResponse>, Status> {
        self.0.may_attach(&request, |it| [LeaseId(it.lease)]).await?;
        let mut pass = self.0.may_write(&request, |it| vec![Need::put_within(succession::line(&it.name))])?;
        let (_, extensions, request) = request.into_parts();
        let won = self.campaign_for(request, &extensions, &mut pass).await;
        Ok(Response::new(pass.settle(won, |it| revision(it.header.as_ref())).await?))
    }

    async fn proclaim(
        &self,
        request: Request<pb::ProclaimRequest>,
    ) -> Result<Response<pb::ProclaimResponse>, Status> {
        let leader = request.get_ref().leader.clone().ok_or_else(missing_leader)?;
        self.0.may_attach(&request, |_| [LeaseId(leader.lease)]).await?;
        let pass = self.0.may_write(&request, |_| vec![Need::put(leader.key.clone())])?;
        let value = request.into_inner().value;
        let said = self.announce(leader.key.clone(), created(&leader), LeaseId(leader.lease), value).await;
        let revision = pass.settle(said, |revision| Some(*revision)).await?;
        Ok(Response::new(pb::ProclaimResponse { header: self.0.header(revision) }))
    }

    async fn leader(
        &self,
        request: Request<pb::LeaderRequest>,
    ) -> Result<Response<pb::LeaderResponse>, Status> {
        self.0.may_read(&request, |it| key_read(&succession::line(&it.name)))?;
        self.0.barrier().await?;
        let (leader, revision) = succession::first(&self.0, &request.into_inner().name)?;
        let leader = leader.ok_or_else(|| Status::unknown("election: no leader"))?;
        let kv = Some(succession::wire(leader));
        Ok(Response::new(pb::LeaderResponse { header: self.0.header(revision), kv }))
    }

    type ObserveStream = Announcements;

    async fn observe(&self, request: Request<pb::LeaderRequest>) -> Result<Response<Announcements>, Status> {
        self.0.may_read(&request, |it| key_watch(&succession::line(&it.name)))?;
        let mut standing = self.0.gate.standing(&request);
        self.0.barrier().await?;
        let (announced, output) = mpsc::channel(ANNOUNCEMENTS);
        let line = succession::line(&request.get_ref().name);
        let observer = Observer { context: self.0.clone(), name: request.into_inner().name, announced };
        tokio::spawn(async move {
            let announced = observer.announced.clone();
            let observed = tokio::select! {
                observed = observer.run() => observed,
                denied = standing.lost(|| key_watch(&line)) => Err(permit::denied(denied)),
                () = announced.closed() => Ok(()),
            };
            if let Err(status) = observed {
                let _ = announced.send(Err(status)).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(output))))
    }

    async fn resign(
        &self,
        request: Request<pb::ResignRequest>,
    ) -> Result<Response<pb::ResignResponse>, Status> {
        let leader = request.get_ref().leader.clone().ok_or_else(missing_leader)?;
        let key = present(&leader.key)?;
        let needs = || vec![Need::delete_keys(KeyRange::Single(leader.key.clone()))];
        let pass = self.0.may_write(&request, |_| needs())?;
        let delete = DeleteRange { range: KeyRange::Single(leader.key.clone()), want_previous: false };
        let then = TxnOp::DeleteRange(delete);
        let left = succession::guarded(&self.0, key, created(&leader), then, Vec::new()).await;
        let result = pass.settle(left, |it| it.succeeded.then_some(it.revision)).await?;
        Ok(Response::new(pb::ResignResponse { header: self.0.header(result.revision) }))
    }
}

impl ElectionService {
    /// Tells the pass which key was written.
    async fn campaign_for(
        &self,
        request: pb::CampaignRequest,
        extensions: &Extensions,
        pass: &mut Pass,
    ) -> Result<pb::CampaignResponse, Status> {
        let pb::CampaignRequest { name, lease, value } = request;
        let lease = succession::session(&self.0, lease).await?;
        let place = succession::enter(&self.0, &name, lease, value.clone()).await?;
        pass.wrote(|| vec![Need::put(place.key.clone())]);
        if place.earlier.as_ref().is_some_and(|earlier| *earlier != value) {
            self.announce(place.key.clone(), place.created, lease, value).await?;
        }
        Seat::leave(extensions);
        succession::own(&self.0, name.clone(), place.clone()).await?;
        let leader = pb::LeaderKey { name, key: place.key, rev: place.created.wire(), lease: lease.0 };
        Ok(pb::CampaignResponse { header: self.0.header(place.seen), leader: Some(leader) })
    }

    /// Changes the announcement of a leader that still leads. Returns the revision afterwards.
    async fn announce(
        &self,
        key: Bytes,
        created: Revision,
        lease: LeaseId,
        value: Bytes,
    ) -> Result<Revision, Status> {
        present(&key)?;
        self.0.admit(key.len() + value.len(), true).await?;
        let then = TxnOp::Put(Put { key: key.clone(), value, lease, ..Put::default() });
        let result = succession::guarded(&self.0, &key, created, then, Vec::new()).await?;
        if result.succeeded { Ok(result.revision) } else { Err(Status::unknown("election: not leader")) }
    }
}

fn missing_leader() -> Status {
    Status::unknown("\"leader\" field must be provided")
}

fn present(key: &Bytes) -> Result<&Bytes, EtcdError> {
    if key.is_empty() { Err(EtcdError::EmptyKey) } else { Ok(key) }
}

/// A number no revision can have stands for a leadership that never was.
fn created(leader: &pb::LeaderKey) -> Revision {
    u64::try_from(leader.rev).map_or(Revision::MAX, Revision::new)
}

/// Tells one client who leads, beginning with whoever leads now.
struct Observer {
    context: Context,
    name: Bytes,
    announced: mpsc::Sender<Result<pb::LeaderResponse, Status>>,
}

impl Observer {
    async fn run(&self) -> Result<(), Status> {
        loop {
            let (leader, revision) = succession::first(&self.context, &self.name)?;
            let Some(leader) = leader else {
                // Whoever comes first leads; which key that is, the line is asked again.
                let candidates = Filters { no_puts: false, no_deletes: true };
                let line = succession::line(&self.name);
                let mut puts = succession::follow(&self.context, line, revision.successor(), candidates);
                succession::next_events(&self.context, &mut puts).await?;
                continue;
            };
            let key = leader.key.clone();
            self.announce(succession::wire(leader), revision).await?;
            self.follow_leader(key, revision).await?;
        }
    }

    /// Passes on what the leader announces, until it leads no more.
    async fn follow_leader(&self, key: Bytes, revision: Revision) -> Result<(), Status> {
        let range = KeyRange::Single(key);
        let mut changes = succession::follow(&self.context, range, revision.successor(), Filters::default());
        loop {
            let events = succession::next_events(&self.context, &mut changes).await?;
            if events.is_empty() {
                return Ok(());
            }
            for Event { deleted, current, .. } in events {
                if deleted {
                    return Ok(());
                }
                let revision = current.modified;
                self.announce(succession::wire(current), revision).await?;
            }
        }
    }

    async fn announce(&self, kv: mvccpb::KeyValue, revision: Revision) -> Result<(), Status> {
        let header = self.context.header(revision);
        let announcement = pb::LeaderResponse { header, kv: Some(kv) };
        self.announced.send(Ok(announcement)).await.map_err(|_| Status::cancelled("the observer left"))
    }
}
