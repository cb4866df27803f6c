//! Properties of the engine under anything that may happen, in any order:
//!
//! - what it binds fits: nodes, ports, quotas, hard rules of spreading and of being apart
//! - what it has counted by changes is what counting anew gives
//! - nobody is left waiting whom something that happened could have helped
//!
//! `preemption.rs` has those of taking others' places.

mod preemption;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use setpoint_scheduler::core::class::Wants;
use setpoint_scheduler::core::cluster::Cluster;
use setpoint_scheduler::core::cluster::bound::{Held, Traits};
use setpoint_scheduler::core::cluster::node::{Attributes, Readiness};
use setpoint_scheduler::core::cluster::quota::Limits;
use setpoint_scheduler::core::cluster::resource::Dim;
use setpoint_scheduler::core::cluster::tally::{GroupKey, Subject};
use setpoint_scheduler::core::engine::{Answer, Engine, Options, Plan, Waiting};
use setpoint_types::kinds::{Affinity, PendingReason, Placement, Protocol, Spread, WhenUnsatisfiable};
use setpoint_types::quantity::Amounts;
use setpoint_types::selector::LabelSelector;
use setpoint_types::{Epoch, Generation, Revision, Uid};

const NODES: usize = 5;
const REPLICAS: usize = 14;
const ZONES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum Step {
    /// A node is seen: how much it has, whether it is ready, whether it has the label.
    Node {
        node: usize,
        cpu: i64,
        is_ready: bool,
        has_disk: bool,
    },
    RemoveNode(usize),
    Replica {
        replica: usize,
        shape: usize,
    },
    DropReplica(usize),
    Quota(Option<i64>),
    /// Up to so many are bound, and the server says yes to all but every so many.
    Plan {
        most: usize,
        refuses: usize,
    },
    /// The cache shows a binding, or that it is gone.
    Show(usize),
    Stop(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..NODES, 0..6i64, any::<bool>(), any::<bool>()).prop_map(|(node, cpu, ready, has_disk)| Step::Node {
            node, cpu, is_ready: ready || cpu > 2, has_disk,
        }),
        1 => (0..NODES).prop_map(Step::RemoveNode),
        6 => (0..REPLICAS, 0..7usize).prop_map(|(replica, shape)| Step::Replica { replica, shape }),
        1 => (0..REPLICAS).prop_map(Step::DropReplica),
        1 => proptest::option::of(0..9i64).prop_map(Step::Quota),
        4 => (1..9usize, 2..5usize).prop_map(|(most, refuses)| Step::Plan { most, refuses }),
        2 => (0..REPLICAS).prop_map(Step::Show),
        3 => (0..REPLICAS).prop_map(Step::Stop),
        1 => (0..15_000u64).prop_map(Step::Pass),
    ]
}

/// What the world is, kept apart from what the engine believes.
#[derive(Clone, Default)]
struct World {
    nodes: BTreeMap<usize, (i64, bool, bool)>,
    /// Without a node.
    waiting: BTreeMap<usize, usize>,
    /// Bound: shape and node.
    bound: BTreeMap<usize, (usize, String)>,
    quota: Option<i64>,
}

fn key(replica: usize, shape: usize) -> String {
    format!("t/w{}-{replica}", shape % 3)
}

fn attributes(node: usize, is_ready: bool, has_disk: bool) -> Attributes {
    let labels =
        if has_disk { BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]) } else { BTreeMap::new() };
    Attributes {
        uid: Uid::new(format!("uid-{node}")),
        epoch: Epoch(1),
        zone: ZONES[node % 3].to_owned(),
        labels,
        readiness: if is_ready { Readiness::Ready } else { Readiness::NotReady },
        ..Attributes::default()
    }
}

