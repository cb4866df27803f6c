//! A backup, restored into a new cluster.

use std::fs;
use std::process::Command;

use setpoint_api::etcdserverpb as pb;
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::dump::dump;
use setpoint_cluster_tests::load::LoadConfig;
use setpoint_cluster_tests::testbed::{Setup, Testbed};
use setpoint_etcd_tests::cluster::setpointd;

async fn lease_of(client: &Client, key: &str) -> i64 {
    let read = pb::RangeRequest { key: key.to_owned().into(), ..Default::default() };
    client.range(read).await.expect("read").kvs[0].lease
}

/// Takes a backup of a node into a file beside its data.
fn backup(bed: &Testbed, node: usize, name: &str) -> String {
    let file = bed.cluster.root().join(name).to_str().expect("a path of letters").to_owned();
    run(&["backup", "--endpoint", &format!("http://{}", bed.cluster.nodes()[node].client), &file]);
    file
}

fn restore(bed: &Testbed, node: usize, file: &str) {
    let folder = &bed.cluster.nodes()[node].directory;
    let folder = folder.to_str().expect("a path of letters");
    let said = run(&["restore", file, "--data-dir", folder]);
    assert!(said.contains(&format!("Start it with --data-dir {folder} ")), "{said}");
}

fn run(arguments: &[&str]) -> String {
    let output = Command::new(setpointd().expect("the program")).args(arguments).output().expect("it runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_cluster_has_keys_history_leases_and_revisions() {
    let mut bed = Testbed::start_with("a_restored_cluster", Setup::calm()).await;
    let lease = bed.clients[0].grant(3600).await.expect("grant");
    let load = bed.load(&LoadConfig::default());
    bed.progress(150).await;
    load.stop().await;
    bed.clients[1].put_with_lease("leased", "v", lease).await.expect("put");
    let compacted = bed.clients[1].revision().await.expect("revision") / 2;
    bed.clients[1].compact(compacted).await.expect("compacted");
    let last = bed.barrier_write(2).await;
    let before = dump(&bed.clients[0], compacted + 1, last).await.expect("the log");

    let theirs = bed.cluster.root().join("backup.partial");
    fs::write(&theirs, "somebody else's").expect("written");
    let file = backup(&bed, 1, "backup.db");
    assert_eq!(fs::read_to_string(&theirs).expect("still there"), "somebody else's");
    let mut restored = Testbed::prepare("a_restored_cluster", Setup::calm()).await;
    for node in 0..3 {
        restore(&restored, node, &file);
    }
    for node in 0..3 {
        restored.start_node(node);
    }
    for node in 0..3 {
        restored.ready(node).await;
    }
    let hash = bed.clients[0].hash(last).await.expect("hash");
    for client in &restored.clients {
        assert_eq!(client.hash(last).await.expect("hash"), hash, "the same content and history");
        assert_eq!(dump(client, compacted + 1, last).await.expect("the log"), before);
        assert!(dump(client, 1, last).await.is_err(), "what was compacted stays compacted");
        assert_eq!(
            client.revision().await.expect("revision"),
            last,
            "the revision goes on from where it was"
        );
        assert_eq!(lease_of(client, "leased").await, lease);
        assert!(client.keep_alive(lease).await.expect("keep-alive") > 0, "the lease lives");
    }
    let next = restored.clients[2].put("first", "of the new cluster").await.expect("put");
    assert_eq!(next, last + 1);
    restored.clients[0].lease().lease_revoke(pb::LeaseRevokeRequest { id: lease }).await.expect("revoked");
    assert_eq!(restored.clients[1].get("leased").await.expect("read"), None, "the lease still holds its key");
    restored.hashes_agree(next + 1).await;
    restored.no_panics();
    bed.no_panics();
}

/// Starts a node that has to refuse, and checks what it says.
async fn refuses(bed: &mut Testbed, node: usize, sentence: &str) {
    bed.start_node(node);
    assert!(!bed.cluster.ended(node).await.expect("it does not start").success());
    assert!(bed.log(node).contains(sentence), "{}", bed.cluster.log_tail(node, 5));
}

/// S16.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_restored_from_different_backups_refuse_each_other() {
    let mut bed = Testbed::start_with("restored_from_different_backups", Setup::calm()).await;
    bed.barrier_write(0).await;
    let first = backup(&bed, 0, "first.db");
    bed.barrier_write(0).await;
    let second = backup(&bed, 0, "second.db");

    let mut restored = Testbed::prepare("restored_from_different_backups", Setup::calm()).await;
    for (node, file) in [(0, &first), (1, &first), (2, &second)] {
        restore(&restored, node, file);
    }
    for node in [0, 1] {
        restored.start_node(node);
    }
    for node in [0, 1] {
        restored.ready(node).await;
    }
    refuses(&mut restored, 2, "does not belong to the cluster that this node is to found").await;
    // Restored from the same one, it is taken for one of them.
    fs::remove_dir_all(&restored.cluster.nodes()[2].directory).expect("its folder");
    restore(&restored, 2, &first);
    restored.restart(2).await;
    restored.hashes_agree(0).await;
    restored.no_panics();
}

/// S16.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_node_does_not_mix_with_the_cluster_the_backup_was_taken_of() {
    let mut bed = Testbed::start_with("a_restored_node_does_not_mix", Setup::calm()).await;
    bed.barrier_write(0).await;
    let file = backup(&bed, 0, "backup.db");
    let node = bed.follower().await;
    let rest: Vec<usize> = (0..3).filter(|other| *other != node).collect();
    bed.kill(node);
    fs::remove_dir_all(&bed.cluster.nodes()[node].directory).expect("its folder");
    restore(&bed, node, &file);
    refuses(&mut bed, node, "does not belong to the cluster that this node is to found").await;
    // Nor may it join one on top of what was restored.
    let seed = bed.cluster.nodes()[rest[0]].peer.clone();
    bed.cluster.node_mut(node).arguments = vec!["--join".to_owned(), seed];
    refuses(&mut bed, node, "was restored from a backup, so the node can only found a new cluster").await;
    bed.barrier_write(rest[0]).await;
    bed.no_panics();
}
