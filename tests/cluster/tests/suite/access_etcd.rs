//! etcd's protocol under access control: every request of somebody who may use `/ci/` and nothing else.
//!
//! One list of requests that are allowed and one of those that are not, each with what the refusal names. A check that is
//! taken out lets one of the second through.

use std::pin::Pin;

use bytes::Bytes;
use prost::Message;
use prost_types::FileDescriptorSet;
use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::auth_client::AuthClient;
use setpoint_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use setpoint_api::etcdserverpb::request_op::Request as Op;
use setpoint_api::etcdserverpb::watch_request::RequestUnion;
use setpoint_api::v3electionpb::election_client::ElectionClient;
use setpoint_api::v3electionpb::{CampaignRequest, LeaderKey, LeaderRequest, ProclaimRequest, ResignRequest};
use setpoint_api::v3lockpb::lock_client::LockClient;
use setpoint_api::v3lockpb::{LockRequest, UnlockRequest};
use setpoint_cluster_tests::testbed::patiently;
use setpoint_cluster_tests::wire::call;
use tonic::{Code, Status};

use crate::access::{Guarded, Who, create, until};

type Answer = Pin<Box<dyn Future<Output = Result<String, Status>> + Send>>;
/// What is asked, what the refusal names, and the asking.
type Case = (&'static str, &'static str, fn(Who, i64) -> Answer);

const ROLE: &str =
    r#"{"rules":[{"verbs":["get","list","watch","update","delete"],"kinds":["keys"],"names":["/ci/*"]}]}"#;

fn text(value: impl std::fmt::Debug) -> String {
    format!("{value:?}")
}

macro_rules! case {
    ($what:literal, $names:literal, |$who:ident, $lease:ident| $body:expr) => {
        ($what, $names, |$who: Who, $lease: i64| -> Answer {
            Box::pin(async move {
                let _ = $lease;
                Ok(text($body))
            })
        })
    };
}

macro_rules! kv {
    ($who:ident, $method:ident, $request:expr) => {
        $who.client.kv().$method($who.ask($request)).await?.into_inner()
    };
}

fn range(key: &'static str, end: &'static str) -> pb::RangeRequest {
    pb::RangeRequest { key: key.into(), range_end: end.into(), ..Default::default() }
}

fn put(key: &'static str) -> pb::PutRequest {
    pb::PutRequest { key: key.into(), value: "v".into(), ..Default::default() }
}

fn delete(key: &'static str, end: &'static str) -> pb::DeleteRangeRequest {
    pb::DeleteRangeRequest { key: key.into(), range_end: end.into(), ..Default::default() }
}

fn exists(key: &'static str) -> pb::Compare {
    pb::Compare {
        key: key.into(),
        result: CompareResult::Greater.into(),
        target: CompareTarget::Version.into(),
        target_union: Some(TargetUnion::Version(0)),
        ..Default::default()
    }
}

fn op(request: Op) -> pb::RequestOp {
    pb::RequestOp { request: Some(request) }
}

fn txn(compare: &'static str, success: Op, failure: Op) -> pb::TxnRequest {
    pb::TxnRequest { compare: vec![exists(compare)], success: vec![op(success)], failure: vec![op(failure)] }
}

/// The first answer of a watch, or the error that takes its place.
async fn watch(who: &Who, key: &'static str, end: &'static str) -> Result<pb::WatchResponse, Status> {
    let create = pb::WatchCreateRequest { key: key.into(), range_end: end.into(), ..Default::default() };
    let request = pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
    let mut answers = who.client.watch().watch(who.ask(tokio_stream::once(request))).await?.into_inner();
    let answer = answers.message().await?.unwrap_or_default();
    if answer.canceled {
        return Err(Status::permission_denied(answer.cancel_reason));
    }
    Ok(answer)
}

fn leader(key: &'static str) -> Option<LeaderKey> {
    Some(LeaderKey { name: "/x".into(), key: key.into(), rev: 1, lease: 1 })
}

