//! Asking nodes who leads, and whether those that were left alone are back.
//!
//! Both in the background, by `etcdserverpb.Maintenance/Status`, which every node answers from what it knows. Nothing waits
//! for it: without an answer writes go to any node, and nodes left alone are tried by requests once there is no other.

use std::sync::Arc;
use std::time::Duration;

use setpoint_api::etcdserverpb::StatusRequest;
use setpoint_api::etcdserverpb::maintenance_client::MaintenanceClient;
use tokio::time::{Instant, timeout};

use super::Pool;
use super::balancer::Purpose;
use crate::attempt::{Health, Safety, judge};

/// For one node. What takes longer is not healthy.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long it is believed who leads.
const LEADER_AGE_MAX: Duration = Duration::from_secs(30);
/// Between two rounds in which nobody knew.
const PAUSE: Duration = Duration::from_secs(1);

/// At most one round is under way.
#[derive(Default)]
pub struct Probes {
    running: bool,
    asked_at: Option<Instant>,
}

impl Pool {
    /// Begins a round if one is due.
    pub(super) fn probe(self: &Arc<Self>, purpose: Purpose) {
        if self.wires.len() < 2 {
            return;
        }
        let now = Instant::now();
        let due = self.due(purpose, now);
        if due.is_empty() {
            return;
        }
        let mut probes = self.probes.lock();
        if probes.running || probes.asked_at.is_some_and(|at| now < at + PAUSE) {
            return;
        }
        (probes.running, probes.asked_at) = (true, Some(now));
        drop(probes);
        let round = Arc::new(Round { pool: self.clone() });
        for index in due {
            let round = round.clone();
            tokio::spawn(async move { round.pool.ask(index).await });
        }
    }

    /// Whom to ask: all of them if it is not known who leads, else those that may be back.
    fn due(&self, purpose: Purpose, now: Instant) -> Vec<usize> {
        let balancer = self.balancer.lock();
        let old = self.probes.lock().asked_at.is_none_or(|at| now >= at + LEADER_AGE_MAX);
        if purpose == Purpose::Write && (old || balancer.leader_index().is_none()) {
            let recovering = balancer.recovering(now);
            return (0..self.wires.len())
                .filter(|index| balancer.is_closed(*index) || recovering.contains(index))
                .collect();
        }
        balancer.recovering(now)
    }

    async fn ask(&self, index: usize) {
        self.balancer.lock().sent(index);
        let mut client = MaintenanceClient::new(self.wires[index].clone());
        let answer = timeout(PATIENCE, client.status(StatusRequest {})).await;
        match answer {
            Ok(Ok(answer)) => {
                let answer = answer.into_inner();
                let node = answer.header.map_or(0, |header| header.member_id);
                self.judged(index, Health::Well, None);
                self.balancer.lock().learned(index, node, (answer.leader != 0).then_some(answer.leader));
            }
            Ok(Err(status)) => self.judged(index, judge(&status, Safety::Repeatable).health, None),
            Err(_) => self.judged(index, Health::Unreachable, None),
        }
        self.balancer.lock().ended(index, true, Instant::now());
    }
}

/// Ends the round once the last of its tasks has, however they end.
struct Round {
    pool: Arc<Pool>,
}

impl Drop for Round {
    fn drop(&mut self) {
        self.pool.probes.lock().running = false;
    }
}
