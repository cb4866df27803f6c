//! Members that come and go.

use std::fs;

use setpoint_api::etcdserverpb as pb;
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::load::LoadConfig;
use setpoint_cluster_tests::testbed::{Setup, Testbed, patiently};

/// Adds a node beside the mesh, told to join at the first node's own peer address.
fn newcomer(bed: &mut Testbed) -> (usize, Client, String) {
    let seed = bed.cluster.nodes()[0].peer.clone();
    let index = bed.cluster.add_node(vec!["--join".to_owned(), seed]).expect("a node is prepared");
    let node = &bed.cluster.nodes()[index];
    (index, Client::new(&node.client), node.peer.clone())
}

async fn member(client: &Client, id: u64) -> Option<pb::Member> {
    patiently(|| client.members()).await.into_iter().find(|member| member.id == id)
}

async fn remove(client: &Client, node: usize) -> Result<pb::MemberRemoveResponse, tonic::Status> {
    let request = pb::MemberRemoveRequest { id: node as u64 + 1 };
    Ok(client.cluster().member_remove(request).await?.into_inner())
}

async fn same_content(bed: &Testbed, newcomer: &Client) {
    let revision = newcomer.revision().await.expect("a linearizable read on the new node");
    let theirs = bed.clients[1].hash(revision).await.expect("hash");
    assert_eq!(newcomer.hash(revision).await.expect("hash"), theirs, "the new node has the same content");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_announced_learner_joins_and_is_promoted() {
    let mut bed = Testbed::start_with("an_announced_learner", Setup::calm()).await;
    for node in 0..3 {
        bed.barrier_write(node).await;
    }
    let (index, client, peer) = newcomer(&mut bed);
    let request = pb::MemberAddRequest { peer_urls: vec![format!("http://{peer}")], is_learner: true };
    let added = bed.clients[1].cluster().member_add(request.clone()).await.expect("added").into_inner();
    let id = added.member.expect("the new member is named").id;
    assert_eq!(id, 4);
    let twice = bed.clients[2].cluster().member_add(request).await.expect_err("the address is taken");
    assert_eq!(twice.message(), "etcdserver: Peer URLs already exists");
    let early = pb::MemberPromoteRequest { id };
    let refused = bed.clients[0].cluster().member_promote(early).await.expect_err("it has not even started");
    assert!(refused.message().contains("in sync with leader"), "{refused:?}");

    bed.restart(index).await;
    assert!(
        member(&bed.clients[0], id).await.expect("listed").is_learner,
        "a learner stays one until it is promoted"
    );
    assert!(client.status().await.expect("status").is_learner);
    bed.until("the learner is promoted", || async {
        bed.clients[0].cluster().member_promote(pb::MemberPromoteRequest { id }).await.is_ok()
    })
    .await;
    assert!(!member(&bed.clients[2], id).await.expect("listed").is_learner);
    client.put("through", "the new node").await.expect("it takes writes");
    same_content(&bed, &client).await;
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_joining_node_waits_until_it_can_be_taken_in() {
    let mut bed = Testbed::start_with("a_joining_node_waits", Setup::calm()).await;
    // A learner that never starts is in the way of the next one.
    let request = pb::MemberAddRequest { peer_urls: vec!["http://127.0.0.1:1".to_owned()], is_learner: true };
    let added = bed.clients[1].cluster().member_add(request).await.expect("added").into_inner();
    let idle = added.member.expect("the new member is named").id;
    let (index, _, _) = newcomer(&mut bed);
    bed.start_node(index);
    let told = |bed: &Testbed, reason: &str| bed.log(index).matches(reason).count();
    let learners = "too many learner members in cluster";
    bed.until("it says that a learner is in its way", || async { told(&bed, learners) >= 1 }).await;
    let way_out = format!("remove it (etcdctl member remove {idle:x})");
    bed.until("it says which one", || async { told(&bed, &way_out) >= 1 }).await;
    (1..3).for_each(|node| bed.kill(node));
    bed.until("it says that there is no leader", || async { told(&bed, "no leader") >= 1 }).await;
    for node in 1..3 {
        bed.start_node(node);
    }
    bed.until("the idle learner is removed", || async {
        let removed = bed.clients[0].cluster().member_remove(pb::MemberRemoveRequest { id: idle }).await;
        removed.map_or_else(|status| status.message().contains("member not found"), |_| true)
    })
    .await;
    bed.ready(index).await;
    assert_eq!(told(&bed, learners), 1, "{}", bed.cluster.log_tail(index, 20));
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_joining_node_votes_by_itself_and_a_removed_one_never_comes_back() {
    let mut bed = Testbed::start_with("a_joining_node_votes", Setup::calm()).await;
    let load = bed.load(&LoadConfig::default());
    bed.progress(20).await;
    let (index, client, _) = newcomer(&mut bed);
    bed.restart(index).await;
    bed.until("the new node votes", || async {
        member(&bed.clients[0], 4).await.is_some_and(|member| !member.is_learner && member.name == "n4")
    })
    .await;
    load.stop().await;
    same_content(&bed, &client).await;

    let gone = bed.clients[0].cluster().member_remove(pb::MemberRemoveRequest { id: 9 }).await;
    assert_eq!(gone.expect_err("nobody has this id").message(), "etcdserver: member not found");
    bed.clients[1].cluster().member_remove(pb::MemberRemoveRequest { id: 4 }).await.expect("removed");
    assert!(member(&bed.clients[2], 4).await.is_none());
    bed.barrier_write(0).await;
    // Whether it runs on or is started again, with its old data it is nobody.
    bed.until("the removed node is out of the cluster", || async { client.get("k").await.is_err() }).await;
    let told = |bed: &Testbed| bed.log(index).matches("this node was removed from the cluster").count();
    bed.until("it says so", || async { told(&bed) == 1 }).await;
    bed.start_node(index);
    bed.until("it says so again", || async { told(&bed) == 2 }).await;
    assert!(client.get("k").await.is_err(), "a removed node answers no linearizable reads");
    let (leader, term) = bed.leader().await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(bed.leader().await, (leader, term), "it disturbs nobody");
    assert_eq!(bed.clients[0].members().await.expect("members").len(), 3);
    bed.verify(Vec::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_founder_that_lost_its_disk_does_not_come_back_under_its_old_id() {
    let mut bed = Testbed::start_with("a_founder_that_lost_its_disk", Setup::calm()).await;
    bed.until("all have taken part", || async {
        let members = bed.clients[0].members().await.unwrap_or_default();
        members.len() == 3 && members.iter().all(|member| !member.name.is_empty())
    })
    .await;
    let lost = bed.follower().await;
    bed.kill(lost);
    fs::remove_dir_all(&bed.cluster.nodes()[lost].directory).expect("its folder");
    let refusal = "has taken part in the cluster as member";
    bed.start_node(lost);
    assert!(!bed.cluster.ended(lost).await.expect("it refuses to start").success());
    assert_eq!(bed.log(lost).matches(refusal).count(), 1, "{}", bed.cluster.log_tail(lost, 5));

    // The others remember it over a restart.
    let rest: Vec<usize> = (0..3).filter(|node| *node != lost).collect();
    for node in &rest {
        bed.kill(*node);
    }
    for node in &rest {
        bed.start_node(*node);
    }
    for node in &rest {
        bed.ready(*node).await;
    }
    bed.start_node(lost);
    assert!(!bed.cluster.ended(lost).await.expect("it refuses to start").success());
    assert_eq!(bed.log(lost).matches(refusal).count(), 2, "{}", bed.cluster.log_tail(lost, 5));

    // As it was told: removed, and taken in anew.
    remove(&bed.clients[rest[0]], lost).await.expect("removed");
    let seed = bed.cluster.nodes()[rest[0]].peer.clone();
    bed.cluster.node_mut(lost).arguments = vec!["--join".to_owned(), seed];
    bed.restart(lost).await;
    bed.until("it votes under another id", || async {
        member(&bed.clients[rest[1]], 4).await.is_some_and(|member| !member.is_learner)
    })
    .await;
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lost_its_log_but_not_its_name_does_not_come_back() {
    let mut bed = Testbed::start_with("a_node_that_lost_its_log", Setup::of(1)).await;
    let (joined, _, _) = newcomer(&mut bed);
    bed.restart(joined).await;
    // The founder comes last: nobody is there who could tell it.
    for lost in [joined, 0] {
        bed.kill(lost);
        for part in ["raft", "state"] {
            fs::remove_dir_all(bed.cluster.nodes()[lost].directory.join(part)).expect("a part of its folder");
        }
        bed.start_node(lost);
        assert!(!bed.cluster.ended(lost).await.expect("it refuses to start").success());
        let told = bed.log(lost);
        assert!(told.contains("but its log in"), "{}", bed.cluster.log_tail(lost, 5));
        assert!(told.contains(&format!("etcdctl member remove {}", lost + 1)), "it says what to do");
    }
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_and_addresses_are_nobody_elses() {
    let mut bed = Testbed::start_with("names_and_addresses", Setup::of(1)).await;
    let first = patiently(|| bed.clients[0].members()).await.remove(0);
    let (index, _, _) = newcomer(&mut bed);
    bed.restart(index).await;
    let update = pb::MemberUpdateRequest { id: 2, peer_urls: first.peer_urls };
    let taken = bed.clients[0].cluster().member_update(update).await.expect_err("another member is there");
    assert_eq!(taken.message(), "etcdserver: Peer URLs already exists");

    let (index, _, _) = newcomer(&mut bed);
    bed.cluster.node_mut(index).name = "n2".to_owned();
    bed.start_node(index);
    assert!(!bed.cluster.ended(index).await.expect("it is refused at once").success());
    let log = bed.log(index);
    assert!(log.contains("member 2 at") && log.contains("has the name \"n2\""), "{log}");
    assert_eq!(patiently(|| bed.clients[0].members()).await.len(), 2);
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_cannot_listen_does_not_join() {
    let mut bed = Testbed::start_with("a_node_that_cannot_listen", Setup::of(1)).await;
    let (index, _, _) = newcomer(&mut bed);
    let address = bed.cluster.nodes()[index].http.clone();
    let taken = std::net::TcpListener::bind(&address).expect("the address is free");
    bed.start_node(index);
    assert!(!bed.cluster.ended(index).await.expect("it cannot listen").success());
    assert!(bed.log(index).contains("--listen-http"), "{}", bed.cluster.log_tail(index, 5));
    assert_eq!(patiently(|| bed.clients[0].members()).await.len(), 1, "nobody was told of it");
    drop(taken);
    bed.restart(index).await;
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_that_lost_its_disk_is_not_given_its_old_id() {
    let mut bed = Testbed::start_with("a_learner_that_lost_its_disk", Setup::of(1)).await;
    let (index, _, peer) = newcomer(&mut bed);
    let request = pb::MemberAddRequest { peer_urls: vec![format!("http://{peer}")], is_learner: true };
    bed.clients[0].cluster().member_add(request).await.expect("added");
    bed.restart(index).await;
    bed.kill(index);
    fs::remove_dir_all(&bed.cluster.nodes()[index].directory).expect("its folder");
    bed.start_node(index);
    assert!(!bed.cluster.ended(index).await.expect("it is refused at once").success());
    assert!(bed.log(index).contains("etcdctl member remove 2"), "{}", bed.cluster.log_tail(index, 5));

    // As it was told.
    remove(&bed.clients[0], 1).await.expect("removed");
    bed.restart(index).await;
    assert!(member(&bed.clients[0], 3).await.is_some(), "under another id");
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_can_be_removed() {
    let bed = Testbed::start_with("the_leader_can_be_removed", Setup::calm()).await;
    let load = bed.load(&LoadConfig::default());
    bed.progress(20).await;
    let (leader, _) = bed.leader().await;
    let other = (leader + 1) % 3;
    let removed = remove(&bed.clients[other], leader).await.expect("the leader is removed");
    assert_eq!(removed.members.len(), 2, "{removed:?}");
    let rest: Vec<usize> = (0..3).filter(|node| *node != leader).collect();
    let (successor, _) = bed.leader_among(&rest).await;
    load.stop().await;
    bed.clients[successor].put("after", "removal").await.expect("the others go on");

    // By itself, too.
    let removed = remove(&bed.clients[successor], successor).await.expect("the leader removes itself");
    assert_eq!(removed.members.len(), 1, "{removed:?}");
    let last = rest.into_iter().find(|node| *node != successor).expect("one of three");
    let put = || bed.clients[last].put("after", "another removal");
    patiently(put).await;
    let members = bed.clients[last].members().await.expect("members");
    assert_eq!(members.iter().map(|member| member.id).collect::<Vec<_>>(), [last as u64 + 1]);
    let only = remove(&bed.clients[last], last).await.expect_err("somebody has to stay");
    assert!(only.message().contains("not enough started members"), "{only:?}");
    let nobody = remove(&bed.clients[last], leader).await.expect_err("it is gone");
    assert_eq!(nobody.message(), "etcdserver: member not found");
    bed.no_panics();
}