/// Seven kinds of replicas of three workloads: plain, spread by zone, apart, with a port, for a label, important, near.
fn wants(shape: usize) -> Wants {
    let mut resources = Amounts::default();
    resources.insert("cpu", 1000 + 500 * (shape as i64 % 2));
    let mut placement = Placement::default();
    let affinity = |app: &str, key: &str| Affinity {
        selector: LabelSelector::parse(app).expect("a selector"),
        topology_key: key.to_owned(),
        required: true,
        weight: 1,
    };
    match shape {
        1 => placement.spread.push(Spread {
            topology_key: "zone".to_owned(),
            max_skew: 1,
            when_unsatisfiable: WhenUnsatisfiable::Wait,
            min_domains: None,
        }),
        2 => placement.apart.push(affinity("app=w2", "node")),
        4 => placement.node_selector = LabelSelector::parse("disk=ssd").expect("a selector"),
        6 => placement.near.push(affinity("app=w1", "zone")),
        _ => {}
    }
    let workload = format!("w{}", shape % 3);
    Wants {
        namespace: "t".into(),
        workload: workload.as_str().into(),
        labels: Arc::new(BTreeMap::from([("app".to_owned(), workload)])),
        resources,
        ports: if shape == 3 { vec![(Protocol::Tcp, 80)] } else { Vec::new() },
        placement,
        ..Wants::default()
    }
}

fn waiting(replica: usize, shape: usize) -> Waiting {
    Waiting {
        uid: Uid::new(format!("uid-{replica}-{shape}")),
        generation: Generation::FIRST,
        wants: wants(shape),
        since: 0,
        deadline: None,
        shown: 0,
        attempts: 0,
    }
}

fn traits(shape: usize) -> Traits {
    let wants = wants(shape);
    Traits {
        group: GroupKey { namespace: wants.namespace, workload: wants.workload, labels: wants.labels },
        priority: 0,
        artifact: None,
    }
}

fn set_quota(cluster: &mut Cluster, cpus: Option<i64>) {
    let Some(cpus) = cpus else { return cluster.remove_quota("t", "main") };
    let mut limits = Amounts::default();
    limits.insert("cpu", cpus * 1000);
    let everywhere = cluster.dimensions_mut().limits(&limits);
    cluster.set_quota("t", "main", Limits { everywhere, zones: BTreeMap::new(), revision: Revision::new(1) });
}

fn set_node(cluster: &mut Cluster, node: usize, (cpu, is_ready, has_disk): (i64, bool, bool)) {
    let mut capacity = Amounts::default();
    capacity.insert("cpu", cpu * 1000);
    cluster.set_node(&format!("n{node}"), attributes(node, is_ready, has_disk), &capacity, Revision::new(1));
}

/// The world as an engine sees it that has just started.
fn fresh(world: &World) -> Engine {
    let mut engine = Engine::new(Options::default(), 3);
    for (replica, (shape, node)) in &world.bound {
        let cluster = engine.cluster_mut();
        let wants = wants(*shape);
        let held = Held {
            node: cluster.slot(node, ZONES[zone_number(node) % 3]),
            demand: cluster.dimensions_mut().demand(&wants.resources),
            ports: wants.ports.into(),
            is_going: false,
        };
        cluster.see_binding(&key(*replica, *shape), Some(held));
        cluster.see_traits(&key(*replica, *shape), Some(traits(*shape)));
    }
    for (node, state) in &world.nodes {
        set_node(engine.cluster_mut(), *node, *state);
    }
    set_quota(engine.cluster_mut(), world.quota);
    for (replica, shape) in &world.waiting {
        engine.see_replica(&key(*replica, *shape), waiting(*replica, *shape), 0);
    }
    engine
}

struct Run {
    engine: Engine,
    world: World,
    now: u64,
    revision: u64,
    refused: usize,
}

