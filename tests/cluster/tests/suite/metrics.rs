//! Every metric moves when the thing happens that it counts.
//!
//! Quantities are exact only where nothing else can change them; several commands may share a log entry, and several
//! reads a round. Everything is waited for: metrics may lag.

use setpoint_api::etcdserverpb as pb;
use setpoint_cluster_tests::dump::watch_all;
use setpoint_cluster_tests::metrics::Scrape;
use setpoint_cluster_tests::testbed::{Setup, Testbed, patiently};
use setpoint_cluster_tests::wire::call;
use setpoint_etcd_tests::cluster::scratch_directory;
use tonic::Status;

/// Waits until a series of a node satisfies the condition.
async fn reaches(bed: &Testbed, node: usize, series: &str, holds: impl Fn(f64) -> bool) {
    let address = &bed.cluster.nodes()[node].http;
    bed.until(series, || async {
        let scrape = Scrape::of(address).await;
        scrape.and_then(|scrape| scrape.get(series)).is_some_and(&holds)
    })
    .await;
}

async fn value(bed: &Testbed, node: usize, series: &str) -> f64 {
    let scrape = Scrape::of(&bed.cluster.nodes()[node].http).await.expect("the node shows its metrics");
    scrape.get(series).unwrap_or(0.0)
}

/// Tries until it is done, or refused because it was done before without our hearing of it.
async fn done<F: Future<Output = Result<(), Status>>>(
    bed: &Testbed,
    before: &str,
    mut act: impl FnMut() -> F,
) {
    bed.until(before, || {
        let acted = act();
        async { acted.await.map_or_else(|status| status.message().contains(before), |()| true) }
    })
    .await;
}

fn requests(method: &str, code: i32) -> String {
    format!("setpoint_requests_total{{method=\"{method}\",code=\"{code}\"}}")
}

