//! | command | does |
//! |---|---|
//! | `version NAME weight=N [step=N] [interval=S] [manual]` | a version that is active; the newest is the one that is looked at |
//! | `saw Node=R PlacementPolicy=R [age=S]` | what the scheduler has said; `nobody`: it is not there |
//! | `replicas N pending=N undetermined=N rest=N rest-pending=N` | how the replicas of the version fare, and the rest |
//! | `pass SECONDS` | looks at every version each 5 s, and tells what changes |

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use goldenscript::{Command, Context, Runner};
use setpoint_client::Typed;
use setpoint_controllers::policy_rollout::census::{Census, Share};
use setpoint_controllers::policy_rollout::gate::{Component, Witness};
use setpoint_controllers::policy_rollout::plan::{Observed, plan, stepped};
use setpoint_types::kinds::{Activation, PlacementPolicy, PlacementPolicySpec, PolicyGate};
use setpoint_types::object::find_condition;
use setpoint_types::{Generation, Revision, Timestamp};

const START: u64 = 1_000_000_000;

#[derive(Default)]
pub struct Script {
    seconds: u64,
    revision: u64,
    versions: BTreeMap<String, Typed<PlacementPolicy>>,
    saw: Option<(BTreeMap<String, Revision>, u64)>,
    census: Census,
    shown: BTreeMap<String, String>,
    log: Vec<String>,
}

impl Runner for Script {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Result<String, Box<dyn Error>> {
        let mut args = command.consume_args();
        let mut key = |name: &str| args.take_key(name).map(|text| text.parse::<u64>()).transpose();
        let (weight, step, interval, age) = (key("weight")?, key("step")?, key("interval")?, key("age")?);
        let (nodes, policies) = (key("Node")?, key("PlacementPolicy")?);
        let (pending, undetermined) = (key("pending")?, key("undetermined")?);
        let (rest, rest_pending) = (key("rest")?, key("rest-pending")?);
        let words: Vec<String> = std::iter::from_fn(|| args.next_pos().map(str::to_owned)).collect();
        args.reject_next()?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let log = self.log.len();
        match (command.name.as_str(), &words[..]) {
            ("version", [name, rest @ ..]) => {
                let gate = PolicyGate {
                    step: u32::try_from(step.unwrap_or(0))?,
                    interval_seconds: u32::try_from(interval.unwrap_or(60))?,
                    required_components: vec!["scheduler".to_owned()],
                    auto_rollback: rest.is_empty(),
                    ..PolicyGate::default()
                };
                self.add(name, u32::try_from(weight.unwrap_or(100))?, gate);
            }
            ("saw", []) => {
                let revision = |it: Option<u64>| Revision::new(it.unwrap_or(0));
                let saw = [
                    ("Node".to_owned(), revision(nodes)),
                    ("PlacementPolicy".to_owned(), revision(policies)),
                ];
                self.saw = Some((saw.into(), age.unwrap_or(1)));
            }
            ("nobody", []) => self.saw = None,
            ("replicas", [total]) => {
                let (ours, none) = (total.parse()?, 0);
                self.census.ours = Share {
                    total: ours,
                    pending: pending.unwrap_or(none),
                    undetermined: undetermined.unwrap_or(none),
                };
                self.census.rest = Share {
                    total: rest.unwrap_or(none),
                    pending: rest_pending.unwrap_or(none),
                    undetermined: 0,
                };
            }
            ("pass", [seconds]) => {
                for _ in 0..seconds.parse::<u64>()? {
                    self.seconds += 1;
                    if self.seconds.is_multiple_of(5) {
                        self.look();
                    }
                }
            }
            (name, _) => return Err(format!("not understood: {name} {words:?}").into()),
        }
        Ok(self.log[log..].iter().map(|line| format!("{line}\n")).collect())
    }
}

impl Script {
    fn add(&mut self, name: &str, weight: u32, gate: PolicyGate) {
        let spec = PlacementPolicySpec {
            policy: "risk".to_owned(),
            version: name.to_owned(),
            weight,
            activation: Activation::Active,
            gate,
            ..PlacementPolicySpec::default()
        };
        let mut policy = Typed::<PlacementPolicy>::new(name, spec);
        policy.metadata.created = Timestamp(START + self.seconds * 1_000 + self.versions.len() as u64);
        self.write(policy, true);
        self.log.push(format!("{name} is at revision {}", self.revision));
    }

    fn write(&mut self, mut policy: Typed<PlacementPolicy>, is_spec: bool) {
        self.revision += 10;
        policy.metadata.revision = Revision::new(self.revision);
        if is_spec {
            policy.metadata.generation = Generation(policy.metadata.generation.0 + 1);
        }
        self.versions.insert(policy.metadata.name.clone(), policy);
    }

    fn observed(&self, policy: &Typed<PlacementPolicy>) -> Observed {
        let witness = |(saw, age): &(BTreeMap<String, Revision>, u64)| Witness {
            lease: "scheduler.shard-0-of-1".to_owned(),
            slowest: saw.iter().min_by_key(|it| it.1).map(|(kind, revision)| (kind.clone(), *revision)),
            age: Some(Duration::from_secs(*age)),
        };
        let witnesses = self.saw.iter().map(witness).collect();
        Observed {
            policy: policy.clone(),
            others: self
                .versions
                .values()
                .filter(|it| it.metadata.name != policy.metadata.name)
                .cloned()
                .collect(),
            components: vec![Component { name: "scheduler".to_owned(), witnesses }],
            census: self.census,
            placed: 0,
            own: Revision::new(self.revision),
            now: Timestamp(START + self.seconds * 1_000),
        }
    }

    fn look(&mut self) {
        let names: Vec<String> = self.versions.keys().cloned().collect();
        for name in names {
            let policy = self.versions[&name].clone();
            let observed = self.observed(&policy);
            let plan = plan(&observed, Duration::from_secs(5));
            if policy.status.as_ref() != Some(&plan.status) {
                self.write(Typed { status: Some(plan.status.clone()), ..policy }, false);
            }
            self.tell(&name);
            if let Some((policy, others)) = stepped(&observed, &plan.step) {
                self.write(Typed { status: Some(plan.status), ..policy }, true);
                let also: String = others
                    .iter()
                    .map(|it| format!(", and {} {:?}", it.metadata.name, it.spec.activation))
                    .collect();
                for other in others {
                    if other.spec != self.versions[&other.metadata.name].spec {
                        self.write(other, true);
                    }
                }
                let spec = &self.versions[&name].spec;
                self.log.push(format!(
                    "{:>4} s  {name} has weight {} and is {:?}{}, at revision {}",
                    self.seconds, spec.weight, spec.activation, also, self.revision
                ));
            }
        }
    }

    fn tell(&mut self, name: &str) {
        let conditions =
            self.versions[name].status.as_ref().map(|it| it.conditions.clone()).unwrap_or_default();
        let told = |kind: &str| {
            let it = find_condition(&conditions, kind)?;
            let message = if it.message.is_empty() { String::new() } else { format!(" ({})", it.message) };
            Some(format!("{kind}={:?} {}{message}", it.status, it.reason))
        };
        let told: Vec<String> = ["Gate", "Complete", "RolledBack"].into_iter().filter_map(told).collect();
        let told = told.join(", ");
        if self.shown.get(name) != Some(&told) {
            self.log.push(format!("{:>4} s  {name}: {told}", self.seconds));
            self.shown.insert(name.to_owned(), told);
        }
    }
}
