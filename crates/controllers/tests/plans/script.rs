//! The commands of the scripts.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;

use goldenscript::{ArgumentConsumer, Command, Context, Runner};
use setpoint_client::Typed;
use setpoint_controllers::facts::{BindingFacts, ReplicaFacts};
use setpoint_controllers::{batch, binding, replica};
use setpoint_types::kinds::{
    Batch, Binding, BindingSpec, BindingState, BindingStatus, Blocked, PendingReason, ReplicaCounts,
    ReplicaSet, ReplicaSetSpec, ReplicaTemplate, Stage, Workload, WorkloadSpec, WorkloadStatus,
};
use setpoint_types::object::Condition;
use setpoint_types::{Generation, Revision, Timestamp, Uid};

type Answer = Result<String, Box<dyn Error>>;

#[derive(Default)]
pub struct Script {
    set: Option<Typed<ReplicaSet>>,
    batch: Option<Typed<Workload>>,
    priority: Option<i32>,
    replicas: BTreeMap<String, ReplicaFacts>,
    bindings: BTreeMap<String, Typed<Binding>>,
}

fn seconds(text: Option<&str>) -> Result<Option<Timestamp>, Box<dyn Error>> {
    Ok(text.map(str::parse::<u64>).transpose()?.map(|seconds| Timestamp(seconds * 1000)))
}

/// A word as the enum's JSON has it.
fn word<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, Box<dyn Error>> {
    Ok(serde_json::from_value(serde_json::Value::String(text.to_owned()))?)
}

impl Runner for Script {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Answer {
        let mut args = command.consume_args();
        let answer = match command.name.as_str() {
            "set" => self.set(&mut args),
            "batch" => self.batch(&mut args),
            "replica" => self.replica(&mut args),
            "binding" => self.binding(&mut args),
            "gone" => {
                let name = args.next_pos().ok_or("a name")?.to_owned();
                self.replicas.remove(&name);
                self.bindings.remove(&name);
                Ok(String::new())
            }
            "plan" => self.plan(&mut args),
            "release" => self.release(&mut args),
            other => Err(format!("there is no command {other}").into()),
        }?;
        args.reject_next()?;
        Ok(answer)
    }
}

impl Script {
    fn set(&mut self, args: &mut ArgumentConsumer<'_>) -> Answer {
        let template = ReplicaTemplate {
            command: vec!["x".to_owned()],
            priority_class: Some("gold".to_owned()),
            ..ReplicaTemplate::default()
        };
        let spec = ReplicaSetSpec {
            workload: "web".to_owned(),
            revision: 1,
            replicas: args.next_pos().ok_or("how many")?.parse()?,
            template,
            min_ready_seconds: args.take_key("min_ready").map_or(Ok(0), str::parse)?,
            deadline: seconds(args.take_key("deadline"))?,
            ..ReplicaSetSpec::default()
        };
        self.priority = args.take_key("class").is_none().then_some(7);
        let mut set = Typed::<ReplicaSet>::new("web-1", spec).in_namespace("default");
        set.metadata.uid = Uid::new("set");
        set.metadata.generation = Generation(1);
        self.set = Some(set);
        self.batch = None;
        Ok(String::new())
    }

    fn batch(&mut self, args: &mut ArgumentConsumer<'_>) -> Answer {
        let mut number =
            || -> Result<u32, Box<dyn Error>> { Ok(args.next_pos().ok_or("a number")?.parse()?) };
        let mut batch = Batch {
            completions: number()?,
            parallelism: number()?,
            backoff_limit: number()?,
            ttl_seconds: None,
        };
        batch.ttl_seconds = args.take_key("ttl").map(str::parse).transpose()?;
        let spec = WorkloadSpec {
            deadline_seconds: args.take_key("deadline").map(str::parse).transpose()?,
            batch: Some(batch),
            ..WorkloadSpec::default()
        };
        let mut workload = Typed::<Workload>::new("sums", spec).in_namespace("default");
        workload.metadata.generation = Generation(1);
        self.priority = Some(0);
        self.batch = Some(workload);
        self.set = None;
        Ok(String::new())
    }

    fn replica(&mut self, args: &mut ArgumentConsumer<'_>) -> Answer {
        let name = args.next_pos().ok_or("a name")?.to_owned();
        let stage: Stage = word(args.next_pos().ok_or("a stage")?)?;
        let mut facts = ReplicaFacts {
            uid: Uid::new(format!("uid-{name}")),
            revision: Revision::new(5),
            created: seconds(args.take_key("created"))?.unwrap_or_default(),
            attempt: args.take_key("attempt").map_or(Ok(0), str::parse)?,
            completion_index: args.take_key("index").map(str::parse).transpose()?,
            replaces: args.take_key("replaces").map(str::to_owned),
            set: if self.set.is_some() { "web-1".to_owned() } else { String::new() },
            name: name.clone(),
            ..ReplicaFacts::default()
        };
        facts.status.stage = stage;
        facts.status.stages.ready = seconds(args.take_key("ready"))?;
        facts.status.stages.ended = seconds(args.take_key("ended"))?;
        if let Some(reason) = args.take_key("blocked") {
            let (reason, message) = (word::<PendingReason>(reason)?, "there is not enough".to_owned());
            facts.status.blocked = Some(Blocked { reason, message, ..Blocked::default() });
        }
        let place = |text: Option<&str>| text.unwrap_or("a").to_owned();
        let (zone, node) = (place(args.take_key("zone")), place(args.take_key("node")));
        while let Some(more) = args.next_pos() {
            match more {
                "going" => facts.is_going = true,
                "held" => facts.is_held = true,
                state => {
                    let status = BindingStatus { state: word(state)?, ..BindingStatus::default() };
                    let uid = Uid::new(format!("binding-{name}"));
                    let (zone, node) = (zone.clone(), node.clone());
                    facts.binding = Some(BindingFacts { name: name.clone(), uid, zone, node, status });
                }
            }
        }
        self.replicas.insert(name, facts);
        Ok(String::new())
    }

