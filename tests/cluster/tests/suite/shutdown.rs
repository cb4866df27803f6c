//! SIGTERM under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use setpoint_api::etcdserverpb as pb;
use setpoint_api::v3lockpb::LockRequest;
use setpoint_api::v3lockpb::lock_client::LockClient;
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::dump::watch_all;
use setpoint_cluster_tests::load::LoadConfig;
use setpoint_cluster_tests::testbed::{PATIENCE, Setup, Testbed};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orderly_stop_loses_nothing_and_exits_with_success() {
    let mut bed = Testbed::start("an_orderly_stop").await;
    let followers = bed.follow();
    let load = bed.load(&LoadConfig::default());
    for round in 0..4 {
        bed.progress(20).await;
        let (leader, _) = bed.leader().await;
        // The leader first: it hands its office over before it goes.
        let node = if round % 2 == 0 { leader } else { (leader + 1) % 3 };
        let status =
            bed.cluster.stop(node).await.expect("signalled").expect("it ends by itself, within seconds");
        assert!(status.success(), "node {} ended with {status}", node + 1);
        bed.progress(10).await;
        bed.restart(node).await;
    }
    // All at once, still under load.
    for node in 0..3 {
        let status =
            bed.cluster.stop(node).await.expect("signalled").expect("it ends by itself, within seconds");
        assert!(status.success(), "node {} ended with {status}", node + 1);
    }
    load.stop().await;
    bed.verify(followers).await;
}

/// What a stream that is left to itself ends with.
async fn end_of<T>(mut stream: Streaming<T>) -> Status {
    let end = async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok("it just ended"),
                Err(status) => return status,
            }
        }
    };
    tokio::time::timeout(PATIENCE, end).await.expect("the stream ends")
}

/// A client that waits for a lock that another one has.
async fn wait_for_lock(bed: &Testbed, client: &Client) -> JoinHandle<Result<(), Status>> {
    let mut locks = LockClient::new(client.channel.clone());
    let request = LockRequest { name: "door".into(), lease: 0 };
    locks.lock(request.clone()).await.expect("nobody has the lock");
    let waiting = tokio::spawn(async move { locks.lock(request).await.map(drop) });
    let queue = pb::RangeRequest { key: "door/".into(), range_end: "door0".into(), ..Default::default() };
    bed.until("two want the lock", || async {
        client.range(queue.clone()).await.is_ok_and(|answer| answer.count == 2)
    })
    .await;
    waiting
}

/// Puts one after the other until one fails, and tells why it did.
async fn put_until_refused(client: Client, working: Arc<AtomicBool>) -> Status {
    for number in 0.. {
        if let Err(status) = client.put("k", &number.to_string()).await {
            return status;
        }
        working.store(true, Ordering::Relaxed);
    }
    Status::ok("never refused")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_answers_requests_and_sends_streams_elsewhere() {
    let mut bed = Testbed::start_with("a_stop_answers_requests", Setup::calm()).await;
    let (leader, term) = bed.leader().await;
    let client = bed.clients[leader].clone();
    let mut watches = Vec::new();
    for _ in 0..20 {
        watches.push(watch_all(&client, 0).await.expect("a watch"));
    }
    let lease = client.grant(60).await.expect("grant");
    let (renewals, requests) = mpsc::channel(1);
    renewals.send(pb::LeaseKeepAliveRequest { id: lease }).await.expect("the stream is open");
    let renewed = client.lease().lease_keep_alive(ReceiverStream::new(requests)).await.expect("a stream");
    let mut renewed = renewed.into_inner();
    assert!(renewed.message().await.expect("renewed").is_some());
    // A client that opens a stream and never reads from it must not hold the node up either.
    let lazy = Client::new(&bed.cluster.nodes()[leader].client);
    let unread = watch_all(&lazy, 1).await.expect("a watch");
    let locking = wait_for_lock(&bed, &client).await;
    let working = Arc::new(AtomicBool::new(false));
    let putting: Vec<_> = (0..8)
        .map(|_| {
            let own = Client::new(&bed.cluster.nodes()[leader].client);
            tokio::spawn(put_until_refused(own, working.clone()))
        })
        .collect();
    bed.until("puts go on", || async { working.load(Ordering::Relaxed) }).await;

    let status = bed.cluster.stop(leader).await.expect("signalled").expect("it ends by itself");
    assert!(status.success(), "it ended with {status}");
    for (place, watch) in watches.into_iter().enumerate() {
        let end = end_of(watch.responses).await;
        assert_eq!((end.code(), end.message()), (Code::Unavailable, "etcdserver: server stopped"), "{place}");
    }
    let lock = locking.await.expect("a client does not panic").expect_err("it was never unlocked");
    for end in [end_of(renewed).await, lock] {
        assert_eq!((end.code(), end.message()), (Code::Unavailable, "etcdserver: server stopped"));
    }
    for put in putting {
        let end = put.await.expect("a client does not panic");
        // Refused by a closed door, not thrown out: what the node took it has answered.
        assert!(!end.message().contains("server stopped"), "{end:?}");
    }
    drop((renewals, unread));
    let rest: Vec<usize> = (0..3).filter(|node| *node != leader).collect();
    let (_, later) = bed.leader_among(&rest).await;
    assert!(later > term, "another one leads");
    let log = bed.log(leader);
    for sign in ["were not answered before the stop", "cannot go on"] {
        assert!(!log.contains(sign), "{sign}:\n{log}");
    }
    tokio::time::timeout(Duration::from_secs(60), bed.restart(leader)).await.expect("it comes back");
    bed.hashes_agree(0).await;
    bed.no_panics();
}
