//! Golden scripts of what the engine decides, one property each, in `scripts`.
//!
//! After a change of behaviour that is meant, run with `UPDATE_GOLDENFILES=1` and read the difference. Time passes only by `pass`.
//!
//! | command | does |
//! |---|---|
//! | `node NAME zone=Z [cpu= memory= gpu=…] [labels=JSON] [taints=JSON] [is=cordoned\|notready\|unreachable\|pressure] [runtimes=docker]` | a node is seen |
//! | `remove NAME` | a node is gone |
//! | `replica NAME… [namespace= workload= cpu= memory= gpu= priority= class= image= port= labels=JSON placement=JSON deadline=]` | replicas without a node are seen |
//! | `drop NAME…` | they are gone |
//! | `quota NAME [namespace= JSON of the spec]`, `policy NAME JSON`, `class NAME [never\|lower]` | these are seen |
//! | `plan [MOST]` | decides, and shows what is to be done |
//! | `bound NAME…`, `refused NAME REASON` | the server's answer |
//! | `show NAME…` | the cache shows what was bound |
//! | `stopped NAME…` | a binding is released |
//! | `stay NAME…` | they were to leave, and nobody could ask them to |
//! | `pass MS` | time passes |
//! | `reports` | what statuses are to say |

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;

use goldenscript::{Argument, Command, Context, Runner};
use serde::de::DeserializeOwned;
use setpoint_scheduler::core::class::Wants;
use setpoint_scheduler::core::cluster::bound::Held;
use setpoint_scheduler::core::cluster::node::{Attributes, Readiness};
use setpoint_scheduler::core::cluster::quota::Limits;
use setpoint_scheduler::core::engine::{Answer, Engine, Options, Plan, Waiting};
use setpoint_scheduler::core::place::Search;
use setpoint_scheduler::core::policy::Version;
use setpoint_types::kinds::{PendingReason, PlacementPolicySpec, Preemption, Protocol, QuotaSpec};
use setpoint_types::quantity::{Amounts, Unit};
use setpoint_types::{Epoch, Generation, Revision, Timestamp, Uid};

type Output = Result<String, Box<dyn Error>>;

struct Script {
    engine: Engine,
    now: u64,
    revision: u64,
}

impl Default for Script {
    fn default() -> Self {
        let search = Search { explains: true, ..Search::default() };
        let options = Options { search, ..Options::default() };
        Self { engine: Engine::new(options, 7), now: 1000, revision: 1 }
    }
}

impl Runner for Script {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Output {
        let mut words = Vec::new();
        let mut named: BTreeMap<String, String> = BTreeMap::new();
        for argument in &command.args {
            match argument {
                Argument::Positional(value) => words.push(value.clone()),
                Argument::KeyValue(key, value) => drop(named.insert(key.clone(), value.clone())),
                other => return Err(format!("{other:?} is not understood").into()),
            }
        }
        self.revision += 1;
        match command.name.as_str() {
            "node" => self.node(&words[0], &named),
            "remove" => {
                self.engine.cluster_mut().remove_node(&words[0]);
                Ok(String::new())
            }
            "replica" => words.iter().map(|name| self.replica(name, &named)).collect(),
            "drop" => {
                words.iter().for_each(|name| self.engine.drop_replica(&full(name)));
                Ok(String::new())
            }
            "quota" => self.quota(&words, &named),
            "policy" => self.policy(&words),
            "class" => {
                let preemption = words.get(1).map(|it| match it.as_str() {
                    "never" => Preemption::Never,
                    _ => Preemption::LowerPriority,
                });
                self.engine.see_priority_class(&words[0], preemption);
                Ok(String::new())
            }
            "plan" => {
                self.engine.tick(self.now);
                let most = words.first().map_or(Ok(usize::MAX), |it| it.parse())?;
                Ok(self.print(self.now, most))
            }
            "bound" | "show" | "stopped" | "stay" => self.answered(&command.name, &words),
            "refused" => self.refused(&words),
            "pass" => {
                self.now += words[0].parse::<u64>()?;
                self.engine.tick(self.now);
                Ok(String::new())
            }
            "reports" => Ok(self.reports()),
            name => Err(format!("not understood: {name}").into()),
        }
    }
}