fn allowed() -> Vec<Case> {
    vec![
        case!("put", "", |who, _lease| kv!(who, put, put("/ci/a"))),
        case!("put with the previous value", "", |who, _lease| {
            kv!(who, put, pb::PutRequest { prev_kv: true, ..put("/ci/a") })
        }),
        case!("get", "", |who, _lease| kv!(who, range, range("/ci/a", ""))),
        case!("range", "", |who, _lease| kv!(who, range, range("/ci/", "/ci0"))),
        case!("txn", "", |who, _lease| {
            let (yes, no) = (Op::RequestPut(put("/ci/b")), Op::RequestRange(range("/ci/b", "")));
            kv!(who, txn, txn("/ci/a", yes, no))
        }),
        case!("delete", "", |who, _lease| kv!(who, delete_range, delete("/ci/", "/ci0"))),
        case!("watch", "", |who, _lease| watch(&who, "/ci/", "/ci0").await?),
        case!("a lease of its own", "", |who, _lease| {
            let grant = pb::LeaseGrantRequest { ttl: 600, id: 0 };
            let id = who.client.lease().lease_grant(who.ask(grant)).await?.into_inner().id;
            kv!(who, put, pb::PutRequest { lease: id, ..put("/ci/leased") });
            let keep = who.ask(tokio_stream::once(pb::LeaseKeepAliveRequest { id }));
            who.client.lease().lease_keep_alive(keep).await?.into_inner().message().await?;
            let show = pb::LeaseTimeToLiveRequest { id, keys: true };
            who.client.lease().lease_time_to_live(who.ask(show)).await?;
            who.client.lease().lease_revoke(who.ask(pb::LeaseRevokeRequest { id })).await?.into_inner()
        }),
        case!("a lock", "", |who, _lease| {
            let mut locks = LockClient::new(who.client.channel.clone());
            let lock = LockRequest { name: "/ci/lock".into(), lease: 0 };
            let key = locks.lock(who.ask(lock)).await?.into_inner().key;
            locks.unlock(who.ask(UnlockRequest { key })).await?.into_inner()
        }),
    ]
}

/// What concerns keys.
fn denied_keys() -> Vec<Case> {
    vec![
        case!("put", "update keys /x", |who, _lease| kv!(who, put, put("/x"))),
        case!("put of an object", "update keys /setpoint.v1/Role//all", |who, _lease| {
            kv!(who, put, put("/setpoint.v1/Role//all"))
        }),
        case!("get", "get keys /x", |who, _lease| kv!(who, range, range("/x", ""))),
        case!("get of an object", "get Role ci", |who, _lease| {
            kv!(who, range, range("/setpoint.v1/Role//ci", ""))
        }),
        case!("range", "list keys", |who, _lease| kv!(who, range, range("/ci/", "/d"))),
        case!("everything", "list every kind", |who, _lease| kv!(who, range, range("\0", "\0"))),
        case!("range in chunks", "list keys", |who, _lease| {
            let stream = who.client.kv().range_stream(who.ask(range("/ci/", "/d"))).await?;
            stream.into_inner().message().await?
        }),
        case!("delete", "delete keys /x", |who, _lease| kv!(who, delete_range, delete("/x", ""))),
        case!("delete a range", "delete keys from / to 0", |who, _lease| {
            kv!(who, delete_range, delete("/", "0"))
        }),
        case!("compare", "get keys /x", |who, _lease| {
            let ours = || Op::RequestRange(range("/ci/a", ""));
            kv!(who, txn, txn("/x", ours(), ours()))
        }),
        case!("a branch that is not taken", "update keys /x", |who, _lease| {
            let ours = Op::RequestRange(range("/ci/a", ""));
            kv!(who, txn, txn("/ci/none", Op::RequestPut(put("/x")), ours))
        }),
        case!("the other branch", "delete keys /x", |who, _lease| {
            let ours = Op::RequestRange(range("/ci/a", ""));
            kv!(who, txn, txn("/ci/none", ours, Op::RequestDeleteRange(delete("/x", ""))))
        }),
        case!("what is nested", "get keys /x", |who, _lease| {
            let ours = || Op::RequestRange(range("/ci/a", ""));
            let nested = txn("/ci/a", ours(), Op::RequestRange(range("/x", "")));
            kv!(who, txn, txn("/ci/a", Op::RequestTxn(nested), ours()))
        }),
        case!("watch", "watch keys", |who, _lease| watch(&who, "/x", "/y").await?),
        case!("watch of objects", "watch Role", |who, _lease| {
            watch(&who, "/setpoint.v1/Role/", "/setpoint.v1/Role0").await?
        }),
        case!("lock", "update keys from /x/ to /x0", |who, _lease| {
            let lock = LockRequest { name: "/x".into(), lease: 0 };
            LockClient::new(who.client.channel.clone()).lock(who.ask(lock)).await?
        }),
        case!("unlock", "delete keys /x/1", |who, _lease| {
            let unlock = UnlockRequest { key: "/x/1".into() };
            LockClient::new(who.client.channel.clone()).unlock(who.ask(unlock)).await?
        }),
        case!("campaign", "update keys from /x/ to /x0", |who, _lease| {
            let campaign = CampaignRequest { name: "/x".into(), value: Bytes::new(), lease: 0 };
            ElectionClient::new(who.client.channel.clone()).campaign(who.ask(campaign)).await?
        }),
        case!("proclaim", "update keys /x/1", |who, _lease| {
            let proclaim = ProclaimRequest { leader: leader("/x/1"), value: Bytes::new() };
            ElectionClient::new(who.client.channel.clone()).proclaim(who.ask(proclaim)).await?
        }),
        case!("resign", "delete keys /x/1", |who, _lease| {
            let resign = ResignRequest { leader: leader("/x/1") };
            ElectionClient::new(who.client.channel.clone()).resign(who.ask(resign)).await?
        }),
        case!("leader", "list keys from /x/", |who, _lease| {
            let leader = LeaderRequest { name: "/x".into() };
            ElectionClient::new(who.client.channel.clone()).leader(who.ask(leader)).await?
        }),
        case!("observe", "watch keys from /x/", |who, _lease| {
            let leader = LeaderRequest { name: "/x".into() };
            let seen = ElectionClient::new(who.client.channel.clone()).observe(who.ask(leader)).await?;
            seen.into_inner().message().await?
        }),
    ]
}

