//! Properties of taking others' places, under anything that may happen, in any order:
//!
//! - a gang gets its nodes together, or none of it does
//! - nobody has to go who is as important, or goes already
//! - whoever others have to go for starts once they are gone, a gang as a whole
//! - in the end nobody waits who could have a place, free or taken from others

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use setpoint_scheduler::core::class::Wants;
use setpoint_scheduler::core::cluster::bound::{Held, Traits};
use setpoint_scheduler::core::cluster::node::{Attributes, Readiness};
use setpoint_scheduler::core::cluster::tally::GroupKey;
use setpoint_scheduler::core::engine::{Answer, Engine, Options, Plan, Waiting};
use setpoint_types::kinds::{PendingReason, Placement, Spread, WhenUnsatisfiable};
use setpoint_types::quantity::Amounts;
use setpoint_types::{Epoch, Generation, Revision, Uid};

const NODES: usize = 4;
const REPLICAS: usize = 8;

/// A workload: priority, processors, how many need their nodes together, whether it is spread over zones.
struct Shape {
    workload: &'static str,
    priority: i32,
    cpu: i64,
    gang: Option<u32>,
    is_spread: bool,
}

const SHAPES: [Shape; 5] = [
    Shape { workload: "low", priority: 0, cpu: 1, gang: None, is_spread: false },
    Shape { workload: "mid", priority: 3, cpu: 2, gang: None, is_spread: false },
    Shape { workload: "trio", priority: 5, cpu: 1, gang: Some(3), is_spread: false },
    Shape { workload: "pair", priority: 5, cpu: 2, gang: Some(2), is_spread: true },
    Shape { workload: "top", priority: 9, cpu: 1, gang: None, is_spread: false },
];

#[derive(Clone, Debug)]
enum Step {
    Node {
        node: usize,
        cpu: i64,
        is_ready: bool,
    },
    Replica {
        replica: usize,
        shape: usize,
    },
    Drop(usize),
    /// The server refuses the first group of binds, or none.
    Plan {
        is_refused: bool,
    },
    /// One of those who have to go is gone.
    Leave(usize),
    /// One of those who have to go could not be asked to.
    Stay(usize),
    /// Anybody stops.
    Stop(usize),
    Show(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..NODES, 0..5i64, any::<bool>()).prop_map(|(node, cpu, ready)| Step::Node {
            node, cpu, is_ready: ready || cpu > 1,
        }),
        7 => (0..REPLICAS, 0..SHAPES.len()).prop_map(|(replica, shape)| Step::Replica { replica, shape }),
        1 => any::<usize>().prop_map(Step::Drop),
        5 => proptest::bool::weighted(0.2).prop_map(|is_refused| Step::Plan { is_refused }),
        3 => any::<usize>().prop_map(Step::Leave),
        1 => any::<usize>().prop_map(Step::Stay),
        2 => any::<usize>().prop_map(Step::Stop),
        1 => any::<usize>().prop_map(Step::Show),
        1 => (0..90_000u64).prop_map(Step::Pass),
    ]
}

fn wants(shape: &Shape) -> Wants {
    let mut resources = Amounts::default();
    resources.insert("cpu", shape.cpu * 1000);
    let mut placement = Placement { gang: shape.gang, ..Placement::default() };
    if shape.is_spread {
        placement.spread.push(Spread {
            topology_key: "zone".to_owned(),
            max_skew: 1,
            when_unsatisfiable: WhenUnsatisfiable::Wait,
            min_domains: None,
        });
    }
    Wants {
        namespace: "t".into(),
        workload: shape.workload.into(),
        resources,
        placement,
        priority: shape.priority,
        ..Wants::default()
    }
}

fn waiting(key: &str, shape: usize) -> Waiting {
    Waiting {
        uid: Uid::new(format!("uid-{key}")),
        generation: Generation::FIRST,
        wants: wants(&SHAPES[shape]),
        since: 0,
        deadline: None,
        shown: 0,
        attempts: 0,
    }
}

/// What the world is, kept apart from what the engine believes.
#[derive(Clone, Default)]
struct World {
    nodes: BTreeMap<usize, (i64, bool)>,
    waiting: BTreeMap<String, usize>,
    /// Shape and node.
    bound: BTreeMap<String, (usize, String)>,
    /// Those who were asked to go, and are still there.
    going: BTreeSet<String>,
}