fn full(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("default/{name}") }
}

fn json<T: DeserializeOwned + Default>(
    named: &BTreeMap<String, String>,
    key: &str,
) -> Result<T, Box<dyn Error>> {
    Ok(named.get(key).map_or(Ok(T::default()), |text| serde_json::from_str(text))?)
}

fn amounts(named: &BTreeMap<String, String>) -> Result<Amounts, Box<dyn Error>> {
    let mut amounts = Amounts::default();
    for name in ["cpu", "memory", "storage", "gpu"] {
        if let Some(text) = named.get(name) {
            amounts.insert(name, Unit::of_dimension(name).parse(text)?);
        }
    }
    Ok(amounts)
}

impl Script {
    fn node(&mut self, name: &str, named: &BTreeMap<String, String>) -> Output {
        let is = named.get("is").map_or("", |it| it);
        let attributes = Attributes {
            uid: Uid::new(format!("uid-{name}")),
            epoch: Epoch(1),
            zone: named.get("zone").cloned().unwrap_or_else(|| "a".to_owned()),
            labels: json(named, "labels")?,
            taints: json(named, "taints")?,
            unschedulable: is == "cordoned",
            readiness: match is {
                "notready" => Readiness::NotReady,
                "unreachable" => Readiness::Unreachable,
                "pressure" => Readiness::DiskPressure,
                _ => Readiness::Ready,
            },
            runtimes: named.get("runtimes").into_iter().cloned().collect(),
        };
        let revision = Revision::new(self.revision);
        self.engine.cluster_mut().set_node(name, attributes, &amounts(named)?, revision);
        Ok(String::new())
    }

    fn replica(&mut self, name: &str, named: &BTreeMap<String, String>) -> Output {
        let workload = named
            .get("workload")
            .map(String::as_str)
            .unwrap_or_else(|| name.split('-').next().unwrap_or(name));
        let wants = Wants {
            namespace: full(name).split('/').next().unwrap_or_default().into(),
            workload: workload.into(),
            labels: std::sync::Arc::new(json(named, "labels")?),
            resources: amounts(named)?,
            ports: named
                .get("port")
                .map(|it| it.parse())
                .transpose()?
                .map(|it| (Protocol::Tcp, it))
                .into_iter()
                .collect(),
            placement: json(named, "placement")?,
            priority: named.get("priority").map_or(Ok(0), |it| it.parse())?,
            priority_class: named.get("class").cloned(),
            image: named.get("image").map(|it| it.as_str().into()),
        };
        let waiting = Waiting {
            uid: Uid::new(format!("uid-{name}")),
            generation: Generation::FIRST,
            wants,
            since: self.now,
            deadline: named.get("deadline").map(|it| it.parse()).transpose()?,
            shown: 0,
            attempts: 0,
        };
        self.engine.see_replica(&full(name), waiting, self.now);
        Ok(String::new())
    }

    fn quota(&mut self, words: &[String], named: &BTreeMap<String, String>) -> Output {
        let namespace = named.get("namespace").map_or("default", |it| it);
        let Some(text) = words.get(1) else {
            self.engine.cluster_mut().remove_quota(namespace, &words[0]);
            return Ok(String::new());
        };
        let spec: QuotaSpec = serde_json::from_str(text)?;
        let cluster = self.engine.cluster_mut();
        let mut zones = BTreeMap::new();
        for zone in &spec.zones {
            let domain = cluster.topologies_mut().zone(&zone.zone);
            zones.insert(domain, cluster.dimensions_mut().limits(&zone.limits));
        }
        let everywhere = cluster.dimensions_mut().limits(&spec.limits);
        let limits = Limits { everywhere, zones, revision: Revision::new(self.revision) };
        cluster.set_quota(namespace, &words[0], limits);
        Ok(String::new())
    }

    fn policy(&mut self, words: &[String]) -> Output {
        let version = match words.get(1) {
            None => None,
            Some(text) => {
                let spec: PlacementPolicySpec = serde_json::from_str(text)?;
                let created = Timestamp(self.revision);
                Some((Version { generation: Generation::FIRST, created, spec }, Revision::new(self.revision)))
            }
        };
        self.engine.see_policy(&words[0], version, self.now);
        Ok(String::new())
    }

