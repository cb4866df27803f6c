//! Segment files ready for use: purged ones, kept for reuse, and fresh ones filled with zeros ahead of time.
//!
//! Both have all their blocks written, so a sync later has only data to write and no metadata: measured, that
//! is what makes a log of preallocated files fast; a merely reserved file gains little (docs/adr/0002).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use tracing::warn;

use super::fs::{LogFile, LogFs};
use super::segment::spare_name;

pub struct Spare {
    pub name: String,
    pub file: Arc<dyn LogFile>,
    pub capacity: u32,
}

pub struct Spares {
    fs: Arc<dyn LogFs>,
    capacity: u32,
    count_max: usize,
    ready: Mutex<Vec<Spare>>,
    /// Names are numbers that no spare of this or an earlier run has.
    next_number: AtomicU64,
    refill: Mutex<Option<JoinHandle<()>>>,
}

impl Spares {
    pub fn new(fs: Arc<dyn LogFs>, capacity: u32, count_max: usize) -> Self {
        let next_number = AtomicU64::new(1);
        Self { fs, capacity, count_max, ready: Mutex::default(), next_number, refill: Mutex::default() }
    }

    /// A file with room for at least `capacity`: a kept one if it is large enough, otherwise a fresh one.
    pub fn take(&self, capacity: u32) -> io::Result<Spare> {
        if capacity <= self.capacity
            && let Some(spare) = self.ready.lock().pop()
        {
            return Ok(spare);
        }
        self.prepare(capacity.max(self.capacity))
    }

    /// Takes over a file that nobody else uses or will use: keeps it under another name, or removes it.
    pub fn give(&self, name: &str, file: Arc<dyn LogFile>) -> io::Result<()> {
        let capacity = file.length()?;
        let mut ready = self.ready.lock();
        let alone = Arc::strong_count(&file) == 1;
        if !alone || capacity != u64::from(self.capacity) || ready.len() >= self.count_max {
            return self.fs.remove(name);
        }
        let spare = self.name();
        self.fs.rename(name, &spare)?;
        ready.push(Spare { name: spare, file, capacity: self.capacity });
        Ok(())
    }

    /// Takes over a spare of an earlier run. One that was not finished is too short, and goes.
    pub fn adopt(&self, name: String, number: u64) -> io::Result<()> {
        self.next_number.fetch_max(number + 1, Ordering::Relaxed);
        let file = self.fs.open(&name)?;
        let mut ready = self.ready.lock();
        if file.length()? != u64::from(self.capacity) || ready.len() >= self.count_max {
            return self.fs.remove(&name);
        }
        ready.push(Spare { name, file, capacity: self.capacity });
        Ok(())
    }

    /// Makes one file on another thread, if there is none, so that the next segment need not wait for it.
    pub fn refill_in_background(self: &Arc<Self>) {
        let mut refill = self.refill.lock();
        if self.count_max == 0
            || !self.ready.lock().is_empty()
            || refill.as_ref().is_some_and(|r| !r.is_finished())
        {
            return;
        }
        let spares = self.clone();
        let work = move || match spares.prepare(spares.capacity) {
            Ok(spare) => spares.ready.lock().push(spare),
            // Not fatal yet: the writer tries again when it needs the file, and then it is.
            Err(error) => {
                warn!(error = &error as &dyn std::error::Error, "cannot prepare a raft log segment")
            }
        };
        match std::thread::Builder::new().name("raft-log-spare".into()).spawn(work) {
            Ok(thread) => *refill = Some(thread),
            Err(error) => warn!(error = &error as &dyn std::error::Error, "cannot start a thread"),
        }
    }

    /// Waits for a refill under way, so that nothing touches the directory after the writer has ended.
    pub fn settle(&self) {
        if let Some(thread) = self.refill.lock().take() {
            // A refill that panicked left at most a file that the next start removes.
            let _ = thread.join();
        }
    }

    fn prepare(&self, capacity: u32) -> io::Result<Spare> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        let name = self.name();
        let file = self.fs.create(&name)?;
        let mut at = 0;
        while at < capacity as usize {
            let length = ZEROS.len().min(capacity as usize - at);
            file.write_at(&ZEROS[..length], at as u64)?;
            at += length;
        }
        file.sync()?;
        Ok(Spare { name, file, capacity })
    }

    fn name(&self) -> String {
        spare_name(self.next_number.fetch_add(1, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::memory::MemoryFs;

    #[test]
    fn a_file_that_is_still_being_read_is_not_reused() {
        let fs = MemoryFs::default();
        let spares = Spares::new(Arc::new(fs.clone()), 16, 2);
        for name in ["idle", "read"] {
            fs.create(name).and_then(|file| file.write_at(&[1; 16], 0)).expect("no fault is set");
        }
        let reader = fs.open("read").expect("it exists");
        spares.give("read", reader.clone()).expect("no fault is set");
        spares.give("idle", fs.open("idle").expect("it exists")).expect("no fault is set");
        let taken = spares.take(16).expect("one is kept");
        taken.file.write_at(&[2; 16], 0).expect("no fault is set");
        let mut content = [0; 16];
        reader.read_at(&mut content, 0).expect("it is still readable");
        assert_eq!(content, [1; 16]);
        assert!(spares.ready.lock().is_empty(), "both files were kept");
    }

    #[test]
    fn fresh_files_have_their_size_and_unfinished_ones_go() {
        let fs = MemoryFs::default();
        let spares = Spares::new(Arc::new(fs.clone()), 100_000, 2);
        let spare = spares.take(200_000).expect("no fault is set");
        assert_eq!(fs.read(&spare.name), vec![0; 200_000]);
        fs.create("7.spare").and_then(|file| file.write_at(&[0; 10], 0)).expect("no fault is set");
        spares.adopt("7.spare".into(), 7).expect("no fault is set");
        assert_eq!(fs.list().expect("listing cannot fail"), [spare.name]);
        assert_eq!(spares.name(), "8.spare");
    }
}
