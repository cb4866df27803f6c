//! Consensus' view of the store: entries in, positions out.
//!
//! The order within one apply is what clients rely on: the store first, then the watch hub, then the verdicts. Whoever
//! was answered finds its write in a read and on every watch of this node.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_consensus::{Applied, Committed, Machine, MachineFailure, Payload, Position};
use setpoint_store::{Body, Entry, Store};
use setpoint_types::NodeId;

use super::{Generations, Proposals};
use crate::watch::Hub;

pub struct Applier {
    pub store: Arc<Store>,
    pub hub: Arc<Hub>,
    pub proposals: Arc<Proposals>,
    local: NodeId,
    generations: Mutex<Generations>,
}

impl Applier {
    pub fn new(
        local: NodeId,
        store: Arc<Store>,
        hub: Arc<Hub>,
        proposals: Arc<Proposals>,
        generations: Generations,
    ) -> Self {
        Self { store, hub, proposals, local, generations: Mutex::new(generations) }
    }
}

fn entry(committed: Committed) -> Entry {
    let Position { term, index } = committed.position;
    let body = match committed.payload {
        Payload::Blank => Body::Blank,
        Payload::Batch(batch) => {
            Body::Commands { stamp: batch.stamp(), commands: batch.commands().collect() }
        }
        Payload::Membership(record) => Body::Membership(record),
    };
    Entry { position: setpoint_store::Position { term, index }, body }
}

fn applied(applied: setpoint_store::Applied) -> Applied {
    let setpoint_store::Applied { position, membership } = applied;
    Applied { position: position.map(|at| Position { term: at.term, index: at.index }), membership }
}

impl Machine for Applier {
    fn applied(&self) -> Result<Applied, MachineFailure> {
        Ok(applied(self.store.applied()))
    }

    fn apply(&self, entries: Vec<Committed>) -> Result<(), MachineFailure> {
        let entries: Vec<Entry> = entries.into_iter().map(entry).collect();
        let outcome = self.store.apply(&entries, self.local).map_err(MachineFailure::new)?;
        self.hub.publish(outcome.changes);
        self.proposals.resolve(outcome.verdicts);
        Ok(())
    }

    fn flush(&self) -> Result<Applied, MachineFailure> {
        self.store.flush().map(applied).map_err(MachineFailure::new)
    }

    fn checkpoint(&self, directory: &Path) -> Result<Applied, MachineFailure> {
        // The engine makes the folder itself.
        std::fs::remove_dir(directory).map_err(MachineFailure::new)?;
        self.store.checkpoint(directory).map_err(MachineFailure::new)?;
        // What the files hold is read from the files: entries may have been applied since any look at the store.
        self.generations.lock().inspect(directory).map(applied).map_err(MachineFailure::new)
    }

    fn install(&self, directory: &Path) -> Result<Applied, MachineFailure> {
        let mut generations = self.generations.lock();
        let engine = generations.switch_to(directory).map_err(MachineFailure::new)?;
        let now = self.store.replace(engine).map_err(MachineFailure::new)?;
        setpoint_failpoint::hit("install.after-replace");
        generations.remove_stale();
        self.hub.reset(self.store.revision());
        Ok(applied(now))
    }
}