    fn print(&mut self, now: u64, most: usize) -> String {
        let Plan { binds, evictions, notices } = self.engine.plan(now, most);
        let mut text = String::new();
        for bind in &binds {
            write!(text, "{} -> {}", bind.replica, bind.node).expect("text");
            if !bind.policy_version.is_empty() {
                write!(text, " by {}", bind.policy_version).expect("text");
            }
            for claim in &bind.spread {
                let (key, domain, skew) = (&claim.topology_key, &claim.domain, claim.max_skew);
                write!(text, ", {key}={domain} within {skew} of {:?}", claim.domains).expect("text");
            }
            text.push('\n');
        }
        for eviction in &evictions {
            writeln!(text, "{} leaves {} for {}", eviction.victim, eviction.node, eviction.workload)
                .expect("text");
        }
        for notice in &notices {
            let refusal = &notice.refusal;
            let (reason, outcome) = (refusal.reason, refusal.outcome);
            writeln!(
                text,
                "{} x{}: {outcome:?} {reason:?}: {}",
                notice.workload, notice.waiting, refusal.message
            )
            .expect("text");
            for filter in &refusal.filters {
                writeln!(text, "  {} {} {} {}", filter.filter, filter.zone, filter.nodes, filter.detail)
                    .expect("text");
            }
            for topology in &refusal.topology {
                writeln!(
                    text,
                    "  {} {:?} leaves {:?}",
                    topology.topology_key, topology.counts, topology.allowed
                )
                .expect("text");
            }
            let wakes: Vec<String> =
                notice.wakes.iter().map(|it| format!("{} {}", it.event, it.detail)).collect();
            writeln!(text, "  waits for: {}", wakes.join("; ")).expect("text");
        }
        if text.is_empty() { "nothing\n".to_owned() } else { text }
    }

    fn answered(&mut self, what: &str, words: &[String]) -> Output {
        for name in words {
            let key = full(name);
            let held = self.engine.cluster().bounds().held(&key).cloned();
            match what {
                "bound" => self.engine.answer(&key, Answer::Bound(Revision::new(self.revision)), self.now),
                "show" => self.engine.cluster_mut().see_binding(&key, held),
                "stay" => {
                    let held = held.map(|it| Held { is_going: false, ..it });
                    self.engine.cluster_mut().see_binding(&key, held);
                    self.engine.stayed(&key);
                }
                _ => self.engine.cluster_mut().see_binding(&key, None),
            }
        }
        Ok(String::new())
    }

    fn refused(&mut self, words: &[String]) -> Output {
        let reason: PendingReason = serde_json::from_str(&format!("{:?}", words[1]))?;
        let message = "the server says no".to_owned();
        let answer = Answer::Refused { reason, message, catch_up_to: Revision::NONE };
        self.engine.answer(&full(&words[0]), answer, self.now);
        Ok(String::new())
    }

    fn reports(&mut self) -> String {
        let reports = self.engine.take_reports(100);
        let line = |it: &setpoint_scheduler::core::engine::Report| {
            format!("{}: {:?} after {} attempts: {}\n", it.replica, it.reason, it.attempts, it.message)
        };
        if reports.is_empty() { "nothing\n".to_owned() } else { reports.iter().map(line).collect() }
    }
}

fn check(name: &str) {
    let path = format!("tests/script/scripts/{name}");
    goldenscript::run(&mut Script::default(), path).expect("the script says what happens");
}

macro_rules! scripts {
    ($($name:ident),* $(,)?) => { $(#[test] fn $name() { check(stringify!($name)); })* };
}

scripts!(
    affinity,
    balance,
    blocked,
    condition,
    deadline,
    gang,
    impossible,
    locality,
    nodes,
    policy,
    ports,
    preemption,
    preference,
    priority,
    priority_class,
    quota,
    refused,
    reports,
    resources,
    runtime,
    seats,
    seats_rules,
    seats_spare,
    seats_stay,
    selector,
    spread,
    strategy,
    taints,
    zone,
);
