//! Bytes on the wire, computed by hand from the protobuf encoding rules: tag = number * 8 + wire type.
//!
//! `contract.rs` checks every number; these check that the generated code really writes and reads them so.

use std::fmt::Debug;

use bytes::Bytes;
use prost::Message;
use setpoint_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use setpoint_api::etcdserverpb::watch_create_request::FilterType;
use setpoint_api::etcdserverpb::{
    Compare, DowngradeInfo, LeaseTimeToLiveResponse, Member, RangeRequest, RequestOp, ResponseHeader,
    StatusResponse, TxnRequest, WatchCreateRequest, WatchRequest, WatchResponse, request_op, watch_request,
};
use setpoint_api::mvccpb::event::EventType;
use setpoint_api::mvccpb::{Event, KeyValue};

/// Encodes, compares with `hex` (blanks ignored), and reads the same message back.
fn check<M: Message + Default + PartialEq + Debug>(message: M, hex: &str) {
    let expected = hex::decode(hex.split_whitespace().collect::<String>()).expect("hex in the test");
    assert_eq!(hex::encode(message.encode_to_vec()), hex::encode(&expected));
    assert_eq!(M::decode(Bytes::from(expected)).expect("what we wrote can be read"), message);
}

#[test]
fn compare_with_range_end() {
    check(
        Compare {
            result: CompareResult::NotEqual.into(),
            target: CompareTarget::Mod.into(),
            key: "a".into(),
            target_union: Some(TargetUnion::ModRevision(7)),
            range_end: "b".into(),
        },
        // Number 64 needs a two-byte tag: 64 * 8 + 2 = 514.
        "08 03  10 02  1a 01 61  30 07  82 04 01 62",
    );
}

#[test]
fn watch_response_with_a_delete() {
    let header = ResponseHeader { cluster_id: 1, member_id: 2, revision: 300, raft_term: 4 };
    let deleted = Event {
        r#type: EventType::Delete.into(),
        kv: Some(KeyValue { key: "k".into(), mod_revision: 9, ..Default::default() }),
        prev_kv: Some(KeyValue {
            key: "k".into(),
            create_revision: 2,
            mod_revision: 3,
            version: 4,
            value: "v".into(),
            lease: 6,
        }),
    };
    check(
        WatchResponse {
            header: Some(header),
            watch_id: 5,
            created: true,
            canceled: true,
            compact_revision: 6,
            cancel_reason: "x".into(),
            fragment: true,
            events: vec![deleted],
        },
        "0a 09 08 01 10 02 18 ac 02 20 04
         10 05  18 01  20 01  28 06  32 01 78  38 01
         5a 19  08 01  12 05 0a 01 6b 18 09  1a 0e 0a 01 6b 10 02 18 03 20 04 2a 01 76 30 06",
    );
}

#[test]
fn a_progress_answer_has_watch_id_minus_one() {
    check(WatchResponse { watch_id: -1, ..Default::default() }, "10 ff ff ff ff ff ff ff ff ff 01");
}

#[test]
fn watch_create_request_packs_its_filters() {
    let create = WatchCreateRequest {
        key: "a".into(),
        range_end: Bytes::from_static(b"\0"),
        start_revision: 3,
        progress_notify: true,
        filters: vec![FilterType::Noput.into(), FilterType::Nodelete.into()],
        prev_kv: true,
        watch_id: 7,
        fragment: true,
    };
    check(
        WatchRequest { request_union: Some(watch_request::RequestUnion::CreateRequest(create)) },
        "0a 14  0a 01 61  12 01 00  18 03  20 01  2a 02 00 01  30 01  38 07  40 01",
    );
}

#[test]
fn status_response_with_the_fields_of_3_6() {
    check(
        StatusResponse {
            header: None,
            version: "3".into(),
            db_size: 300,
            leader: 4,
            raft_index: 5,
            raft_term: 6,
            raft_applied_index: 7,
            errors: vec!["e".into()],
            db_size_in_use: 9,
            is_learner: true,
            storage_version: "s".into(),
            db_size_quota: 12,
            downgrade_info: Some(DowngradeInfo { enabled: true, target_version: "t".into() }),
        },
        "12 01 33  18 ac 02  20 04  28 05  30 06  38 07  42 01 65  48 09  50 01  5a 01 73  60 0c
         6a 05 08 01 12 01 74",
    );
}

#[test]
fn a_txn_nests_in_a_txn() {
    let read = RequestOp {
        request: Some(request_op::Request::RequestRange(RangeRequest {
            key: "k".into(),
            max_create_revision: 13,
            ..Default::default()
        })),
    };
    let inner = TxnRequest { failure: vec![read], ..Default::default() };
    let outer = RequestOp { request: Some(request_op::Request::RequestTxn(inner)) };
    check(
        TxnRequest { success: vec![outer], ..Default::default() },
        "12 0b  22 09  1a 07  0a 05  0a 01 6b 68 0d",
    );
}

#[test]
fn a_lease_that_is_gone_has_ttl_minus_one() {
    check(
        LeaseTimeToLiveResponse {
            id: 2,
            ttl: -1,
            granted_ttl: 4,
            keys: vec!["a".into(), "b".into()],
            header: None,
        },
        "10 02  18 ff ff ff ff ff ff ff ff ff 01  20 04  2a 01 61  2a 01 62",
    );
}

#[test]
fn member_addresses() {
    check(
        Member {
            id: 1,
            name: "n".into(),
            peer_urls: vec!["p".into()],
            client_urls: vec!["c".into()],
            is_learner: true,
        },
        "08 01  12 01 6e  1a 01 70  22 01 63  28 01",
    );
}

#[test]
fn services_answer_under_the_names_clients_call() {
    use setpoint_api::etcdserverpb as pb;
    use tonic::server::NamedService;

    fn name<S: NamedService>() -> &'static str {
        S::NAME
    }
    assert_eq!(name::<pb::kv_server::KvServer<()>>(), "etcdserverpb.KV");
    assert_eq!(name::<pb::watch_server::WatchServer<()>>(), "etcdserverpb.Watch");
    assert_eq!(name::<pb::lease_server::LeaseServer<()>>(), "etcdserverpb.Lease");
    assert_eq!(name::<pb::cluster_server::ClusterServer<()>>(), "etcdserverpb.Cluster");
    assert_eq!(name::<pb::maintenance_server::MaintenanceServer<()>>(), "etcdserverpb.Maintenance");
    assert_eq!(name::<pb::auth_server::AuthServer<()>>(), "etcdserverpb.Auth");
    assert_eq!(name::<setpoint_api::v3lockpb::lock_server::LockServer<()>>(), "v3lockpb.Lock");
    assert_eq!(
        name::<setpoint_api::v3electionpb::election_server::ElectionServer<()>>(),
        "v3electionpb.Election"
    );
}
