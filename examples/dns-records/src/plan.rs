//! What is to be done about one record: pure, from what there is inside and outside.

use serde::Serialize;
use setpoint_client::Typed;
use setpoint_runtime::conditions::{Conditions, Statement};
use setpoint_runtime::finalizer::Stage;
use setpoint_types::object::Condition;
use setpoint_types::{Generation, Metadata, Timestamp, Uid};

use crate::kind::{DnsRecord, DnsRecordStatus};
use crate::provider::{Entry, Owner};

/// The name is ours, and still published for somebody who has it no longer.
const WAITING: &str = "WaitingForRelease";

/// Everything the plan is made from.
#[derive(Clone, Debug)]
pub struct Observed {
    pub record: Typed<DnsRecord>,
    /// What the record's metadata means for our finalizer.
    pub stage: Stage,
    /// All others that claim the same name.
    pub rivals: Vec<Typed<DnsRecord>>,
    /// Whether the provider can publish the name at all.
    pub covered: bool,
    /// What is published under the name, and for the record.
    pub published: Vec<Entry>,
    /// The objects there are, of those that something is published for.
    pub alive: Vec<Uid>,
    pub now: Timestamp,
}

impl Observed {
    fn generation(&self) -> Generation {
        self.record.metadata.generation
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    pub step: Step,
    /// What the record shall show once the step is done; none if it goes.
    pub status: Option<DnsRecordStatus>,
    /// What it waits for wakes nobody: look again after a while.
    pub look_again: bool,
}

/// One step. Each is followed by another run, because what it changes wakes the key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Step {
    /// Nothing is to be done outside.
    Nothing,
    /// The finalizer comes before anything is published.
    Guard,
    Publish {
        entry: Entry,
        /// Whose name it was, who is gone without having it taken back.
        instead_of: Option<Uid>,
    },
    /// The name is not, or no longer, this record's.
    Retract,
    /// The object goes: everything is taken back, then the finalizer is.
    CleanUp,
}

/// Decides.
pub fn plan(observed: &Observed) -> Plan {
    let (step, statement) = match observed.stage {
        // Its write makes another revision, so the status waits for the next run.
        Stage::Unguarded => (Step::Guard, None),
        Stage::CleanUp => (Step::CleanUp, None),
        Stage::Going => (Step::Nothing, None),
        Stage::Held => {
            let (step, statement) = held(observed);
            (step, Some(statement))
        }
    };
    let status = statement.map(|statement| status(observed, statement));
    let waits = |it: &Condition| it.reason == WAITING && it.observed_generation == observed.generation();
    let look_again = status.as_ref().is_some_and(|status| status.conditions.iter().any(waits));
    Plan { step, status, look_again }
}

/// The record lives, and carries the finalizer.
fn held(observed: &Observed) -> (Step, Statement) {
    let spec = &observed.record.spec;
    let fails = |reason: &str, message: String| Statement::fails("Ready", reason).message(message);
    if !observed.covered {
        return (retract(observed), fails("OutsideZone", format!("{} is not in the zone", spec.name)));
    }
    if let Some(problem) = spec.answers.iter().find_map(|answer| answer.problem()) {
        // What was good stays published until there is something good again.
        return (Step::Nothing, fails("InvalidAnswer", problem));
    }
    if let Some(winner) = winner(observed) {
        let (namespace, name) = (&winner.metadata.namespace, &winner.metadata.name);
        let message = format!("DnsRecord {namespace}/{name} is older, and has the name {}", spec.name);
        return (retract(observed), fails("NameTaken", message));
    }
    let wanted = wanted(&observed.record);
    match observed.published.iter().find(|entry| entry.name == wanted.name) {
        Some(entry) if entry.owner.uid == wanted.owner.uid => {
            let is_all = *entry == wanted && observed.published.len() == 1;
            (if is_all { Step::Nothing } else { publish(wanted, None) }, ready())
        }
        Some(entry) if observed.alive.contains(&entry.owner.uid) => {
            let message = format!("{} is still published for DnsRecord {}", spec.name, entry.owner.object);
            (Step::Nothing, fails(WAITING, message))
        }
        Some(entry) => {
            let left_by = Some(entry.owner.uid.clone());
            (publish(wanted, left_by), ready())
        }
        None => (publish(wanted, None), ready()),
    }
}

/// Said after the step that makes it true.
fn ready() -> Statement {
    Statement::holds("Ready", "Published")
}

fn publish(entry: Entry, instead_of: Option<Uid>) -> Step {
    Step::Publish { entry, instead_of }
}

fn retract(observed: &Observed) -> Step {
    let uid = &observed.record.metadata.uid;
    let is_published = observed.published.iter().any(|entry| entry.owner.uid == *uid);
    if is_published { Step::Retract } else { Step::Nothing }
}

/// As it should be published.
fn wanted(record: &Typed<DnsRecord>) -> Entry {
    let Metadata { namespace, name, uid, generation, .. } = &record.metadata;
    Entry {
        name: record.spec.name.clone(),
        owner: Owner { uid: uid.clone(), generation: *generation, object: format!("{namespace}/{name}") },
        ttl_seconds: record.spec.ttl_seconds,
        answers: record.spec.answers.clone(),
    }
}

