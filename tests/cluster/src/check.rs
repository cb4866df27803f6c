//! Holds what clients were told against the log of changes: is there one order of all requests that explains every
//! answer and contradicts no clock?
//!
//! Revisions make this cheap. The order is known, it is that of the log; so it is enough to find every acknowledged write
//! at its revision, to compare every read with the state at its revision, and to sweep once over time: nobody may be
//! answered from before something that anybody had been told when the request began.
//!
//! Not here: how history and logs are got.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::history::{Action, History, Op, Outcome};
use crate::model::{Change, Model};

/// What must never be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    /// Two nodes hold different logs.
    Divergence,
    /// A revision is missing in the log.
    Hole,
    /// A change that nobody asked for.
    Phantom,
    /// One write has two revisions.
    DuplicateApply,
    /// An acknowledged write is not in the log, or not where its client was told.
    LostWrite,
    /// A write that was said not to have happened is in the log.
    LiedFailure,
    /// A change does not follow from the state before it.
    ModelMismatch,
    /// A read differs from the state at its revision.
    WrongRead,
    /// A read is older than what somebody knew when it began.
    StaleRead,
    /// A write is ordered before what somebody knew when it began.
    ReorderedWrite,
    /// A node without a majority acknowledged a write.
    MinorityWrite,
    /// The majority wrote nothing while others were cut off.
    MajorityStood,
}

#[derive(Clone, Debug)]
pub struct Finding {
    pub violation: Violation,
    pub detail: String,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, violation: Violation, detail: impl Into<String>) {
        self.0.push(Finding { violation, detail: detail.into() });
    }
}

/// Checks a history that began on an empty store against the whole log of every node.
pub fn check(history: &History, logs: &[Vec<Change>]) -> Vec<Finding> {
    let mut findings = Findings::default();
    let Some(log) = logs.first() else { return Vec::new() };
    for (node, other) in logs.iter().enumerate().skip(1) {
        if let Some(place) = difference(log, other) {
            let detail = format!("node 1 {:?}, node {} {:?}", log.get(place), node + 1, other.get(place));
            findings.add(Violation::Divergence, detail);
        }
    }
    contiguous(log, &mut findings);
    let owners = owners(history, log, &mut findings);
    acknowledged(history, &owners, &mut findings);
    let (model, problems) = Model::fold(log);
    problems.into_iter().for_each(|problem| findings.add(Violation::ModelMismatch, problem));
    answers(history, &model, &mut findings);
    real_time(history, &owners, &mut findings);
    findings.0
}

fn difference(one: &[Change], other: &[Change]) -> Option<usize> {
    let differs = one.iter().zip(other).position(|(one, other)| one != other);
    differs.or_else(|| (one.len() != other.len()).then(|| one.len().min(other.len())))
}

/// The first write makes revision 2, and every further one the next.
fn contiguous(log: &[Change], findings: &mut Findings) {
    let mut last = 1;
    for change in log {
        if change.revision != last && change.revision != last + 1 {
            findings.add(Violation::Hole, format!("after revision {last} comes {}", change.revision));
        }
        last = change.revision;
    }
}

/// Which request made which revision: the place in the history by revision, and back.
#[derive(Default)]
struct Owners {
    revision_of: HashMap<usize, i64>,
}

fn owners(history: &History, log: &[Change], findings: &mut Findings) -> Owners {
    let by_value: HashMap<&str, usize> =
        history.ops.iter().enumerate().filter_map(|(place, op)| Some((op.action.value()?, place))).collect();
    let mut owners = Owners::default();
    let mut revisions: BTreeMap<i64, Vec<&Change>> = BTreeMap::new();
    for change in log {
        revisions.entry(change.revision).or_default().push(change);
    }
    for (revision, changes) in revisions {
        let puts = changes.iter().filter(|change| !change.deleted);
        let owner = puts.clone().find_map(|change| by_value.get(change.now.value.as_str()).copied());
        let Some(place) = owner.filter(|place| effects(&history.ops[*place], &changes)) else {
            findings.add(Violation::Phantom, format!("nobody asked for {changes:?}"));
            continue;
        };
        if let Some(first) = owners.revision_of.insert(place, revision) {
            let detail = format!("{:?} was done at {first} and at {revision}", history.ops[place]);
            findings.add(Violation::DuplicateApply, detail);
        }
    }
    owners
}

/// Whether these are changes that the request makes.
fn effects(op: &Op, changes: &[&Change]) -> bool {
    match (&op.action, changes) {
        (Action::Put { key, value } | Action::Swap { key, value, .. }, [only]) => {
            !only.deleted && only.now.key == *key && only.now.value == *value
        }
        (Action::Delete { key, mark, value }, changes) => changes.iter().all(|change| {
            if change.deleted {
                change.now.key == *key
            } else {
                change.now.key == *mark && change.now.value == *value
            }
        }),
        _ => false,
    }
}

