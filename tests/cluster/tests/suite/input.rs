//! Requests that are wrong in every way: each gets an error, changes nothing and hurts nobody.

use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use setpoint_api::etcdserverpb::request_op::Request as Op;
use setpoint_api::etcdserverpb::watch_request::RequestUnion;
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::dump::watch_all;
use setpoint_cluster_tests::testbed::{Setup, Testbed, patiently};
use setpoint_cluster_tests::wire::call;
use tokio::io::AsyncWriteExt;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request};

const METHODS: [&str; 29] = [
    "/etcdserverpb.KV/Range",
    "/etcdserverpb.KV/RangeStream",
    "/etcdserverpb.KV/Put",
    "/etcdserverpb.KV/DeleteRange",
    "/etcdserverpb.KV/Txn",
    "/etcdserverpb.KV/Compact",
    "/etcdserverpb.Watch/Watch",
    "/etcdserverpb.Lease/LeaseGrant",
    "/etcdserverpb.Lease/LeaseRevoke",
    "/etcdserverpb.Lease/LeaseKeepAlive",
    "/etcdserverpb.Lease/LeaseTimeToLive",
    "/etcdserverpb.Lease/LeaseLeases",
    "/etcdserverpb.Cluster/MemberAdd",
    "/etcdserverpb.Cluster/MemberRemove",
    "/etcdserverpb.Cluster/MemberUpdate",
    "/etcdserverpb.Cluster/MemberList",
    "/etcdserverpb.Cluster/MemberPromote",
    "/etcdserverpb.Maintenance/Alarm",
    "/etcdserverpb.Maintenance/Status",
    "/etcdserverpb.Maintenance/Defragment",
    "/etcdserverpb.Maintenance/Hash",
    "/etcdserverpb.Maintenance/HashKV",
    "/etcdserverpb.Maintenance/Snapshot",
    "/etcdserverpb.Maintenance/MoveLeader",
    "/etcdserverpb.Maintenance/Downgrade",
    "/etcdserverpb.Auth/AuthEnable",
    "/etcdserverpb.Auth/UserAdd",
    "/etcdserverpb.Nothing/Nothing",
    "/",
];

/// What the cluster holds, which no wrong request may change.
async fn content(bed: &Testbed) -> Vec<(u32, i64)> {
    let mut content = Vec::new();
    for client in &bed.clients {
        patiently(|| client.revision()).await;
        content.push(client.hash(0).await.expect("every node serves"));
    }
    content
}

async fn bed(name: &'static str) -> Testbed {
    let bed = Testbed::start_with(name, Setup::calm()).await;
    for value in 0..10 {
        bed.clients[value % 3].put("k", &value.to_string()).await.expect("put");
    }
    bed.clients[0].compact(5).await.expect("compacted");
    bed
}

