//! Cut links between nodes that all run.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use setpoint_api::etcdserverpb as pb;
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::cut::{Cut, check_cuts};
use setpoint_cluster_tests::history::{Op, Outcome};
use setpoint_cluster_tests::load::LoadConfig;
use setpoint_cluster_tests::mesh::Link;
use setpoint_cluster_tests::testbed::{PATIENCE, Setup, Testbed};
use setpoint_etcd_tests::process::http_status;
use tonic::{Request, Status};

fn others(node: usize) -> Vec<usize> {
    (0..3).filter(|other| *other != node).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_in_the_minority_serves_nothing_stale() {
    let bed = Testbed::start("a_leader_in_the_minority").await;
    bed.clients[0].put("k/fixed", "old").await.expect("put");
    let (leader, term) = bed.leader().await;
    bed.mesh.split(&[leader]);
    let (successor, later) = bed.leader_among(&others(leader)).await;
    assert!(later > term && successor != leader);
    bed.clients[successor].put("k/fixed", "new").await.expect("the majority goes on");
    // The deposed leader must not answer, or answer with what the others know, which it cannot.
    let alone = &bed.clients[leader];
    let (read, write) = tokio::join!(alone.get("k/fixed"), alone.put("k/fixed", "lost"));
    assert!(read.is_err(), "a linearizable read was answered by a minority: {read:?}");
    assert!(write.is_err(), "a write was acknowledged by a minority: {write:?}");
    let stale = pb::RangeRequest { key: "k/fixed".into(), serializable: true, ..Default::default() };
    let answer = bed.clients[leader].range(stale).await.expect("serializable reads go on");
    assert_eq!(answer.kvs[0].value, "old", "and show what the node has");
    bed.mesh.heal();
    bed.until("the old leader follows", || async {
        bed.clients[leader].get("k/fixed").await.is_ok_and(|value| value.as_deref() == Some("new"))
    })
    .await;
    let (_, healed) = bed.leader().await;
    assert!(healed >= later && healed <= later + 3, "the term went from {later} to {healed}");
    bed.hashes_agree(0).await;
    bed.no_panics();
}

/// Asks for a read that is only served by a node that knows a leader.
async fn read_if_led(client: &Client) -> Result<(), Status> {
    let mut read =
        Request::new(pb::RangeRequest { key: "k".into(), serializable: true, ..Default::default() });
    read.metadata_mut().insert("hasleader", "true".parse().expect("plain text"));
    client.kv().range(read).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_cut_off_says_that_it_has_no_leader() {
    let bed = Testbed::start("a_node_that_is_cut_off_says").await;
    for leads in [false, true] {
        let (leader, _) = bed.leader().await;
        let node = if leads { leader } else { (leader + 1) % 3 };
        let (client, http) = (&bed.clients[node], bed.cluster.nodes()[node].http.clone());
        let (requests, queue) = tokio::sync::mpsc::channel(1);
        let create = pb::WatchCreateRequest { key: "k".into(), ..Default::default() };
        let create = pb::watch_request::RequestUnion::CreateRequest(create);
        requests.send(pb::WatchRequest { request_union: Some(create) }).await.expect("there is room");
        let mut watch = Request::new(tokio_stream::wrappers::ReceiverStream::new(queue));
        watch.metadata_mut().insert("hasleader", "true".parse().expect("plain text"));
        let mut events = client.watch().watch(watch).await.expect("a watch").into_inner();
        events.message().await.expect("the watch is created");

        bed.mesh.split(&[node]);
        bed.until("the node knows", || async {
            let status = client.status().await.expect("it answers for itself");
            status.leader == 0 && status.errors == ["etcdserver: no leader"]
        })
        .await;
        let refused = read_if_led(client).await.expect_err("there is no leader");
        assert_eq!(refused.message(), "etcdserver: no leader");
        assert_eq!(http_status(&http, "/health").await, Some(503));
        let ended = tokio::time::timeout(PATIENCE, async {
            while let Ok(Some(response)) = events.message().await {
                if response.canceled {
                    return;
                }
            }
        });
        ended.await.expect("a watch that requires a leader ends without one");
        bed.mesh.heal();
        bed.until("it has a leader again", || async { read_if_led(client).await.is_ok() }).await;
    }
    bed.no_panics();
}

/// Cuts a node off until the others have gone on without it.
async fn cut_off(bed: &Testbed, node: usize) -> Cut {
    bed.mesh.split(&[node]);
    let from = bed.recorder.now();
    let is_written = |op: &&Op| op.call >= from && matches!(op.outcome, Outcome::Written { .. });
    bed.until("the majority goes on", || async {
        let ops = bed.recorder.history().ops;
        ops.iter().filter(is_written).filter(|op| op.node != node).count() >= 5
    })
    .await;
    Cut { node, from, to: bed.recorder.now() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_under_load() {
    let mut bed = Testbed::start("partitions_under_load").await;
    let mut random = StdRng::seed_from_u64(bed.seed);
    let followers = bed.follow();
    let load = bed.load(&LoadConfig::default());
    bed.progress(20).await;
    let mut cuts = Vec::new();
    for round in 0..10 {
        let (leader, _) = bed.leader().await;
        let node = random.random_range(0..3);
        match round {
            0 => cuts.push(cut_off(&bed, leader).await),
            1 => cuts.push(cut_off(&bed, (leader + 1) % 3).await),
            2 => bed.mesh.deafen(leader),
            3 => bed.mesh.mute(leader),
            // A bridge: the third node sees both.
            4 => bed.mesh.cut(leader, (leader + 1) % 3),
            5 => bed.mesh.set_all(Link::Delay(Duration::from_millis(60))),
            6 => bed.mesh.set_all(Link::Reset),
            7 => bed.mesh.set_all(Link::Throttle(20_000)),
            8 => bed.mesh.mute(node),
            _ => bed.mesh.set_all(Link::Hold),
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(800..2500))).await;
        bed.mesh.heal();
        bed.progress(5).await;
    }
    load.stop().await;
    let history = bed.verify(followers).await;
    let found = check_cuts(&history, &cuts);
    assert!(found.is_empty(), "{found:#?}");
    assert!(history.acknowledged() > 100, "the run was no test: {}", history.summary());
    assert!(
        history.ops.iter().any(|op| matches!(op.outcome, Outcome::Unknown(_) | Outcome::NotApplied(_))),
        "no request ever failed: the network was never cut"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_isolated_follower_rejoins_without_deposing_the_leader() {
    let mut bed = Testbed::start_with("an_isolated_follower", Setup::calm()).await;
    let (leader, term) = bed.leader().await;
    let follower = (leader + 1) % 3;
    bed.mesh.split(&[follower]);
    for _ in 0..20 {
        bed.barrier_write(leader).await;
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    assert!(bed.clients[follower].get("k").await.is_err(), "the follower is cut off");
    bed.mesh.heal();
    bed.ready(follower).await;
    bed.barrier_write(follower).await;
    assert_eq!(bed.leader().await, (leader, term), "leader and term are as before");
    bed.verify(Vec::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_serves_without_a_majority_and_all_do_after() {
    let mut bed = Testbed::start("nobody_serves_without_a_majority").await;
    bed.barrier_write(0).await;
    bed.mesh.set_all(Link::Hold);
    let asked =
        bed.clients.iter().map(|client| async { tokio::join!(client.put("k", "v"), client.get("k")) });
    for (write, read) in futures::future::join_all(asked).await {
        assert!(write.is_err() && read.is_err(), "{write:?} {read:?}");
    }
    bed.mesh.heal();
    for node in 0..3 {
        bed.ready(node).await;
    }
    // What was put without a majority may or may not have happened since; nobody was told that it did.
    bed.clients[0].put("k", "w").await.expect("put");
    for client in &bed.clients {
        assert_eq!(client.get("k").await.expect("read").as_deref(), Some("w"));
    }
    bed.hashes_agree(0).await;
    bed.no_panics();
}
