//! The `etcd-client` crate: another implementation of the protocol's client side than etcd's own.
//!
//! Its locks and elections are services of the server, unlike those of etcdctl.

use std::time::Duration;

use etcd_client::{
    AlarmAction, AlarmType, Client, Compare, CompareOp, ConnectOptions, DeleteOptions, Error, EventType,
    GetOptions, LeaseTimeToLiveOptions, LockOptions, ProclaimOptions, PutOptions, ResignOptions, SortOrder,
    SortTarget, Txn, TxnOp, TxnOpResponse, WatchOptions,
};
use setpoint_etcd_tests::testbed::Testbed;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, timeout};

/// Longer than anything here takes on a machine that is busy with others.
const PATIENCE: Duration = Duration::from_secs(60);

async fn connect() -> Result<(Testbed, Client), Error> {
    let cluster = Testbed::start(3).await.unwrap_or_else(|error| panic!("{error}"));
    let options = ConnectOptions::new().with_timeout(PATIENCE).with_require_leader(true);
    let client = Client::connect(cluster.endpoints(), Some(options)).await?;
    Ok((cluster, client))
}

/// The message of a refused request.
fn refusal<T>(outcome: Result<T, Error>) -> String {
    match outcome {
        Ok(_) => "accepted".to_owned(),
        Err(Error::GRpcStatus(status)) => status.message().to_owned(),
        Err(other) => format!("{other:?}"),
    }
}

#[tokio::test]
async fn rust_kv() -> Result<(), Error> {
    let (_cluster, mut client) = connect().await?;
    let first = client.put("a/1", "one", None).await?.header().map_or(0, |header| header.revision());
    client.put("a/2", "two", None).await?;
    let previous = client.put("a/1", "uno", Some(PutOptions::new().with_prev_key())).await?;
    assert_eq!(previous.prev_key().map(|kv| kv.value().to_vec()), Some(b"one".to_vec()));

    let options =
        GetOptions::new().with_prefix().with_sort(SortTarget::Mod, SortOrder::Descend).with_limit(1);
    let read = client.get("a/", Some(options)).await?;
    assert_eq!((read.count(), read.more(), read.kvs().len()), (2, true, 1));
    assert_eq!(read.kvs()[0].key_str()?, "a/1");
    let past = client.get("a/1", Some(GetOptions::new().with_revision(first))).await?;
    assert_eq!(past.kvs()[0].value_str()?, "one");

    let txn = Txn::new()
        .when([Compare::value("a/1", CompareOp::Equal, "uno"), Compare::version("a/3", CompareOp::Equal, 0)])
        .and_then([
            TxnOp::put("a/3", "three", None),
            TxnOp::get("a/", Some(GetOptions::new().with_prefix().with_count_only())),
            TxnOp::txn(Txn::new().and_then([TxnOp::delete("a/2", None)])),
        ])
        .or_else([TxnOp::get("a/1", None)]);
    let done = client.txn(txn).await?;
    assert!(done.succeeded());
    let responses = done.op_responses();
    assert!(matches!(&responses[0], TxnOpResponse::Put(_)));
    assert!(matches!(&responses[1], TxnOpResponse::Get(read) if read.count() == 3));
    assert!(matches!(&responses[2], TxnOpResponse::Txn(inner) if inner.succeeded()));

    let deleted = client.delete("a/", Some(DeleteOptions::new().with_prefix().with_prev_key())).await?;
    assert_eq!((deleted.deleted(), deleted.prev_kvs().len()), (2, 2));
    client.compact(first + 1, None).await?;
    let compacted = client.get("a/1", Some(GetOptions::new().with_revision(first))).await;
    assert_eq!(refusal(compacted), "etcdserver: mvcc: required revision has been compacted");
    Ok(())
}

#[tokio::test]
async fn rust_watch() -> Result<(), Error> {
    let (_cluster, mut client) = connect().await?;
    let start = client.put("k", "1", None).await?.header().map_or(0, |header| header.revision());
    client.put("k", "2", None).await?;
    let options = WatchOptions::new().with_start_revision(start).with_prev_key().with_watch_id(7);
    let mut stream = client.watch("k", Some(options)).await?;
    let created = stream.message().await?.expect("the watch is confirmed");
    assert!(created.created() && !created.canceled() && created.watch_id() == 7);
    client.delete("k", None).await?;
    let mut events = Vec::new();
    while events.len() < 3 {
        let response = timeout(PATIENCE, stream.message()).await.expect("events come in time")?;
        events.extend(response.expect("the stream goes on").events().to_vec());
    }
    let value = |kv: Option<&etcd_client::KeyValue>| kv.map(|kv| kv.value().to_vec());
    assert_eq!(value(events[0].prev_kv()), None);
    assert_eq!(value(events[1].prev_kv()), Some(b"1".to_vec()));
    assert_eq!(events[2].event_type(), EventType::Delete);
    assert_eq!(value(events[2].prev_kv()), Some(b"2".to_vec()));

    stream.request_progress().await?;
    let progress = timeout(PATIENCE, stream.message()).await.expect("progress is reported")?;
    let progress = progress.expect("the stream goes on");
    assert_eq!((progress.watch_id(), progress.events().len()), (-1, 0));
    assert!(progress.header().is_some_and(|header| header.revision() >= start + 2));
    stream.cancel(7).await?;
    let canceled = timeout(PATIENCE, stream.message()).await.expect("the cancellation is confirmed")?;
    assert!(canceled.is_some_and(|response| response.canceled() && response.watch_id() == 7));
    Ok(())
}

