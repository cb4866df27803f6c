//! Informers over faults: whatever a watch sends, taken together, is what a list says at that revision, wherever the
//! informer goes on and whatever becomes of the nodes meanwhile (O1 to O4).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use setpoint_api::etcdserverpb as etcd;
use setpoint_cluster_tests::churn::Churn;
use setpoint_cluster_tests::informer::{Counts, Informer, Interest};
use setpoint_cluster_tests::object::{THING, define_things};
use setpoint_cluster_tests::testbed::{Setup, Testbed, patiently};

/// Labels, fields, and how far an informer falls behind before it goes on.
const INTERESTS: [(&str, &str, u64); 6] = [
    ("", "", 0),
    ("app=x", "", 0),
    ("app!=x", "", 60),
    ("app in (x,y),tier", "", 0),
    ("", "spec.zone=z1", 60),
    ("!tier", "spec.zone!=z1", 0),
];
/// Revisions a compaction leaves: fewer than what some informers let pass.
const KEPT: i64 = 30;
/// The log is cut early, so that a node that was away is given a snapshot.
const CUT_EARLY: [&str; 4] = ["--snapshot-count", "30", "--log-keep", "10"];

struct Scene {
    bed: Testbed,
    churn: Churn,
    informers: Vec<Informer>,
    counts: Arc<Counts>,
}

impl Scene {
    async fn start() -> Self {
        let bed = Testbed::start_with("informers_agree_with_lists", Setup::of(3).with(&CUT_EARLY)).await;
        define_things(&bed.clients).await;
        let churn = Churn::start(&bed.addresses(), bed.seed, 5);
        let counts = Arc::new(Counts::default());
        let start = |(place, (labels, fields, lag))| {
            let interest = Interest { kind: THING, labels, fields, lag };
            let seed = bed.seed.wrapping_add(place as u64);
            Informer::start(&bed.addresses(), interest, seed, churn.newest(), counts.clone())
        };
        let informers = INTERESTS.into_iter().enumerate().map(start).collect();
        Self { bed, churn, informers, counts }
    }

    async fn progress(&self, writes: usize) {
        let goal = self.churn.done() + writes;
        // Patience for each: a busy machine may take its time for all of them.
        while self.churn.done() < goal {
            let next = self.churn.done() + 1;
            self.bed.until("writes go on", || async { self.churn.done() >= next }).await;
        }
    }

    /// Forgets all but the last revisions, through a node that runs.
    async fn compact(&self, node: usize) {
        let client = &self.bed.clients[node];
        let newest = patiently(|| client.revision()).await;
        let target = newest - KEPT;
        // Another answer than success may be one to a compaction that happened.
        if target > 1 {
            let _ = client.compact(target).await;
        }
    }

    async fn move_leader(&self) {
        let (leader, _) = self.bed.leader().await;
        let request = etcd::MoveLeaderRequest { target_id: ((leader + 1) % 3) as u64 + 1 };
        // If another election came between, that one will do.
        let _ = self.bed.clients[leader].maintenance().move_leader(request).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informers_agree_with_lists_over_faults() {
    let mut scene = Scene::start().await;
    scene.progress(40).await;
    scene.move_leader().await;
    scene.progress(40).await;
    // A leader that is killed, and away for so long that it comes back by a snapshot.
    let (leader, _) = scene.bed.leader().await;
    scene.bed.kill(leader);
    scene.progress(100).await;
    scene.compact((leader + 1) % 3).await;
    scene.progress(30).await;
    scene.bed.restart(leader).await;
    // A leader that is cut off, with whoever watches there.
    let (leader, _) = scene.bed.leader().await;
    scene.bed.mesh.split(&[leader]);
    scene.progress(40).await;
    scene.compact((leader + 1) % 3).await;
    scene.bed.mesh.heal();
    // A node that is frozen, and wakes with what it was about to send.
    let follower = scene.bed.follower().await;
    scene.bed.cluster.pause(follower).expect("paused");
    scene.progress(40).await;
    scene.bed.cluster.resume(follower).expect("resumed");
    // Some informers fall behind whatever is kept: they have to notice.
    let rounds = std::cell::Cell::new(0);
    while scene.counts.expired.load(Ordering::Relaxed) < 3 {
        assert!(rounds.replace(rounds.get() + 1) < 40, "no compaction overtakes anybody: {:?}", scene.counts);
        scene.progress(40).await;
        scene.compact(rounds.get() % 3).await;
    }
    let goal = scene.counts.compared.load(Ordering::Relaxed) + 20;
    let counts = scene.counts.clone();
    let enough = || async { counts.compared.load(Ordering::Relaxed) >= goal };
    scene.bed.until("informers compare", enough).await;

    let Scene { bed, churn, informers, counts } = scene;
    churn.stop().await.expect("only what may happen");
    let last = patiently(|| bed.clients[0].revision()).await as u64;
    for (informer, interest) in informers.into_iter().zip(INTERESTS) {
        if let Err(problem) = informer.finish(last).await {
            panic!("the informer of {interest:?}: {problem}");
        }
    }
    assert!(counts.resumed.load(Ordering::Relaxed) >= INTERESTS.len(), "the run was no test: {counts:?}");
    bed.hashes_agree(0).await;
    bed.no_panics();
}
