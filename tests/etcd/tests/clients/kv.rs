//! Reading and writing with etcdctl.

use std::time::Duration;

use crate::{cluster, number};

#[tokio::test]
async fn put_and_get() {
    let Some((_cluster, etcdctl)) = cluster().await else { return };
    for (key, value) in [("a/1", "one"), ("a/2", "two"), ("a/3", "three"), ("b", "bee")] {
        assert_eq!(etcdctl.ok(&["put", key, value]).await, "OK\n");
    }
    assert_eq!(etcdctl.ok(&["put", "a/2", "zwei", "--prev-kv"]).await, "OK\na/2\ntwo\n");
    assert_eq!(etcdctl.ok(&["put", "a/2", "--ignore-value"]).await, "OK\n");

    assert_eq!(etcdctl.ok(&["get", "b"]).await, "b\nbee\n");
    assert_eq!(etcdctl.ok(&["get", "missing"]).await, "");
    assert_eq!(etcdctl.ok(&["get", "b", "--print-value-only"]).await, "bee\n");
    assert_eq!(etcdctl.ok(&["get", "b", "--consistency=s"]).await, "b\nbee\n");
    assert_eq!(etcdctl.ok(&["get", "a/", "--prefix"]).await, "a/1\none\na/2\nzwei\na/3\nthree\n");
    assert_eq!(etcdctl.ok(&["get", "a/", "--prefix", "--keys-only"]).await, "a/1\n\na/2\n\na/3\n\n");
    assert_eq!(etcdctl.ok(&["get", "a/", "--prefix", "--limit=1"]).await, "a/1\none\n");
    assert_eq!(etcdctl.ok(&["get", "a/1", "a/3"]).await, "a/1\none\na/2\nzwei\n");
    assert_eq!(etcdctl.ok(&["get", "a/3", "--from-key", "--keys-only"]).await, "a/3\n\nb\n\n");
    assert_eq!(etcdctl.ok(&["get", "", "--prefix", "--keys-only", "--limit=2"]).await, "a/1\n\na/2\n\n");

    let counted = etcdctl.ok(&["get", "a/", "--prefix", "--count-only", "--write-out=fields"]).await;
    assert!(counted.contains("\"Count\" : 3"), "{counted}");
    for (by, order, expected) in [
        ("MODIFY", "DESCEND", "a/2\n\na/3\n\na/1\n\n"),
        ("CREATE", "DESCEND", "a/3\n\na/2\n\na/1\n\n"),
        ("VERSION", "ASCEND", "a/1\n\na/3\n\na/2\n\n"),
        ("KEY", "DESCEND", "a/3\n\na/2\n\na/1\n\n"),
    ] {
        let (by, order) = (format!("--sort-by={by}"), format!("--order={order}"));
        assert_eq!(
            etcdctl.ok(&["get", "a/", "--prefix", "--keys-only", &by, &order]).await,
            expected,
            "{by} {order}"
        );
    }
    // Sorting by value needs the values.
    let by_value = etcdctl.ok(&["get", "a/", "--prefix", "--sort-by=VALUE", "--order=ASCEND"]).await;
    assert_eq!(by_value, "a/1\none\na/3\nthree\na/2\nzwei\n");
}

