//! Leases on the wire.

use std::pin::Pin;

use futures::{Stream, StreamExt};
use setpoint_access::{KEYS, Need, Verb};
use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::lease_server::Lease;
use setpoint_api::setpoint::peer::v1::{LeaseLifetime, leader_reply, leader_request};
use setpoint_store::Response as Verdict;
use setpoint_store::command::Command;
use setpoint_types::LeaseId;
use tonic::{Request, Response, Status, Streaming};

use super::context::{Context, mismatched, revision};
use super::error::EtcdError;
use super::permit;
use crate::leader::ask;
use crate::lease::{RenewError, TTL_MAX};

/// Renewals of one stream that are under way at a time; further ones wait on the stream.
const RENEWALS_IN_FLIGHT: usize = 128;

pub struct LeaseService(pub Context);

type KeepAlives = Pin<Box<dyn Stream<Item = Result<pb::LeaseKeepAliveResponse, Status>> + Send>>;

#[tonic::async_trait]
impl Lease for LeaseService {
    async fn lease_grant(
        &self,
        request: Request<pb::LeaseGrantRequest>,
    ) -> Result<Response<pb::LeaseGrantResponse>, Status> {
        let needs = |it: &pb::LeaseGrantRequest| vec![Need::lease(Verb::Update, LeaseId(it.id))];
        let mut pass = self.0.may_write(&request, needs)?;
        let granted = self.grant(request.into_inner()).await;
        if let Ok(granted) = &granted {
            pass.wrote(|| vec![Need::lease(Verb::Update, LeaseId(granted.id))]);
        }
        Ok(Response::new(pass.settle(granted, |it| revision(it.header.as_ref())).await?))
    }

    async fn lease_revoke(
        &self,
        request: Request<pb::LeaseRevokeRequest>,
    ) -> Result<Response<pb::LeaseRevokeResponse>, Status> {
        let lease = LeaseId(request.get_ref().id);
        if !self.0.gate.is_open() {
            // A key that was attached at another node must not be deleted unasked.
            self.0.barrier().await?;
        }
        let mut pass =
            self.0.may_write(&request, |_| permit::revoke(lease, permit::attached(&self.0, lease)))?;
        // Its keys go with it; one line says so.
        pass.wrote(|| vec![Need::lease(Verb::Delete, lease)]);
        let revoked = match self.0.propose(Command::LeaseRevoke { lease }).await {
            Ok(Verdict::LeaseRevoke { revision }) => {
                Ok(pb::LeaseRevokeResponse { header: self.0.header(revision) })
            }
            Ok(other) => Err(mismatched(&other)),
            Err(status) => Err(status),
        };
        Ok(Response::new(pass.settle(revoked, |it| revision(it.header.as_ref())).await?))
    }

    type LeaseKeepAliveStream = KeepAlives;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<pb::LeaseKeepAliveRequest>>,
    ) -> Result<Response<KeepAlives>, Status> {
        let context = self.0.clone();
        let standing = context.gate.standing(&request);
        let renew = move |request: Result<pb::LeaseKeepAliveRequest, Status>| {
            let context = context.clone();
            let allowed = request.and_then(|it| {
                let lease = LeaseId(it.id);
                // Also where everybody may do everything: a hold is kept by whoever has it, by name and epoch.
                if context.replica.store.is_hold(lease) {
                    return Err(EtcdError::PermissionDenied.into());
                }
                let needs = || permit::renew(lease, permit::attached(&context, lease));
                standing.check(needs).map_err(permit::denied)?;
                Ok(it.id)
            });
            async move {
                let id = allowed?;
                // Taken before the renewal, so that the revision is not ahead of the point the lease was renewed at.
                let header = context.current_header();
                let ttl = context.renewals.renew(LeaseId(id)).await.map_err(|error| match error {
                    RenewError::NoLeader => EtcdError::NoLeader,
                    RenewError::Stopped => EtcdError::Stopped,
                })?;
                Ok(pb::LeaseKeepAliveResponse { header, id, ttl })
            }
        };
        Ok(Response::new(Box::pin(request.into_inner().map(renew).buffered(RENEWALS_IN_FLIGHT))))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<pb::LeaseTimeToLiveRequest>,
    ) -> Result<Response<pb::LeaseTimeToLiveResponse>, Status> {
        let caller = self.0.gate.caller(&request);
        let request = request.into_inner();
        let id = LeaseId(request.id);
        self.0.may(&caller, || vec![Need::lease(Verb::Get, id)])?;
        let lifetime = leader_request::Request::LeaseLifetime(LeaseLifetime { id: request.id });
        let remaining = match ask(&self.0.replica.node, lifetime).await? {
            leader_reply::Reply::LeaseLifetimeIs(lifetime) => lifetime.remaining,
            _ => return Err(EtcdError::NoLeader.into()),
        };
        self.0.barrier().await?;
        let lease = self.0.replica.store.lease(LeaseId(request.id)).filter(|_| remaining >= 0);
        let mut response = pb::LeaseTimeToLiveResponse {
            header: self.0.current_header(),
            id: request.id,
            ttl: if lease.is_some() { remaining } else { -1 },
            ..Default::default()
        };
        if let Some(lease) = lease {
            response.granted_ttl = lease.ttl;
            if request.keys {
                self.0.may(&caller, || permit::show(id, lease.keys.iter().cloned()))?;
                response.keys = lease.keys.into_iter().collect();
            }
        }
        Ok(Response::new(response))
    }

    async fn lease_leases(
        &self,
        request: Request<pb::LeaseLeasesRequest>,
    ) -> Result<Response<pb::LeaseLeasesResponse>, Status> {
        self.0.may_read(&request, |_| vec![Need::all(Verb::List, KEYS, "")])?;
        self.0.barrier().await?;
        let leases =
            self.0.replica.store.leases().into_iter().map(|(id, _)| pb::LeaseStatus { id: id.0 }).collect();
        Ok(Response::new(pb::LeaseLeasesResponse { header: self.0.current_header(), leases }))
    }
}

impl LeaseService {
    async fn grant(&self, request: pb::LeaseGrantRequest) -> Result<pb::LeaseGrantResponse, Status> {
        if request.ttl > TTL_MAX {
            return Err(EtcdError::LeaseTtlTooLarge.into());
        }
        self.0.quota.admit(&self.0.replica, 0).await?;
        let lease = if request.id == 0 { self.0.fresh_lease() } else { LeaseId(request.id) };
        let ttl = self.0.lessor.granted(request.ttl);
        match self.0.propose(Command::LeaseGrant { lease, ttl }).await? {
            Verdict::LeaseGrant { revision, lease, ttl } => {
                let header = self.0.header(revision);
                Ok(pb::LeaseGrantResponse { header, id: lease.0, ttl, error: String::new() })
            }
            other => Err(mismatched(&other)),
        }
    }
}