async fn unharmed(bed: &Testbed, before: &[(u32, i64)]) {
    assert_eq!(content(bed).await, before, "something was changed");
    bed.no_panics();
    for client in &bed.clients {
        patiently(|| client.put("after", "v")).await;
    }
    bed.hashes_agree(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_are_no_message() {
    let bed = bed("bytes_that_are_no_message").await;
    let before = content(&bed).await;
    let malformed: [&[u8]; 6] = [
        &[0xff; 11],
        &[0x0a, 0xff],
        &[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0x07],
        &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0],
        &[0x0b, 0x0b, 0x0b],
    ];
    for (place, method) in METHODS.iter().enumerate() {
        for bytes in malformed {
            let answer = call(&bed.clients[place % 3], method, Bytes::from_static(bytes)).await;
            assert!(answer.is_err(), "{method} answered {bytes:x?} with {answer:?}");
        }
    }
    for (place, method) in METHODS.iter().enumerate() {
        let huge = Bytes::from(vec![0x0a; 12 << 20]);
        assert!(call(&bed.clients[place % 3], method, huge).await.is_err(), "{method} took twelve megabytes");
    }
    // Fields of a later version are passed over.
    let mut read = pb::RangeRequest { key: "k".into(), ..Default::default() }.encode_to_vec();
    read.extend([0xfa, 0x7f, 3, b'n', b'e', b'w']);
    let answer =
        call(&bed.clients[1], "/etcdserverpb.KV/Range", read.into()).await.expect("read in spite of it");
    assert_eq!(pb::RangeResponse::decode(answer).expect("an answer").kvs[0].value, "9");
    unharmed(&bed, &before).await;
}

fn put_op(key: &str) -> pb::RequestOp {
    let put = pb::PutRequest { key: key.to_owned().into(), value: "bad".into(), ..Default::default() };
    pb::RequestOp { request: Some(Op::RequestPut(put)) }
}

fn txn(success: Vec<pb::RequestOp>) -> pb::TxnRequest {
    pb::TxnRequest { success, ..Default::default() }
}

fn nested(levels: usize) -> pb::TxnRequest {
    (0..levels).fold(txn(vec![put_op("deep")]), |inner, _| {
        txn(vec![pb::RequestOp { request: Some(Op::RequestTxn(inner)) }])
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_ask_for_too_much() {
    let bed = bed("requests_that_ask_for_too_much").await;
    let before = content(&bed).await;
    for client in &bed.clients {
        let large = client.put("k", &"x".repeat((3 << 19) + 1)).await.expect_err("too large");
        assert_eq!(large.message(), "etcdserver: request is too large");
        assert!(client.put("k", &"x".repeat(30 << 20)).await.is_err());
        assert_eq!(
            client.put("", "v").await.expect_err("no key").message(),
            "etcdserver: key is not provided"
        );
        let ops = (0..10_000).map(|number| put_op(&format!("k{number}"))).collect();
        let many = client.kv().txn(txn(ops)).await.expect_err("too many");
        assert_eq!(many.message(), "etcdserver: too many operations in txn request");
        for levels in [99, 130, 1000] {
            assert!(client.kv().txn(nested(levels)).await.is_err(), "{levels} levels of transactions");
        }
        let twice = client.kv().txn(txn(vec![put_op("a"), put_op("a")])).await.expect_err("twice");
        assert_eq!(twice.message(), "etcdserver: duplicate key given in txn request");
        let empty = client.kv().txn(txn(vec![pb::RequestOp { request: None }])).await;
        assert_eq!(empty.expect_err("no operation").code(), Code::InvalidArgument);
        let sort =
            pb::RangeRequest { key: "k".into(), sort_order: 77, sort_target: -3, ..Default::default() };
        assert_eq!(client.range(sort).await.expect_err("unknown sort").code(), Code::InvalidArgument);
    }
    unharmed(&bed, &before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_out_of_range() {
    let bed = bed("numbers_out_of_range").await;
    let before = content(&bed).await;
    for (place, number) in
        [i64::MIN, i64::MIN + 1, -1, 0, 1 << 40, i64::MAX - 1, i64::MAX].into_iter().enumerate()
    {
        let client = &bed.clients[place % 3];
        reads(client, number).await;
        writes(client, number).await;
        streams(client, number).await;
    }
    let compacted = pb::RangeRequest { key: "k".into(), revision: 2, ..Default::default() };
    let refused = bed.clients[2].range(compacted).await.expect_err("compacted");
    assert_eq!(refused.message(), "etcdserver: mvcc: required revision has been compacted");
    unharmed(&bed, &before).await;
}

async fn reads(client: &Client, number: i64) {
    let key = || Bytes::from_static(b"k");
    let read = pb::RangeRequest { key: key(), revision: number, ..Default::default() };
    let answer = client.range(read).await;
    assert_eq!(answer.is_ok(), number <= 0, "read at {number}: {answer:?}");
    let read = pb::RangeRequest {
        key: key(),
        range_end: Bytes::from_static(&[0]),
        limit: number,
        min_mod_revision: number,
        max_mod_revision: number,
        min_create_revision: number,
        max_create_revision: number,
        ..Default::default()
    };
    client.range(read).await.expect("limits of any size are fine");
    let hash = client.hash(number).await;
    assert_eq!(hash.is_ok(), number <= 0, "hash at {number}: {hash:?}");
    let ask = pb::LeaseTimeToLiveRequest { id: number, keys: true };
    let left = client.lease().lease_time_to_live(ask).await.map(|answer| answer.into_inner().ttl);
    assert!(left.as_ref().is_ok_and(|ttl| *ttl == -1) || left.is_err(), "lease {number}: {left:?}");
}

async fn writes(client: &Client, number: i64) {
    if number != 0 {
        assert!(client.put_with_lease("k", "v", number).await.is_err(), "put with lease {number}");
    }
    let compaction = pb::CompactionRequest { revision: number, physical: true };
    assert!(client.kv().compact(compaction).await.is_err(), "compaction at {number}");
    assert!(
        client.lease().lease_revoke(pb::LeaseRevokeRequest { id: number }).await.is_err(),
        "revoke {number}"
    );
    let grant = client.lease().lease_grant(pb::LeaseGrantRequest { ttl: number, id: 0 }).await;
    if number > 9_000_000_000 {
        assert!(grant.is_err(), "a lease of {number} seconds");
    }
    for target in [CompareTarget::Version, CompareTarget::Create, CompareTarget::Mod, CompareTarget::Lease] {
        let union = match target {
            CompareTarget::Version => TargetUnion::Version(number),
            CompareTarget::Create => TargetUnion::CreateRevision(number),
            CompareTarget::Mod => TargetUnion::ModRevision(number),
            _ => TargetUnion::Lease(number),
        };
        let compare = pb::Compare {
            result: CompareResult::Equal.into(),
            target: target.into(),
            key: "missing".into(),
            target_union: Some(union),
            ..Default::default()
        };
        // What holds reads, what does not hold reads too: nothing is changed either way.
        let request = pb::TxnRequest { compare: vec![compare], ..Default::default() };
        client.kv().txn(request).await.expect("compared");
    }
    let id = number as u64;
    if number != 0 {
        let cluster = client.cluster();
        assert!(cluster.clone().member_remove(pb::MemberRemoveRequest { id }).await.is_err(), "remove {id}");
        assert!(
            cluster.clone().member_promote(pb::MemberPromoteRequest { id }).await.is_err(),
            "promote {id}"
        );
        let peer_urls = vec!["http://127.0.0.1:1".to_owned()];
        assert!(cluster.clone().member_update(pb::MemberUpdateRequest { id, peer_urls }).await.is_err());
        assert!(client.maintenance().move_leader(pb::MoveLeaderRequest { target_id: id }).await.is_err());
    }
}

async fn streams(client: &Client, number: i64) {
    assert!(!matches!(client.keep_alive(number).await, Ok(1..)), "lease {number} was kept alive");
    let create = pb::WatchCreateRequest {
        key: "k".into(),
        start_revision: number,
        watch_id: number,
        ..Default::default()
    };
    let messages = [
        RequestUnion::CreateRequest(create),
        RequestUnion::CancelRequest(pb::WatchCancelRequest { watch_id: number }),
        RequestUnion::CancelRequest(pb::WatchCancelRequest { watch_id: 4321 }),
        RequestUnion::ProgressRequest(pb::WatchProgressRequest {}),
    ];
    let requests = messages.map(|union| pb::WatchRequest { request_union: Some(union) });
    let mut answers =
        client.watch().watch(tokio_stream::iter(requests)).await.expect("a stream").into_inner();
    // However many answers come: the stream neither hangs the node nor ends it.
    while let Ok(Ok(Some(_))) = tokio::time::timeout(Duration::from_millis(500), answers.message()).await {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_and_streams_that_break_off() {
    let bed = bed("connections_and_streams_that_break_off").await;
    let before = content(&bed).await;
    let mut half_closed = Vec::new();
    for (node, client) in bed.clients.iter().enumerate() {
        for _ in 0..20 {
            // A client that says nothing more, one that is gone, and one that has left its stream.
            let changes = watch_all(client, 6).await.expect("a watch");
            half_closed.push(changes.responses);
            let own = Client::new(&bed.cluster.nodes()[node].client);
            let changes = watch_all(&own, 6).await.expect("a watch");
            drop((changes, own));
            drop(watch_all(client, 0).await.expect("a watch"));
        }
        for address in [
            &bed.cluster.nodes()[node].client,
            &bed.cluster.nodes()[node].peer,
            &bed.cluster.nodes()[node].http,
        ] {
            for bytes in [
                &b"GET / HTTP/1.1\r\n\r\n"[..],
                &[0; 1000],
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff",
            ] {
                let mut socket = tokio::net::TcpStream::connect(address.as_str()).await.expect("connected");
                socket.write_all(bytes).await.expect("sent");
            }
        }
        for name in ["hasleader", "token", "grpc-timeout", "authorization"] {
            let mut request = Request::new(pb::RangeRequest { key: "k".into(), ..Default::default() });
            let value =
                MetadataValue::try_from(&b"\xff\xfe\x80"[..]).expect("any bytes but control characters");
            request.metadata_mut().insert(name, value);
            // Understood or refused; the node lives.
            let _ = client.kv().range(request).await;
        }
    }
    drop(half_closed);
    unharmed(&bed, &before).await;
}
