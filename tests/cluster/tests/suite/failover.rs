//! Electing, failing over, and answering everything on every node.

use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::request_op::Request as Op;
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::dump::dump;
use setpoint_cluster_tests::load::LoadConfig;
use setpoint_cluster_tests::testbed::{Setup, Testbed};

/// Every service through one node.
async fn answers_everything(client: &Client, name: &str) {
    let key = format!("everything/{name}");
    let revision = client.put(&key, "1").await.expect("put");
    assert_eq!(client.get(&key).await.expect("range").as_deref(), Some("1"));
    let put = pb::PutRequest { key: key.clone().into(), value: "2".into(), ..Default::default() };
    let txn = pb::TxnRequest {
        success: vec![pb::RequestOp { request: Some(Op::RequestPut(put)) }],
        ..Default::default()
    };
    let answer = client.kv().txn(txn).await.expect("txn").into_inner();
    assert!(answer.succeeded);
    let lease = client.grant(60).await.expect("grant");
    client.put_with_lease(&format!("{key}/leased"), "3", lease).await.expect("put with lease");
    assert!(client.keep_alive(lease).await.expect("keep-alive") > 0);
    client.lease().lease_revoke(pb::LeaseRevokeRequest { id: lease }).await.expect("revoke");
    assert_eq!(client.get(&format!("{key}/leased")).await.expect("range"), None);
    assert_eq!(client.delete(&key).await.expect("delete"), 1);
    let last = client.revision().await.expect("revision");
    let log = dump(client, revision, last).await.expect("watch");
    assert!(log.len() >= 5, "put, txn, put, revoke, delete: {log:?}");
    client.members().await.expect("members");
    client.hash(0).await.expect("hash");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_answers_every_request_before_and_after_failover() {
    let mut bed = Testbed::start_with("every_node_answers_every_request", Setup::calm()).await;
    let (leader, term) = bed.leader().await;
    for (node, client) in bed.clients.iter().enumerate() {
        answers_everything(client, &format!("n{}", node + 1)).await;
    }
    bed.kill(leader);
    let rest: Vec<usize> = (0..3).filter(|node| *node != leader).collect();
    let (successor, later) = bed.leader_among(&rest).await;
    assert!(successor != leader && later > term, "a new leader in a new term");
    for node in &rest {
        answers_everything(&bed.clients[*node], "after").await;
    }
    bed.restart(leader).await;
    answers_everything(&bed.clients[leader], "back").await;
    let newest = bed.clients[leader].revision().await.expect("revision");
    bed.hashes_agree(newest).await;
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moving_the_leader_loses_nothing() {
    let mut bed = Testbed::start("moving_the_leader").await;
    let followers = bed.follow();
    let load = bed.load(&LoadConfig::default());
    for _ in 0..4 {
        bed.progress(20).await;
        let (leader, _) = bed.leader().await;
        let target = (leader + 1) % 3;
        let request = pb::MoveLeaderRequest { target_id: target as u64 + 1 };
        bed.clients[leader].maintenance().move_leader(request).await.expect("the leader moves");
        bed.until("the leader moved", || async { bed.leader().await.0 == target }).await;
    }
    load.stop().await;
    bed.verify(followers).await;
}