/// The rival that has the name instead: the oldest of all that claim it; of the same age, the one with the smaller uid. One that goes
/// has it until it is gone.
fn winner(observed: &Observed) -> Option<&Typed<DnsRecord>> {
    fn age(record: &Typed<DnsRecord>) -> (Timestamp, &str) {
        (record.metadata.created, record.metadata.uid.as_str())
    }
    let oldest = observed.rivals.iter().min_by_key(|rival| age(rival))?;
    (age(oldest) < age(&observed.record)).then_some(oldest)
}

fn status(observed: &Observed, statement: Statement) -> DnsRecordStatus {
    let generation = observed.generation();
    let mut status = observed.record.status.clone().unwrap_or_default();
    status.observed_generation = generation;
    Conditions::of(&mut status.conditions, generation, observed.now).set(statement);
    status
}

#[cfg(test)]
mod tests {
    use setpoint_types::object::find_condition;

    use super::*;
    use crate::kind::{Answer, AnswerType, DnsRecordSpec};

    fn record(name: &str, uid: &str, created: u64) -> Typed<DnsRecord> {
        let answers = vec![Answer { kind: AnswerType::A, value: "192.0.2.1".to_owned() }];
        let spec = DnsRecordSpec { name: name.to_owned(), ttl_seconds: 60, answers };
        let mut record = Typed::<DnsRecord>::new(uid, spec).in_namespace("default");
        record.metadata.uid = Uid::new(uid);
        record.metadata.created = Timestamp(created);
        record.metadata.generation = Generation(2);
        record
    }

    fn observed(record: Typed<DnsRecord>) -> Observed {
        Observed {
            record,
            stage: Stage::Held,
            rivals: Vec::new(),
            covered: true,
            published: Vec::new(),
            alive: Vec::new(),
            now: Timestamp(9),
        }
    }

    /// `Publish; Published`
    fn told(plan: &Plan) -> String {
        let step = match &plan.step {
            Step::Publish { instead_of: Some(uid), .. } => format!("Publish instead of {uid}"),
            Step::Publish { .. } => "Publish".to_owned(),
            step => format!("{step:?}"),
        };
        let conditions = plan.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let ready = find_condition(conditions, "Ready").map_or("", |ready| ready.reason.as_str());
        let again = if plan.look_again { ", look again" } else { "" };
        format!("{step}; {ready}{again}")
    }

    #[test]
    fn what_is_done_follows_from_what_there_is() {
        let ours = || record("www.example.com", "m", 5);
        let base = || observed(ours());
        let older = record("www.example.com", "z", 4);
        let entry = |record: &Typed<DnsRecord>| wanted(record);
        let stale = Entry { ttl_seconds: 1, ..entry(&ours()) };
        let renamed = record("old.example.com", "m", 5);
        let mut bad = base();
        bad.record.spec.answers[0].value = "somewhere".to_owned();
        let table = [
            ("no finalizer yet", Observed { stage: Stage::Unguarded, ..base() }, "Guard; "),
            ("not published", base(), "Publish; Published"),
            ("published", Observed { published: vec![entry(&ours())], ..base() }, "Nothing; Published"),
            ("published otherwise", Observed { published: vec![stale], ..base() }, "Publish; Published"),
            (
                "the old name is published",
                Observed { published: vec![entry(&renamed)], ..base() },
                "Publish; Published",
            ),
            (
                "both names are published",
                Observed { published: vec![entry(&renamed), entry(&ours())], ..base() },
                "Publish; Published",
            ),
            (
                "an older one claims it",
                Observed { rivals: vec![older.clone()], ..base() },
                "Nothing; NameTaken",
            ),
            (
                "an older one claims it, and ours is published",
                Observed { rivals: vec![older.clone()], published: vec![entry(&ours())], ..base() },
                "Retract; NameTaken",
            ),
            (
                "a younger one claims it",
                Observed { rivals: vec![record("www.example.com", "a", 6)], ..base() },
                "Publish; Published",
            ),
            (
                "of the same age, the smaller uid has it",
                Observed { rivals: vec![record("www.example.com", "a", 5)], ..base() },
                "Nothing; NameTaken",
            ),
            (
                "somebody who lives has not given it up",
                Observed { published: vec![entry(&older)], alive: vec![Uid::new("z")], ..base() },
                "Nothing; WaitingForRelease, look again",
            ),
            (
                "somebody who is gone left it",
                Observed { published: vec![entry(&older)], ..base() },
                "Publish instead of z; Published",
            ),
            ("outside", Observed { covered: false, ..base() }, "Nothing; OutsideZone"),
            ("no address", bad, "Nothing; InvalidAnswer"),
            ("deleted", Observed { stage: Stage::CleanUp, ..base() }, "CleanUp; "),
            ("deleted, and done", Observed { stage: Stage::Going, ..base() }, "Nothing; "),
        ];
        for (what, observed, expected) in table {
            assert_eq!(told(&plan(&observed)), expected, "{what}");
        }
    }

    #[test]
    fn the_loser_is_told_who_won() {
        let rivals = vec![record("www.example.com", "a", 3), record("www.example.com", "b", 2)];
        let plan = plan(&Observed { rivals, ..observed(record("www.example.com", "m", 5)) });
        let status = plan.status.expect("a status");
        let ready = find_condition(&status.conditions, "Ready").expect("the condition");
        assert_eq!(ready.message, "DnsRecord default/b is older, and has the name www.example.com");
        assert_eq!((status.observed_generation, ready.observed_generation), (Generation(2), Generation(2)));
    }
}