fn set_node(engine: &mut Engine, node: usize, (cpu, is_ready): (i64, bool)) {
    let mut capacity = Amounts::default();
    capacity.insert("cpu", cpu * 1000);
    let attributes = Attributes {
        uid: Uid::new(format!("uid-{node}")),
        epoch: Epoch(1),
        zone: ["a", "b"][node % 2].to_owned(),
        readiness: if is_ready { Readiness::Ready } else { Readiness::NotReady },
        ..Attributes::default()
    };
    engine.cluster_mut().set_node(&format!("n{node}"), attributes, &capacity, Revision::new(1));
}

/// The world as an engine sees it that has just started.
fn fresh(world: &World) -> Engine {
    let mut engine = Engine::new(Options::default(), 3);
    for (node, state) in &world.nodes {
        set_node(&mut engine, *node, *state);
    }
    for (key, (shape, node)) in &world.bound {
        let wants = wants(&SHAPES[*shape]);
        let cluster = engine.cluster_mut();
        let held = Held {
            node: cluster.nodes().get(node).expect("nodes do not go away"),
            demand: cluster.dimensions_mut().demand(&wants.resources),
            ports: Arc::from([]),
            is_going: world.going.contains(key),
        };
        cluster.see_binding(key, Some(held));
        let group = GroupKey { namespace: wants.namespace, workload: wants.workload, labels: wants.labels };
        cluster.see_traits(key, Some(Traits { group, priority: wants.priority, artifact: None }));
    }
    for (key, shape) in &world.waiting {
        engine.see_replica(key, waiting(key, *shape), 0);
    }
    engine
}

fn leave(engine: &mut Engine, key: &str) {
    engine.cluster_mut().see_binding(key, None);
    engine.cluster_mut().see_traits(key, None);
}

fn pick<K: Clone>(mut keys: impl ExactSizeIterator<Item = K>, number: usize) -> Option<K> {
    let count = keys.len();
    if count == 0 { None } else { keys.nth(number % count) }
}

struct Run {
    engine: Engine,
    world: World,
    now: u64,
    revision: u64,
}

impl Run {
    fn step(&mut self, step: &Step) {
        self.revision += 1;
        match step {
            Step::Node { node, cpu, is_ready } => {
                self.world.nodes.insert(*node, (*cpu, *is_ready));
                set_node(&mut self.engine, *node, (*cpu, *is_ready));
            }
            Step::Replica { replica, shape } => {
                let key = format!("t/{}-{replica}", SHAPES[*shape].workload);
                if !self.world.waiting.contains_key(&key) && !self.world.bound.contains_key(&key) {
                    self.engine.see_replica(&key, waiting(&key, *shape), self.now);
                    self.world.waiting.insert(key, *shape);
                }
            }
            Step::Drop(number) => {
                if let Some(key) = pick(self.world.waiting.keys().cloned(), *number) {
                    self.world.waiting.remove(&key);
                    self.engine.drop_replica(&key);
                }
            }
            Step::Plan { is_refused } => {
                self.engine.tick(self.now);
                self.plan(*is_refused);
            }
            Step::Leave(number) => {
                if let Some(key) = pick(self.world.going.iter().cloned(), *number) {
                    self.leave(&key);
                }
            }
            Step::Stay(number) => {
                if let Some(key) = pick(self.world.going.iter().cloned(), *number) {
                    self.world.going.remove(&key);
                    let held = self.engine.cluster().bounds().held(&key).cloned();
                    let held = held.map(|it| Held { is_going: false, ..it });
                    self.engine.cluster_mut().see_binding(&key, held);
                    self.engine.stayed(&key);
                }
            }
            Step::Stop(number) => {
                if let Some(key) = pick(self.world.bound.keys().cloned(), *number) {
                    self.leave(&key);
                }
            }
            Step::Show(number) => {
                if let Some(key) = pick(self.world.bound.keys().cloned(), *number) {
                    let held = self.engine.cluster().bounds().held(&key).cloned();
                    self.engine.cluster_mut().see_binding(&key, held);
                }
            }
            Step::Pass(ms) => {
                self.now += ms;
                self.engine.tick(self.now);
            }
        }
    }

    fn leave(&mut self, key: &str) {
        self.world.going.remove(key);
        self.world.bound.remove(key);
        leave(&mut self.engine, key);
    }

