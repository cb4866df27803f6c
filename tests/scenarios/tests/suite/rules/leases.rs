//! F1, F2: leases have one holder per epoch, and nothing is written under an epoch that is over.

use std::collections::BTreeMap;

use setpoint_testkit::{Entry, State};
use setpoint_types::Epoch;

use super::Rule;

type Name = (String, String);

/// F1: an epoch is one holder's, epochs grow by one, and the object tells of holders there were.
#[derive(Default)]
pub struct OneHolder {
    holders: BTreeMap<Name, BTreeMap<Epoch, String>>,
}

impl Rule for OneHolder {
    fn name(&self) -> &'static str {
        "F1: one holder per epoch"
    }

    fn see(&mut self, entry: &Entry, _: &State) -> Result<(), String> {
        for (lease, held) in &entry.holds {
            let Some(held) = held else { continue };
            let known = self.holders.entry(lease.clone()).or_default();
            let last = known.keys().next_back().copied().unwrap_or_default();
            if held.epoch.0 > last.0 + 1 || held.epoch < last {
                return Err(format!("{lease:?} goes from epoch {last} to {}", held.epoch));
            }
            let first = known.entry(held.epoch).or_insert_with(|| held.holder.clone());
            if *first != held.holder {
                return Err(format!("{lease:?} has {first} and {} at epoch {}", held.holder, held.epoch));
            }
        }
        for change in entry.changes.iter().filter(|it| it.key.kind == "Lease") {
            let Some(object) = &change.after else { continue };
            let (holder, epoch) = (object.status["holder"].as_str(), object.status["epoch"].as_u64());
            let (Some(holder), Some(epoch)) = (holder.filter(|it| !it.is_empty()), epoch) else { continue };
            let lease = (change.key.namespace.clone(), change.key.name.clone());
            let known = self.holders.get(&lease).and_then(|it| it.get(&Epoch(epoch)));
            if known.map(String::as_str) != Some(holder) {
                return Err(format!("{} says {holder} at epoch {epoch}, and it was {known:?}", change.key));
            }
        }
        Ok(())
    }
}

/// F2: a fenced write is accepted only while its lease is held at its epoch.
#[derive(Default)]
pub struct NoStaleWrite {
    held: BTreeMap<Name, Epoch>,
}

impl Rule for NoStaleWrite {
    fn name(&self) -> &'static str {
        "F2: no accepted write of an epoch that is over"
    }

    fn see(&mut self, entry: &Entry, _: &State) -> Result<(), String> {
        for change in &entry.changes {
            let Some(fence) = &change.author.fence else { continue };
            let held = self.held.get(&(fence.namespace.clone(), fence.lease.clone()));
            if held != Some(&fence.epoch) {
                let lease = &fence.lease;
                return Err(format!(
                    "{} was written at epoch {} of {lease}, which was at {held:?}",
                    change.key, fence.epoch
                ));
            }
        }
        for (lease, held) in &entry.holds {
            match held {
                Some(held) => drop(self.held.insert(lease.clone(), held.epoch)),
                None => drop(self.held.remove(lease)),
            }
        }
        Ok(())
    }
}
