//! SIGTERM under load.

use setpoint_cluster_tests::load::LoadConfig;
use setpoint_cluster_tests::testbed::Testbed;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orderly_stop_loses_nothing_and_exits_with_success() {
    let mut bed = Testbed::start("an_orderly_stop").await;
    let followers = bed.follow();
    let load = bed.load(&LoadConfig::default());
    for round in 0..4 {
        bed.progress(20).await;
        let (leader, _) = bed.leader().await;
        // The leader first: it hands its office over before it goes.
        let node = if round % 2 == 0 { leader } else { (leader + 1) % 3 };
        let status =
            bed.cluster.stop(node).await.expect("signalled").expect("it ends by itself, within seconds");
        assert!(status.success(), "node {} ended with {status}", node + 1);
        bed.progress(10).await;
        bed.restart(node).await;
    }
    // All at once, still under load.
    for node in 0..3 {
        let status =
            bed.cluster.stop(node).await.expect("signalled").expect("it ends by itself, within seconds");
        assert!(status.success(), "node {} ended with {status}", node + 1);
    }
    load.stop().await;
    bed.verify(followers).await;
}