    /// Plans, checks what came of it, and answers. Says whether anything came of it.
    fn plan(&mut self, is_refused: bool) -> bool {
        let plan = self.engine.plan(self.now, usize::MAX);
        self.check_evictions(&plan);
        self.check_gangs(&plan);
        let refused = plan.binds.first().filter(|_| is_refused).map(|it| it.group);
        let has_changed = !plan.binds.is_empty() || !plan.evictions.is_empty();
        for bind in plan.binds {
            if Some(bind.group) == refused {
                let (reason, message) = (PendingReason::Conflict, "no".to_owned());
                let answer = Answer::Refused { reason, message, catch_up_to: Revision::NONE };
                self.engine.answer(&bind.replica, answer, self.now);
                continue;
            }
            let shape = self.world.waiting.remove(&*bind.replica).expect("it waited");
            self.world.bound.insert(bind.replica.to_string(), (shape, bind.node.to_string()));
            self.check_fits(&bind.node);
            self.engine.answer(&bind.replica, Answer::Bound(Revision::new(self.revision)), self.now);
        }
        has_changed
    }

    fn check_fits(&self, node: &str) {
        let number: usize = node[1..].parse().expect("a number");
        let (cpu, is_ready) = self.world.nodes[&number];
        let here = self.world.bound.values().filter(|it| it.1 == node);
        let used: i64 = here.map(|it| SHAPES[it.0].cpu).sum();
        assert!(used <= cpu && is_ready, "{node} is full, or not ready");
    }

    fn check_gangs(&self, plan: &Plan) {
        for shape in &SHAPES {
            let Some(size) = shape.gang else { continue };
            let has_begun = self.world.bound.values().any(|it| SHAPES[it.0].workload == shape.workload);
            let groups: Vec<u64> =
                plan.binds.iter().filter(|it| *it.workload == *shape.workload).map(|it| it.group).collect();
            let first = groups.iter().filter(|it| Some(*it) == groups.first()).count();
            assert!(
                has_begun || groups.is_empty() || first == size as usize,
                "{} begins with {first}",
                shape.workload
            );
        }
    }

    fn check_evictions(&mut self, plan: &Plan) {
        for eviction in &plan.evictions {
            assert!(eviction.priority < eviction.by_priority, "{} is as important", eviction.victim);
            assert!(self.world.going.insert(eviction.victim.to_string()), "{} goes", eviction.victim);
        }
        let by: BTreeMap<&str, i32> =
            plan.evictions.iter().map(|it| (&*it.workload, it.by_priority)).collect();
        for (workload, priority) in by {
            let is_above = |it: &&usize| SHAPES[**it].priority > priority;
            if self.world.waiting.values().any(|it| is_above(&it)) {
                continue;
            }
            // Everybody who goes is gone: those they went for have their nodes.
            let mut later = self.engine.clone();
            self.world.going.iter().for_each(|key| leave(&mut later, key));
            later.tick(self.now);
            let begun = self.world.bound.values().any(|it| SHAPES[it.0].workload == workload)
                || plan.binds.iter().any(|it| *it.workload == *workload);
            let gang = SHAPES.iter().find(|it| it.workload == workload).and_then(|it| it.gang);
            let needed = if begun { 1 } else { gang.unwrap_or(1) as usize };
            let binds = later.plan(self.now, usize::MAX).binds;
            let bound = binds.iter().filter(|it| *it.workload == *workload).count();
            assert!(bound >= needed, "others went for {workload}, and {bound} of {needed} could start");
        }
    }

    /// Lets everything come to rest: whoever has to go does.
    fn settle(&mut self) {
        for round in 0..80 {
            self.now += 20_000;
            self.engine.tick(self.now);
            let has_changed = self.plan(false);
            let going: Vec<String> = self.world.going.iter().cloned().collect();
            going.iter().for_each(|key| self.leave(key));
            // Long enough for whatever is kept to be given up.
            if !has_changed && going.is_empty() && round > 16 {
                return;
            }
        }
        panic!("it does not come to rest");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn places_are_taken_only_for_those_who_then_start_and_nobody_is_stranded(
        steps in proptest::collection::vec(step(), 1..70), seed in any::<u64>(),
    ) {
        // Time for the flush never comes: what wakes somebody is an event.
        let options = Options { flush_ms: u64::MAX, ..Options::default() };
        let engine = Engine::new(options, seed);
        let mut run = Run { engine, world: World::default(), now: 0, revision: 1 };
        for step in &steps {
            run.step(step);
        }
        run.settle();
        let plan = fresh(&run.world).plan(0, usize::MAX);
        prop_assert!(plan.binds.is_empty(), "somebody could have been placed: {:?}", plan.binds);
        prop_assert!(plan.evictions.is_empty(), "a place could have been taken: {:?}", plan.evictions);
        prop_assert_eq!(run.engine.waiting(), run.world.waiting.len());
    }
}
