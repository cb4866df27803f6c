//! A `LogFs` in memory that can fail: for tests and for deterministic simulation.
//!
//! It keeps what a program sees apart from what a disk has. Only a sync moves the one into the other;
//! `power_loss` throws the difference away, sector by sector, in whatever order its caller decides. Handles
//! opened before it are dead.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::fs::{LogFile, LogFs};

/// What a disk writes whole or not at all.
pub const SECTOR: usize = 512;

/// Clones are the same disk.
#[derive(Clone, Default)]
pub struct MemoryFs {
    disk: Arc<Mutex<Disk>>,
}

#[derive(Default)]
struct Disk {
    contents: Vec<Content>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    name_changes: Vec<NameChange>,
    /// Handles carry the count they were opened at; a power loss makes the older ones fail.
    power_losses: u64,
    faults: Faults,
    counts: Counts,
}

#[derive(Default)]
struct Content {
    seen: Vec<u8>,
    durable: Vec<u8>,
    unsynced: BTreeSet<usize>,
}

enum NameChange {
    Link(String, usize),
    Move(String, String),
    Unlink(String),
}

#[derive(Default)]
struct Faults {
    space: Option<usize>,
    writes_left: Option<u64>,
    syncs_left: Option<u64>,
    sync_delay: Duration,
}

/// What was asked of the disk so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub writes: u64,
    pub syncs: u64,
}

impl MemoryFs {
    /// At most this many bytes in all files together; writes beyond fail with `StorageFull`.
    pub fn limit_space(&self, bytes: Option<usize>) {
        self.disk.lock().faults.space = bytes;
    }

    /// All writes after the next `count` fail.
    pub fn fail_writes_after(&self, count: Option<u64>) {
        self.disk.lock().faults.writes_left = count;
    }

    /// All syncs after the next `count` fail.
    pub fn fail_syncs_after(&self, count: Option<u64>) {
        self.disk.lock().faults.syncs_left = count;
    }

    /// Every sync blocks its thread for so long.
    pub fn delay_syncs(&self, delay: Duration) {
        self.disk.lock().faults.sync_delay = delay;
    }

    pub fn counts(&self) -> Counts {
        self.disk.lock().counts
    }

    /// Drops what was not synced. `survives` is asked once for each unsynced sector, and for each unsynced
    /// change of names until it first says no: a directory is a journal. Faults are lifted.
    pub fn power_loss(&self, mut survives: impl FnMut() -> bool) {
        let mut disk = self.disk.lock();
        for content in &mut disk.contents {
            for sector in std::mem::take(&mut content.unsynced) {
                if survives() {
                    content.persist(sector);
                }
            }
            content.seen.clone_from(&content.durable);
        }
        for change in std::mem::take(&mut disk.name_changes) {
            if !survives() {
                break;
            }
            change.apply(&mut disk.durable_names);
        }
        disk.names = disk.durable_names.clone();
        disk.power_losses += 1;
        disk.faults = Faults::default();
    }

    /// After a failed sync, does what kernels do: takes what was written for clean, and so never writes it.
    pub fn forget_unsynced(&self) {
        for content in &mut self.disk.lock().contents {
            content.unsynced.clear();
        }
    }

    /// Changes one byte behind everybody's back.
    pub fn flip(&self, name: &str, offset: usize, mask: u8) {
        let mut disk = self.disk.lock();
        let content = disk.names[name];
        disk.contents[content].seen[offset] ^= mask;
        disk.contents[content].durable[offset] ^= mask;
    }

    /// The whole of a file, as its program sees it.
    pub fn read(&self, name: &str) -> Vec<u8> {
        let disk = self.disk.lock();
        disk.contents[disk.names[name]].seen.clone()
    }

    /// Replaces a file, durably.
    pub fn replace(&self, name: &str, bytes: Vec<u8>) {
        let mut disk = self.disk.lock();
        let content = disk.names[name];
        disk.contents[content] = Content { seen: bytes.clone(), durable: bytes, unsynced: BTreeSet::new() };
    }

    fn handle(&self, disk: &Disk, content: usize) -> Arc<dyn LogFile> {
        Arc::new(Handle { disk: self.disk.clone(), content, power_losses: disk.power_losses })
    }
}

