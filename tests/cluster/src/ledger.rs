//! Holds deeds against the log of changes: each whole at one revision or not at all, ledgers in balance at every revision,
//! epochs that only grow (S19 to S21, S23).
//!
//! Ledgers, epochs and holds are read as they are stored, by a reader of their own.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, Bytes};
use prost::Message;
use setpoint_api::mvccpb;
use setpoint_api::setpoint::v1 as pb;

use crate::deeds::{Amounts, Answer, Deed, MARK};

const OBJECTS: &str = "/setpoint.v1/";
const LEDGERS: &str = "/setpoint.ledger/";
const EPOCHS: &str = "/setpoint.epoch/";
const HOLDS: &str = "/setpoint.hold/";
/// On an object that is only written under a fence: the epoch of that.
pub const EPOCH_MARK: &str = "epoch";

/// What must never be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    /// Part of a deed is there, and part is not.
    Torn,
    /// A revision with changes of two deeds, or of none that anybody asked for.
    Foreign,
    /// A deed has two revisions.
    TwoRevisions,
    /// A deed that was confirmed is not there, or elsewhere.
    Lost,
    /// A deed that was refused is there.
    LiedRefusal,
    /// A deed that was confirmed is confirmed as if it were new, or another time.
    SecondVerdict,
    /// A ledger does not use the sum of its reservations, or more than there is.
    OutOfBalance,
    /// A lease's epoch does not grow by one.
    Epoch,
    /// Something was written under the fence of an epoch that was not held.
    Unfenced,
}

pub type Findings = Vec<(Violation, String)>;

/// One change of one key. No value: it was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub revision: u64,
    pub key: String,
    pub value: Option<Bytes>,
}

impl Row {
    pub fn of(event: mvccpb::Event) -> Self {
        let deleted = event.r#type() == mvccpb::event::EventType::Delete;
        let kv = event.kv.unwrap_or_default();
        let key = String::from_utf8_lossy(&kv.key).into_owned();
        Self { revision: kv.mod_revision as u64, key, value: (!deleted).then_some(kv.value) }
    }

    fn annotation(&self, name: &str) -> Option<String> {
        let value = self.value.clone().filter(|_| self.key.starts_with(OBJECTS))?;
        pb::Object::decode(value).ok()?.metadata?.annotations.remove(name)
    }
}

/// Every key at a revision.
pub fn state_at(rows: &[Row], revision: u64) -> BTreeMap<String, Bytes> {
    let mut state = BTreeMap::new();
    for row in rows.iter().filter(|row| row.revision <= revision) {
        match &row.value {
            Some(value) => drop(state.insert(row.key.clone(), value.clone())),
            None => drop(state.remove(&row.key)),
        }
    }
    state
}

/// The deed that each object was last written by.
pub fn marks(state: &BTreeMap<String, Bytes>) -> BTreeMap<String, String> {
    let row = |(key, value): (&String, &Bytes)| {
        Row { revision: 0, key: key.clone(), value: Some(value.clone()) }
            .annotation(MARK)
            .map(|mark| (key.clone(), mark))
    };
    state.iter().filter_map(row).collect()
}

/// Checks the whole log from the beginning.
pub fn check(deeds: &[Deed], rows: &[Row]) -> Findings {
    let mut findings = Findings::new();
    let mut revisions: BTreeMap<u64, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        revisions.entry(row.revision).or_default().push(row);
    }
    let by_name: BTreeMap<&str, &Deed> = deeds.iter().map(|deed| (deed.operation.as_str(), deed)).collect();
    let (mut made, mut state) = (BTreeMap::new(), BTreeMap::new());
    for (revision, rows) in &revisions {
        whole(*revision, rows, &by_name, &mut made, &mut findings);
        fenced(*revision, rows, &state, &mut findings);
        for row in rows {
            match &row.value {
                Some(value) => drop(state.insert(row.key.clone(), value.clone())),
                None => drop(state.remove(&row.key)),
            }
        }
        balance(*revision, &state, &mut findings);
    }
    for deed in deeds {
        answers(deed, made.get(deed.operation.as_str()).copied(), &mut findings);
    }
    findings
}

