//! What is said about a placement: how much of it there is, how even, and what it leaves behind.

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_scheduler::core::cluster::resource::Dim;
use setpoint_scheduler::core::cluster::topology::Domain;
use setpoint_scheduler::core::engine::{Answer, Engine};
use setpoint_types::Revision;

use crate::generator::World;

/// A placement in numbers.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    pub placed: usize,
    pub asked: usize,
    /// Nodes with at least one replica.
    pub used: usize,
    /// Of a thousand: processors and memory that are free where the other has run out.
    pub stranded: i64,
    /// The most that a zone is ahead of the emptiest, among workloads with a hard rule.
    pub skew: u32,
    /// The spread of use over nodes, in thousandths.
    pub deviation: f64,
}

impl Figures {
    pub fn placed_share(&self) -> f64 {
        self.placed as f64 / self.asked.max(1) as f64
    }
}

/// Places all that can be, and takes every answer to be a yes.
pub fn place_all(engine: &mut Engine, batch: usize) -> usize {
    let (mut placed, mut revision) = (0, 1);
    loop {
        let plan = engine.plan(0, batch);
        if plan.binds.is_empty() {
            return placed;
        }
        placed += plan.binds.len();
        for bind in plan.binds {
            revision += 1;
            engine.answer(&bind.replica, Answer::Bound(Revision::new(revision)), 0);
        }
    }
}

pub fn measure(engine: &Engine, world: &World) -> Figures {
    let cluster = engine.cluster();
    let nodes = cluster.nodes();
    let (mut used, mut stranded, mut whole) = (0, 0, 0);
    let mut shares = Vec::new();
    for (node, _) in nodes.present() {
        used += usize::from(!nodes.residents(node).is_empty());
        let share = |dim| nodes.free(dim, node) * 1000 / nodes.capacity(dim, node).max(1);
        let (cpu, memory) = (share(Dim::CPU), share(Dim::MEMORY));
        // Less than a fiftieth of one is left: what is left of the other is of no use.
        if cpu < 20 || memory < 20 {
            stranded += cpu.max(memory);
        }
        whole += 2000;
        shares.push((cpu + memory) as f64 / 2.0);
    }
    let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    let variance = shares.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / shares.len().max(1) as f64;
    Figures {
        placed: cluster.bounds().iter().count(),
        asked: world.replicas.len(),
        used,
        stranded: stranded * 1000 / whole.max(1),
        skew: skew(engine, world),
        deviation: variance.sqrt(),
    }
}

fn skew(engine: &Engine, world: &World) -> u32 {
    let cluster = engine.cluster();
    let mut counts: BTreeMap<Arc<str>, BTreeMap<Domain, u32>> = BTreeMap::new();
    for (key, wants) in world.replicas.iter().filter(|it| !it.1.placement.spread.is_empty()) {
        let zones = counts.entry(wants.workload.clone()).or_default();
        let held = cluster.bounds().held(key);
        if let Some(zone) = held.and_then(|it| cluster.zone_of(it.node)) {
            *zones.entry(zone).or_default() += 1;
        }
    }
    let spread = |zones: &BTreeMap<Domain, u32>| {
        let most = zones.values().max().copied().unwrap_or(0);
        let least = if zones.len() < 5 { 0 } else { zones.values().min().copied().unwrap_or(0) };
        most - least
    };
    counts.values().map(spread).max().unwrap_or(0)
}
