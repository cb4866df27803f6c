//! What a node has when it comes back: the real log on disk, and a machine that lost what it had not flushed.

use setpoint_consensus::Config;

use super::support::{Cluster, Options, bytes};

/// S2.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_lost_power_has_all_it_acknowledged() {
    let mut cluster = Cluster::start(3, Options::default()).await;
    for number in 0..100 {
        let writer = 1 + number % 3;
        cluster.node(writer).put(format!("kept {number}")).await;
    }
    let term = cluster.leader().await.status().term;
    for id in 1..=3 {
        cluster.kill(id).await;
    }
    for id in 1..=3 {
        cluster.start_node(id).await;
    }
    cluster.node(1).put("and on").await;
    cluster.agree_on(&bytes("and on")).await;
    let commands = cluster.node(1).machine.commands();
    let expected = (0..100).map(|number| bytes(format!("kept {number}")));
    assert!(expected.eq(commands[..100].iter().cloned()));
    assert!(cluster.leader().await.status().term > term, "a leadership does not survive its process");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_log_and_a_flushed_machine_fit_together_again() {
    let configure = |config: &mut Config| {
        config.log.snapshot_every = 15;
        config.log.keep = 3;
        config.log.purge_batch = 1;
    };
    let mut cluster = Cluster::start(3, Options { configure: Some(configure), ..Options::default() }).await;
    for round in 0..4 {
        for number in 0..25 {
            cluster.node(1).put(format!("{round}/{number}")).await;
        }
        for id in 1..=3 {
            cluster.kill(id).await;
        }
        for id in 1..=3 {
            cluster.start_node(id).await;
        }
    }
    cluster.node(2).put("at last").await;
    cluster.agree_on(&bytes("at last")).await;
    let commands = cluster.node(3).machine.commands();
    let expected = (0..4).flat_map(|round| (0..25).map(move |number| bytes(format!("{round}/{number}"))));
    assert!(expected.eq(commands[..100].iter().cloned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_orderly_stop_nothing_is_replayed() {
    let mut cluster = Cluster::start(1, Options::default()).await;
    for number in 0..20 {
        cluster.node(1).put(format!("{number}")).await;
    }
    cluster.node(1).node.shutdown().await;
    cluster.kill(1).await;
    let machine = super::support::ToyMachine::open(&cluster.directory(1).join("machine"));
    assert_eq!(machine.len(), 20, "the machine was flushed");
}
