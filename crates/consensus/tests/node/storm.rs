//! Faults at random, from a seed: whatever happens, nothing acknowledged is lost and no two nodes disagree.

use std::time::Duration;

use bytes::Bytes;
use setpoint_types::NodeId;
use tokio::time::{sleep, timeout};

use super::support::{Cluster, Options, bytes};

/// Small and repeatable; quality does not matter here.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

async fn fault(cluster: &mut Cluster, dice: &mut Dice) -> String {
    let node = 1 + dice.roll(5);
    match dice.roll(6) {
        0 => {
            cluster.kill(node).await;
            sleep(Duration::from_millis(100 * dice.roll(10))).await;
            cluster.start_node(node).await;
            format!("restart {node}")
        }
        1 => {
            cluster.network.isolate(&cluster.node(node).name());
            format!("isolate {node}")
        }
        2 => {
            let other = 1 + dice.roll(5);
            cluster.network.cut(&cluster.node(node).name(), &cluster.node(other).name());
            format!("cut {node} from {other}")
        }
        3 => {
            let to = NodeId(node);
            for leader in cluster.nodes.values().filter(|leader| leader.id != to) {
                // Fails wherever it is not possible, which is everywhere but on the leader.
                let _ = leader.node.transfer_leader(to).await;
            }
            format!("transfer to {node}")
        }
        _ => {
            cluster.network.heal();
            "heal".to_owned()
        }
    }
}

/// Submits to random nodes and returns those commands that were acknowledged in time.
async fn write(cluster: &Cluster, dice: &mut Dice, round: usize) -> Vec<Bytes> {
    let mut waiting = Vec::new();
    for number in 0..20 {
        let node = cluster.node(1 + dice.roll(5));
        let command = bytes(format!("{round}/{number}"));
        if node.node.submit(command.clone()).is_ok() {
            let machine = std::sync::Arc::clone(&node.machine);
            waiting.push(tokio::spawn(async move {
                let applied = timeout(Duration::from_millis(500), machine.applied_command(&command)).await;
                applied.is_ok().then_some(command)
            }));
        }
    }
    let mut acknowledged = Vec::new();
    for outcome in waiting {
        acknowledged.extend(outcome.await.expect("waiting does not panic"));
    }
    acknowledged
}

async fn weather(seed: u64) {
    let configure = |config: &mut setpoint_consensus::Config| {
        config.log.snapshot_every = 40;
        config.log.keep = 10;
        config.log.purge_batch = 5;
    };
    let mut cluster = Cluster::start(5, Options { configure: Some(configure), ..Options::default() }).await;
    let mut dice = Dice(seed);
    let (mut acknowledged, mut history) = (Vec::new(), Vec::new());
    for round in 0..20 {
        history.push(fault(&mut cluster, &mut dice).await);
        acknowledged.extend(write(&cluster, &mut dice, round).await);
    }
    cluster.network.heal();
    cluster.node(1).put("the sun again").await;
    cluster.agree_on(&bytes("the sun again")).await;
    assert!(
        acknowledged.len() > 50,
        "seed {seed}: too little was acknowledged to prove anything: {history:?}"
    );
    for node in cluster.nodes.values() {
        assert!(node.host.fatal.lock().is_none(), "seed {seed}: node {} failed in {history:?}", node.id);
        for command in &acknowledged {
            let kept = node.machine.contains(command);
            assert!(kept, "seed {seed}: node {} lost {command:?} in {history:?}", node.id);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn five_nodes_in_bad_weather() {
    weather(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn five_nodes_in_other_weather() {
    weather(2).await;
}
