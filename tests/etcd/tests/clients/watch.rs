//! Watching with etcdctl.

use crate::{cluster, number};

#[tokio::test]
async fn watch_history_and_present() {
    let Some((_cluster, etcdctl)) = cluster().await else { return };
    etcdctl.ok(&["put", "k", "one"]).await;
    let first = number(&etcdctl.json(&["get", "k"]).await["header"]["revision"]);
    etcdctl.ok(&["put", "k", "two"]).await;
    etcdctl.ok(&["del", "k"]).await;
    etcdctl.ok(&["put", "other", "x"]).await;

    let rev = format!("--rev={first}");
    let mut watch = etcdctl.spawn(&["watch", "k", &rev, "--prev-kv"]);
    assert_eq!(watch.lines(3).await, ["PUT", "k", "one"]);
    assert_eq!(watch.lines(5).await, ["PUT", "k", "one", "k", "two"]);
    assert_eq!(watch.lines(5).await, ["DELETE", "k", "two", "k", ""]);
    etcdctl.ok(&["put", "k", "three"]).await;
    assert_eq!(watch.lines(3).await, ["PUT", "k", "three"]);

    let mut prefix = etcdctl.spawn(&["watch", "", "--prefix", &rev]);
    assert_eq!(prefix.lines(9).await, ["PUT", "k", "one", "PUT", "k", "two", "DELETE", "k", ""]);
    assert_eq!(prefix.lines(6).await, ["PUT", "other", "x", "PUT", "k", "three"]);

    let now = number(&etcdctl.json(&["get", "k"]).await["header"]["revision"]);
    etcdctl.ok(&["compaction", &now.to_string()]).await;
    let compacted = etcdctl.fails(&["watch", "k", &rev]).await;
    assert!(compacted.contains("required revision has been compacted"), "{compacted}");
}

/// Several watches on one stream, and progress on request.
#[tokio::test]
async fn watch_interactively() {
    let Some((_cluster, etcdctl)) = cluster().await else { return };
    etcdctl.ok(&["put", "k", "before"]).await;
    let mut watch = etcdctl.spawn(&["watch", "-i", "--progress-notify"]);
    watch.type_line("watch k").await;
    watch.type_line("watch l --prefix").await;
    // A watch is open once it reports an event or progress.
    let mut progress = String::new();
    while !progress.starts_with("progress notify: ") {
        watch.type_line("progress").await;
        progress = watch.line().await;
    }
    etcdctl.ok(&["put", "k", "v"]).await;
    etcdctl.ok(&["put", "l1", "w"]).await;
    let mut seen = Vec::new();
    while seen.len() < 6 {
        // Answers to earlier progress requests may come in between.
        let line = watch.line().await;
        if !line.starts_with("progress notify: ") {
            seen.push(line);
        }
    }
    assert_eq!(seen, ["PUT", "k", "v", "PUT", "l1", "w"]);
    let now = number(&etcdctl.json(&["get", "k"]).await["header"]["revision"]);
    watch.type_line("progress").await;
    assert_eq!(watch.line().await, format!("progress notify: {now}"));
}
