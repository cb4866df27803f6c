//! | command | does |
//! |---|---|
//! | `node NAME zone=Z` | a node whose agent is heard, with a lease of 40 s |
//! | `bind BINDING NODE [workload=W] [grace=S] [tolerate=KEY] [for=S]` | a replica that serves there |
//! | `workload NAME desired=N missing=N` | how many may be missing |
//! | `kill NODE`, `start NODE` | its agent is not heard any more; is heard again |
//! | `taint NODE KEY`, `untaint NODE KEY` | people set a taint that evicts, or take it off |
//! | `out NODE` | an administrator says that the node is gone |
//! | `drain NODE`, `undrain NODE` | |
//! | `gone NODE` | the Node object is deleted |
//! | `stop BINDING` | the agent stopped it, and it was released |
//! | `leader` | there is a new leader: every lease has its whole time again |
//! | `pass SECONDS` | looks at every node each second, and tells what changes |

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use goldenscript::{Command, Context, Runner};
use setpoint_client::Typed;
use setpoint_controllers::node_monitor::drain::Budget;
use setpoint_controllers::node_monitor::evidence::{Hold, LATE, LeaseSeen, Pulse};
use setpoint_controllers::node_monitor::fleet::{Fleet, Member, MemberState};
use setpoint_controllers::node_monitor::plan::{Change, Held, Observed, Plan, ReplicaSeen, plan, shown};
use setpoint_controllers::node_monitor::settings::NodeMonitorSettings;
use setpoint_controllers::node_monitor::{OUT_OF_SERVICE, UNREACHABLE};
use setpoint_types::kinds::{
    Binding, BindingSpec, BindingState, Node, NodeSpec, Taint, TaintEffect, Toleration,
};
use setpoint_types::object::{ConditionStatus, find_condition};
use setpoint_types::{Epoch, Revision, Timestamp, Uid};

const TTL: u64 = 40;
const START: u64 = 1_000_000_000;

struct Host {
    node: Option<Typed<Node>>,
    zone: String,
    alive: bool,
    /// Seconds, of the last keep-alive.
    heard: u64,
    ended: Option<u64>,
    epoch: u64,
}

#[derive(Default)]
pub struct Script {
    seconds: u64,
    hosts: BTreeMap<String, Host>,
    held: BTreeMap<String, Held>,
    budgets: BTreeMap<String, (u32, u32)>,
    log: Vec<String>,
}

impl Runner for Script {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Result<String, Box<dyn Error>> {
        let mut args = command.consume_args();
        let mut key = |name: &str| args.take_key(name).map(str::to_owned);
        let (zone, workload, tolerate) = (key("zone"), key("workload"), key("tolerate"));
        let number = |text: Option<String>| text.map(|text| text.parse::<u32>()).transpose();
        let (grace, borne, desired, missing) =
            (number(key("grace"))?, number(key("for"))?, number(key("desired"))?, number(key("missing"))?);
        let words: Vec<String> = std::iter::from_fn(|| args.next_pos().map(str::to_owned)).collect();
        args.reject_next()?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let log = self.log.len();
        match (command.name.as_str(), &words[..]) {
            ("node", [name]) => self.add(name, &zone.unwrap_or_default()),
            ("bind", [name, node]) => {
                let effect = Some(TaintEffect::NoExecute);
                let toleration = |key| Toleration { key, value: None, effect, seconds: borne };
                let replica = ReplicaSeen {
                    workload,
                    available: true,
                    unknown_grace: Duration::from_secs(grace.unwrap_or(60).into()),
                    tolerations: tolerate.map(toleration).into_iter().collect(),
                };
                self.bind(name, node, replica);
            }
            ("workload", [name]) => {
                let budget = (desired.unwrap_or(1), missing.unwrap_or(1));
                self.budgets.insert((*name).to_owned(), budget);
            }
            ("kill", [name]) => self.host(name)?.alive = false,
            ("start", [name]) => {
                let now = self.seconds;
                let host = self.host(name)?;
                (host.alive, host.heard) = (true, now);
                if host.ended.take().is_some() {
                    host.epoch += 1;
                }
            }
            ("taint", [name, taint]) => self.taint(name, taint, true)?,
            ("untaint", [name, taint]) => self.taint(name, taint, false)?,
            ("out", [name]) => self.taint(name, OUT_OF_SERVICE, true)?,
            ("drain", [name]) => self.node(name)?.spec.drain = true,
            ("undrain", [name]) => self.node(name)?.spec.drain = false,
            ("gone", [name]) => self.host(name)?.node = None,
            ("stop", [name]) => drop(self.held.remove(*name)),
            ("leader", []) => {
                let now = self.seconds;
                self.hosts.values_mut().filter(|host| host.ended.is_none()).for_each(|host| host.heard = now);
            }
            ("pass", [seconds]) => {
                for _ in 0..seconds.parse::<u64>()? {
                    self.tick();
                }
            }
            (name, _) => return Err(format!("not understood: {name} {words:?}").into()),
        }
        Ok(self.log[log..].iter().map(|line| format!("{line}\n")).collect())
    }
}

