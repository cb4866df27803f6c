//! The gRPC service: each method is asking whether it may, call, and saying what came of it.
//!
//! To bind is to create a Binding, to release to update its status: roles say so. A fence needs what reading its lease would.

use setpoint_access::{Need, Verb};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::bind_result::Result as Bind;
use setpoint_api::setpoint::v1::placement_server::Placement;
use setpoint_api::setpoint::v1::release_result::Result as Release;
use setpoint_types::Revision;
use tonic::{Request, Response, Status};

use super::Placer;
use super::write::BINDING;
use crate::access::{Caller, Gate};
use crate::coordination::LEASE;

pub struct PlacementService {
    pub placer: Placer,
    pub gate: Gate,
}

#[tonic::async_trait]
impl Placement for PlacementService {
    async fn bind(&self, request: Request<pb::BindRequest>) -> Result<Response<pb::BindResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let binds = || request.groups.iter().flat_map(|it| &it.binds);
        let needs = || {
            let needs =
                binds().map(|it| Need::object(Verb::Create, BINDING, false, &it.namespace, &it.replica));
            needs.chain(fence(request.fence.as_ref())).collect()
        };
        let pass = self.gate.enter(&caller, "", needs)?;
        let bound = self.placer.bind(request, &caller).await;
        let last = |it: &pb::BindResponse| {
            let revisions = it.results.iter().filter_map(|it| match &it.result {
                Some(Bind::Bound(bound)) if !bound.repeated => Some(Revision::new(bound.revision)),
                _ => None,
            });
            revisions.max()
        };
        Ok(Response::new(pass.settle(bound, last).await?))
    }

    async fn release(
        &self,
        request: Request<pb::ReleaseBindingsRequest>,
    ) -> Result<Response<pb::ReleaseBindingsResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let needs = || {
            let bindings = request.bindings.iter();
            let needs =
                bindings.map(|it| Need::object(Verb::Update, BINDING, true, &it.namespace, &it.binding));
            needs.chain(fence(request.fence.as_ref())).collect()
        };
        let pass = self.gate.enter(&caller, "", needs)?;
        let released = self.placer.release(request, &caller).await;
        let last = |it: &pb::ReleaseBindingsResponse| {
            let revisions = it.results.iter().filter_map(|it| match &it.result {
                Some(Release::Released(released)) if !released.repeated => {
                    Some(Revision::new(released.revision))
                }
                _ => None,
            });
            revisions.max()
        };
        Ok(Response::new(pass.settle(released, last).await?))
    }
}

fn fence(fence: Option<&pb::Fence>) -> Option<Need> {
    fence.map(|it| {
        let namespace = if it.namespace.is_empty() { "default" } else { &it.namespace };
        Need::object(Verb::Get, LEASE, false, namespace, &it.lease)
    })
}
