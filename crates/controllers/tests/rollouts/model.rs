//! A workload with its sets in memory: the plan of the workload controller is carried out, and the rest of the world is numbers.

use setpoint_client::Typed;
use setpoint_controllers::workload::{Observed, plan};
use setpoint_types::kinds::{
    ReplicaCounts, ReplicaSet, ReplicaSetStatus, ReplicaTemplate, Rollout, RolloutPhase, RolloutStrategy,
    Workload, WorkloadSpec,
};
use setpoint_types::object::Condition;
use setpoint_types::quantity::CountOrPercent::Count;
use setpoint_types::{Generation, Revision, Timestamp, Uid};

pub struct Model {
    workload: Typed<Workload>,
    sets: Vec<Set>,
    now: u64,
    revision: u64,
}

/// A set, and what there really is of it.
struct Set {
    object: Typed<ReplicaSet>,
    ready: u32,
    starting: u32,
    stopping: u32,
}

impl Set {
    fn live(&self) -> u32 {
        self.ready + self.starting
    }
}

impl Model {
    pub fn new(replicas: u32, strategy: RolloutStrategy, surge: u32, unavailable: u32) -> Self {
        let rollout = Rollout {
            strategy,
            max_surge: Count(surge),
            max_unavailable: Count(unavailable),
            ..Rollout::default()
        };
        let spec = WorkloadSpec { replicas, template: template(0), rollout, ..WorkloadSpec::default() };
        let mut workload = Typed::<Workload>::new("web", spec).in_namespace("default");
        workload.metadata.uid = Uid::new("w");
        workload.metadata.generation = Generation(1);
        Self { workload, sets: Vec::new(), now: 1_000_000, revision: 10 }
    }

    /// One run of the workload controller, whose decisions are judged by what there really is.
    pub fn plan(&mut self) -> Result<(), String> {
        self.revision += 1;
        let sets = self.sets.iter().map(|set| set.object.clone()).collect();
        let observed = Observed { workload: self.workload.clone(), sets, now: Timestamp(self.now) };
        let plan = plan(&observed);
        self.judge(&plan)?;
        for change in &plan.change {
            let set = self.sets.iter_mut().find(|set| set.object.metadata.name == change.name);
            let object = &mut set.ok_or("a set that is not there is changed")?.object;
            object.spec.replicas = change.replicas;
            object.spec.workload_replicas = change.workload_replicas;
            object.spec.deadline = change.deadline;
            object.metadata.generation = Generation(object.metadata.generation.0 + 1);
        }
        self.sets.retain(|set| !plan.forget.contains(&set.object.metadata.name));
        if let Some(new) = plan.create {
            let mut object = Typed::<ReplicaSet>::new(new.name, new.spec).in_namespace("default");
            object.metadata.uid = Uid::new(format!("s{}", self.revision));
            object.metadata.generation = Generation(1);
            object.metadata.revision = Revision::new(self.revision);
            self.sets.push(Set { object, ready: 0, starting: 0, stopping: 0 });
        }
        self.workload.status = Some(plan.status);
        Ok(())
    }

    /// Whether a decision keeps the limits: no more new ones than there is room for, and no old ones gone that are needed.
    fn judge(&self, plan: &setpoint_controllers::workload::Plan) -> Result<(), String> {
        let spec = &self.workload.spec;
        let limits = setpoint_controllers::workload::Limits::of(&spec.rollout, spec.replicas);
        let target = |set: &Set| {
            let change = plan.change.iter().find(|change| change.name == set.object.metadata.name);
            change.map_or(set.object.spec.replicas, |change| change.replicas)
        };
        let in_use = |set: &&Set| set.object.spec.replicas > 0 || set.live() + set.stopping > 0;
        let is_rollout = self.sets.iter().filter(in_use).count() > 1;
        let grows = self.sets.iter().any(|set| target(set) > set.object.spec.replicas);
        let total: u32 = self.sets.iter().map(|set| target(set).max(set.live() + set.stopping)).sum();
        let before: u32 =
            self.sets.iter().map(|set| set.object.spec.replicas.max(set.live() + set.stopping)).sum();
        let is_unused = self.sets.iter().map(|set| set.object.spec.replicas).sum::<u32>() == 0;
        if grows && is_rollout && total > limits.most().max(before) && !is_unused {
            return Err(format!("{total} of at most {}: {:?}", limits.most(), plan.change));
        }
        let told = |set: &Set| set.object.status.as_ref().map_or(0, |it| it.replicas.available);
        let lasting = |set: &Set, count: u32| told(set).min(count);
        let was: u32 = self.sets.iter().map(|set| lasting(set, set.object.spec.replicas)).sum();
        let is: u32 = self.sets.iter().map(|set| lasting(set, target(set))).sum();
        let recreates = spec.rollout.strategy == RolloutStrategy::Recreate;
        if is < was && is < limits.least() && !recreates {
            return Err(format!("{is} of at least {} would be available: {:?}", limits.least(), plan.change));
        }
        Ok(())
    }