/// Leases of others, members and upkeep.
fn denied_others() -> Vec<Case> {
    vec![
        case!("renewing a lease", "update keys /x", |who, lease| {
            let keep = who.ask(tokio_stream::once(pb::LeaseKeepAliveRequest { id: lease }));
            who.client.lease().lease_keep_alive(keep).await?.into_inner().message().await?
        }),
        case!("revoking a lease", "delete keys /x", |who, lease| {
            who.client.lease().lease_revoke(who.ask(pb::LeaseRevokeRequest { id: lease })).await?
        }),
        case!("sharing a lease", "update keys /x", |who, lease| {
            kv!(who, put, pb::PutRequest { lease, ..put("/ci/a") })
        }),
        case!("sharing a lease in a transaction", "update keys /x", |who, lease| {
            let ours = Op::RequestRange(range("/ci/a", ""));
            let nested = txn("/ci/a", Op::RequestPut(pb::PutRequest { lease, ..put("/ci/a") }), ours.clone());
            kv!(who, txn, txn("/ci/a", ours, Op::RequestTxn(nested)))
        }),
        case!("a lock by somebody's lease", "update keys /x", |who, lease| {
            let lock = LockRequest { name: "/ci/lock".into(), lease };
            LockClient::new(who.client.channel.clone()).lock(who.ask(lock)).await?
        }),
        case!("a campaign by somebody's lease", "update keys /x", |who, lease| {
            let campaign = CampaignRequest { name: "/ci/office".into(), value: Bytes::new(), lease };
            ElectionClient::new(who.client.channel.clone()).campaign(who.ask(campaign)).await?
        }),
        case!("a proclamation by somebody's lease", "update keys /x", |who, lease| {
            let leader = leader("/ci/office/1").map(|it| LeaderKey { lease, ..it });
            let proclaim = ProclaimRequest { leader, value: Bytes::new() };
            ElectionClient::new(who.client.channel.clone()).proclaim(who.ask(proclaim)).await?
        }),
        case!("the keys of a lease", "get keys /x", |who, lease| {
            let show = pb::LeaseTimeToLiveRequest { id: lease, keys: true };
            who.client.lease().lease_time_to_live(who.ask(show)).await?
        }),
        case!("all leases", "list keys", |who, _lease| {
            who.client.lease().lease_leases(who.ask(pb::LeaseLeasesRequest {})).await?
        }),
        case!("compact", "update cluster compact", |who, _lease| {
            kv!(who, compact, pb::CompactionRequest { revision: 1, physical: false })
        }),
        case!("members", "get cluster members", |who, _lease| {
            let list = pb::MemberListRequest { linearizable: false };
            who.client.cluster().member_list(who.ask(list)).await?
        }),
        case!("member add", "update cluster member-add", |who, _lease| {
            let add = pb::MemberAddRequest { peer_urls: vec!["http://127.0.0.1:1".into()], is_learner: true };
            who.client.cluster().member_add(who.ask(add)).await?
        }),
        case!("member remove", "update cluster member-remove", |who, _lease| {
            who.client.cluster().member_remove(who.ask(pb::MemberRemoveRequest { id: 99 })).await?
        }),
        case!("member update", "update cluster member-update", |who, _lease| {
            let update = pb::MemberUpdateRequest { id: 99, peer_urls: vec!["http://127.0.0.1:1".into()] };
            who.client.cluster().member_update(who.ask(update)).await?
        }),
        case!("member promote", "update cluster member-promote", |who, _lease| {
            who.client.cluster().member_promote(who.ask(pb::MemberPromoteRequest { id: 99 })).await?
        }),
        case!("status", "get cluster status", |who, _lease| {
            who.client.maintenance().status(who.ask(pb::StatusRequest {})).await?
        }),
        case!("alarms", "get cluster alarms", |who, _lease| {
            who.client.maintenance().alarm(who.ask(pb::AlarmRequest::default())).await?
        }),
        case!("an alarm", "update cluster alarms", |who, _lease| {
            let alarm = pb::AlarmRequest { action: 1, member_id: 1, alarm: 1 };
            who.client.maintenance().alarm(who.ask(alarm)).await?
        }),
        case!("defragment", "update cluster defragment", |who, _lease| {
            who.client.maintenance().defragment(who.ask(pb::DefragmentRequest {})).await?
        }),
        case!("hash", "get cluster hash", |who, _lease| {
            who.client.maintenance().hash(who.ask(pb::HashRequest {})).await?
        }),
        case!("hash of keys", "get cluster hash", |who, _lease| {
            who.client.maintenance().hash_kv(who.ask(pb::HashKvRequest { revision: 0 })).await?
        }),
        case!("a backup", "list every kind", |who, _lease| {
            let backup = who.client.maintenance().snapshot(who.ask(pb::SnapshotRequest {})).await?;
            backup.into_inner().message().await?.map(|it| it.remaining_bytes)
        }),
        case!("downgrade", "get cluster status", |who, _lease| {
            who.client.maintenance().downgrade(who.ask(pb::DowngradeRequest::default())).await?
        }),
        case!("moving the leader", "update cluster move-leader", |who, _lease| {
            who.client.maintenance().move_leader(who.ask(pb::MoveLeaderRequest { target_id: 2 })).await?
        }),
        case!("auth status", "get cluster status", |who, _lease| {
            let mut auth = AuthClient::new(who.client.channel.clone());
            auth.auth_status(who.ask(pb::AuthStatusRequest {})).await?
        }),
    ]
}