/// S2: what was acknowledged is in the log.
fn acknowledged(history: &History, owners: &Owners, findings: &mut Findings) {
    for (place, op) in history.ops.iter().enumerate() {
        let made = owners.revision_of.get(&place);
        match &op.outcome {
            Outcome::Written { revision, .. } if made != Some(revision) => {
                findings.add(Violation::LostWrite, format!("{op:?} was made at {made:?}"));
            }
            Outcome::NotApplied(_) if made.is_some() => {
                findings.add(Violation::LiedFailure, format!("{op:?} was made at {made:?}"));
            }
            Outcome::Seen { .. } if made.is_some() => {
                findings
                    .add(Violation::LiedFailure, format!("{op:?} reported a read but was made at {made:?}"));
            }
            _ => {}
        }
    }
}

/// Every answer follows from the state at its revision.
fn answers(history: &History, model: &Model, findings: &mut Findings) {
    for op in &history.ops {
        match (&op.action, &op.outcome) {
            (Action::Read { keys, .. }, Outcome::Seen { revision, found }) => {
                let expected = model.at(keys, *revision);
                if *found != expected {
                    findings.add(Violation::WrongRead, format!("{op:?}, expected {expected:?}"));
                }
            }
            (Action::Swap { key, expected, .. }, Outcome::Seen { revision, found }) => {
                let there = model.version(key, *revision);
                let modified = there.as_ref().map_or(0, |there| there.modified);
                if found.first() != there.as_ref() || modified == *expected {
                    findings.add(Violation::WrongRead, format!("{op:?}, but there was {there:?}"));
                }
            }
            (Action::Swap { key, expected, .. }, Outcome::Written { revision, .. }) => {
                let modified = model.version(key, revision - 1).map_or(0, |before| before.modified);
                if modified != *expected {
                    findings.add(Violation::ModelMismatch, format!("{op:?} replaced revision {modified}"));
                }
            }
            (Action::Delete { key, .. }, Outcome::Written { revision, deleted }) => {
                let existed = i64::from(model.version(key, revision - 1).is_some());
                if existed != *deleted {
                    findings.add(Violation::ModelMismatch, format!("{op:?}, but {existed} existed"));
                }
            }
            _ => {}
        }
    }
}

/// S7 and S13, in one sweep over time: `floor` is the highest revision that somebody has been told of.
fn real_time(history: &History, owners: &Owners, findings: &mut Findings) {
    enum Event {
        Told(i64),
        Began(usize),
    }
    let mut events: Vec<(Duration, u8, Event)> = Vec::new();
    for (place, op) in history.ops.iter().enumerate() {
        events.push((op.call, 1, Event::Began(place)));
        match op.outcome {
            Outcome::Written { revision, .. } | Outcome::Seen { revision, .. } => {
                events.push((op.ret, 0, Event::Told(revision)));
            }
            Outcome::NotApplied(_) | Outcome::Unknown(_) => {}
        }
    }
    events.extend(history.sightings.iter().map(|(at, revision)| (*at, 0, Event::Told(*revision))));
    events.sort_by_key(|(at, kind, _)| (*at, *kind));
    let mut floor = 1;
    for (_, _, event) in events {
        let place = match event {
            Event::Told(revision) => {
                floor = floor.max(revision);
                continue;
            }
            Event::Began(place) => place,
        };
        let op = &history.ops[place];
        let stale_allowed = matches!(op.action, Action::Read { stale: true, .. });
        match op.outcome {
            Outcome::Seen { revision, .. } if revision < floor && !stale_allowed => {
                findings.add(Violation::StaleRead, format!("{op:?} began when revision {floor} was known"));
            }
            _ => {}
        }
        if owners.revision_of.get(&place).is_some_and(|revision| *revision <= floor) {
            findings.add(Violation::ReorderedWrite, format!("{op:?} began when revision {floor} was known"));
        }
    }
}

/// Whether a watch of everything from `start` was sent exactly the log, each revision whole and in one piece.
pub fn check_watch(start: i64, batches: &[Vec<Change>], log: &[Change]) -> Vec<String> {
    let mut problems = Vec::new();
    let received: Vec<&Change> = batches.iter().flatten().collect();
    for pair in batches.windows(2) {
        if let (Some(last), Some(first)) = (pair[0].last(), pair[1].first())
            && last.revision >= first.revision
        {
            problems.push(format!("revision {} after {}", first.revision, last.revision));
        }
    }
    let newest = received.last().map_or(start - 1, |change| change.revision);
    let expected = log.iter().filter(|change| change.revision >= start && change.revision <= newest);
    let mut expected = expected.peekable();
    for change in &received {
        if expected.next() != Some(*change) {
            problems.push(format!("{change:?} is not what comes next in the log"));
            return problems;
        }
    }
    if let Some(missed) = expected.next() {
        problems.push(format!("{missed:?} was not sent"));
    }
    problems
}
