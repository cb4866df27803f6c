//! A crash at every place where the order of two steps matters, and the check of everything afterwards.

use setpoint_cluster_tests::load::LoadConfig;
use setpoint_cluster_tests::testbed::{Setup, Testbed};

/// Flushes and cuts often, so that the points of those are reached.
const OFTEN: [&str; 6] = ["--snapshot-count", "20", "--log-keep", "5", "--retention-revisions", "20"];

fn arm(bed: &mut Testbed, node: usize, points: &str) {
    let value = ("SETPOINT_FAILPOINTS".to_owned(), points.to_owned());
    bed.cluster.node_mut(node).environment = vec![value];
}

/// Starts a node that is to crash at a point, waits for that under load, and starts it again unharmed.
pub async fn crash_at(bed: &mut Testbed, node: usize, point: &str, hit: u64) {
    bed.kill(node);
    arm(bed, node, &format!("{point}=crash@{hit}"));
    bed.start_node(node);
    let mut ended = None;
    for _ in 0..3 {
        ended = bed.cluster.ended(node).await;
        if ended.is_some() {
            break;
        }
    }
    let status = ended.unwrap_or_else(|| panic!("{point} was not reached {hit} times"));
    assert!(!status.success());
    assert!(
        bed.log(node).contains(&format!("crash at {point}")),
        "{point}\n{}",
        bed.cluster.log_tail(node, 20)
    );
    bed.cluster.node_mut(node).environment.clear();
    bed.restart(node).await;
}

/// Points that a node comes to while it takes part.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_while_writing() {
    let mut bed = Testbed::start_with("crashes_while_writing", Setup::of(3).with(&OFTEN[..4])).await;
    let followers = bed.follow();
    let load = bed.load(&LoadConfig { requests: 20_000, ..LoadConfig::default() });
    bed.progress(20).await;
    for (round, (point, hits)) in [
        ("log.before-write", [1, 5]),
        ("log.before-sync", [2, 9]),
        ("log.after-sync", [1, 7]),
        ("apply.before-write", [1, 8]),
        ("apply.after-write", [1, 8]),
        ("flush.before", [1, 2]),
        ("flush.after", [1, 2]),
    ]
    .into_iter()
    .enumerate()
    {
        for hit in hits {
            crash_at(&mut bed, round % 3, point, hit).await;
        }
    }
    bed.progress(20).await;
    load.stop().await;
    bed.verify(followers).await;
}

/// Points that a node comes to while it is given a snapshot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_while_a_snapshot_is_installed() {
    let mut bed = Testbed::start_with("crashes_while_a_snapshot", Setup::of(3).with(&OFTEN[..4])).await;
    let load = bed.load(&LoadConfig {
        requests: 20_000,
        pause: std::time::Duration::from_millis(5),
        ..LoadConfig::default()
    });
    for (round, (point, hit)) in [
        ("snapshot.during-receive", 1),
        ("snapshot.during-receive", 3),
        ("snapshot.after-receive", 1),
        ("switch.after-move", 1),
        ("switch.after-open", 1),
        ("switch.after-pointer", 1),
        ("install.after-replace", 1),
    ]
    .into_iter()
    .enumerate()
    {
        let node = round % 3;
        bed.kill(node);
        // Long enough that the log it needs is cut.
        bed.progress(90).await;
        crash_at(&mut bed, node, point, hit).await;
    }
    load.stop().await;
    bed.verify(Vec::new()).await;
}

