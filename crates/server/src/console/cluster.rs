//! The nodes of the cluster, who leads, and who the asker is to it.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use setpoint_api::etcdserverpb::{MemberListRequest, StatusRequest};
use setpoint_api::setpoint::v1::WhoAmIRequest;

use super::Console;
use super::call::Call;
use super::refusal::Refused;

pub async fn answer(_: State<Console>, call: Call) -> Result<Json<Value>, Refused> {
    let asker = call.access().who_am_i(call.request(WhoAmIRequest {})).await?.into_inner();
    let asker = json!({ "principal": asker.principal, "enforced": asker.enforced });
    // Who may not see the members may still see objects.
    let cluster = match members(&call).await {
        Ok(members) => members,
        Err(refused) => refused.json(),
    };
    Ok(Json(json!({ "asker": asker, "cluster": cluster, "version": env!("CARGO_PKG_VERSION") })))
}

async fn members(call: &Call) -> Result<Value, Refused> {
    let status = call.maintenance().status(call.request(StatusRequest::default())).await?.into_inner();
    // As this node knows them: it is shown also while there is no leader.
    let request = call.request(MemberListRequest { linearizable: false });
    let list = call.cluster().member_list(request).await?.into_inner();
    let header = status.header.unwrap_or_default();
    let members = list.members.iter().map(|member| {
        json!({
            "name": member.name,
            // As text: a number of this size is not exact in JavaScript.
            "id": format!("{:x}", member.id),
            "clients": member.client_urls,
            "learner": member.is_learner,
            "leads": member.id == status.leader,
            "here": member.id == header.member_id,
        })
    });
    Ok(json!({
        "members": members.collect::<Vec<_>>(),
        "revision": header.revision,
        "term": status.raft_term,
        "bytes": status.db_size,
        "problems": status.errors,
    }))
}