#[tokio::test]
async fn rust_lease() -> Result<(), Error> {
    let (_cluster, mut client) = connect().await?;
    let lease = client.lease_grant(600, None).await?;
    assert_eq!(lease.ttl(), 600);
    client.put("k", "v", Some(PutOptions::new().with_lease(lease.id()))).await?;
    let left = client.lease_time_to_live(lease.id(), Some(LeaseTimeToLiveOptions::new().with_keys())).await?;
    assert_eq!((left.granted_ttl(), left.keys().to_vec()), (600, vec![b"k".to_vec()]));
    assert!((500..=600).contains(&left.ttl()));
    let (mut keeper, mut answers) = client.lease_keep_alive(lease.id()).await?;
    keeper.keep_alive().await?;
    assert_eq!(answers.message().await?.map(|answer| answer.ttl()), Some(600));
    assert_eq!(client.leases().await?.leases().len(), 1);
    client.lease_revoke(lease.id()).await?;
    assert_eq!(client.get("k", None).await?.count(), 0);
    assert_eq!(refusal(client.lease_revoke(lease.id()).await), "etcdserver: requested lease not found");
    Ok(())
}

#[tokio::test]
async fn rust_lock_and_election() -> Result<(), Error> {
    let (_cluster, mut client) = connect().await?;
    let lease = client.lease_grant(60, None).await?.id();
    let held = client.lock("door", Some(LockOptions::new().with_lease(lease))).await?;
    assert!(held.key().starts_with(b"door/"));
    let mut other = client.clone();
    let waiting = tokio::spawn(async move { other.lock("door", None).await.map(|lock| lock.key().to_vec()) });
    // Once the other stands in line, it has to wait.
    let in_line = GetOptions::new().with_prefix().with_count_only();
    let deadline = Instant::now() + PATIENCE;
    while client.get("door/", Some(in_line.clone())).await?.count() < 2 {
        assert!(Instant::now() < deadline, "the other stands in line");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!waiting.is_finished(), "the lock is held");
    client.unlock(held.key()).await?;
    let next = timeout(PATIENCE, waiting).await.expect("the lock passes on").expect("the task ends")?;
    assert!(next.starts_with(b"door/"));
    client.unlock(next).await?;

    let won = client.campaign("chair", "me", lease).await?;
    assert_eq!(client.leader("chair").await?.kv().map(|kv| kv.value().to_vec()), Some(b"me".to_vec()));
    let key = won.leader().cloned().expect("the winner gets its key");
    client.proclaim("still me", Some(ProclaimOptions::new().with_leader(key.clone()))).await?;
    let mut seen = client.observe("chair").await?;
    let leader = timeout(PATIENCE, seen.message()).await.expect("the leader is reported")?;
    assert_eq!(
        leader.and_then(|leader| leader.kv().map(|kv| kv.value().to_vec())),
        Some(b"still me".to_vec())
    );
    client.resign(Some(ResignOptions::new().with_leader(key))).await?;
    assert_eq!(refusal(client.leader("chair").await), "election: no leader");
    Ok(())
}

#[tokio::test]
async fn rust_maintenance() -> Result<(), Error> {
    let (_cluster, mut client) = connect().await?;
    // Digests, since a store may compress.
    let value: Vec<u8> = (0_u32..4000).flat_map(|block| Sha256::digest(block.to_le_bytes())).collect();
    client.put("k", value, None).await?;
    let status = client.status().await?;
    assert!(status.leader() != 0 && status.db_size() > 0 && !status.version().is_empty());
    assert!(status.raft_applied_index() <= status.raft_index());
    assert!(client.alarm(AlarmAction::Get, AlarmType::None, None).await?.alarms().is_empty());
    client.defragment().await?;
    client.hash().await?;
    let hash = client.hash_kv(0).await?;
    assert_eq!(hash.hash(), client.hash_kv(0).await?.hash());

    let members = client.member_list().await?;
    assert_eq!(members.members().len(), 3);
    assert!(members.members().iter().all(|member| !member.is_learner() && !member.name().is_empty()));

    let mut snapshot = client.snapshot().await?;
    let mut received = 0_u64;
    let mut expected = None;
    while let Some(part) = snapshot.message().await? {
        received += u64::try_from(part.blob().len()).unwrap_or(0);
        // What the first part says is left tells the size of all data; the digest comes on top.
        expected.get_or_insert(part.remaining_bytes() + received);
    }
    assert!(received > 100_000);
    assert_eq!(received, expected.unwrap_or(0) + 32);
    Ok(())
}
