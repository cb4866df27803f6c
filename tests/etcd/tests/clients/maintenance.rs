//! Maintenance with etcdctl.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{cluster, id, number};

/// Each endpoint's part of an answer that has one per endpoint.
fn per_endpoint(answer: &Value, expected: usize) -> &[Value] {
    let all = answer.as_array().map(Vec::as_slice).unwrap_or_default();
    assert_eq!(all.len(), expected, "{answer}");
    all
}

/// The leader, if all nodes know one and it is the same.
fn one_leader(status: &Value) -> Option<u64> {
    let leaders: BTreeSet<u64> =
        per_endpoint(status, 3).iter().map(|node| id(&node["Status"]["leader"])).collect();
    leaders.first().copied().filter(|leader| leaders.len() == 1 && *leader != 0)
}

/// Text of that length which a store cannot make much shorter: hexadecimal digits, half of it information.
fn incompressible(length: usize) -> String {
    let blocks = (0_u32..).map(|block| Sha256::digest(block.to_le_bytes()));
    let digits = blocks.flatten().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.take(length).filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

#[tokio::test]
async fn endpoint_commands() {
    let Some((_cluster, etcdctl)) = cluster().await else { return };
    for number in 0..20 {
        etcdctl.ok(&["put", &format!("k{number}"), "v"]).await;
    }
    let status = etcdctl.json_until(&["endpoint", "status"], |status| one_leader(status).is_some()).await;
    let status: Vec<&Value> = per_endpoint(&status, 3).iter().map(|node| &node["Status"]).collect();
    let members: BTreeSet<u64> = status.iter().map(|status| id(&status["header"]["member_id"])).collect();
    assert_eq!(members.len(), 3, "three different members: {status:?}");
    assert!(status.iter().all(|status| number(&status["dbSize"]) > 0), "{status:?}");
    let versions = status.iter().map(|status| status["version"].as_str().unwrap_or_default());
    assert!(versions.into_iter().all(|version| version.split('.').count() == 3), "{status:?}");

    let health = etcdctl.json(&["endpoint", "health", "--cluster"]).await;
    assert!(per_endpoint(&health, 3).iter().all(|node| node["health"] == true), "{health}");
    // Each node answers for itself, and one of them may have been told of the last put a little later.
    let same = |hashes: &Value| {
        let hash = |node: &Value| id(&node["HashKV"]["hash"]);
        per_endpoint(hashes, 3).iter().map(hash).collect::<BTreeSet<u64>>().len() == 1
    };
    etcdctl.json_until(&["endpoint", "hashkv"], same).await;
}

#[tokio::test]
async fn alarms_and_defragmentation() {
    let Some((cluster, etcdctl)) = cluster().await else { return };
    assert_eq!(etcdctl.ok(&["alarm", "list"]).await, "");
    assert_eq!(etcdctl.ok(&["alarm", "disarm"]).await, "");
    let printed = etcdctl.ok(&["defrag"]).await;
    for endpoint in cluster.endpoints() {
        assert!(printed.contains(&format!("Finished defragmenting etcd member[{endpoint}]")), "{printed}");
    }
}

/// The snapshot's last 32 bytes are the SHA-256 of the rest; etcdctl refuses to keep one whose size says otherwise.
#[tokio::test]
async fn snapshot_save() {
    let Some((cluster, etcdctl)) = cluster().await else { return };
    for number in 0..5 {
        etcdctl.ok(&["put", &format!("k{number}"), &incompressible(100_000)]).await;
    }
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    let file = folder.path().join("snapshot.db");
    let one = etcdctl.at(&cluster.endpoints()[0]);
    let printed = one.ok(&["snapshot", "save", &file.display().to_string()]).await;
    assert!(printed.contains(&format!("Snapshot saved at {}", file.display())), "{printed}");
    let bytes = std::fs::read(&file).expect("the snapshot was written");
    let (content, digest) = bytes.split_at(bytes.len() - 32);
    assert!(content.len() > 250_000, "the snapshot holds the data: {} bytes", content.len());
    assert_eq!(Sha256::digest(content).as_slice(), digest);
}

#[tokio::test]
async fn move_leader() {
    let Some((cluster, etcdctl)) = cluster().await else { return };
    let status = etcdctl.json_until(&["endpoint", "status"], |status| one_leader(status).is_some()).await;
    let leader = one_leader(&status).unwrap_or_default();
    let nodes = per_endpoint(&status, 3);
    let member = |node: &&Value| id(&node["Status"]["header"]["member_id"]);
    let target =
        nodes.iter().map(|node| member(&node)).find(|other| *other != leader).expect("there are followers");
    let target_name = format!("{target:x}");

    let follower = nodes.iter().position(|node| member(&node) == target).expect("the target is one of them");
    let refused = etcdctl.at(&cluster.endpoints()[follower]).fails(&["move-leader", &target_name]).await;
    assert!(refused.contains("no leader endpoint given at"), "{refused}");
    let moved = etcdctl.ok(&["move-leader", &target_name]).await;
    assert!(moved.contains(&format!("Leadership transferred from {leader:x} to {target_name}")), "{moved}");
    etcdctl.json_until(&["endpoint", "status"], |status| one_leader(status) == Some(target)).await;
    assert_eq!(etcdctl.ok(&["put", "k", "v"]).await, "OK\n");
}

/// The smallest load of etcd's own check: 150 puts a second for a minute. Its verdicts on speed depend on the machine and
/// on what else runs there; that every put was carried out does not.
#[tokio::test]
async fn check_perf() {
    let Some((_cluster, etcdctl)) = cluster().await else { return };
    let printed = etcdctl.feed(&["check", "perf", "--load=s"], "", Duration::from_secs(300)).await;
    let (out, complaint) = (&printed.stdout, &printed.stderr);
    assert!(out.contains("Throughput") && out.contains("Slowest request took"), "{out}{complaint}");
    assert!(!out.contains("too many errors") && !out.contains("ERROR("), "{out}{complaint}");
    assert_eq!(
        etcdctl.ok(&["get", "/etcdctl-check-perf/", "--prefix", "--keys-only"]).await,
        "",
        "it cleans up"
    );
}