impl LogFs for MemoryFs {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.disk.lock().names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        let disk = self.disk.lock();
        let content = *disk.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.handle(&disk, content))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        let mut disk = self.disk.lock();
        let content = disk.contents.len();
        disk.contents.push(Content::default());
        disk.change_names(NameChange::Link(name.to_owned(), content));
        Ok(self.handle(&disk, content))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.disk.lock();
        if !disk.names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        disk.change_names(NameChange::Move(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut disk = self.disk.lock();
        if !disk.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        // Its content stays for open handles, as on a real disk, but no longer counts as used space.
        disk.change_names(NameChange::Unlink(name.to_owned()));
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut disk = self.disk.lock();
        disk.counts.syncs += 1;
        spend(&mut disk.faults.syncs_left)?;
        disk.name_changes.clear();
        disk.durable_names = disk.names.clone();
        Ok(())
    }
}

struct Handle {
    disk: Arc<Mutex<Disk>>,
    content: usize,
    power_losses: u64,
}

impl Handle {
    fn with<T>(&self, work: impl FnOnce(&mut Disk) -> io::Result<T>) -> io::Result<T> {
        let mut disk = self.disk.lock();
        match disk.power_losses == self.power_losses {
            true => work(&mut disk),
            false => Err(io::Error::other("the power was lost since this file was opened")),
        }
    }
}

impl LogFile for Handle {
    fn length(&self) -> io::Result<u64> {
        self.with(|disk| Ok(disk.contents[self.content].seen.len() as u64))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.with(|disk| {
            let bytes = disk.contents[self.content].seen.get(offset as usize..).unwrap_or_default();
            buffer.copy_from_slice(bytes.get(..buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.with(|disk| {
            disk.counts.writes += 1;
            spend(&mut disk.faults.writes_left)?;
            let end = offset as usize + bytes.len();
            let grows_by = end.saturating_sub(disk.contents[self.content].seen.len());
            if disk.faults.space.is_some_and(|space| disk.used() + grows_by > space) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            disk.contents[self.content].write(bytes, offset as usize);
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        let delay = self.disk.lock().faults.sync_delay;
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        self.with(|disk| {
            disk.counts.syncs += 1;
            spend(&mut disk.faults.syncs_left)?;
            let content = &mut disk.contents[self.content];
            for sector in std::mem::take(&mut content.unsynced) {
                content.persist(sector);
            }
            Ok(())
        })
    }

    fn reads_block(&self) -> bool {
        false
    }
}

fn spend(left: &mut Option<u64>) -> io::Result<()> {
    match left {
        Some(0) => Err(io::Error::other("injected fault")),
        Some(left) => {
            *left -= 1;
            Ok(())
        }
        None => Ok(()),
    }
}

impl Disk {
    fn change_names(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.name_changes.push(change);
    }

    fn used(&self) -> usize {
        self.names.values().map(|&content| self.contents[content].seen.len()).sum()
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Link(name, content) => names.insert(name.clone(), *content),
            Self::Move(from, to) => names.remove(from).and_then(|content| names.insert(to.clone(), content)),
            Self::Unlink(name) => names.remove(name),
        };
    }
}

impl Content {
    fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if self.seen.len() < end {
            self.seen.resize(end, 0);
        }
        self.seen[offset..end].copy_from_slice(bytes);
        self.unsynced.extend(offset / SECTOR..end.div_ceil(SECTOR));
    }

    fn persist(&mut self, sector: usize) {
        let start = sector * SECTOR;
        let end = self.seen.len().min(start + SECTOR);
        if self.durable.len() < end {
            self.durable.resize(end, 0);
        }
        self.durable[start..end].copy_from_slice(&self.seen[start..end]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_synced_bytes_and_names_survive() {
        let fs = MemoryFs::default();
        let file = fs.create("a").expect("no fault is set");
        file.write_at(b"kept", 0).expect("no fault is set");
        file.sync().expect("no fault is set");
        fs.sync_names().expect("no fault is set");
        file.write_at(b"lost", 0).expect("no fault is set");
        fs.create("b").expect("no fault is set");
        fs.power_loss(|| false);
        assert_eq!(fs.list().expect("listing cannot fail"), ["a"]);
        assert_eq!(fs.read("a"), b"kept");
        assert!(file.write_at(b"late", 0).is_err(), "a handle outlived the power loss");
    }
}
