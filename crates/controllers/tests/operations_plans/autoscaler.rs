//! | command | does |
//! |---|---|
//! | `spec min=N max=N [step=P] [period=S] [down-window=S]` | of the autoscaler; a queue of 10 per replica is right |
//! | `queue N`, `queue missing` | what is reported; that nothing is |
//! | `pending N REASON revision=R` | what so many replicas wait for, as it was found at a revision; `pending 0` |
//! | `quota changes=R` | the last revision at which the quota changed |
//! | `set N by=WHO` | somebody else decides the number; `release`: nobody else does any more |
//! | `pass SECONDS` | looks every 15 s, and tells what changes |

use std::error::Error;

use goldenscript::{Command, Context, Runner};
use setpoint_client::Typed;
use setpoint_controllers::autoscaler::hold::{Dependencies, Waiting};
use setpoint_controllers::autoscaler::plan::{Observed, Plan, Target, plan};
use setpoint_controllers::autoscaler::proposal::Measured;
use setpoint_controllers::autoscaler::report::Sample;
use setpoint_types::kinds::{
    Autoscaler, AutoscalerSpec, Metric, MetricType, PendingCount, PendingReason, ScaleBehaviour, ScaleRule,
};
use setpoint_types::object::find_condition;
use setpoint_types::quantity::CountOrPercent;
use setpoint_types::{Generation, Revision, Timestamp};

const START: u64 = 1_000_000_000;

pub struct Script {
    seconds: u64,
    autoscaler: Typed<Autoscaler>,
    replicas: u32,
    generation: u64,
    decided_by: Option<String>,
    queue: Option<i64>,
    reasons: Vec<PendingCount>,
    quota: u64,
    last: String,
    log: Vec<String>,
}

impl Default for Script {
    fn default() -> Self {
        let metric = Metric {
            name: "queue".to_owned(),
            kind: MetricType::Total,
            target: "10".to_owned(),
            max_age_seconds: 60,
        };
        let spec = AutoscalerSpec {
            min_replicas: 1,
            max_replicas: 10,
            metrics: vec![metric],
            tolerance_percent: 10,
            ..AutoscalerSpec::default()
        };
        Self {
            seconds: 0,
            autoscaler: Typed::new("web", spec),
            replicas: 1,
            generation: 1,
            decided_by: None,
            queue: None,
            reasons: Vec::new(),
            quota: 1,
            last: String::new(),
            log: Vec::new(),
        }
    }
}

impl Runner for Script {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Result<String, Box<dyn Error>> {
        let mut args = command.consume_args();
        let mut key = |name: &str| args.take_key(name).map(str::to_owned);
        let number = |text: Option<String>| text.map(|text| text.parse::<u32>()).transpose();
        let (min, max, step) = (number(key("min"))?, number(key("max"))?, number(key("step"))?);
        let (period, window) = (number(key("period"))?, number(key("down-window"))?);
        let (revision, changes, by) = (number(key("revision"))?, number(key("changes"))?, key("by"));
        let words: Vec<String> = std::iter::from_fn(|| args.next_pos().map(str::to_owned)).collect();
        args.reject_next()?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let log = self.log.len();
        match (command.name.as_str(), &words[..]) {
            ("spec", []) => {
                let spec = &mut self.autoscaler.spec;
                spec.min_replicas = min.unwrap_or(spec.min_replicas);
                spec.max_replicas = max.unwrap_or(spec.max_replicas);
                let rule = ScaleRule {
                    max_step: CountOrPercent::Percent(step.unwrap_or(100)),
                    min_step: step.map(|_| 1),
                    period_seconds: period.unwrap_or(15),
                    ..ScaleRule::default()
                };
                let down = ScaleRule { stabilization_seconds: window, ..rule.clone() };
                spec.behaviour = ScaleBehaviour { up: rule, down };
            }
            ("queue", ["missing"]) => self.queue = None,
            ("queue", [length]) => self.queue = Some(length.parse()?),
            ("pending", ["0"]) => self.reasons.clear(),
            ("pending", [count, reason]) => {
                self.reasons = vec![PendingCount {
                    count: count.parse()?,
                    reason: serde_json::from_value::<PendingReason>((*reason).into())?,
                    revision: Revision::new(revision.unwrap_or(0).into()),
                    ..PendingCount::default()
                }];
            }
            ("quota", []) => self.quota = changes.unwrap_or(0).into(),
            ("set", [count]) => {
                self.replicas = count.parse()?;
                self.generation += 1;
                self.decided_by = by;
            }
            ("release", []) => self.decided_by = None,
            ("pass", [seconds]) => {
                for _ in 0..seconds.parse::<u64>()? {
                    self.seconds += 1;
                    if self.seconds.is_multiple_of(15) {
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
    fn look(&mut self) {
        let now = Timestamp(START + self.seconds * 1_000);
        let waits: u32 = self.reasons.iter().map(|it| it.count).sum();
        let measured = match self.queue {
            Some(length) => Measured::Whole(Sample { value: length * 1_000, time: now }),
            None => Measured::Missing("not reported"),
        };
        let observed = Observed {
            autoscaler: self.autoscaler.clone(),
            target: Some(Target {
                replicas: self.replicas,
                present: self.replicas,
                serving: self.replicas.saturating_sub(waits),
                waiting: Waiting {
                    generation: Generation(self.generation),
                    observed_generation: Some(Generation(self.generation)),
                    reasons: self.reasons.clone(),
                },
                decided_by: self.decided_by.clone(),
                ..Target::default()
            }),
            measured: vec![measured],
            depends: Dependencies { quotas: Revision::new(self.quota), policies: Revision::NONE },
            now,
        };
        let Plan { scale, status, .. } = plan(&observed);
        let told = |kind: &str| {
            let it = find_condition(&status.conditions, kind).expect("the condition");
            let message = if it.message.is_empty() { String::new() } else { format!(" ({})", it.message) };
            format!("{kind}={:?} {}{message}", it.status, it.reason)
        };
        let shown = format!("{}, {}", told("Active"), told("Limited"));
        if let Some(scale) = &scale {
            assert_eq!(scale.from, self.replicas, "a change begins with the number there is");
            self.log.push(format!("{:>4} s  {} -> {}", self.seconds, scale.from, scale.to));
            self.replicas = scale.to;
            self.generation += 1;
        }
        if shown != self.last {
            self.log.push(format!(
                "{:>4} s  {} of {}: {shown}",
                self.seconds, status.desired, status.recommended
            ));
            self.last = shown;
        }
        self.autoscaler.status = Some(status);
    }
}
