//! The programs of a cluster are replaced node by node, under load: what docs/operations.md tells to do.
//!
//! `SETPOINTD_BEFORE` names the program of an earlier version; continuous integration keeps the one it built last. Without it the
//! same program takes its own place, which shows the order of things and not that two versions understand each other.

use std::path::PathBuf;

use setpoint_cluster_tests::load::LoadConfig;
use setpoint_cluster_tests::testbed::{Setup, Testbed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_node_by_node_loses_nothing() {
    let before = std::env::var_os("SETPOINTD_BEFORE").map(PathBuf::from).filter(|path| path.is_file());
    match &before {
        Some(path) => eprintln!("from {} to the one that was just built", path.display()),
        None => eprintln!("SETPOINTD_BEFORE names no earlier program: each node is replaced by the same one"),
    }
    let mut bed = Testbed::prepare("an_upgrade", Setup::calm()).await;
    for node in 0..3 {
        bed.cluster.node_mut(node).program.clone_from(&before);
        bed.start_node(node);
    }
    bed.cluster.ready().await.expect("the cluster gets ready");
    let followers = bed.follow();
    let load = bed.load(&LoadConfig::default());
    bed.progress(50).await;
    replace_all(&mut bed).await;
    load.stop().await;
    let history = bed.verify(followers).await;
    assert!(history.acknowledged() > 100, "the run was no test: {}", history.summary());
}

/// Each node in turn, the leader last; writes go on while one is away, and while the versions are mixed.
async fn replace_all(bed: &mut Testbed) {
    let (leader, _) = bed.leader().await;
    for node in [(leader + 1) % 3, (leader + 2) % 3, leader] {
        let status =
            bed.cluster.stop(node).await.expect("signalled").expect("it ends by itself, within seconds");
        assert!(status.success(), "node {} ended with {status}", node + 1);
        bed.progress(10).await;
        bed.cluster.node_mut(node).program = None;
        bed.restart(node).await;
        bed.progress(10).await;
    }
}