/// Is this revision all of one deed?
fn whole<'d>(
    revision: u64,
    rows: &[&Row],
    deeds: &BTreeMap<&'d str, &'d Deed>,
    made: &mut BTreeMap<&'d str, u64>,
    findings: &mut Findings,
) {
    let marked: BTreeMap<&str, String> =
        rows.iter().filter_map(|row| Some((row.key.as_str(), row.annotation(MARK)?))).collect();
    let operations: BTreeSet<&str> = marked.values().map(String::as_str).collect();
    let reserved: Vec<&&Row> = rows
        .iter()
        .filter(|row| row.key.strip_prefix(LEDGERS).is_some_and(|rest| rest.contains('/')))
        .collect();
    let mut operations = operations.into_iter();
    let (first, second) = (operations.next(), operations.next());
    let Some(operation) = first else {
        if !reserved.is_empty() {
            findings.push((Violation::Torn, format!("only a reservation at {revision}: {reserved:?}")));
        }
        return;
    };
    let Some((name, deed)) = deeds.get_key_value(operation).filter(|_| second.is_none()) else {
        return findings.push((Violation::Foreign, format!("{marked:?} at {revision}")));
    };
    let expected: BTreeSet<&str> = deed.keys.iter().map(String::as_str).collect();
    if marked.keys().copied().collect::<BTreeSet<_>>() != expected {
        findings.push((Violation::Torn, format!("{deed:?} at {revision} wrote only {marked:?}")));
    }
    let fits = match (&deed.reservation, reserved.as_slice()) {
        // A release of nothing changes nothing.
        (None, []) => true,
        (Some((_, amounts)), []) => amounts.is_empty(),
        (Some((owner, amounts)), [row]) => {
            let found = row.value.clone().map_or(Some(Amounts::new()), reservation);
            row.key.ends_with(&format!("/{owner}")) && found.as_ref() == Some(amounts)
        }
        _ => false,
    };
    if !fits {
        findings.push((Violation::Torn, format!("{deed:?} at {revision} reserved {reserved:?}")));
    }
    if let Some(before) = made.insert(name, revision) {
        findings.push((Violation::TwoRevisions, format!("{deed:?} at {before} and at {revision}")));
    }
}

/// Epochs grow by one, and whoever writes under a fence holds the lease. `state` is that before the revision.
fn fenced(revision: u64, rows: &[&Row], state: &BTreeMap<String, Bytes>, findings: &mut Findings) {
    let known = |lease: &str| state.get(&format!("{EPOCHS}{lease}")).cloned().and_then(epoch).unwrap_or(0);
    for row in rows {
        if let Some(lease) = row.key.strip_prefix(EPOCHS) {
            let now = row.value.clone().and_then(epoch);
            if now != Some(known(lease) + 1) {
                findings.push((
                    Violation::Epoch,
                    format!("{lease}: {now:?} at {revision} after {}", known(lease)),
                ));
            }
        }
        // Its lease has the name of the object.
        if let Some(mark) = row.annotation(EPOCH_MARK) {
            let lease = row.key.rsplit('/').take(2).collect::<Vec<_>>();
            let lease = lease.into_iter().rev().collect::<Vec<_>>().join("/");
            let held = state.contains_key(&format!("{HOLDS}{lease}"));
            if !held || mark != known(&lease).to_string() {
                let text =
                    format!("{} with {mark} at {revision}, held: {held} at {}", row.key, known(&lease));
                findings.push((Violation::Unfenced, text));
            }
        }
    }
}

