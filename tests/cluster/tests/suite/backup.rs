//! A backup, restored into a new cluster.

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

fn run(arguments: &[&str]) {
    let output = Command::new(setpointd().expect("the program")).args(arguments).output().expect("it runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
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

    let file = bed.cluster.root().join("backup.db");
    let file = file.to_str().expect("a path of letters");
    let endpoint = format!("http://{}", bed.cluster.nodes()[1].client);
    run(&["backup", "--endpoint", &endpoint, file]);

    let mut restored = Testbed::prepare("a_restored_cluster", Setup::calm()).await;
    for node in restored.cluster.nodes() {
        run(&["restore", file, "--data-dir", node.directory.to_str().expect("a path of letters")]);
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
