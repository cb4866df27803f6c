//! Conditions with the generation they were found for: set, look up, sum up.
//!
//! On top of `types::object::set_condition`, which decides when the time of transition moves. Not here: writing the status that
//! has them (`ensure::status`).

use serde_json::Value;
use setpoint_types::object::{Condition, ConditionStatus, Evidence, find_condition, set_condition, to_json};
use setpoint_types::{FieldProblem, Generation, Timestamp};

/// Bytes of a message. What a person reads fits; what a program dumped does not.
const MESSAGE_BYTES_MAX: usize = 1024;
/// Signals behind one condition.
const EVIDENCE_MAX: usize = 8;

/// What is to be said: whether, why in one word, why in a sentence. **Guarantees** that message and evidence are within what a status
/// should hold. **Assumes** that type and reason are one word in CamelCase: the server refuses others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    kind: String,
    status: ConditionStatus,
    reason: String,
    message: String,
    evidence: Vec<Evidence>,
}

impl Statement {
    /// It holds: `Statement::holds("Ready", "Serving")`.
    pub fn holds(kind: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(kind, ConditionStatus::True, reason)
    }

    /// It does not hold.
    pub fn fails(kind: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(kind, ConditionStatus::False, reason)
    }

    /// Nobody can say.
    pub fn unknown(kind: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(kind, ConditionStatus::Unknown, reason)
    }

    pub fn new(kind: impl Into<String>, status: ConditionStatus, reason: impl Into<String>) -> Self {
        let (kind, reason) = (kind.into(), reason.into());
        Self { kind, status, reason, message: String::new(), evidence: Vec::new() }
    }

    /// For people. What is too long is cut.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = cut(message.into(), MESSAGE_BYTES_MAX);
        self
    }

    /// A signal that led to it. The first few are kept.
    #[must_use]
    pub fn evidence(mut self, evidence: Evidence) -> Self {
        if self.evidence.len() < EVIDENCE_MAX {
            self.evidence.push(evidence);
        }
        self
    }

    /// As a condition found for this generation at this time.
    pub fn at(self, generation: Generation, now: Timestamp) -> Condition {
        Condition {
            kind: self.kind,
            status: self.status,
            observed_generation: generation,
            last_transition: now,
            reason: self.reason,
            message: self.message,
            evidence: self.evidence,
        }
    }
}

/// The conditions of one object, while a run looks at one generation of it.
///
/// **Guarantees**
/// - Everything set here carries the generation the run looked at.
/// - The time of transition is that of the run whose status was another one than before; a repeated statement changes nothing,
///   so that no write follows from it.
/// - Conditions of other types stay as they are, and where they are.
///
/// **Assumes** that `generation` and the conditions were read in one piece.
pub struct Conditions<'a> {
    list: &'a mut Vec<Condition>,
    generation: Generation,
    now: Timestamp,
    changed: bool,
}

impl<'a> Conditions<'a> {
    pub fn of(list: &'a mut Vec<Condition>, generation: Generation, now: Timestamp) -> Self {
        Self { list, generation, now, changed: false }
    }

    /// Sets a condition, and says whether anything is different now.
    pub fn set(&mut self, statement: Statement) -> bool {
        let changed = set_condition(self.list, statement.at(self.generation, self.now));
        self.changed |= changed;
        changed
    }

    /// Takes a condition away, and says whether there was one.
    pub fn remove(&mut self, kind: &str) -> bool {
        let before = self.list.len();
        self.list.retain(|condition| condition.kind != kind);
        let changed = self.list.len() != before;
        self.changed |= changed;
        changed
    }

    pub fn find(&self, kind: &str) -> Option<&Condition> {
        find_condition(self.list, kind)
    }

    /// Whether it holds for the generation the run looks at.
    pub fn is_true(&self, kind: &str) -> bool {
        is_true(self.list, kind, self.generation)
    }

    /// Sets one condition out of others: see [`summarise`].
    pub fn summarise(&mut self, kind: &str, parts: &[&str]) -> bool {
        let statement = summarise(self.list, self.generation, kind, parts);
        self.set(statement)
    }

    /// Whether any call so far changed anything.
    pub fn changed(&self) -> bool {
        self.changed
    }
}

/// What a condition says of this generation: what was found for another one, or not at all, is unknown.
pub fn status_for(conditions: &[Condition], kind: &str, generation: Generation) -> ConditionStatus {
    find_condition(conditions, kind)
        .filter(|condition| condition.observed_generation == generation)
        .map_or(ConditionStatus::Unknown, |condition| condition.status)
}

/// Whether a condition holds, and was found for this generation.
pub fn is_true(conditions: &[Condition], kind: &str, generation: Generation) -> bool {
    status_for(conditions, kind, generation) == ConditionStatus::True
}