impl Script {
    fn host(&mut self, name: &str) -> Result<&mut Host, String> {
        self.hosts.get_mut(name).ok_or_else(|| format!("no node is called {name}"))
    }

    fn node(&mut self, name: &str) -> Result<&mut Typed<Node>, String> {
        self.host(name)?.node.as_mut().ok_or_else(|| format!("{name} is gone"))
    }

    fn now(&self) -> Timestamp {
        Timestamp(START + self.seconds * 1_000)
    }

    fn add(&mut self, name: &str, zone: &str) {
        let mut node = Typed::<Node>::new(name, NodeSpec { zone: zone.to_owned(), ..NodeSpec::default() });
        node.metadata.uid = Uid::new(name);
        let host = Host {
            node: Some(node),
            zone: zone.to_owned(),
            alive: true,
            heard: self.seconds,
            ended: None,
            epoch: 1,
        };
        self.hosts.insert(name.to_owned(), host);
    }

    fn bind(&mut self, name: &str, node: &str, replica: ReplicaSeen) {
        let spec = BindingSpec {
            replica: name.to_owned(),
            node: node.to_owned(),
            node_uid: Uid::new(node),
            ..BindingSpec::default()
        };
        let binding = Typed::<Binding>::new(name, spec).in_namespace("d");
        self.held.insert(name.to_owned(), Held { binding, replica: Some(replica) });
    }

    fn taint(&mut self, name: &str, key: &str, set: bool) -> Result<(), String> {
        let node = self.node(name)?;
        node.spec.taints.retain(|taint| taint.key != key);
        if set {
            let effect = TaintEffect::NoExecute;
            node.spec.taints.push(Taint { key: key.to_owned(), effect, ..Taint::default() });
        }
        Ok(())
    }

    /// A second passes: agents keep their leases every ten, the leader ends what ran out, and every node is looked at.
    fn tick(&mut self) {
        self.seconds += 1;
        let now = self.seconds;
        for host in self.hosts.values_mut() {
            if host.alive && now.is_multiple_of(10) {
                host.heard = now;
            }
            if host.ended.is_none() && now - host.heard >= TTL {
                host.ended = Some(now);
            }
        }
        let names: Vec<String> = self.hosts.keys().cloned().collect();
        for name in names {
            let first = plan(&self.observed(&name, false), &NodeMonitorSettings::default());
            let confirm = first.confirm;
            self.apply(&name, first);
            if confirm {
                let again = plan(&self.observed(&name, true), &NodeMonitorSettings::default());
                self.apply(&name, again);
            }
        }
    }

    fn observed(&self, name: &str, fresh: bool) -> Observed {
        let host = &self.hosts[name];
        let lease = match host.ended {
            Some(at) => Hold::Ended { at: Timestamp(START + at * 1_000) },
            None => Hold::Held { epoch: Epoch(host.epoch), ttl: Duration::from_secs(TTL) },
        };
        let remaining = Duration::from_secs((host.heard + TTL).saturating_sub(self.seconds));
        let pulse = Pulse { epoch: Epoch(host.epoch), remaining, age: Duration::ZERO };
        let here = self.held.values().filter(|held| held.binding.spec.node == name).cloned();
        let (held, ghosts): (Vec<Held>, Vec<Held>) = here.partition(|_| host.node.is_some());
        Observed {
            node: host.node.clone(),
            lease: LeaseSeen { hold: lease, revision: Revision::new(1) },
            pulse: host.ended.is_none().then_some(pulse),
            held,
            ghosts,
            turn: host
                .ended
                .map(|_| self.fleet().turn(&host.zone, name, self.now(), &NodeMonitorSettings::default())),
            budgets: self.budgets(),
            fresh,
            now: self.now(),
        }
    }

