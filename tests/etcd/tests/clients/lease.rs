//! Leases with etcdctl, and what it builds on them: locks and elections.

use setpoint_etcd_tests::etcdctl::Etcdctl;

use crate::cluster;

/// Grants a lease and returns its id as etcdctl prints it.
async fn grant(etcdctl: &Etcdctl, seconds: &str) -> String {
    let printed = etcdctl.ok(&["lease", "grant", seconds]).await;
    // "lease 694d8324b408a907 granted with TTL(600s)"
    let mut words = printed.split_whitespace();
    let id = words.nth(1).unwrap_or_default().to_owned();
    assert_eq!(words.collect::<Vec<_>>(), ["granted", "with", &format!("TTL({seconds}s)")], "{printed}");
    id
}

#[tokio::test]
async fn lease_commands() {
    let Some((_cluster, etcdctl)) = cluster().await else { return };
    let id = grant(&etcdctl, "600").await;
    etcdctl.ok(&["put", "a", "1", &format!("--lease={id}")]).await;
    etcdctl.ok(&["put", "b", "1", &format!("--lease={id}")]).await;
    assert_eq!(etcdctl.ok(&["lease", "list"]).await, format!("found 1 leases\n{id}\n"));

    let left = etcdctl.ok(&["lease", "timetolive", &id, "--keys"]).await;
    assert!(left.starts_with(&format!("lease {id} granted with TTL(600s), remaining(")), "{left}");
    assert!(left.contains("attached keys([a b])") || left.contains("attached keys([b a])"), "{left}");
    let renewed = etcdctl.ok(&["lease", "keep-alive", "--once", &id]).await;
    assert_eq!(renewed, format!("lease {id} keepalived with TTL(600)\n"));

    assert_eq!(etcdctl.ok(&["lease", "revoke", &id]).await, format!("lease {id} revoked\n"));
    assert_eq!(etcdctl.ok(&["get", "", "--prefix"]).await, "", "the keys went with the lease");
    assert_eq!(etcdctl.ok(&["lease", "timetolive", &id]).await, format!("lease {id} already expired\n"));
    let again = etcdctl.fails(&["lease", "revoke", &id]).await;
    assert!(again.contains("etcdserver: requested lease not found"), "{again}");
    let orphan = etcdctl.fails(&["put", "a", "1", &format!("--lease={id}")]).await;
    assert!(orphan.contains("etcdserver: requested lease not found"), "{orphan}");
}

/// A lease that nobody keeps alive ends and takes its key with it. One that was granted before it, for as long, and is
/// kept alive does not.
#[tokio::test]
async fn leases_expire_unless_kept_alive() {
    let Some((_cluster, etcdctl)) = cluster().await else { return };
    let kept = grant(&etcdctl, "15").await;
    let mut keeper = etcdctl.spawn(&["lease", "keep-alive", &kept]);
    assert_eq!(keeper.line().await, format!("lease {kept} keepalived with TTL(15)"));
    etcdctl.ok(&["put", "kept", "1", &format!("--lease={kept}")]).await;
    let lost = grant(&etcdctl, "15").await;
    etcdctl.ok(&["put", "lost", "1", &format!("--lease={lost}")]).await;
    let mut watch = etcdctl.spawn(&["watch", "lost", "--rev=1"]);
    assert_eq!(watch.lines(5).await, ["PUT", "lost", "1", "DELETE", "lost"]);
    assert_eq!(etcdctl.ok(&["get", "", "--prefix"]).await, "kept\n1\n");
}

#[tokio::test]
async fn lock_and_elect() {
    let Some((_cluster, etcdctl)) = cluster().await else { return };
    let mut holder = etcdctl.spawn(&["lock", "door", "--ttl=20"]);
    let key = holder.line().await;
    assert!(key.starts_with("door/"), "{key}");
    let mut waiter = etcdctl.spawn(&["lock", "door", "--ttl=20"]);
    assert!(etcdctl.ok(&["get", "door/", "--prefix", "--keys-only"]).await.contains(&key));
    // The holder is killed, its lease ends, and the lock passes on.
    drop(holder);
    let next = waiter.line().await;
    assert!(next.starts_with("door/") && next != key, "{next}");

    let mut leader = etcdctl.spawn(&["elect", "chair", "me"]);
    assert!(leader.line().await.starts_with("chair/"));
    assert_eq!(leader.line().await, "me");
    let mut observer = etcdctl.spawn(&["elect", "chair", "--listen"]);
    assert!(observer.line().await.starts_with("chair/"));
    assert_eq!(observer.line().await, "me");
}