/// What is looked at before it is asked who sends it, or not answered at all: an empty message is wrong by itself.
const WRONG_BY_ITSELF: [(&str, Code); 6] = [
    ("/etcdserverpb.Cluster/MemberAdd", Code::InvalidArgument),
    ("/etcdserverpb.Cluster/MemberUpdate", Code::InvalidArgument),
    ("/v3lockpb.Lock/Unlock", Code::InvalidArgument),
    ("/v3electionpb.Election/Proclaim", Code::Unknown),
    ("/v3electionpb.Election/Resign", Code::Unknown),
    ("/setpoint.v1.Access/CanI", Code::InvalidArgument),
];
/// What everybody is told: who they are.
const ABOUT_ONESELF: &str = "/setpoint.v1.Access/WhoAmI";
/// A stream on which an empty message asks for nothing.
const SILENT: &str = "/etcdserverpb.Watch/Watch";

/// Every method that clients are served, so that none that is new is forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_method_answers_somebody_who_may_do_nothing() {
    let guarded = Guarded::start().await;
    let nobody = guarded.bearing(0, None);
    let described = FileDescriptorSet::decode(setpoint_api::FILE_DESCRIPTOR_SET).expect("descriptors");
    let mut asked = 0;
    for file in described.file.iter().filter(|file| !file.package().contains(".peer.")) {
        for service in &file.service {
            for method in &service.method {
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                if [SILENT, ABOUT_ONESELF].contains(&path.as_str()) {
                    continue;
                }
                let status = patiently(|| async {
                    match call(&nobody.client, &path, Bytes::new()).await {
                        Ok(answer) => panic!("{path} answered {answer:?}"),
                        Err(status) if status.code() == Code::Unavailable => Err(status),
                        Err(status) => Ok(status),
                    }
                })
                .await;
                let wrong = WRONG_BY_ITSELF.iter().find(|(known, _)| *known == path).map(|(_, code)| *code);
                let expected = wrong.unwrap_or(Code::PermissionDenied);
                assert!([expected, Code::Unimplemented].contains(&status.code()), "{path}: {status}");
                asked += usize::from(status.code() == Code::PermissionDenied);
            }
        }
    }
    assert!(asked >= 40, "only {asked} methods asked who it was");
}