#[tokio::test]
async fn revisions_and_deletion() {
    let Some((_cluster, etcdctl)) = cluster().await else { return };
    etcdctl.ok(&["put", "k", "first"]).await;
    let first = number(&etcdctl.json(&["get", "k"]).await["header"]["revision"]);
    etcdctl.ok(&["put", "k", "second"]).await;
    let kv = etcdctl.json(&["get", "k"]).await["kvs"][0].clone();
    assert_eq!(number(&kv["create_revision"]), first);
    assert_eq!(number(&kv["mod_revision"]), first + 1);
    assert_eq!(number(&kv["version"]), 2);
    assert_eq!(kv["value"], "c2Vjb25k");

    let rev = format!("--rev={first}");
    assert_eq!(etcdctl.ok(&["get", "k", &rev]).await, "k\nfirst\n");
    let future = etcdctl.fails(&["get", "k", "--rev=1000000"]).await;
    assert!(future.contains("etcdserver: mvcc: required revision is a future revision"), "{future}");

    assert_eq!(etcdctl.ok(&["del", "missing"]).await, "0\n");
    etcdctl.ok(&["put", "k2", "other"]).await;
    assert_eq!(etcdctl.ok(&["del", "k", "--prefix", "--prev-kv"]).await, "2\nk\nsecond\nk2\nother\n");
    assert_eq!(etcdctl.ok(&["get", "k", &rev]).await, "k\nfirst\n", "the past stays readable");

    let now = (first + 2).to_string();
    assert_eq!(etcdctl.ok(&["compaction", &now]).await, format!("compacted revision {now}\n"));
    let again = etcdctl.fails(&["compaction", &now, "--physical"]).await;
    assert!(again.contains("etcdserver: mvcc: required revision has been compacted"), "{again}");
    let gone = etcdctl.fails(&["get", "k", &rev]).await;
    assert!(gone.contains("etcdserver: mvcc: required revision has been compacted"), "{gone}");
    let empty = etcdctl.fails(&["put", "", "v"]).await;
    assert!(empty.contains("etcdserver: key is not provided"), "{empty}");
}

#[tokio::test]
async fn transactions() {
    let Some((_cluster, etcdctl)) = cluster().await else { return };
    let txn = async |input: &str| {
        let printed = etcdctl.feed(&["txn"], input, Duration::from_secs(20)).await;
        (printed.succeeded, printed.stdout, printed.stderr)
    };
    let create = "create(\"k\") = \"0\"\n\nput k v1\nput l v1\n\nget k\n\n";
    let (ok, out, _) = txn(create).await;
    assert!(ok && out == "SUCCESS\n\nOK\n\nOK\n", "{out}");
    let (ok, out, _) = txn(create).await;
    assert!(ok && out == "FAILURE\n\nk\nv1\n", "{out}");
    let (ok, out, _) =
        txn("value(\"k\") = \"v1\"\nversion(\"k\") > \"0\"\n\ndel k\nget l\n\nput k lost\n\n").await;
    assert!(ok && out == "SUCCESS\n\n1\n\nl\nv1\n", "{out}");
    let (ok, _, complaint) = txn("mod(\"k\") = \"0\"\n\nput k a\nput k b\n\n\n").await;
    assert!(!ok && complaint.contains("etcdserver: duplicate key given in txn request"), "{complaint}");
    // Asked step by step.
    let interactive = etcdctl
        .feed(&["txn", "-i"], "mod(\"k\") = \"0\"\n\nput k v2\n\nget k\n\n", Duration::from_secs(20))
        .await;
    assert!(interactive.succeeded && interactive.stdout.contains("SUCCESS\n\nOK"), "{}", interactive.stdout);
    assert_eq!(etcdctl.ok(&["get", "k"]).await, "k\nv2\n");
}

/// Every node answers, and writes through one are read through another.
#[tokio::test]
async fn every_node_serves_and_the_loss_of_one_does_not_show() {
    let Some((mut cluster, etcdctl)) = cluster().await else { return };
    let endpoints = cluster.endpoints();
    for (writer, endpoint) in endpoints.iter().enumerate() {
        let value = format!("from {writer}");
        etcdctl.at(endpoint).ok(&["put", "k", &value]).await;
        for reader in &endpoints {
            assert_eq!(
                etcdctl.at(reader).ok(&["get", "k", "--print-value-only"]).await,
                format!("{value}\n")
            );
        }
    }
    for (lost, endpoint) in endpoints.iter().enumerate() {
        cluster.kill(lost);
        let value = format!("without {lost}");
        // An election may be due first; reads wait for it.
        etcdctl.ok(&["get", "k"]).await;
        etcdctl.ok(&["put", "k", &value]).await;
        cluster.start_node(lost).unwrap_or_else(|error| panic!("{error}"));
        cluster.ready().await.unwrap_or_else(|error| panic!("{error}"));
        let seen = etcdctl.at(endpoint).ok(&["get", "k", "--print-value-only"]).await;
        assert_eq!(seen, format!("{value}\n"), "a restarted node catches up");
    }
}