const PUTS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clients_do_is_counted() {
    let bed = Testbed::start_with("what_clients_do_is_counted", Setup::calm()).await;
    let (leader, _) = bed.leader().await;
    let follower = (leader + 1) % 3;
    let before = value(&bed, leader, "setpoint_commands_proposed_total").await;
    let entries = value(&bed, leader, "setpoint_entries_proposed_total").await;
    let bytes = value(&bed, leader, "setpoint_log_written_bytes_total").await;
    let mut revision = 0;
    for number in 0..PUTS {
        let key = format!("k{number}");
        revision = patiently(|| bed.clients[follower].put(&key, "v")).await;
    }
    let puts = requests("/etcdserverpb.KV/Put", 0);
    reaches(&bed, follower, &puts, |count| count >= PUTS as f64).await;
    let latency = "setpoint_request_duration_seconds_count{method=\"/etcdserverpb.KV/Put\"}";
    reaches(&bed, follower, latency, |count| count >= PUTS as f64).await;
    reaches(&bed, follower, "setpoint_commands_forwarded_total", |count| count >= 1.0).await;
    reaches(&bed, leader, "setpoint_commands_proposed_total", |count| count > before).await;
    reaches(&bed, leader, "setpoint_entries_proposed_total", |count| count > entries).await;
    reaches(&bed, leader, "setpoint_log_written_bytes_total", |count| count > bytes).await;
    for node in 0..3 {
        reaches(&bed, node, "setpoint_revision", |now| now >= revision as f64).await;
        reaches(&bed, node, "setpoint_keys", |now| now == PUTS as f64).await;
        reaches(&bed, node, "setpoint_log_sync_duration_seconds_count", |count| count >= 1.0).await;
        reaches(&bed, node, "setpoint_log_batch_entries_count", |count| count >= 1.0).await;
        reaches(&bed, node, "setpoint_db_total_bytes", |bytes| bytes >= 1.0).await;
        reaches(&bed, node, "setpoint_db_live_bytes", |bytes| bytes >= 1.0).await;
        reaches(&bed, node, "setpoint_log_applied_index", |index| index >= 1.0).await;
        reaches(&bed, node, "setpoint_log_committed_index", |index| index >= 1.0).await;
        reaches(&bed, node, "setpoint_log_last_index", |index| index >= 1.0).await;
        reaches(&bed, node, "setpoint_applied_lag", |lag| lag == 0.0).await;
        reaches(&bed, node, "setpoint_proposals_pending", |waiting| waiting == 0.0).await;
    }
    let barriers = value(&bed, follower, "setpoint_read_barriers_total").await;
    let rounds = value(&bed, follower, "setpoint_read_rounds_total").await;
    patiently(|| bed.clients[follower].get("k0")).await;
    reaches(&bed, follower, "setpoint_read_barriers_total", |count| count > barriers).await;
    reaches(&bed, follower, "setpoint_read_rounds_total", |count| count > rounds).await;
    let id = 77;
    done(&bed, "already exists", || async {
        bed.clients[follower].lease().lease_grant(pb::LeaseGrantRequest { ttl: 3600, id }).await.map(drop)
    })
    .await;
    reaches(&bed, leader, "setpoint_leases", |leases| leases == 1.0).await;
    done(&bed, "lease not found", || async {
        bed.clients[follower].lease().lease_revoke(pb::LeaseRevokeRequest { id }).await.map(drop)
    })
    .await;
    reaches(&bed, leader, "setpoint_leases", |leases| leases == 0.0).await;
    done(&bed, "has been compacted", || bed.clients[follower].compact(revision)).await;
    reaches(&bed, follower, "setpoint_compacted_revision", |now| now == revision as f64).await;
    reaches(&bed, follower, "setpoint_collected_revision", |now| now == revision as f64).await;
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_are_counted_and_invented_methods_are_not_told_apart() {
    let mut bed = Testbed::prepare("refusals_are_counted", Setup::of(3)).await;
    // Alone it cannot elect itself.
    bed.start_node(0);
    reaches(&bed, 0, "setpoint_has_leader", |leader| leader == 0.0).await;
    let client = bed.clients[0].clone();
    let mut insisting = tonic::Request::new(pb::StatusRequest {});
    insisting.metadata_mut().insert("hasleader", tonic::metadata::MetadataValue::from_static("true"));
    // Turned away before any service sees it: there is no leader, and the client insists on one.
    let refused = client.maintenance().status(insisting).await.expect_err("no leader");
    assert_eq!(refused.message(), "etcdserver: no leader");
    reaches(&bed, 0, &requests("/etcdserverpb.Maintenance/Status", 14), |count| count == 1.0).await;
    (1..3).for_each(|node| bed.start_node(node));
    bed.ready(0).await;
    reaches(&bed, 0, "setpoint_has_leader", |leader| leader == 1.0).await;
    for _ in 0..3 {
        client.put("", "no key").await.expect_err("refused");
    }
    reaches(&bed, 0, &requests("/etcdserverpb.KV/Put", 3), |count| count == 3.0).await;
    for method in ["/etcdserverpb.KV/Invented", "/invented.Service/Method", "/etcdserverpb.KV"] {
        call(&client, method, Default::default()).await.expect_err("there is no such method");
    }
    reaches(&bed, 0, &requests("other", 12), |count| count == 3.0).await;
    let scrape = Scrape::of(&bed.cluster.nodes()[0].http).await.expect("metrics");
    let invented: Vec<_> =
        scrape.all().filter(|(series, _)| series.to_lowercase().contains("invented")).collect();
    assert!(invented.is_empty(), "{invented:?}");
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_and_their_changes_show() {
    let mut bed = Testbed::start_with("leaders_and_their_changes_show", Setup::calm()).await;
    let (leader, term) = bed.leader().await;
    let target = (leader + 1) % 3;
    for node in 0..3 {
        reaches(&bed, node, "setpoint_has_leader", |known| known == 1.0).await;
    }
    reaches(&bed, leader, "setpoint_is_leader", |leads| leads == 1.0).await;
    reaches(&bed, target, "setpoint_is_leader", |leads| leads == 0.0).await;
    // A fresh answer of a quorum: less than an election ago, at some moment.
    reaches(&bed, leader, "setpoint_quorum_ack_age_milliseconds", |age| (0.0..3_000.0).contains(&age)).await;
    let mut seen = Vec::new();
    for node in 0..3 {
        seen.push(value(&bed, node, "setpoint_leader_changes_total").await);
    }
    bed.until("the leader moves", || async {
        let (leader, _) = bed.leader().await;
        let request = pb::MoveLeaderRequest { target_id: (leader as u64 + 1) % 3 + 1 };
        bed.clients[leader].maintenance().move_leader(request).await.is_ok()
    })
    .await;
    for (node, seen) in seen.iter().enumerate() {
        reaches(&bed, node, "setpoint_leader_changes_total", |count| count > *seen).await;
        reaches(&bed, node, "setpoint_raft_term", |now| now > term as f64).await;
    }
    // Of three nodes one alone has no leader, and is none although it led before.
    let (leader, _) = bed.leader().await;
    reaches(&bed, leader, "setpoint_is_leader", |leads| leads == 1.0).await;
    (0..3).filter(|node| *node != leader).for_each(|node| bed.kill(node));
    reaches(&bed, leader, "setpoint_has_leader", |known| known == 0.0).await;
    reaches(&bed, leader, "setpoint_is_leader", |leads| leads == 0.0).await;
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_show_also_those_that_lag_or_are_overtaken() {
    // Small answers, so that little of a watch is under way at a time.
    let setup = Setup::of(1).with(&["--max-request-bytes", "32768"]);
    let mut bed = Testbed::start_with("watches_show", setup).await;
    let value = "x".repeat(16 << 10);
    for number in 0..600 {
        bed.clients[0].put(&format!("k{}", number % 10), &value).await.expect("put");
    }
    let watch = watch_all(&bed.clients[0], 0).await.expect("a watch");
    reaches(&bed, 0, "setpoint_watch_streams", |streams| streams == 1.0).await;
    reaches(&bed, 0, "setpoint_watchers", |watchers| watchers == 1.0).await;
    drop(watch);
    reaches(&bed, 0, "setpoint_watch_streams", |streams| streams == 0.0).await;

    // After an orderly stop nothing is replayed, so nothing is in memory: a watch from the beginning reads history, and stays behind if its client
    // does not read.
    bed.cluster.stop(0).await.expect("signalled").expect("it ends by itself");
    bed.restart(0).await;
    let mut lagging = patiently(|| watch_all(&bed.clients[0], 2)).await;
    reaches(&bed, 0, "setpoint_watchers_behind", |behind| behind == 1.0).await;
    let newest = bed.clients[0].revision().await.expect("revision");
    bed.clients[0].compact(newest).await.expect("compacted");
    let mut cancelled = false;
    while !cancelled {
        cancelled =
            lagging.responses.message().await.expect("the stream goes on").expect("an answer").canceled;
    }
    reaches(&bed, 0, "setpoint_watches_overtaken_total", |count| count == 1.0).await;
    reaches(&bed, 0, "setpoint_watchers_behind", |behind| behind == 0.0).await;
    bed.no_panics();
}

/// A name that no longer exists, or never did, would be waited for in vain by whoever alerts on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_metric_that_the_documents_name_is_there() {
    let folder = scratch_directory().expect("a folder");
    let audit = folder.path().join("audit.log");
    let setup = Setup::of(1).with(&["--audit-file", audit.to_str().expect("text")]);
    let bed = Testbed::start_with("every_metric_that_the_documents_name", setup).await;
    bed.clients[0].put("k", "v").await.expect("put");
    let scrape = Scrape::of(&bed.cluster.nodes()[0].http).await.expect("metrics");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut named = 0;
    for document in ["README.md", "docs/operations.md"] {
        let text = std::fs::read_to_string(root.join(document)).expect("the document is there");
        for name in text.split('`').filter(|word| is_metric(word)) {
            named += 1;
            let shown = scrape.all().any(|(series, _)| {
                let metric = series.split('{').next().unwrap_or_default();
                metric == name || metric.strip_suffix("_count") == Some(name)
            });
            assert!(shown, "{document} names {name}, which /metrics does not show");
        }
    }
    assert!(named >= 7, "the documents name {named} metrics");
}

fn is_metric(word: &str) -> bool {
    word.strip_prefix("setpoint_")
        .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
}
