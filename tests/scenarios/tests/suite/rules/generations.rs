//! F10: what a status tells of exists and does not go back; a generation moves with the spec and with nothing else.

use setpoint_testkit::{Change, Entry, State};
use setpoint_types::object::Object;

use super::Rule;

#[derive(Default)]
pub struct Generations;

impl Rule for Generations {
    fn name(&self) -> &'static str {
        "F10: observed generations"
    }

    fn see(&mut self, entry: &Entry, _: &State) -> Result<(), String> {
        entry
            .changes
            .iter()
            .try_for_each(|change| see(change).map_err(|why| format!("{}: {why}", change.key)))
    }
}

fn told(object: &Object) -> u64 {
    object.status["observedGeneration"].as_u64().unwrap_or(0)
}

fn see(change: &Change) -> Result<(), String> {
    let Some(after) = &change.after else { return Ok(()) };
    let generation = after.metadata.generation.0;
    if told(after) > generation {
        return Err(format!("it tells of generation {}, of {generation}", told(after)));
    }
    for condition in conditions(after) {
        if condition["observedGeneration"].as_u64().unwrap_or(0) > generation {
            return Err(format!("a condition tells of more than generation {generation}: {condition}"));
        }
    }
    let Some(before) = change.before.as_ref().filter(|it| it.metadata.uid == after.metadata.uid) else {
        return Ok(());
    };
    if told(after) < told(before) {
        return Err(format!("it told of generation {}, and now of {}", told(before), told(after)));
    }
    let begins_to_go = before.metadata.deleted.is_none() && after.metadata.deleted.is_some();
    let moved = u64::from(before.spec != after.spec || begins_to_go);
    if generation != before.metadata.generation.0 + moved {
        return Err(format!("generation {} became {generation}", before.metadata.generation.0));
    }
    for condition in conditions(after) {
        let earlier = conditions(before).find(|it| it["type"] == condition["type"]);
        let time = |it: &serde_json::Value| it["lastTransitionMs"].as_u64().unwrap_or(0);
        if earlier.is_some_and(|it| time(it) > time(condition)) {
            return Err(format!("a condition changed earlier than it had: {condition}"));
        }
    }
    Ok(())
}

fn conditions(object: &Object) -> impl Iterator<Item = &serde_json::Value> {
    object.status["conditions"].as_array().into_iter().flatten()
}