/// Who may write keys but not read them is shown none of what was there before; who may do neither gets no lease.
async fn blind(guarded: &Guarded) {
    let (admin, token) = (guarded.admin(0), guarded.token("blind", "none"));
    let role = r#"{"rules":[{"verbs":["update","delete"],"kinds":["keys"],"names":["/blind/*"]}]}"#;
    patiently(|| create(&admin, "Role", "blind", role)).await;
    patiently(|| create(&admin, "RoleBinding", "blind", r#"{"role":"blind","subjects":["user:blind"]}"#))
        .await;
    let blind = guarded.bearing(2, Some(&token));
    until("the role counts", || async { blind.client.kv().put(blind.ask(put("/blind/a"))).await.is_ok() })
        .await;
    let previous = pb::PutRequest { prev_kv: true, ..put("/blind/a") };
    let shown = pb::DeleteRangeRequest { prev_kv: true, ..delete("/blind/a", "") };
    let refused = [
        blind.client.kv().put(blind.ask(previous)).await.map(drop),
        blind.client.kv().delete_range(blind.ask(shown)).await.map(drop),
        blind.client.kv().range(blind.ask(range("/blind/a", ""))).await.map(drop),
    ];
    for status in refused.map(|answer| answer.expect_err("it would be shown a value")) {
        assert!(status.message().contains("user:blind may not get keys /blind/a"), "{status}");
    }
    let grant = || pb::LeaseGrantRequest { ttl: 600, id: 0 };
    patiently(|| async { blind.client.lease().lease_grant(blind.ask(grant())).await }).await;
    let nobody = guarded.bearing(2, None);
    let denied = nobody.client.lease().lease_grant(nobody.ask(grant())).await.expect_err("it has no key");
    assert_eq!(denied.code(), Code::PermissionDenied, "{denied}");
    let show = pb::LeaseTimeToLiveRequest { id: 1, keys: false };
    let denied = nobody.client.lease().lease_time_to_live(nobody.ask(show)).await.expect_err("it has no key");
    assert_eq!(denied.code(), Code::PermissionDenied, "{denied}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_of_etcds_protocol_is_asked_about() {
    let guarded = Guarded::start().await;
    let admin = guarded.admin(0);
    patiently(|| create(&admin, "Role", "ci", ROLE)).await;
    patiently(|| create(&admin, "RoleBinding", "ci", r#"{"role":"ci","subjects":["user:ci"]}"#)).await;
    let lease = patiently(|| admin.client.grant(600)).await;
    patiently(|| admin.client.put_with_lease("/x", "theirs", lease)).await;
    let token = guarded.token("ci", "deployers");
    let ci = guarded.bearing(1, Some(&token));
    until("the token is known and the role counts", || async {
        ci.client.kv().put(ci.ask(put("/ci/first"))).await.is_ok()
    })
    .await;
    for (what, _, ask) in allowed() {
        let answer = patiently(|| ask(ci.clone(), lease)).await;
        assert!(!answer.is_empty(), "{what}");
    }
    let nobody = guarded.bearing(1, None);
    for (what, names, ask) in denied_keys().into_iter().chain(denied_others()) {
        for (who, name) in [(&ci, "user:ci"), (&nobody, "anonymous")] {
            // An election may be under way where an answer needs a leader before it is asked about.
            let status = patiently(|| async {
                match ask(who.clone(), lease).await {
                    Ok(answer) => panic!("{what}: {name} was answered {answer}"),
                    Err(status) if status.code() == Code::Unavailable => Err(status),
                    Err(status) => Ok(status),
                }
            })
            .await;
            let said = status.message();
            assert_eq!(status.code(), Code::PermissionDenied, "{what}: {said}");
            let begins = format!("etcdserver: permission denied: {name} may not ");
            assert!(said.starts_with(&begins), "{what}: {said}");
            assert!(name == "anonymous" || said.contains(names), "{what}: {said} does not name {names}");
        }
    }
    blind(&guarded).await;
    // Nothing of it was done, and an administrator may do all of it.
    let kept = patiently(|| admin.client.get("/x")).await;
    assert_eq!(kept.as_deref(), Some("theirs"));
    patiently(|| admin.client.members()).await;
    patiently(|| admin.client.status()).await;
    let reserved = admin.client.put("/setpoint.v1/Role//all", "x").await.expect_err("nobody may");
    assert_eq!(reserved.code(), Code::PermissionDenied, "{reserved}");
}