/// The sender's side of a snapshot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_while_a_snapshot_is_made() {
    let mut bed =
        Testbed::start_with("crashes_while_a_snapshot_is_made", Setup::of(3).with(&OFTEN[..4])).await;
    for node in 0..3 {
        bed.kill(node);
        arm(&mut bed, node, "checkpoint.after=crash@1");
        bed.start_node(node);
    }
    for node in 0..3 {
        bed.ready(node).await;
    }
    let load = bed.load(&LoadConfig::default());
    bed.progress(20).await;
    let away = bed.follower().await;
    bed.kill(away);
    // The files are made once the log no longer has what the other node lacks and that node is there to take them.
    let (crashed, goal) = ("crash at checkpoint.after", bed.recorder.acknowledged() + 200);
    let somebody = |bed: &Testbed| (0..3).any(|node| bed.log(node).contains(crashed));
    bed.until("the log is cut", || async { bed.recorder.acknowledged() >= goal || somebody(&bed) }).await;
    bed.start_node(away);
    bed.until("a snapshot is made", || async { somebody(&bed) }).await;
    for node in 0..3 {
        bed.cluster.node_mut(node).environment.clear();
        bed.start_node(node);
    }
    for node in 0..3 {
        bed.ready(node).await;
    }
    bed.progress(20).await;
    load.stop().await;
    bed.verify(Vec::new()).await;
}

/// Points of the physical side of compaction. History goes, so content is compared instead of the whole log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_while_collecting() {
    let mut bed = Testbed::start_with("crashes_while_collecting", Setup::of(3).with(&OFTEN)).await;
    let load = bed.load(&LoadConfig { requests: 20_000, ..LoadConfig::default() });
    bed.progress(50).await;
    for (node, (point, hit)) in
        [("collect.before-write", 1), ("collect.after-write", 1), ("collect.after-write", 2)]
            .into_iter()
            .enumerate()
    {
        crash_at(&mut bed, node, point, hit).await;
    }
    load.stop().await;
    let mut last = 0;
    for node in 0..3 {
        bed.ready(node).await;
        last = bed.barrier_write(node).await;
    }
    bed.hashes_agree(last).await;
    bed.no_panics();
}

/// Points of a node's very first start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_while_founding() {
    let mut bed = Testbed::prepare("crashes_while_founding", Setup::of(3)).await;
    for (node, points) in
        [(0, "member.before-rename=crash"), (1, "member.after-rename=crash"), (2, "log.before-sync=crash@1")]
    {
        arm(&mut bed, node, points);
        bed.start_node(node);
    }
    for node in 0..3 {
        assert!(
            bed.cluster.ended(node).await.is_some(),
            "node {} crashes while it founds the cluster",
            node + 1
        );
        bed.cluster.node_mut(node).environment.clear();
        bed.start_node(node);
    }
    bed.verify(Vec::new()).await;
}

/// A leader that crashes after it has taken a node in, and before it has said that the node is to vote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_while_a_node_joins_does_not_cost_it_its_vote() {
    let mut bed = Testbed::prepare("a_crash_while_a_node_joins", Setup::of(1)).await;
    arm(&mut bed, 0, "member.after-add=crash@1");
    bed.restart(0).await;
    let seed = bed.cluster.nodes()[0].peer.clone();
    let index = bed.cluster.add_node(vec!["--join".to_owned(), seed]).expect("a node is prepared");
    bed.start_node(index);
    assert!(bed.cluster.ended(0).await.is_some(), "the leader crashes while it takes the node in");
    bed.cluster.node_mut(0).environment.clear();
    bed.start_node(0);
    bed.until("the node votes", || async {
        let members = bed.clients[0].members().await.unwrap_or_default();
        members.len() == 2 && members.iter().all(|member| !member.is_learner)
    })
    .await;
    bed.no_panics();
}

/// A disk that takes its time does not keep the others from working, nor does it lose anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_disk_loses_nothing() {
    let mut bed = Testbed::start("a_slow_disk_loses_nothing").await;
    let followers = bed.follow();
    let load = bed.load(&LoadConfig::default());
    let (leader, _) = bed.leader().await;
    for node in [leader, (leader + 1) % 3] {
        bed.progress(20).await;
        bed.kill(node);
        arm(&mut bed, node, "log.before-sync=sleep:500");
        bed.restart(node).await;
        bed.progress(40).await;
        bed.cluster.node_mut(node).environment.clear();
        bed.restart(node).await;
    }
    load.stop().await;
    bed.verify(followers).await;
}
