//! Too much, too large, too slow: refused, without disturbing the cluster.

use std::time::{Duration, Instant};

use setpoint_consensus::{Refusal, Role, SubmitError};
use tokio::time::sleep;

use super::support::{Cluster, Options, bytes, eventually};

fn tight() -> Options {
    let configure = |config: &mut setpoint_consensus::Config| {
        config.limits.pending_commands = 200;
        config.limits.command_bytes = 6 << 20;
    };
    Options { configure: Some(configure), ..Options::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_is_refused_while_the_cluster_stays_calm() {
    let cluster = Cluster::start(3, tight()).await;
    let leader = cluster.leader().await;
    let term = leader.status().term;
    for node in cluster.nodes.values() {
        node.machine.slow_down(Duration::from_millis(100));
    }
    let (mut taken, mut overloaded) = (0, 0);
    for number in 0..30_000 {
        match leader.node.submit(bytes(format!("flood {number}"))) {
            Ok(()) => taken += 1,
            Err(SubmitError::Overloaded) => overloaded += 1,
            Err(other) => panic!("{other}"),
        }
        if number % 100 == 0 {
            sleep(Duration::from_millis(5)).await;
        }
    }
    assert!(overloaded > 20_000, "{taken} were taken from a flood at a slow machine");
    assert_eq!((leader.status().role, leader.status().term), (Role::Leader, term), "heartbeats went on");
    for node in cluster.nodes.values() {
        node.machine.slow_down(Duration::ZERO);
    }
    eventually("everything taken is applied", || leader.machine.len() == taken).await;
    leader.put("room again").await;
    assert!(leader.host.refused.lock().is_empty(), "what was taken was kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_hears_what_the_leader_could_not_take() {
    let cluster = Cluster::start(3, tight()).await;
    let leader = cluster.leader().await;
    let follower = cluster.followers(leader).next().expect("two followers");
    leader.machine.slow_down(Duration::from_millis(100));
    let (mut taken, mut number) = (0, 0);
    let started = Instant::now();
    while follower.host.refused.lock().is_empty() {
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "{taken} commands were taken and none came back"
        );
        for _ in 0..100 {
            number += 1;
            taken += usize::from(follower.node.submit(bytes(format!("flood {number}"))).is_ok());
        }
        sleep(Duration::from_millis(10)).await;
    }
    leader.machine.slow_down(Duration::ZERO);
    eventually("every command was applied or refused", || {
        follower.machine.len() + follower.host.refused.lock().len() == taken
    })
    .await;
    let refused = follower.host.refused.lock();
    assert!(refused.iter().all(|(_, reason)| *reason == Refusal::Overloaded), "{:?}", refused[0]);
    assert!(
        refused.iter().all(|(command, _)| !follower.machine.contains(command)),
        "refused means not proposed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn large_commands_travel_and_larger_ones_are_refused() {
    let cluster = Cluster::start(3, tight()).await;
    let large = "x".repeat(5 << 20);
    for node in cluster.nodes.values() {
        node.put(format!("{}{large}", node.id)).await;
        let error = node.node.submit(vec![0; (6 << 20) + 1].into()).expect_err("too large");
        assert_eq!(error, SubmitError::TooLarge { bytes: (6 << 20) + 1, max: 6 << 20 });
    }
    cluster.agree_on(&bytes(format!("3{large}"))).await;
}
