//! kill -9, again and again, under load.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use setpoint_cluster_tests::load::LoadConfig;
use setpoint_cluster_tests::testbed::Testbed;

const KILLS: usize = 20;

/// S2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_kills_lose_nothing() {
    let mut bed = Testbed::start("random_kills").await;
    let mut random = StdRng::seed_from_u64(bed.seed);
    let followers = bed.follow();
    let load = bed.load(&LoadConfig::default());
    bed.progress(20).await;
    for kill in 0..KILLS {
        // Mostly one node, sometimes a majority, sometimes all: then nobody serves until they are back.
        let count = [1, 1, 1, 2, 3][random.random_range(0..5)];
        let first = random.random_range(0..3);
        let victims: Vec<usize> = (0..count).map(|offset| (first + offset) % 3).collect();
        victims.iter().for_each(|victim| bed.kill(*victim));
        tokio::time::sleep(Duration::from_millis(random.random_range(0..600))).await;
        victims.iter().for_each(|victim| bed.start_node(*victim));
        if kill % 4 == 3 {
            bed.progress(10).await;
        } else {
            tokio::time::sleep(Duration::from_millis(random.random_range(0..1200))).await;
        }
    }
    bed.progress(20).await;
    load.stop().await;
    let history = bed.verify(followers).await;
    assert!(history.acknowledged() > 100, "the run was no test: {}", history.summary());
}

/// S7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revisions_never_go_back_over_restarts_of_the_whole_cluster() {
    let mut bed = Testbed::start("revisions_never_go_back").await;
    let mut newest = 0;
    for round in 0..5 {
        for node in 0..3 {
            let revision = bed.barrier_write(node).await;
            assert!(revision > newest, "round {round}: {revision} after {newest}");
            newest = revision;
        }
        (0..3).for_each(|node| bed.kill(node));
        (0..3).for_each(|node| bed.start_node(node));
        for node in 0..3 {
            bed.ready(node).await;
            let seen = bed.clients[node].revision().await.expect("a read");
            assert!(
                seen >= newest,
                "round {round}: node {} is at {seen}, {newest} was acknowledged",
                node + 1
            );
        }
    }
    bed.verify(Vec::new()).await;
}

/// S13.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_leader_serves_nothing_stale_when_it_wakes() {
    let mut bed = Testbed::start("a_frozen_leader").await;
    let followers = bed.follow();
    let load = bed.load(&LoadConfig::default());
    for _ in 0..3 {
        bed.progress(15).await;
        let (leader, term) = bed.leader().await;
        bed.cluster.pause(leader).expect("paused");
        let rest: Vec<usize> = (0..3).filter(|node| *node != leader).collect();
        let (_, later) = bed.leader_among(&rest).await;
        assert!(later > term);
        bed.progress(10).await;
        bed.cluster.resume(leader).expect("resumed");
    }
    load.stop().await;
    bed.verify(followers).await;
}
