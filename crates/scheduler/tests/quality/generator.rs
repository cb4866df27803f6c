//! A made-up cluster and what wants to run on it: nodes of four shapes in five zones, workloads of mixed shapes and sizes, some of
//! them spread evenly over zones, some for certain nodes only, all under quotas. The same seed makes the same cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_scheduler::core::class::Wants;
use setpoint_scheduler::core::cluster::node::{Attributes, Readiness};
use setpoint_scheduler::core::cluster::quota::Limits;
use setpoint_scheduler::core::engine::{Engine, Waiting};
use setpoint_types::kinds::{Placement, Spread, WhenUnsatisfiable};
use setpoint_types::quantity::Amounts;
use setpoint_types::selector::LabelSelector;
use setpoint_types::{Epoch, Generation, Revision, Uid};

const GIB: i64 = 1 << 30;
const ZONES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Thousandths of processors, and memory in GiB.
const SHAPES: [(i64, i64); 4] = [(16_000, 64), (32_000, 128), (64_000, 256), (48_000, 384)];

/// How large it is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub nodes: usize,
    pub replicas: usize,
    /// How many replicas a workload has on average.
    pub workload: usize,
    /// What all replicas want together, in percent of the processors there are.
    pub load: i64,
}

/// A stream of numbers that look random (SplitMix64).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit.max(1)
    }
}

/// A node: name, attributes, capacity.
pub type MadeNode = (String, Attributes, Amounts);

pub struct World {
    pub nodes: Vec<MadeNode>,
    /// In the order they come: key and what it wants.
    pub replicas: Vec<(String, Wants)>,
}

impl World {
    pub fn make(size: Size, seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        let nodes: Vec<MadeNode> = (0..size.nodes).map(|index| node(index, &mut numbers)).collect();
        let mut replicas = Vec::with_capacity(size.replicas);
        let mut number = 0;
        while replicas.len() < size.replicas {
            let wants = workload(number, &mut numbers);
            let count = 1 + numbers.below(2 * size.workload as u64) as usize;
            for index in 0..count.min(size.replicas - replicas.len()) {
                replicas.push((format!("{}/{}-{index}", wants.namespace, wants.workload), wants.clone()));
            }
            number += 1;
        }
        let mut world = Self { nodes, replicas };
        world.scale(size.load);
        world
    }

    /// Makes what is asked for such a share of the processors, and as much of the memory.
    fn scale(&mut self, load: i64) {
        for dim in ["cpu", "memory"] {
            let offered: i128 = self.nodes.iter().map(|it| i128::from(it.2.get(dim).unwrap_or(0))).sum();
            let asked: i128 =
                self.replicas.iter().map(|it| i128::from(it.1.resources.get(dim).unwrap_or(0))).sum();
            let step: i128 = if dim == "cpu" { 10 } else { 1 << 20 };
            for (_, wants) in &mut self.replicas {
                let amount = i128::from(wants.resources.get(dim).unwrap_or(0));
                let scaled = amount * offered * i128::from(load) / asked.max(1) / 100;
                wants.resources.insert(dim, (scaled / step * step).max(step) as i64);
            }
        }
    }

    /// Shows the nodes and quotas to an engine, then all replicas.
    pub fn show(&self, engine: &mut Engine, nodes: impl Iterator<Item = usize>) {
        for index in nodes {
            let (name, attributes, capacity) = &self.nodes[index];
            engine.cluster_mut().set_node(name, attributes.clone(), capacity, Revision::new(1));
        }
        for namespace in 0..20 {
            let mut limits = Amounts::default();
            limits.insert("replicas", 1_000_000);
            limits.insert("cpu", i64::MAX / 2);
            let everywhere = engine.cluster_mut().dimensions_mut().limits(&limits);
            let limits = Limits { everywhere, zones: BTreeMap::new(), revision: Revision::new(1) };
            engine.cluster_mut().set_quota(&format!("n{namespace}"), "main", limits);
        }
        for (key, wants) in &self.replicas {
            engine.see_replica(key, waiting(key, wants), 0);
        }
    }
}

pub fn waiting(key: &str, wants: &Wants) -> Waiting {
    Waiting {
        uid: Uid::new(key),
        generation: Generation::FIRST,
        wants: wants.clone(),
        since: 0,
        deadline: None,
        shown: 0,
        attempts: 0,
    }
}

fn node(index: usize, numbers: &mut Numbers) -> MadeNode {
    let (cpu, memory) = SHAPES[numbers.below(4) as usize];
    let labels = BTreeMap::from([("class".to_owned(), format!("c{}", numbers.below(4)))]);
    let mut capacity = Amounts::default();
    capacity.insert("cpu", cpu);
    capacity.insert("memory", memory * GIB);
    let attributes = Attributes {
        uid: Uid::new(format!("uid-{index}")),
        epoch: Epoch(1),
        zone: ZONES[index % ZONES.len()].to_owned(),
        labels,
        taints: Vec::new(),
        unschedulable: false,
        readiness: Readiness::Ready,
        runtimes: Vec::new(),
    };
    (format!("node-{index:05}"), attributes, capacity)
}

/// Three in ten have to be spread evenly over zones, two in ten are for nodes of one class only.
fn workload(number: usize, numbers: &mut Numbers) -> Wants {
    let cpu = [100, 250, 500, 1000, 2000, 4000][numbers.below(6) as usize];
    let per_cpu = [1, 2, 4, 8][numbers.below(4) as usize];
    let mut resources = Amounts::default();
    resources.insert("cpu", cpu);
    resources.insert("memory", cpu * per_cpu * (GIB / 1000));
    let mut placement = Placement::default();
    if numbers.below(10) < 3 {
        placement.spread.push(Spread {
            topology_key: "zone".to_owned(),
            max_skew: 1,
            when_unsatisfiable: WhenUnsatisfiable::Wait,
            min_domains: None,
        });
    }
    if numbers.below(10) < 2 {
        let class = numbers.below(4);
        placement.node_selector = LabelSelector::parse(&format!("class=c{class}")).expect("a selector");
    }
    let name = format!("w{number}");
    Wants {
        namespace: format!("n{}", number % 20).into(),
        workload: name.as_str().into(),
        labels: Arc::new(BTreeMap::from([("app".to_owned(), name.clone())])),
        resources,
        placement,
        ..Wants::default()
    }
}
