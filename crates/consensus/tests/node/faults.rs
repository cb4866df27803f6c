//! Nodes die, networks are cut, disks are lost: what was acknowledged stays, and the rest of the cluster goes on.

use std::time::Duration;

use setpoint_consensus::{CallError, Lane, ReadError, Role, SubmitError};
use setpoint_types::ClusterId;
use tokio::time::{sleep, timeout};

use super::support::{Cluster, Options, bytes, eventually};

/// Several times the longest a node waits before it would try to become leader.
const SEVERAL_ELECTIONS: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_with_the_leader() {
    let mut cluster = Cluster::start(3, Options::default()).await;
    let (leader, writer) = {
        let leader = cluster.leader().await;
        (leader.id.0, cluster.followers(leader).next().expect("two followers").id.0)
    };
    let mut acknowledged = Vec::new();
    for number in 0..100 {
        let text = format!("before {number}");
        cluster.node(writer).put(text.clone()).await;
        acknowledged.push(bytes(text));
    }
    cluster.kill(leader).await;
    for number in 0..100 {
        let text = format!("after {number}");
        cluster.node(writer).put(text.clone()).await;
        acknowledged.push(bytes(text));
    }
    assert_ne!(cluster.leader().await.id.0, leader);
    cluster.start_node(leader).await;
    cluster.agree_on(&bytes("after 99")).await;
    for node in cluster.nodes.values() {
        let commands = node.machine.commands();
        let mut rest = commands.iter();
        for command in &acknowledged {
            assert!(rest.any(|applied| applied == command), "node {} lost {command:?}", node.id);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_without_a_quorum_confirms_nothing_and_gives_way() {
    let cluster = Cluster::start(3, Options::default()).await;
    let old = cluster.leader().await;
    old.put("before the cut").await;
    cluster.network.isolate(&old.name());
    assert_eq!(old.node.read_barrier().await, Err(ReadError::NoQuorum));

    let others: Vec<_> = cluster.followers(old).collect();
    eventually("the majority has a new leader", || {
        others.iter().any(|node| node.status().role == Role::Leader)
    })
    .await;
    others[0].put("after the cut").await;
    others[0].node.read_barrier().await.expect("the majority serves reads");
    // It may not know it yet, but it cannot have this, and must not pretend to be current.
    assert!(old.node.read_barrier().await.is_err());
    assert!(!old.machine.contains(&bytes("after the cut")));

    let term = others[0].status().term;
    cluster.network.heal();
    cluster.agree_on(&bytes("after the cut")).await;
    eventually("the old leader follows", || old.status().role == Role::Follower).await;
    assert_eq!(
        cluster.leader().await.status().term,
        term,
        "coming back must not cost the cluster its leader"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_cut_off_knows_that_it_has_no_leader() {
    let cluster = Cluster::start(3, Options::default()).await;
    let leader = cluster.leader().await;
    let cut_off = cluster.followers(leader).next().expect("two followers");
    cluster.network.isolate(&cut_off.name());
    eventually("the follower misses its leader", || cut_off.status().leader.is_none()).await;
    assert_eq!(cut_off.node.current_status().leader, None);
    assert_eq!(cut_off.node.submit(bytes("nobody to give it to")), Err(SubmitError::NoLeader));
    assert_eq!(cut_off.node.read_barrier().await, Err(ReadError::NoLeader));
    eventually("the others are a quorum", || {
        cluster.followers(cut_off).all(|node| node.status().leader.is_some())
    })
    .await;
    cluster.network.heal();
    eventually("it has one again", || cut_off.status().leader.is_some()).await;

    let leader = cluster.leader().await;
    cluster.network.isolate(&leader.name());
    eventually("the leader misses its quorum", || leader.status().leader.is_none()).await;
    assert_eq!(leader.node.submit(bytes("too late")), Err(SubmitError::NoLeader));
    cluster.network.heal();
    eventually("all have one again", || cluster.nodes.values().all(|node| node.status().leader.is_some()))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_was_cut_off_comes_back_quietly() {
    let cluster = Cluster::start(3, Options::default()).await;
    let leader = cluster.leader().await;
    let lost = cluster.followers(leader).next().expect("two followers");
    let term = leader.status().term;
    cluster.network.isolate(&lost.name());
    leader.put("while it was away").await;
    sleep(SEVERAL_ELECTIONS).await;
    assert_eq!(lost.status().term, term, "without a quorum nobody starts a term");
    cluster.network.heal();
    lost.applied(&bytes("while it was away")).await;
    sleep(Duration::from_millis(500)).await;
    assert_eq!((leader.status().role, leader.status().term), (Role::Leader, term));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_hears_but_cannot_answer_disturbs_nobody() {
    let cluster = Cluster::start(3, Options::default()).await;
    let leader = cluster.leader().await;
    let mute = cluster.followers(leader).next().expect("two followers");
    let term = leader.status().term;
    cluster.network.cut(&mute.name(), &leader.name());
    for number in 0..20 {
        leader.put(format!("one way {number}")).await;
    }
    leader.node.read_barrier().await.expect("the other follower is enough");
    sleep(SEVERAL_ELECTIONS).await;
    assert_eq!((leader.status().role, leader.status().term), (Role::Leader, term));
    cluster.network.heal();
    cluster.agree_on(&bytes("one way 19")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_fail_at_once_when_the_leader_dies() {
    let mut cluster = Cluster::start(3, Options::default()).await;
    let (leader, asker) = {
        let leader = cluster.leader().await;
        (leader.id.0, cluster.followers(leader).next().expect("two followers").node.clone())
    };
    asker.call_leader(bytes("warm up")).await.expect("the leader answers");
    let question = tokio::spawn(async move { asker.call_leader(bytes("never")).await });
    sleep(Duration::from_millis(200)).await;
    cluster.kill(leader).await;
    let outcome = timeout(Duration::from_secs(3), question).await.expect("no waiting for a dead leader");
    assert_eq!(outcome.expect("asking does not panic"), Err(CallError::Broken));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_lost_its_disk_is_not_believed() {
    let mut cluster = Cluster::start(3, Options::default()).await;
    let (leader, victim) = {
        let leader = cluster.leader().await;
        (leader.id.0, cluster.followers(leader).next().expect("two followers").id.0)
    };
    for number in 0..20 {
        cluster.node(leader).put(format!("before {number}")).await;
    }
    cluster.agree_on(&bytes("before 19")).await;
    cluster.kill(victim).await;
    cluster.wipe(victim);
    cluster.start_node(victim).await;
    for number in 0..20 {
        cluster.node(leader).put(format!("after {number}")).await;
    }
    sleep(Duration::from_secs(1)).await;
    let status = cluster.node(leader).status();
    assert_eq!(status.role, Role::Leader, "the leader survives the news");
    assert!(cluster.node(leader).host.fatal.lock().is_none());
    assert_eq!(cluster.node(victim).machine.len(), 0, "an id is not given away with the machine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_another_cluster_is_turned_away() {
    let mut cluster = Cluster::start(3, Options::default()).await;
    cluster.kill(3).await;
    cluster.wipe(3);
    let stranger = Options { cluster: Some(ClusterId(0xbad)), ..Options::default() };
    let stranger = cluster.build_node(3, stranger).await;
    let leader = cluster.leader().await;
    leader.put("not for strangers").await;
    sleep(SEVERAL_ELECTIONS).await;
    assert_eq!((stranger.machine.len(), stranger.status().term), (0, 0));
    assert_eq!(stranger.status().leader, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_fails_takes_only_its_own_node_down() {
    let cluster = Cluster::start(3, Options::default()).await;
    let broken = cluster.leader().await;
    let writer = cluster.followers(broken).next().expect("two followers");
    broken.machine.fail();
    let _ = broken.node.submit(bytes("the last straw"));
    eventually("the host is told", || broken.host.fatal.lock().is_some()).await;
    eventually("the node says so", || broken.status().role == Role::Stopped).await;
    writer.put("life goes on").await;
    assert!(writer.host.fatal.lock().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_is_down_is_not_called_without_pause() {
    let mut cluster = Cluster::start(3, Options::default()).await;
    let leader = cluster.leader().await.id;
    let lost = cluster.followers(cluster.node(leader.0)).next().expect("two followers").id;
    let (from, to) = (cluster.node(leader.0).name(), cluster.node(lost.0).name());
    cluster.kill(lost.0).await;
    let before = cluster.network.dialled(&from, &to, Lane::Replication);
    for round in 0..20 {
        cluster.node(leader.0).put(format!("without it {round}")).await;
        sleep(Duration::from_millis(100)).await;
    }
    let tries = cluster.network.dialled(&from, &to, Lane::Replication) - before;
    assert!((1..100).contains(&tries), "{tries} tries in about two seconds");
    cluster.start_node(lost.0).await;
    cluster.agree_on(&bytes("without it 19")).await;
}
