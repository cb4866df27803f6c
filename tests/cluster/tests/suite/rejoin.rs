//! Nodes that were away: catching up by log and by snapshot, and what their watches see of it.

use std::time::Duration;

use setpoint_cluster_tests::dump::{change, dump, watch_all};
use setpoint_cluster_tests::load::LoadConfig;
use setpoint_cluster_tests::model::Change;
use setpoint_cluster_tests::testbed::{Setup, Testbed};

/// Small enough that a short absence needs a snapshot.
const SHORT_LOG: [&str; 4] = ["--snapshot-count", "60", "--log-keep", "20"];

/// So much that the log a node needs is cut. In parts, each with patience of its own.
async fn missed(bed: &Testbed) {
    for _ in 0..8 {
        bed.progress(50).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_down_catches_up_by_log() {
    let mut bed = Testbed::start("catches_up_by_log").await;
    let away = bed.follower().await;
    bed.kill(away);
    let followers = bed.follow();
    let load = bed.load(&LoadConfig { requests: 20_000, ..LoadConfig::default() });
    bed.progress(150).await;
    bed.restart(away).await;
    bed.progress(30).await;
    load.stop().await;
    bed.verify(followers).await;
    assert!(!bed.log(away).contains("a snapshot was received"), "the log was enough");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_cannot_be_reached_is_named_once_and_not_many_times_a_second() {
    let mut bed = Testbed::start_with("cannot_be_reached", Setup::calm()).await;
    let (leader, _) = bed.leader().await;
    let away = (leader + 1) % 3;
    let about = |bed: &Testbed, what: &str| {
        let start = format!("node {} at ", away + 1);
        bed.log(leader).lines().filter(|line| line.contains(&start) && line.contains(what)).count()
    };
    bed.kill(away);
    bed.until("the leader says so", || async { about(&bed, "cannot be reached: ") >= 1 }).await;
    for _ in 0..20 {
        bed.barrier_write(leader).await;
    }
    bed.restart(away).await;
    bed.until("the leader has it back", || async { about(&bed, "is reached again") >= 1 }).await;
    let noise = bed.log(leader).lines().filter(|line| line.contains(" WARN openraft")).count();
    assert_eq!(noise, 0, "{}", bed.cluster.log_tail(leader, 20));
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_down_for_long_catches_up_by_snapshot() {
    let mut bed = Testbed::start_with("catches_up_by_snapshot", Setup::of(3).with(&SHORT_LOG)).await;
    for _ in 0..2 {
        let away = bed.follower().await;
        bed.kill(away);
        // Enough that it does not end while a busy machine takes its time over the restart.
        let load = bed.load(&LoadConfig { requests: 20_000, ..LoadConfig::default() });
        missed(&bed).await;
        bed.restart(away).await;
        bed.progress(30).await;
        load.stop().await;
        // Another seed, so that the values stay unique.
        bed.seed += 1;
        assert!(bed.log(away).contains("a snapshot was received"), "the log was cut, so it took a snapshot");
    }
    bed.verify(Vec::new()).await;
}

/// Reads a watch until it has the revision, or is cancelled: then the compacted revision it names.
async fn received(
    changes: &mut setpoint_cluster_tests::dump::Changes,
    last: i64,
) -> Result<Vec<Change>, i64> {
    let mut log = Vec::new();
    while log.last().is_none_or(|change: &Change| change.revision < last) {
        let message = tokio::time::timeout(Duration::from_secs(60), changes.responses.message()).await;
        let response =
            message.expect("the watch goes on").expect("it does not fail").expect("it does not end");
        if response.canceled {
            return Err(response.compact_revision);
        }
        log.extend(response.events.into_iter().map(change));
    }
    Ok(log)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_of_a_node_that_installs_a_snapshot_have_no_gap() {
    let mut bed = Testbed::start_with("installs_a_snapshot", Setup::of(3).with(&SHORT_LOG)).await;
    let first = bed.barrier_write(0).await;
    let away = bed.follower().await;
    let mut watch = watch_all(&bed.clients[away], first).await.expect("a watch");
    received(&mut watch, first).await.expect("the first event");
    bed.mesh.split(&[away]);
    let load = bed.load(&LoadConfig::default());
    missed(&bed).await;
    load.stop().await;
    let (leader, _) = bed.leader_among(&(0..3).filter(|node| *node != away).collect::<Vec<_>>()).await;
    bed.mesh.heal();
    let last = bed.barrier_write(leader).await;
    let seen = received(&mut watch, last).await.expect("nothing was compacted, so the watch goes on");
    assert!(bed.log(away).contains("a snapshot was received"), "it took a snapshot");
    let whole = dump(&bed.clients[leader], first + 1, last).await.expect("the log");
    assert_eq!(seen, whole, "the watch on the rejoining node saw exactly the log");
    bed.verify(Vec::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_behind_a_compaction_are_told_so() {
    let mut bed = Testbed::start_with("behind_a_compaction", Setup::of(3).with(&SHORT_LOG)).await;
    let first = bed.barrier_write(0).await;
    let away = bed.follower().await;
    let mut watch = watch_all(&bed.clients[away], first).await.expect("a watch");
    received(&mut watch, first).await.expect("the first event");
    bed.mesh.split(&[away]);
    let rest: Vec<usize> = (0..3).filter(|node| *node != away).collect();
    let (leader, _) = bed.leader_among(&rest).await;
    for _ in 0..300 {
        bed.barrier_write(leader).await;
    }
    let newest = bed.clients[leader].revision().await.expect("revision");
    bed.clients[leader].compact(newest - 10).await.expect("compacted");
    for _ in 0..100 {
        bed.barrier_write(leader).await;
    }
    bed.mesh.heal();
    let last = bed.barrier_write(leader).await;
    match received(&mut watch, last).await {
        // The node may have fetched the log before it was cut; then nothing is missing.
        Ok(seen) => assert_eq!(seen.first().map(|change| change.revision), Some(first + 1)),
        Err(compacted) => assert_eq!(compacted, newest - 10, "the cancellation names the compacted revision"),
    }
    let early = dump(&bed.clients[away], first, last).await;
    assert!(
        early.is_err_and(|error| error.to_string().contains("cancelled")),
        "what is compacted is not shown"
    );
    let rest = dump(&bed.clients[away], newest - 9, last).await.expect("what is kept is shown");
    assert_eq!(rest.len() as i64, last - (newest - 10));
    bed.ready(away).await;
    bed.hashes_agree(last).await;
    bed.no_panics();
}
