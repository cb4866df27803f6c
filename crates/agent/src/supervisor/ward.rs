//! A replica in the agent's care: its record, its life, and what the server knows of it.

use std::path::PathBuf;
use std::time::Duration;

use setpoint_types::Uid;
use setpoint_types::kinds::{Probe, ReplicaTemplate};
use setpoint_types::quantity::Amounts;

use crate::lifecycle::{Effect, Grant, Life, ProbeKind, Report};
use crate::machine::BootTime;
use crate::node::hold::Held;
use crate::ports;
use crate::record::Record;
use crate::runtime::process::cgroup::Limits;
use crate::runtime::{RunId, Task};

/// Where a process of the host finds programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// One replica.
pub struct Ward {
    pub record: Record,
    pub life: Life,
    /// What was told to the server last, as far as it was told.
    pub told: Told,
    pub push: Push,
    /// The server is being asked whether its binding is really gone.
    pub confirming: bool,
    /// What is to be done once the record is written, which failed.
    pub unwritten: Vec<Effect>,
    /// Nothing is reserved for it any more; nothing has to be told.
    pub given_back: bool,
    /// It never ran here: there is no record of it on disk.
    pub refused: bool,
}

/// What the server was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub report: Option<Report>,
    pub accepted: bool,
    pub released: bool,
}

/// Whether the server is being told something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    Idle,
    UnderWay,
    /// It failed, and is tried again then.
    Retry(BootTime),
}

impl Ward {
    pub fn new(record: Record, life: Life) -> Self {
        Self {
            record,
            life,
            told: Told::default(),
            push: Push::Idle,
            confirming: false,
            unwritten: Vec::new(),
            given_back: false,
            refused: false,
        }
    }

    pub fn uid(&self) -> &Uid {
        &self.record.uid
    }

    /// What the server should know, if it does not.
    pub fn news(&self) -> Option<Told> {
        if self.told.released {
            return None;
        }
        let wanted = Told {
            // Of what never ran here there is nothing to say.
            report: (!self.refused).then(|| self.life.report()),
            // Asked for with the first effect; known since then.
            accepted: !self.refused,
            released: self.life.is_over(),
        };
        (wanted != self.told).then_some(wanted)
    }

    /// How long it may be there, given the lease that is held now. Without one nothing new is known.
    pub fn grant(&self, held: &Held) -> Grant {
        grant(&self.record, held)
    }

    pub fn run_id(&self, number: u32) -> RunId {
        RunId { replica: self.record.uid.clone(), number }
    }

    pub fn probe(&self, kind: ProbeKind) -> Option<Probe> {
        let template = &self.record.spec.template;
        match kind {
            ProbeKind::Startup => template.startup_probe.clone(),
            ProbeKind::Liveness => template.liveness_probe.clone(),
            ProbeKind::Readiness => template.readiness_probe.clone(),
        }
    }

    /// What to run, of this number.
    pub fn task(&self, number: u32, node: &str, folder: PathBuf, pids: Option<u64>) -> Task {
        let Record { namespace, name, spec, endpoints, .. } = &self.record;
        let template = &spec.template;
        let own = |name: &str, value: &str| (format!("SETPOINT_{name}"), value.to_owned());
        let mut env = vec![
            own("NAMESPACE", namespace),
            own("REPLICA", name),
            own("WORKLOAD", &spec.workload),
            own("NODE", node),
        ];
        // An image says by itself where its programs are.
        if template.image.is_none() {
            env.push(("PATH".to_owned(), PATH.to_owned()));
        }
        if let Some(index) = spec.completion_index {
            env.push(own("COMPLETION_INDEX", &index.to_string()));
        }
        env.extend(ports::variables(endpoints));
        // Last, so that a template has the last word.
        env.extend(template.env.iter().map(|it| (it.name.clone(), it.value.clone())));
        let grace = Duration::from_secs(template.termination_grace_seconds.into());
        Task {
            run: self.run_id(number),
            name: format!("{namespace}/{name}"),
            image: template.image.clone(),
            command: template.command.clone(),
            args: template.args.clone(),
            env,
            working_dir: template.working_dir.clone(),
            folder,
            limits: limits(template, pids),
            endpoints: endpoints.clone(),
            fence_grace: self.life.rules().exclusive.then_some(grace),
        }
    }
}

/// How long a replica may be there, given a lease.
pub fn grant(record: &Record, held: &Held) -> Grant {
    match record.node_epoch == held.fence.epoch {
        true => Grant::Until(held.until),
        false => Grant::Lost,
    }
}

/// Memory is limited to what is reserved if nothing else is said; processors are not.
fn limits(template: &ReplicaTemplate, pids: Option<u64>) -> Limits {
    let of = |amounts: &Amounts, dimension: &str| {
        amounts.get(dimension).and_then(|amount| u64::try_from(amount).ok()).filter(|amount| *amount > 0)
    };
    Limits {
        memory_bytes: of(&template.limits, "memory").or_else(|| of(&template.resources, "memory")),
        cpu_milli: of(&template.limits, "cpu"),
        cpu_reserved_milli: of(&template.resources, "cpu"),
        pids,
    }
}