/// S19, for every ledger.
fn balance(revision: u64, state: &BTreeMap<String, Bytes>, findings: &mut Findings) {
    let ledgers = state.range(LEDGERS.to_owned()..).take_while(|(key, _)| key.starts_with(LEDGERS));
    let mut sums: BTreeMap<&str, Amounts> = BTreeMap::new();
    let mut booked: BTreeMap<&str, (Amounts, Amounts)> = BTreeMap::new();
    for (key, value) in ledgers {
        let rest = &key[LEDGERS.len()..];
        match rest.split_once('/') {
            Some((ledger, _)) => {
                let sum = sums.entry(ledger).or_default();
                for (dimension, amount) in reservation(value.clone()).unwrap_or_default() {
                    *sum.entry(dimension).or_default() += amount;
                }
            }
            None => drop(booked.insert(rest, limits_and_use(value.clone()).unwrap_or_default())),
        }
    }
    for (ledger, (limits, used)) in &booked {
        let sum = sums.remove(ledger).unwrap_or_default();
        let limit = |dimension: &String| limits.get(dimension).or(limits.get("*")).copied().unwrap_or(0);
        if sum != *used || used.iter().any(|(dimension, amount)| *amount > limit(dimension)) {
            let text = format!("{ledger} at {revision}: uses {used:?} of {limits:?}, reserved are {sum:?}");
            findings.push((Violation::OutOfBalance, text));
        }
    }
    if !sums.is_empty() {
        findings.push((Violation::OutOfBalance, format!("at {revision}, in no ledger: {sums:?}")));
    }
}

/// S20: whatever clients were told fits the one revision there may be.
fn answers(deed: &Deed, made: Option<u64>, findings: &mut Findings) {
    let (mut unknown, mut confirmed) = (false, false);
    for answer in &deed.answers {
        match answer {
            Answer::Unknown => unknown = true,
            // One that was still under way when the next was refused may come later.
            Answer::Refused(_) if made.is_some() && !unknown => {
                findings.push((Violation::LiedRefusal, format!("{deed:?} was made at {made:?}")));
            }
            Answer::Refused(_) => {}
            Answer::Done { revision, .. } if made != Some(*revision) => {
                findings.push((Violation::Lost, format!("{deed:?} was made at {made:?}")));
            }
            Answer::Done { repeated, .. } => {
                if confirmed && !repeated || !confirmed && !unknown && *repeated {
                    findings.push((Violation::SecondVerdict, format!("{deed:?} was made at {made:?}")));
                }
                confirmed = true;
            }
        }
    }
}

/// An epoch is given to one holder.
pub fn check_holders(told: &[(String, u64)]) -> Findings {
    let mut holders: BTreeMap<u64, &str> = BTreeMap::new();
    let mut findings = Findings::new();
    for (holder, epoch) in told {
        let other = holders.insert(*epoch, holder);
        if other.is_some_and(|other| other != holder) {
            findings.push((Violation::Epoch, format!("{epoch} was given to {other:?} and to {holder}")));
        }
    }
    findings
}

fn number(row: &mut Bytes) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = row.try_get_u8().ok()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn amounts(row: &mut Bytes) -> Option<Amounts> {
    let count = number(row)?;
    let mut read = || {
        let length = usize::try_from(number(row)?).ok().filter(|length| *length <= row.len())?;
        let name = String::from_utf8(row.split_to(length).to_vec()).ok()?;
        Some((name, number(row)?))
    };
    (0..count).map(|_| read()).collect()
}

/// Behind the byte that tells the format.
fn reservation(mut row: Bytes) -> Option<Amounts> {
    row.try_get_u8().ok()?;
    amounts(&mut row).filter(|_| row.is_empty())
}

fn limits_and_use(mut row: Bytes) -> Option<(Amounts, Amounts)> {
    row.try_get_u8().ok()?;
    Some((amounts(&mut row)?, amounts(&mut row)?)).filter(|_| row.is_empty())
}

fn epoch(mut row: Bytes) -> Option<u64> {
    row.try_get_u8().ok()?;
    number(&mut row).filter(|_| row.is_empty())
}

#[cfg(test)]
mod tests {
    use setpoint_api::setpoint::v1::Reason;

    use super::*;