/// One statement out of several: it holds if all of them do for this generation, fails if one fails, and is unknown otherwise.
/// The reason is that of the first part that decided, the message names every part that does not hold.
pub fn summarise(conditions: &[Condition], generation: Generation, kind: &str, parts: &[&str]) -> Statement {
    let said: Vec<_> = parts.iter().map(|part| (*part, status_for(conditions, part, generation))).collect();
    let has = |wanted: ConditionStatus| said.iter().find(|(_, status)| *status == wanted);
    let (status, decided_by) = match (has(ConditionStatus::False), has(ConditionStatus::Unknown)) {
        (Some((part, _)), _) => (ConditionStatus::False, Some(*part)),
        (None, Some((part, _))) => (ConditionStatus::Unknown, Some(*part)),
        (None, None) => (ConditionStatus::True, None),
    };
    let current = |part: &str| {
        find_condition(conditions, part).filter(|condition| condition.observed_generation == generation)
    };
    let reason = match decided_by {
        None => "AllTrue".to_owned(),
        Some(part) => current(part).map_or_else(|| "NotObserved".to_owned(), |it| it.reason.clone()),
    };
    let open = said.iter().filter(|(_, status)| *status != ConditionStatus::True).map(|(part, _)| {
        let message = current(part).map_or("not observed for this generation", |it| it.message.as_str());
        if message.is_empty() { (*part).to_owned() } else { format!("{part}: {message}") }
    });
    Statement::new(kind, status, reason).message(open.collect::<Vec<_>>().join("; "))
}

/// The conditions in the status of an object of any kind, `.status.conditions`. None there is an empty list.
pub fn read(status: &Value) -> Result<Vec<Condition>, FieldProblem> {
    match status.get("conditions") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(list) => serde_json::from_value(list.clone())
            .map_err(|error| FieldProblem::new(".status.conditions", error.to_string())),
    }
}

/// Puts conditions into the status of an object of any kind. A status that is no object is replaced by one.
pub fn write(status: &mut Value, conditions: &[Condition]) {
    if !status.is_object() {
        *status = Value::Object(serde_json::Map::new());
    }
    match conditions {
        [] => drop(status.as_object_mut().map(|fields| fields.remove("conditions"))),
        _ => status["conditions"] = to_json(&conditions),
    }
}

/// At most so many bytes, and an ellipsis where something is missing.
pub(crate) fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max.saturating_sub('…'.len_utf8())));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: Generation = Generation(2);

    fn conditions(said: &[(&str, ConditionStatus, u64)]) -> Vec<Condition> {
        let condition = |(kind, status, generation): &(&str, ConditionStatus, u64)| {
            let statement = Statement::new(*kind, *status, format!("{kind}Reason"));
            statement.message(format!("about {kind}")).at(Generation(*generation), Timestamp(1))
        };
        said.iter().map(condition).collect()
    }

    #[test]
    fn a_condition_counts_only_for_the_generation_it_was_found_for() {
        let list = conditions(&[("Ready", ConditionStatus::True, 1)]);
        assert!(is_true(&list, "Ready", Generation(1)));
        assert!(!is_true(&list, "Ready", TWO));
        assert_eq!(status_for(&list, "Ready", TWO), ConditionStatus::Unknown);
        assert_eq!(status_for(&list, "Gone", Generation(1)), ConditionStatus::Unknown);
    }

    #[test]
    fn a_repeated_statement_changes_nothing_and_another_status_moves_the_time() {
        let mut list = Vec::new();
        let mut first = Conditions::of(&mut list, TWO, Timestamp(10));
        assert!(first.set(Statement::fails("Ready", "Starting")) && first.changed());
        let mut again = Conditions::of(&mut list, TWO, Timestamp(20));
        assert!(!again.set(Statement::fails("Ready", "Starting")) && !again.changed());
        assert!(again.set(Statement::holds("Ready", "Serving")));
        assert!(again.is_true("Ready"));
        assert_eq!(again.find("Ready").map(|it| it.last_transition), Some(Timestamp(20)));
        assert!(again.remove("Ready") && !again.remove("Ready"));
        assert!(list.is_empty());
    }

    #[test]
    fn a_summary_is_false_before_unknown_before_true_and_says_whose() {
        use ConditionStatus::{False, True};
        let list = conditions(&[("A", True, 2), ("B", True, 1), ("C", False, 2)]);
        let condition = |parts: &[&str]| summarise(&list, TWO, "Ready", parts).at(TWO, Timestamp(3));
        let all = condition(&["A", "B", "C"]);
        assert_eq!((all.status, all.reason.as_str()), (False, "CReason"));
        assert_eq!(all.message, "B: not observed for this generation; C: about C");
        let some = condition(&["A", "B"]);
        assert_eq!((some.status, some.reason.as_str()), (ConditionStatus::Unknown, "NotObserved"));
        let good = condition(&["A"]);
        assert_eq!((good.status, good.reason.as_str(), good.message.as_str()), (True, "AllTrue", ""));
    }

    #[test]
    fn conditions_of_any_kind_survive_their_json() {
        let list = conditions(&[("A", ConditionStatus::True, 2)]);
        let mut status = Value::Null;
        write(&mut status, &list);
        assert_eq!(read(&status), Ok(list));
        write(&mut status, &[]);
        assert_eq!((read(&status), status), (Ok(Vec::new()), serde_json::json!({})));
        let bad = serde_json::json!({"conditions": 3});
        assert_eq!(read(&bad).map_err(|problem| problem.path), Err(".status.conditions".to_owned()));
    }

    #[test]
    fn what_is_too_long_is_cut_between_letters() {
        let condition = Statement::holds("A", "B").message("ä".repeat(1000)).at(TWO, Timestamp(1));
        assert!(condition.message.len() <= MESSAGE_BYTES_MAX && condition.message.ends_with('…'));
    }
}