impl Run {
    fn step(&mut self, step: &Step) {
        self.revision += 1;
        match step {
            Step::Node { node, cpu, is_ready, has_disk } => {
                let state = (*cpu, *is_ready, *has_disk);
                self.world.nodes.insert(*node, state);
                set_node(self.engine.cluster_mut(), *node, state);
            }
            Step::RemoveNode(node) => {
                self.world.nodes.remove(node);
                self.engine.cluster_mut().remove_node(&format!("n{node}"));
            }
            Step::Replica { replica, shape } => {
                let is_known =
                    self.world.waiting.contains_key(replica) || self.world.bound.contains_key(replica);
                if !is_known {
                    self.world.waiting.insert(*replica, *shape);
                    self.engine.see_replica(&key(*replica, *shape), waiting(*replica, *shape), self.now);
                }
            }
            Step::DropReplica(replica) => {
                if let Some(shape) = self.world.waiting.remove(replica) {
                    self.engine.drop_replica(&key(*replica, shape));
                }
            }
            Step::Quota(cpus) => {
                self.world.quota = *cpus;
                set_quota(self.engine.cluster_mut(), *cpus);
            }
            Step::Plan { most, refuses } => {
                let plan = self.engine.plan(self.now, *most);
                self.answer(plan, *refuses);
            }
            Step::Show(replica) => {
                if let Some((shape, _)) = self.world.bound.get(replica) {
                    let name = key(*replica, *shape);
                    let held = self.engine.cluster().bounds().held(&name).cloned();
                    self.engine.cluster_mut().see_binding(&name, held);
                }
            }
            Step::Stop(replica) => {
                if let Some((shape, _)) = self.world.bound.remove(replica) {
                    self.engine.cluster_mut().see_binding(&key(*replica, shape), None);
                    self.engine.cluster_mut().see_traits(&key(*replica, shape), None);
                }
            }
            Step::Pass(ms) => {
                self.now += ms;
                self.engine.tick(self.now);
            }
        }
    }

    fn answer(&mut self, plan: Plan, refuses: usize) {
        let mut has_refused = false;
        for bind in plan.binds {
            self.refused += 1;
            let replica: usize =
                bind.replica.rsplit('-').next().and_then(|it| it.parse().ok()).expect("a number");
            // What was counted on did not come: the server finds out.
            let is_uneven = self.world.waiting[&replica] == 1 && self.is_uneven(&bind.node);
            assert!(has_refused || !is_uneven, "the skew is too large");
            if is_uneven || (refuses > 0 && self.refused.is_multiple_of(refuses)) {
                has_refused = true;
                let message = "no".to_owned();
                let answer =
                    Answer::Refused { reason: PendingReason::Conflict, message, catch_up_to: Revision::NONE };
                self.engine.answer(&bind.replica, answer, self.now);
            } else {
                let shape = self.world.waiting.remove(&replica).expect("it waited");
                self.check_rules(shape, &bind.node);
                self.world.bound.insert(replica, (shape, bind.node.to_string()));
                self.engine.answer(&bind.replica, Answer::Bound(Revision::new(self.revision)), self.now);
            }
        }
    }

    /// Would it be one too many in its zone for the rule of the spread ones?
    fn is_uneven(&self, node: &str) -> bool {
        let bound = || self.world.bound.values().filter(|it| it.0 % 3 == 1);
        let count = |zone| bound().filter(|it| zone_number(&it.1) % 3 == zone).count();
        let zones: BTreeSet<usize> = self.world.nodes.keys().map(|it| it % 3).collect();
        let floor = zones.iter().map(|it| count(*it)).min().unwrap_or(0);
        count(zone_number(node) % 3) > floor
    }

