//! The log is cut, and who lags too far gets the whole state instead.

use setpoint_consensus::{Config, Lane, Role};
use setpoint_types::NodeId;

use super::support::{Cluster, Options, TestNetwork, TestNode, bytes, eventually};

/// Cuts the log after every few entries and keeps almost nothing.
fn short_log() -> Options {
    let configure = |config: &mut Config| {
        config.log.snapshot_every = 20;
        config.log.keep = 2;
        config.log.purge_batch = 1;
        config.limits.entries_in_flight = 1;
    };
    Options { configure: Some(configure), ..Options::default() }
}

/// Commands in entries of their own, so that the log grows by one each.
async fn fill(node: &TestNode, what: &str, count: usize) {
    for number in 0..count {
        node.put(format!("{what} {number}")).await;
    }
}

async fn purged(node: &TestNode, beyond: u64) {
    eventually("the log is cut", || node.status().purged >= Some(beyond)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_missed_little_reads_the_log() {
    let mut cluster = Cluster::start(3, Options::default()).await;
    let leader = cluster.leader().await.id.0;
    let lost = if leader == 3 { 2 } else { 3 };
    cluster.kill(lost).await;
    fill(cluster.node(leader), "missed", 200).await;
    cluster.start_node(lost).await;
    cluster.agree_on(&bytes("missed 199")).await;
    assert_eq!(*cluster.node(lost).machine.installs.lock(), 0);
    assert_eq!(*cluster.node(leader).machine.checkpoints.lock(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_missed_too_much_gets_the_state() {
    let mut cluster = Cluster::start(3, short_log()).await;
    let leader = cluster.leader().await.id.0;
    let lost = if leader == 3 { 2 } else { 3 };
    fill(cluster.node(leader), "seen", 10).await;
    cluster.agree_on(&bytes("seen 9")).await;
    cluster.kill(lost).await;
    fill(cluster.node(leader), "missed", 200).await;
    purged(cluster.node(leader), 150).await;
    cluster.start_node(lost).await;
    cluster.agree_on(&bytes("missed 199")).await;
    assert!(*cluster.node(lost).machine.installs.lock() >= 1);
    fill(cluster.node(lost), "after", 10).await;
    cluster.agree_on(&bytes("after 9")).await;

    for id in [leader, lost] {
        let left = |name: &str| {
            let entries = std::fs::read_dir(cluster.directory(id).join(name));
            entries.map(|entries| entries.count()).unwrap_or(0)
        };
        eventually("nothing is left of the transfer", || left("snap") + left("recv") == 0).await;
    }
    // What came in by snapshot survives a crash.
    cluster.kill(lost).await;
    cluster.start_node(lost).await;
    cluster.agree_on(&bytes("after 9")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_member_starts_from_the_state_and_can_lead() {
    let mut cluster = Cluster::start(1, short_log()).await;
    fill(cluster.node(1), "old", 100).await;
    purged(cluster.node(1), 70).await;
    cluster.start_node(2).await;
    let peer = setpoint_consensus::Peer { name: "n2".to_owned(), address: cluster.node(2).name() };
    let first = &cluster.node(1).node;
    first.add_learner(NodeId(2), peer).await.expect("a new id");
    cluster.node(2).applied(&bytes("old 99")).await;
    assert!(*cluster.node(2).machine.installs.lock() >= 1);
    eventually("it is known to have caught up", || {
        let status = cluster.node(1).status();
        status.members[&NodeId(2)].matched == status.last_index
    })
    .await;
    first.promote(NodeId(2)).await.expect("it has caught up");
    first.transfer_leader(NodeId(2)).await.expect("a healthy successor");
    cluster.node(2).put("its first").await;
    assert_eq!(cluster.node(2).status().role, Role::Leader);
    // The highest id came with the state.
    assert_eq!(cluster.node(2).node.next_id(), NodeId(3));
    fill(cluster.node(2), "new", 50).await;
    cluster.agree_on(&bytes("new 49")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_that_is_cut_is_made_again() {
    let configure = |config: &mut Config| {
        config.log.snapshot_every = 20;
        config.log.keep = 2;
        config.log.purge_batch = 1;
        config.timing.snapshot_stall = std::time::Duration::from_millis(500);
    };
    let mut cluster = Cluster::start(3, Options { configure: Some(configure), ..Options::default() }).await;
    let leader = cluster.leader().await.id.0;
    let lost = if leader == 3 { 2 } else { 3 };
    cluster.kill(lost).await;
    fill(cluster.node(leader), "missed", 100).await;
    purged(cluster.node(leader), 60).await;
    let names = (cluster.node(leader).name(), format!("node-{lost}:1"));
    cluster.network.limit_bytes(&names.0, &names.1, 1 << 20);
    cluster.start_node(lost).await;
    eventually("a transfer began", || *cluster.node(leader).machine.checkpoints.lock() > 0).await;
    eventually("it was given up and begun again", || *cluster.node(leader).machine.checkpoints.lock() > 1)
        .await;
    assert_eq!(*cluster.node(lost).machine.installs.lock(), 0);
    cluster.network.heal();
    cluster.agree_on(&bytes("missed 99")).await;
    assert!(*cluster.node(lost).machine.installs.lock() >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_prepared_for_a_follower_that_is_down() {
    let mut cluster = Cluster::start(3, short_log()).await;
    let leader = cluster.leader().await.id.0;
    let lost = if leader == 3 { 2 } else { 3 };
    cluster.kill(lost).await;
    fill(cluster.node(leader), "missed", 100).await;
    purged(cluster.node(leader), 60).await;
    let (from, to) = (cluster.node(leader).name(), format!("node-{lost}:1"));
    let tries = |network: &TestNetwork| network.dialled(&from, &to, Lane::Snapshot);
    eventually("the leader would send the state", || tries(&cluster.network) > 3).await;
    assert_eq!(*cluster.node(leader).machine.checkpoints.lock(), 0, "nobody is there to take it");
    cluster.start_node(lost).await;
    cluster.agree_on(&bytes("missed 99")).await;
    assert!(*cluster.node(leader).machine.checkpoints.lock() >= 1);
}