    fn binding(&mut self, args: &mut ArgumentConsumer<'_>) -> Answer {
        let name = args.next_pos().ok_or("a name")?.to_owned();
        let state: BindingState = word(args.next_pos().ok_or("a state")?)?;
        let spec = BindingSpec {
            replica: name.clone(),
            replica_uid: Uid::new(format!("uid-{name}")),
            node: "n1".to_owned(),
            ..BindingSpec::default()
        };
        let mut binding = Typed::<Binding>::new(&name, spec);
        binding.metadata.uid = Uid::new(format!("binding-{name}"));
        binding.status = Some(BindingStatus {
            state,
            since: seconds(args.take_key("since"))?.unwrap_or_default(),
            grace_until: seconds(args.take_key("grace"))?,
            stopped: seconds(args.take_key("stopped"))?,
            ..BindingStatus::default()
        });
        self.bindings.insert(name, binding);
        Ok(String::new())
    }

    fn plan(&mut self, args: &mut ArgumentConsumer<'_>) -> Answer {
        let now = seconds(args.take_key("now"))?.unwrap_or_default();
        let replicas = self.replicas.values().cloned().collect();
        if let Some(workload) = self.batch.clone() {
            let observed = batch::Observed { workload, replicas, priority: self.priority, now };
            return Ok(self.show_batch(batch::plan(&observed)));
        }
        let set = self.set.clone().ok_or("a set or a batch first")?;
        let observed =
            replica::Observed { set, replicas, taken: BTreeSet::new(), priority: self.priority, now };
        let plan = replica::plan(&observed);
        let mut text = String::new();
        for new in &plan.create {
            writeln!(text, "create {}", new.name)?;
        }
        for it in &plan.replace {
            let replaces = it.new.replaces.as_deref().unwrap_or("-");
            writeln!(
                text,
                "replace {} by {} (attempt {}, replaces {replaces})",
                it.lost, it.new.name, it.new.attempt
            )?;
        }
        for it in &plan.delete {
            writeln!(text, "delete {}{}", it.name, if it.unchanged { " if unchanged" } else { "" })?;
        }
        show(&mut text, &plan.status.replicas, &plan.status.conditions, plan.again_after);
        for it in &plan.status.pending_reasons {
            writeln!(text, "pending {:?} {}", it.reason, it.count)?;
        }
        Ok(text)
    }

    fn show_batch(&mut self, plan: batch::Plan) -> String {
        let mut text = String::new();
        for new in &plan.create {
            let replaces = new.replaces.as_deref().map_or_else(String::new, |it| format!(" replaces {it}"));
            text.push_str(&format!("create {}{replaces}\n", new.name));
        }
        plan.delete.iter().for_each(|name| text.push_str(&format!("delete {name}\n")));
        if plan.expire {
            text.push_str("expire\n");
        }
        let WorkloadStatus { replicas, conditions, failures, .. } = &plan.status;
        show(&mut text, replicas, conditions, plan.again_after);
        for it in failures {
            let counted = if it.counted { "" } else { " (not counted)" };
            text.push_str(&format!("failures {} {}{counted}\n", it.reason, it.count));
        }
        if let Some(workload) = &mut self.batch {
            workload.status = Some(plan.status);
        }
        text
    }

    fn release(&mut self, args: &mut ArgumentConsumer<'_>) -> Answer {
        let name = args.next_pos().ok_or("a name")?;
        let now = seconds(args.take_key("now"))?.unwrap_or_default();
        let is_confirmed = args.next_pos() == Some("confirmed");
        let (binding, replica) = (self.bindings.get(name).cloned(), self.replicas.get(name).cloned());
        let observed = binding::Observed { binding, replica, is_confirmed, now };
        let plan = binding::plan(&observed);
        let mut text = match plan.step {
            binding::Step::Nothing => "nothing\n".to_owned(),
            binding::Step::Release => "release\n".to_owned(),
            binding::Step::FreeReplica { finalizer } => format!("free the replica of {finalizer}\n"),
            binding::Step::RequestRelease { status } => {
                let (state, reason, by) = (status.state, status.reason, status.replacement);
                let by = if by.is_empty() { "-".to_owned() } else { by };
                format!("{state:?} {reason} replacement={by} evidence={}\n", status.evidence.len())
            }
        };
        if let Some(after) = plan.again_after {
            writeln!(text, "again after {after:?}")?;
        }
        Ok(text)
    }
}

fn show(
    text: &mut String,
    counts: &ReplicaCounts,
    conditions: &[Condition],
    again: Option<std::time::Duration>,
) {
    let counts = serde_json::to_value(counts).unwrap_or_default();
    let counts = counts.as_object().into_iter().flatten().filter(|(_, count)| count.as_u64() != Some(0));
    let counts: Vec<String> = counts.map(|(name, count)| format!("{name}={count}")).collect();
    text.push_str(&format!("counts {}\n", counts.join(" ")));
    for it in conditions {
        let message = if it.message.is_empty() { String::new() } else { format!(": {}", it.message) };
        text.push_str(&format!("{}={:?} {}{message}\n", it.kind, it.status, it.reason));
    }
    if let Some(again) = again {
        text.push_str(&format!("again after {again:?}\n"));
    }
}