    fn object(mark: &str, value: &str) -> Option<Bytes> {
        let annotations = [(mark.to_owned(), value.to_owned())].into();
        let metadata = Some(pb::Metadata { annotations, ..Default::default() });
        Some(pb::Object { metadata, ..Default::default() }.encode_to_vec().into())
    }

    fn encoded(parts: &[&[(&str, u8)]]) -> Option<Bytes> {
        let mut row = vec![1];
        for amounts in parts {
            row.push(amounts.len() as u8);
            for (name, amount) in *amounts {
                row.push(name.len() as u8);
                row.extend(name.as_bytes());
                row.push(*amount);
            }
        }
        Some(row.into())
    }

    fn row(revision: u64, key: &str, value: Option<Bytes>) -> Row {
        Row { revision, key: key.to_owned(), value }
    }

    fn deed(operation: &str, reservation: Option<(&str, &[(&str, u64)])>, answers: &[Answer]) -> Deed {
        let amounts = |of: &[(&str, u64)]| of.iter().map(|(name, it)| ((*name).to_owned(), *it)).collect();
        Deed {
            operation: operation.to_owned(),
            keys: vec!["/setpoint.v1/Thing/default/a".to_owned(), "/setpoint.v1/Class//b".to_owned()],
            reservation: reservation.map(|(owner, of)| (owner.to_owned(), amounts(of))),
            answers: answers.to_vec(),
        }
    }

    const DONE: Answer = Answer::Done { revision: 3, repeated: false };
    const AGAIN: Answer = Answer::Done { revision: 3, repeated: true };

    /// Limits; a deed that reserves; the next holder of a lease, who writes; a deed that releases.
    fn right() -> (Vec<Deed>, Vec<Row>) {
        let rows = vec![
            row(2, "/setpoint.ledger/pool", encoded(&[&[("cpu", 5)], &[]])),
            row(3, "/setpoint.v1/Thing/default/a", object(MARK, "one")),
            row(3, "/setpoint.v1/Class//b", object(MARK, "one")),
            row(3, "/setpoint.ledger/pool/x", encoded(&[&[("cpu", 4)]])),
            row(3, "/setpoint.ledger/pool", encoded(&[&[("cpu", 5)], &[("cpu", 4)]])),
            row(4, "/setpoint.epoch/default/duty", Some(Bytes::from_static(&[1, 1]))),
            row(4, "/setpoint.hold/default/duty", Some(Bytes::new())),
            row(5, "/setpoint.v1/Thing/default/duty", object(EPOCH_MARK, "1")),
            row(6, "/setpoint.v1/Thing/default/a", object(MARK, "two")),
            row(6, "/setpoint.v1/Class//b", object(MARK, "two")),
            row(6, "/setpoint.ledger/pool/x", None),
            row(6, "/setpoint.ledger/pool", encoded(&[&[("cpu", 5)], &[]])),
        ];
        let deeds = vec![
            deed("one", Some(("x", &[("cpu", 4)])), &[Answer::Unknown, AGAIN, AGAIN]),
            deed("two", Some(("x", &[])), &[Answer::Done { revision: 6, repeated: false }]),
            deed("three", None, &[Answer::Refused(Reason::NoHeadroom)]),
            deed("four", None, &[Answer::Unknown]),
        ];
        (deeds, rows)
    }

