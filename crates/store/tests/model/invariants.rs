//! What must hold of every history, said without the model's rules: from the changes and the keys alone.
//!
//! The changes are those that the stores were seen to make; that they made them, `replica` checks.

use std::collections::BTreeMap;

use bytes::Bytes;
use setpoint_store::ledger::{self, Amounts, Ledger, LedgerKey};
use setpoint_store::{Change, Epoch, Hold, LeaseName};
use setpoint_types::{Revision, Timestamp};

use crate::model::{Model, Snapshot};

const HOUR: u64 = 3_600_000;

pub fn check(model: &Model) {
    for revision in 1..=model.revision().get() {
        ledgers_are_sums(model.at(Revision::new(revision)), revision);
    }
    operations_act_once(model);
    epochs_only_grow(model);
    fences_held(model);
    time_never_goes_back(model);
}

/// S19: at every revision a ledger uses what its reservations sum up to.
fn ledgers_are_sums(keys: &Snapshot, revision: u64) {
    let (mut used, mut summed) = (BTreeMap::<String, Amounts>::new(), BTreeMap::<String, Amounts>::new());
    for (key, version) in keys {
        let value = version.kv.value.clone();
        match LedgerKey::parse(key) {
            Some(LedgerKey::Ledger(name)) => {
                used.insert(name, Ledger::decode(value).expect("a ledger").used);
            }
            Some(LedgerKey::Reservation { ledger, .. }) => {
                let sums = summed.entry(ledger).or_default();
                for (dimension, amount) in ledger::decode_reservation(value).expect("a reservation") {
                    *sums.entry(dimension).or_default() += amount;
                }
            }
            None => {}
        }
    }
    used.retain(|_, used| !used.is_empty());
    assert_eq!(used, summed, "S19 at revision {revision}");
}

/// S20: one operation id never owns two revisions, while it is remembered.
fn operations_act_once(model: &Model) {
    let mut owned: BTreeMap<&str, (Timestamp, Revision)> = BTreeMap::new();
    for set in model.all_changes() {
        let Some(author) = set.author().filter(|author| !author.operation.is_empty()) else { continue };
        let last = owned.insert(&author.operation, (author.time, set.revision));
        if let Some((time, revision)) = last {
            assert!(
                author.time.0 - time.0 > HOUR,
                "S20: {} at {revision} and {}",
                author.operation,
                set.revision
            );
        }
    }
}

/// S21: a lease's epochs only grow, whatever becomes of it, and each hold has the newest.
fn epochs_only_grow(model: &Model) {
    let mut epochs: BTreeMap<&Bytes, Epoch> = BTreeMap::new();
    for record in model.all_changes().iter().flat_map(|set| &set.records) {
        if !record.key.starts_with(setpoint_store::encoding::EPOCHS) {
            continue;
        }
        let Change::Put { value, .. } = &record.change else { panic!("S21: {record:?}") };
        let epoch = Epoch::decode(value.clone()).expect("an epoch");
        let last = epochs.insert(&record.key, epoch);
        assert!(epoch > last.unwrap_or(Epoch::NONE), "S21: {record:?}");
    }
    for (key, version) in model.now() {
        if let Some(name) = LeaseName::of_hold_key(key) {
            let hold = Hold::decode(version.kv.value.clone()).expect("a hold");
            assert_eq!(epochs.get(&name.epoch_key()), Some(&hold.epoch), "S21: {name:?}");
        }
    }
}

/// S23: what was written with a fence was written while the lease was held at its epoch.
fn fences_held(model: &Model) {
    for set in model.all_changes() {
        let Some(fence) = set.author().and_then(|author| author.fence.as_ref()) else { continue };
        let before = model.at(set.revision.predecessor()).get(&fence.lease.hold_key());
        let hold = before.map(|version| Hold::decode(version.kv.value.clone()).expect("a hold"));
        assert_eq!(hold.map(|hold| hold.epoch), Some(fence.epoch), "S23 at {}", set.revision);
    }
}

/// S22: the stamps of authors never go back.
fn time_never_goes_back(model: &Model) {
    let times = model.all_changes().iter().filter_map(|set| set.author()).map(|author| author.time);
    assert!(times.is_sorted(), "S22");
}