    /// One run of the replica controller.
    pub fn keep(&mut self, set: usize) {
        let now = self.now;
        let Some(set) = self.sets.get_mut(set) else { return };
        let wanted = set.object.spec.replicas;
        set.starting += wanted.saturating_sub(set.live());
        let surplus = set.live() - wanted;
        let unready = surplus.min(set.starting);
        set.starting -= unready;
        set.ready -= surplus - unready;
        set.stopping += surplus;
        let counts = ReplicaCounts {
            desired: wanted,
            admitted: set.live(),
            starting: set.starting,
            serving: set.ready,
            stopping: set.stopping,
            available: set.ready,
            ..ReplicaCounts::default()
        };
        let generation = set.object.metadata.generation;
        let repaired = Condition {
            kind: "Repaired".to_owned(),
            last_transition: Timestamp(now),
            ..Condition::default()
        };
        set.object.status = Some(ReplicaSetStatus {
            observed_generation: generation,
            replicas: counts,
            conditions: vec![repaired],
            ..ReplicaSetStatus::default()
        });
    }

    pub fn ready(&mut self, set: usize, count: u32) {
        let Some(set) = self.sets.get_mut(set) else { return };
        let count = count.min(set.starting);
        set.starting -= count;
        set.ready += count;
    }

    pub fn unready(&mut self, set: usize, count: u32) {
        let Some(set) = self.sets.get_mut(set) else { return };
        let count = count.min(set.ready);
        set.ready -= count;
        set.starting += count;
    }

    pub fn stopped(&mut self, set: usize) {
        if let Some(set) = self.sets.get_mut(set) {
            set.stopping = 0;
        }
    }

    pub fn pass(&mut self, seconds: u32) {
        self.now += u64::from(seconds) * 1000;
    }

    pub fn template(&mut self, number: u8) {
        self.change(|spec| spec.template = template(number));
    }

    pub fn replicas(&mut self, count: u32) {
        self.change(|spec| spec.replicas = count);
    }

    pub fn pause(&mut self, paused: bool) {
        self.change(|spec| spec.rollout.paused = paused);
    }

    fn change(&mut self, change: impl FnOnce(&mut WorkloadSpec)) {
        let before = self.workload.spec.clone();
        change(&mut self.workload.spec);
        if self.workload.spec != before {
            self.workload.metadata.generation = Generation(self.workload.metadata.generation.0 + 1);
        }
    }

    pub fn sets(&self) -> usize {
        self.sets.len()
    }

    pub fn wanted(&self) -> Vec<u32> {
        self.sets.iter().map(|set| set.object.spec.replicas).collect()
    }

    pub fn phase(&self) -> String {
        self.workload.status.as_ref().map_or_else(String::new, |status| format!("{:?}", status.rollout.phase))
    }

    /// All of one revision, as many as wanted: of the template, or of the last one that worked.
    pub fn check_settled(&self) -> Result<(), String> {
        let status = self.workload.status.clone().ok_or("nothing is told")?;
        let wanted = self.workload.spec.replicas;
        let used: Vec<&Set> = self.sets.iter().filter(|set| set.live() + set.stopping > 0).collect();
        let total: u32 = used.iter().map(|set| set.ready).sum();
        if total != wanted || used.len() > 1 {
            return Err(format!("{total} of {wanted} are ready, of {} revisions: {status:?}", used.len()));
        }
        let is_asked = used.iter().all(|set| set.object.spec.template == self.workload.spec.template);
        match status.rollout.phase {
            RolloutPhase::Complete if is_asked => Ok(()),
            RolloutPhase::RolledBack if status.rollout.failed_revision > 0 => Ok(()),
            phase => Err(format!("the rollout is {phase:?}: {:?}", status.rollout)),
        }
    }
}

fn template(number: u8) -> ReplicaTemplate {
    ReplicaTemplate { command: vec![format!("run-{number}")], ..ReplicaTemplate::default() }
}