    fn found(deeds: &[Deed], rows: &[Row]) -> Vec<Violation> {
        let mut found: Vec<Violation> =
            check(deeds, rows).into_iter().map(|(violation, _)| violation).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    #[test]
    fn what_is_right_passes() {
        let (deeds, rows) = right();
        assert_eq!(check(&deeds, &rows), []);
        assert!(marks(&state_at(&rows, 5)).values().all(|mark| mark == "one"));
    }

    #[test]
    fn a_deed_without_one_of_its_parts_is_found() {
        for missing in [1, 2] {
            let (deeds, mut rows) = right();
            rows.remove(missing);
            assert_eq!(found(&deeds, &rows), [Violation::Torn]);
        }
        let (deeds, mut rows) = right();
        // The reservation, and what the ledger knows of it.
        rows.drain(3..5);
        rows.drain(8..10);
        assert_eq!(found(&deeds, &rows), [Violation::Torn]);
        let (deeds, mut rows) = right();
        // Nothing but the reservation.
        rows.drain(1..3);
        assert_eq!(found(&deeds, &rows), [Violation::Torn, Violation::Lost]);
    }

    #[test]
    fn a_deed_at_two_revisions_or_among_others_is_found() {
        let (mut deeds, mut rows) = right();
        deeds.truncate(1);
        deeds[0].answers = vec![Answer::Unknown];
        for row in &mut rows[8..10] {
            row.value = object(MARK, "one");
        }
        assert!(found(&deeds, &rows).contains(&Violation::TwoRevisions));
        let (deeds, mut rows) = right();
        rows[1].value = object(MARK, "four");
        assert!(found(&deeds, &rows).contains(&Violation::Foreign));
        let (deeds, mut rows) = right();
        rows.push(row(7, "/setpoint.v1/Thing/default/a", object(MARK, "nobody's")));
        assert_eq!(found(&deeds, &rows), [Violation::Foreign]);
    }

    #[test]
    fn a_wrong_answer_is_found() {
        for (answers, violation) in [
            (vec![Answer::Done { revision: 4, repeated: false }], Violation::Lost),
            (vec![Answer::Refused(Reason::NoHeadroom)], Violation::LiedRefusal),
            (vec![DONE, DONE], Violation::SecondVerdict),
            (vec![AGAIN], Violation::SecondVerdict),
        ] {
            let (mut deeds, rows) = right();
            deeds[0].answers = answers;
            assert_eq!(found(&deeds, &rows), [violation]);
        }
        let (mut deeds, rows) = right();
        deeds[3].answers = vec![DONE];
        assert_eq!(found(&deeds, &rows), [Violation::Lost]);
    }

    #[test]
    fn a_ledger_out_of_balance_is_found() {
        let (deeds, mut rows) = right();
        rows[4].value = encoded(&[&[("cpu", 5)], &[("cpu", 3)]]);
        assert_eq!(found(&deeds, &rows), [Violation::OutOfBalance], "not the sum");
        let (deeds, mut rows) = right();
        rows[4].value = encoded(&[&[("cpu", 3)], &[("cpu", 4)]]);
        assert_eq!(found(&deeds, &rows), [Violation::OutOfBalance], "more than there is");
        let (deeds, mut rows) = right();
        rows.remove(11);
        assert_eq!(found(&deeds, &rows), [Violation::OutOfBalance], "a release that is not booked");
    }

    #[test]
    fn an_epoch_that_does_not_grow_is_found() {
        let (deeds, mut rows) = right();
        rows.push(row(7, "/setpoint.epoch/default/duty", Some(Bytes::from_static(&[1, 1]))));
        assert_eq!(found(&deeds, &rows), [Violation::Epoch]);
        let told = |epochs: &[(&str, u64)]| -> Vec<(String, u64)> {
            epochs.iter().map(|(holder, epoch)| ((*holder).to_owned(), *epoch)).collect()
        };
        assert_eq!(check_holders(&told(&[("a", 1), ("a", 1), ("b", 2)])), []);
        assert_eq!(check_holders(&told(&[("a", 1), ("b", 1)])).len(), 1);
    }

    #[test]
    fn a_write_under_a_fence_that_is_not_held_is_found() {
        let (deeds, mut rows) = right();
        rows[7].value = object(EPOCH_MARK, "0");
        assert_eq!(found(&deeds, &rows), [Violation::Unfenced], "an earlier epoch");
        let (deeds, mut rows) = right();
        rows.insert(7, row(4, "/setpoint.hold/default/duty", None));
        assert_eq!(found(&deeds, &rows), [Violation::Unfenced], "nobody holds it");
    }
}