    /// Would a server that looks at the world take it?
    fn check_rules(&self, shape: usize, node: &str) {
        let zone_of = |node: &str| zone_number(node) % 3;
        let here = |it: &&(usize, String)| it.1 == node;
        let bound = || self.world.bound.values();
        let state = self.world.nodes[&zone_number(node)];
        assert!(state.1, "{node} is not ready");
        let used: i64 = bound().filter(here).map(|it| 1000 + 500 * (it.0 as i64 % 2)).sum();
        assert!(used + 1000 + 500 * (shape as i64 % 2) <= state.0 * 1000, "{node} is full");
        match shape {
            2 => assert!(!bound().filter(here).any(|it| it.0 % 3 == 2), "it is not apart"),
            3 => assert!(!bound().filter(here).any(|it| it.0 == 3), "the port is taken"),
            4 => assert!(state.2, "the label is missing"),
            6 => {
                assert!(bound().any(|it| it.0 % 3 == 1 && zone_of(&it.1) == zone_of(node)), "nobody is near")
            }
            _ => {}
        }
        if let Some(cpus) = self.world.quota {
            let all: i64 = bound().map(|it| 1000 + 500 * (it.0 as i64 % 2)).sum();
            assert!(all + 1000 + 500 * (shape as i64 % 2) <= cpus * 1000, "the quota is exceeded");
        }
    }

    /// Nothing that was counted by changes differs from what counting anew gives.
    fn check_counts(&mut self) {
        let mut anew = fresh(&self.world);
        let namespace: Arc<str> = "t".into();
        for node in self.world.nodes.keys().map(|it| format!("n{it}")) {
            let free = |cluster: &Cluster| {
                let ix = cluster.nodes().get(&node).expect("it is there");
                (cluster.nodes().free(Dim::CPU, ix), cluster.nodes().residents(ix).len())
            };
            assert_eq!(free(self.engine.cluster()), free(anew.cluster()), "{node}");
        }
        for zone in ZONES {
            let share = |engine: &mut Engine| {
                let zone = engine.cluster_mut().topologies_mut().zone(zone);
                let cluster = engine.cluster();
                (cluster.zone_free(zone, Dim::CPU), cluster.quotas().used_in("t", zone, Dim::CPU))
            };
            assert_eq!(share(&mut self.engine), share(&mut anew), "zone {zone}");
        }
        for workload in ["w0", "w1", "w2"] {
            let counts = |engine: &mut Engine| -> BTreeMap<String, u32> {
                let cluster = engine.cluster_mut();
                let topology = cluster.topology("zone");
                let tally = cluster.use_tally(&namespace, Subject::Workload(workload.into()), topology);
                let counts = cluster.tallies().counts(tally).clone();
                counts.into_iter().map(|it| (cluster.topologies().zone_name(it.0).to_owned(), it.1)).collect()
            };
            assert_eq!(counts(&mut self.engine), counts(&mut anew), "{workload}");
        }
        let used = |engine: &Engine| engine.cluster().quotas().used("t", Dim::REPLICAS);
        assert_eq!(used(&self.engine), used(&anew));
    }

    /// Once everybody has had a turn, an engine that has just started finds no place either.
    fn check_nobody_is_stranded(&mut self) {
        for _ in 0..REPLICAS + 2 {
            self.now += 20_000;
            self.engine.tick(self.now);
            let plan = self.engine.plan(self.now, usize::MAX);
            if plan.binds.is_empty() {
                break;
            }
            self.answer(plan, 0);
        }
        let plan = fresh(&self.world).plan(0, usize::MAX);
        assert!(plan.binds.is_empty(), "somebody could have been placed: {:?}", plan.binds);
        assert_eq!(self.engine.waiting(), self.world.waiting.len());
    }
}

fn zone_number(node: &str) -> usize {
    node[1..].parse().expect("a node's number")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_is_bound_fits_counts_are_right_and_nobody_is_stranded(
        steps in proptest::collection::vec(step(), 1..80), seed in any::<u64>(),
    ) {
        // Time for the flush never comes: what wakes somebody is an event.
        let options = Options { flush_ms: u64::MAX, ..Options::default() };
        let mut run = Run { engine: Engine::new(options, seed), world: World::default(), now: 0, revision: 1, refused: 0 };
        for step in &steps {
            run.step(step);
        }
        run.check_counts();
        run.check_nobody_is_stranded();
        run.check_counts();
    }
}
