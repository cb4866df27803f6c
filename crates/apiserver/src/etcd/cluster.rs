//! Members of the cluster, as etcd shows them.

use std::time::Duration;

use setpoint_access::{Need, Verb};
use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::cluster_server::Cluster;
use setpoint_api::setpoint::peer::v1::{
    AddMember, PromoteMember, UpdateMember, leader_reply::Reply, leader_request::Request as Ask,
};
use setpoint_types::{NodeId, Revision};
use tokio::time::{Instant, sleep};
use tonic::{Request, Response, Status};

use super::context::Context;
use super::error::EtcdError;
use crate::access::Pass;
use crate::leader::{ask, remove_member};

pub struct ClusterService(pub Context);

/// Between two looks for the leader that is to confirm a removal.
const BARRIER_AGAIN: Duration = Duration::from_millis(50);

#[tonic::async_trait]
impl Cluster for ClusterService {
    async fn member_add(
        &self,
        request: Request<pb::MemberAddRequest>,
    ) -> Result<Response<pb::MemberAddResponse>, Status> {
        let address = peer_address(&request.get_ref().peer_urls)?;
        let pass = self.enter(&request, "member-add", |_| address.clone())?;
        let request = request.into_inner();
        let add = AddMember { name: String::new(), address, learner: request.is_learner };
        let id = self.settle(pass, self.change(Ask::AddMember(add)).await).await?;
        let members = self.members();
        let member = members.iter().find(|member| member.id == id).cloned();
        Ok(Response::new(pb::MemberAddResponse { header: self.header(), member, members }))
    }

    async fn member_remove(
        &self,
        request: Request<pb::MemberRemoveRequest>,
    ) -> Result<Response<pb::MemberRemoveResponse>, Status> {
        let pass = self.enter(&request, "member-remove", |it| it.id.to_string())?;
        let id = NodeId(request.into_inner().id);
        self.settle(pass, self.remove(id).await).await?;
        // A node that was removed itself is not told of it by the log.
        let members = self.members().into_iter().filter(|member| member.id != id.0).collect();
        Ok(Response::new(pb::MemberRemoveResponse { header: self.header(), members }))
    }

    async fn member_update(
        &self,
        request: Request<pb::MemberUpdateRequest>,
    ) -> Result<Response<pb::MemberUpdateResponse>, Status> {
        let address = peer_address(&request.get_ref().peer_urls)?;
        let pass = self.enter(&request, "member-update", |it| format!("{} {address}", it.id))?;
        let request = request.into_inner();
        let update = Ask::UpdateMember(UpdateMember { id: request.id, address });
        self.settle(pass, self.change(update).await).await?;
        Ok(Response::new(pb::MemberUpdateResponse { header: self.header(), members: self.members() }))
    }

    async fn member_list(
        &self,
        request: Request<pb::MemberListRequest>,
    ) -> Result<Response<pb::MemberListResponse>, Status> {
        self.0.may_read(&request, |_| vec![Need::cluster(Verb::Get, "members")])?;
        if request.into_inner().linearizable {
            self.0.barrier().await?;
        }
        Ok(Response::new(pb::MemberListResponse { header: self.header(), members: self.members() }))
    }

    async fn member_promote(
        &self,
        request: Request<pb::MemberPromoteRequest>,
    ) -> Result<Response<pb::MemberPromoteResponse>, Status> {
        let pass = self.enter(&request, "member-promote", |it| it.id.to_string())?;
        let promote = Ask::PromoteMember(PromoteMember { id: request.into_inner().id });
        self.settle(pass, self.change(promote).await).await?;
        Ok(Response::new(pb::MemberPromoteResponse { header: self.header(), members: self.members() }))
    }
}

impl ClusterService {
    fn enter<T>(
        &self,
        request: &Request<T>,
        operation: &'static str,
        detail: impl FnOnce(&T) -> String,
    ) -> Result<Pass, Status> {
        self.0.may_write(request, |it| vec![Need::cluster(Verb::Update, operation).about(detail(it))])
    }

    /// Members have no revision; what is recorded is where the history was.
    async fn settle<T>(&self, pass: Pass, outcome: Result<T, Status>) -> Result<T, Status> {
        pass.settle(outcome, |_| Some(self.0.replica.store.revision())).await
    }

    /// Has the leader change the members, and waits until this node knows the change too.
    async fn change(&self, request: Ask) -> Result<u64, Status> {
        let Reply::MemberChanged(changed) = ask(&self.0.replica.node, request).await? else {
            return Err(EtcdError::Timeout.into());
        };
        self.0.barrier().await?;
        Ok(changed.id)
    }

    /// The same for a removal, which may take the leader away while it is made.
    async fn remove(&self, id: NodeId) -> Result<(), Status> {
        let deadline = Instant::now() + self.0.replica.patience();
        remove_member(&self.0.replica.node, id, deadline).await?;
        // Nobody would tell a removed node what it has missed.
        while id != self.0.replica.identity.member
            && let Err(status) = self.0.barrier().await
        {
            if Instant::now() >= deadline {
                return Err(status);
            }
            sleep(BARRIER_AGAIN).await;
        }
        Ok(())
    }

    /// Headers of this service carry no revision.
    fn header(&self) -> Option<pb::ResponseHeader> {
        self.0.header(Revision::NONE)
    }

    fn members(&self) -> Vec<pb::Member> {
        let published = self.0.replica.store.members();
        let status = self.0.replica.node.current_status();
        let member = |(id, member): (&NodeId, &setpoint_consensus::MemberStatus)| {
            let attributes = published.get(id).cloned().unwrap_or_default();
            pb::Member {
                id: id.0,
                // Known by what it said itself; until it has started, it has no name.
                name: attributes.name,
                peer_urls: vec![format!("{}://{}", self.0.peer_scheme, member.peer.address)],
                client_urls: attributes.client_urls,
                is_learner: !member.voter,
            }
        };
        status.members.iter().map(member).collect()
    }
}

/// The host and port of the one peer URL a member has here.
fn peer_address(urls: &[String]) -> Result<String, EtcdError> {
    let [url] = urls else { return Err(EtcdError::MemberUrlsInvalid) };
    let address = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")).unwrap_or(url);
    let address = address.trim_end_matches('/');
    let port = address.rsplit_once(':').and_then(|(host, port)| (!host.is_empty()).then_some(port));
    if port.is_some_and(|port| port.parse::<u16>().is_ok()) && !address.contains('/') {
        Ok(address.to_owned())
    } else {
        Err(EtcdError::MemberUrlsInvalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(urls: &[&str]) -> Option<String> {
        peer_address(&urls.iter().map(|url| (*url).to_owned()).collect::<Vec<_>>()).ok()
    }

    #[test]
    fn a_member_has_one_peer_url_with_host_and_port() {
        assert_eq!(parsed(&["http://host:7401"]).as_deref(), Some("host:7401"));
        assert_eq!(parsed(&["https://10.0.0.1:7401/"]).as_deref(), Some("10.0.0.1:7401"));
        assert_eq!(parsed(&["host:7401"]).as_deref(), Some("host:7401"));
        for bad in
            [&[][..], &["http://host"], &["http://:1"], &["http://a:1", "http://b:1"], &["http://a:1/path"]]
        {
            assert_eq!(parsed(bad), None, "{bad:?}");
        }
    }
}