    fn budgets(&self) -> BTreeMap<String, Budget> {
        let budget = |(name, (desired, missing_max)): (&String, &(u32, u32))| {
            let own = |held: &&Held| held.replica.as_ref().and_then(|it| it.workload.as_ref()) == Some(name);
            let count =
                |state| self.held.values().filter(own).filter(|held| held.state() == state).count() as u32;
            let budget = Budget {
                desired: *desired,
                missing_max: *missing_max,
                available: count(BindingState::Bound),
                leaving: count(BindingState::ReleaseRequested),
            };
            (name.clone(), budget)
        };
        self.budgets.iter().map(budget).collect()
    }

    fn fleet(&self) -> Fleet {
        let member = |(name, host): (&String, &Host)| {
            let conditions = host.node.as_ref()?.status.as_ref()?.conditions.as_slice();
            let reachable = find_condition(conditions, "Reachable")?;
            let lost = find_condition(conditions, "Lost").filter(|it| it.status == ConditionStatus::True);
            let state = match (reachable.status, lost) {
                (ConditionStatus::True, _) => MemberState::Heard,
                (ConditionStatus::False, Some(lost)) => MemberState::GivenUp { at: lost.last_transition },
                (ConditionStatus::False, None) => MemberState::Silent { since: reachable.last_transition },
                (ConditionStatus::Unknown, _) if reachable.reason == LATE => MemberState::Late,
                (ConditionStatus::Unknown, _) => return None,
            };
            Some(Member { name: name.clone(), zone: host.zone.clone(), state })
        };
        Fleet::of(self.hosts.iter().filter_map(member))
    }

    fn tell(&mut self, line: String) {
        self.log.push(format!("{:>4} s  {line}", self.seconds));
    }

    fn apply(&mut self, name: &str, plan: Plan) {
        if let Some(value) = plan.taint {
            let mut said = format!("{name} is no longer tainted");
            if let Ok(node) = self.node(name) {
                node.spec.taints.retain(|taint| taint.key != UNREACHABLE);
                if let Some(value) = value {
                    said = format!("{name} is tainted: {value}");
                    let effect = TaintEffect::NoSchedule;
                    node.spec.taints.push(Taint { key: UNREACHABLE.to_owned(), value, effect, since: None });
                }
            }
            self.tell(said);
        }
        if let (Some(conditions), Ok(node)) = (plan.conditions, self.node(name)) {
            let before = node.status.clone().map(|status| status.conditions).unwrap_or_default();
            *node = shown(node, conditions.clone());
            for kind in ["Reachable", "Lost", "Evicting", "Drained"] {
                let told = |all: &[setpoint_types::object::Condition]| {
                    find_condition(all, kind).map_or_else(String::new, |it| {
                        let message =
                            if it.message.is_empty() { String::new() } else { format!(": {}", it.message) };
                        format!("{:?} {}{message}", it.status, it.reason)
                    })
                };
                let (was, is) = (told(&before), told(&conditions));
                if was != is {
                    self.tell(format!("{name} {kind} {is}"));
                }
            }
        }
        for Change { binding, status } in plan.by_lease.into_iter().chain(plan.by_node) {
            let grace = status.grace_until.map(|until| format!(", until {} s", (until.0 - START) / 1_000));
            let said = format!("{binding} {:?} {}{}", status.state, status.reason, grace.unwrap_or_default());
            self.tell(said);
            let name = binding.trim_start_matches("d/").to_owned();
            if let Some(held) = self.held.get_mut(&name) {
                held.binding.status = Some(status);
            }
        }
    }
}
