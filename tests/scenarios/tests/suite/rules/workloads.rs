//! What holds at every revision, checked against all that is in the store.

use setpoint_client::Typed;
use setpoint_controllers::facts::{Life, ReplicaFacts};
use setpoint_controllers::workload::Limits;
use setpoint_testkit::{Change, Moment, State};
use setpoint_types::kinds::{Binding, Replica, ReplicaSet, Stage, Workload};
use setpoint_types::object::Object;

/// Who writes for the controllers, in all their lives.
pub fn is_controllers(change: &Change) -> bool {
    let who = change.author.principal.as_str();
    who == "user:controller" || who.starts_with("user:standby")
}

fn facts(replica: &Typed<Replica>, binding: Option<Typed<Binding>>) -> ReplicaFacts {
    let metadata = &replica.metadata;
    let facts = ReplicaFacts {
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        is_going: metadata.is_terminating(),
        set: replica.spec.replica_set.clone(),
        status: replica.status.clone().unwrap_or_default(),
        ..ReplicaFacts::default()
    };
    facts.with_binding(binding)
}

/// Every replica of a workload with where it is in its life.
pub fn lives(state: &State, workload: &str) -> Vec<(Life, ReplicaFacts)> {
    let mut all = Vec::new();
    for replica in state.all::<Replica>().into_iter().filter(|it| it.spec.workload == workload) {
        let binding = state.one::<Binding>(&replica.metadata.namespace, &replica.metadata.name);
        let facts = facts(&replica, binding);
        let now = setpoint_types::Timestamp(u64::MAX);
        all.push((facts.life(0, now), facts));
    }
    all
}

/// K1: no write of a controller makes more replicas than may be, or takes one that has to be available.
pub fn limits_hold(moment: &Moment) -> Result<(), String> {
    for change in moment.changes.iter().filter(|it| is_controllers(it) && it.key.kind == "Replica") {
        let object = change.after.as_ref().or(change.before.as_ref());
        let name = object.and_then(|it| it.spec["workload"].as_str()).unwrap_or_default();
        let Some(workload) = moment.state.one::<Workload>("default", name) else { continue };
        let limits = Limits::of(&workload.spec.rollout, workload.spec.replicas);
        let lives = lives(&moment.state, name);
        let is_going = |object: &Object| object.metadata.deleted.is_some();
        let begins = change.before.is_none();
        let goes = change.after.as_ref().is_none_or(|it| is_going(it));
        let mut sets: Vec<&str> = lives.iter().map(|(_, it)| it.set.as_str()).collect();
        sets.sort_unstable();
        sets.dedup();
        let there = lives.iter().filter(|(life, _)| !matches!(life, Life::Lost | Life::Ended)).count();
        if begins && sets.len() > 1 && there > limits.most() as usize {
            return Err(format!("{name} has {there} replicas, of at most {}", limits.most()));
        }
        let was_available = change.before.as_ref().is_some_and(|it| {
            let stage: Stage = it
                .status
                .get("stage")
                .and_then(|it| serde_json::from_value(it.clone()).ok())
                .unwrap_or_default();
            !is_going(it) && matches!(stage, Stage::Ready | Stage::Serving)
        });
        let available = lives.iter().filter(|(life, _)| *life == Life::Available).count();
        let is_lost = moment.state.one::<Binding>("default", &change.key.name).is_some_and(|it| {
            it.status.is_some_and(|status| status.state != setpoint_types::kinds::BindingState::Bound)
        });
        if goes && was_available && !is_lost && available < limits.least() as usize {
            return Err(format!("{name} has {available} available, of at least {}", limits.least()));
        }
    }
    Ok(())
}

/// One live replacement for a loss, and none before the node was given back.
pub fn one_replacement(moment: &Moment) -> Result<(), String> {
    let replicas = moment.state.all::<Replica>();
    for change in moment.changes.iter().filter(|it| it.key.kind == "Replica" && it.before.is_none()) {
        let Some(made) = moment.state.one::<Replica>(&change.key.namespace, &change.key.name) else {
            continue;
        };
        let Some(lost) = &made.spec.replaces else { continue };
        let same = replicas.iter().filter(|it| it.spec.replaces.as_ref() == Some(lost)).count();
        if same > 1 {
            return Err(format!("{same} replicas replace {lost}"));
        }
        let binding = moment.state.one::<Binding>(&change.key.namespace, lost);
        let state = binding.map(|it| it.status.unwrap_or_default().state);
        if state.is_some_and(|state| state != setpoint_types::kinds::BindingState::Released) {
            return Err(format!("{} was made while {lost} is {state:?}", change.key.name));
        }
    }
    Ok(())
}

/// K4: nobody tells of a generation that there is not.
pub fn generations_are_true(moment: &Moment) -> Result<(), String> {
    for change in &moment.changes {
        let Some(object) = &change.after else { continue };
        let told = object.status["observedGeneration"].as_u64().unwrap_or(0);
        if told > object.metadata.generation.0 {
            return Err(format!(
                "{} tells of generation {told}, of {}",
                change.key, object.metadata.generation.0
            ));
        }
    }
    Ok(())
}

/// The workload's replicas are of the set that its template asks for, all of them serve, and nothing else is left of it.
pub fn serves(state: &State, name: &str) -> Result<(), String> {
    let Some(workload) = state.one::<Workload>("default", name) else { return Ok(()) };
    let lives = lives(state, name);
    let wanted = workload.spec.replicas as usize;
    let sets: Vec<Typed<ReplicaSet>> = state.all::<ReplicaSet>();
    let set =
        sets.iter().find(|set| set.spec.workload == name && set.spec.template == workload.spec.template);
    let Some(set) = set else { return Err(format!("{name} has no set for its template")) };
    let good =
        lives.iter().filter(|(life, it)| *life == Life::Available && it.set == set.metadata.name).count();
    if good != wanted || lives.len() != wanted {
        let shown: Vec<String> = lives.iter().map(|(life, it)| format!("{} {life:?}", it.name)).collect();
        return Err(format!("{good} of {wanted} of {} serve: {shown:?}", set.metadata.name));
    }
    let status = workload.status.unwrap_or_default();
    if status.observed_generation != workload.metadata.generation
        || status.replicas.available as usize != wanted
    {
        return Err(format!("{name} says {:?}", status.replicas));
    }
    Ok(())
}
