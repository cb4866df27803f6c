//! The segment being written: frames are staged in one buffer, then written and synced together.
//!
//! Also the names of the files. Not here: when to begin a new segment (`writer`), and reading one
//! (`recovery`, `reader`).

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::fs::LogFile;
use super::record::{self, Epoch, RecordRef, Sequence};

const SUFFIX: &str = ".log";
const SPARE_SUFFIX: &str = ".spare";

pub fn file_name(sequence: Sequence) -> String {
    format!("{:016}{SUFFIX}", sequence.0)
}

pub fn spare_name(number: u64) -> String {
    format!("{number}{SPARE_SUFFIX}")
}

pub fn sequence_of(name: &str) -> Option<Sequence> {
    let sequence = name.strip_suffix(SUFFIX)?.parse().ok().map(Sequence)?;
    (sequence.0 > 0 && file_name(sequence) == name).then_some(sequence)
}

pub fn number_of_spare(name: &str) -> Option<u64> {
    name.strip_suffix(SPARE_SUFFIX)?.parse().ok()
}

/// Where a frame is in its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub offset: u32,
    pub length: u32,
}

/// What one flush took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flushed {
    pub bytes: usize,
    pub write: Duration,
    pub sync: Duration,
}

/// The one segment that grows.
pub struct Active {
    pub sequence: Sequence,
    pub file: Arc<dyn LogFile>,
    capacity: u32,
    /// Up to here the file has records; the buffer follows.
    position: u32,
    epoch: Epoch,
    buffer: Vec<u8>,
    /// The start, in the buffer, of the newest frame: not sealed until it is known whether a sync follows it.
    unsealed: Option<usize>,
    /// Records were written, but not synced, in this epoch.
    unsynced: bool,
}

impl Active {
    pub fn new(
        sequence: Sequence,
        file: Arc<dyn LogFile>,
        capacity: u32,
        position: u32,
        epoch: Epoch,
    ) -> Self {
        let buffer = Vec::with_capacity(64 << 10);
        Self { sequence, file, capacity, position, epoch, buffer, unsealed: None, unsynced: false }
    }

    /// Where the next frame goes, and where the segment ends if none follows.
    pub fn end(&self) -> u32 {
        self.position + self.buffer.len() as u32
    }

    pub fn fits(&self, frame_len: usize) -> bool {
        self.end() as usize + frame_len <= self.capacity as usize
    }

    pub fn is_half_full(&self) -> bool {
        self.end() > self.capacity / 2
    }

    /// Whether something waits to be written, or was written and waits for a sync.
    pub fn is_dirty(&self) -> bool {
        self.unsynced || !self.buffer.is_empty()
    }

    /// Stages a record; the caller has checked that it fits.
    pub fn put(&mut self, record: RecordRef<'_>) -> Place {
        self.seal(false);
        let offset = self.end();
        let start = self.buffer.len();
        record.put(self.sequence, self.epoch, &mut self.buffer);
        self.unsealed = Some(start);
        Place { offset, length: (self.buffer.len() - start) as u32 }
    }

    /// Writes what is staged, in one call, and syncs if asked to.
    pub fn flush(&mut self, sync: bool) -> io::Result<Flushed> {
        let bytes = self.buffer.len();
        let began = Instant::now();
        if bytes > 0 {
            self.seal(sync);
            setpoint_failpoint::hit("log.before-write");
            self.file.write_at(&self.buffer, u64::from(self.position))?;
            self.position += bytes as u32;
            self.unsynced = true;
            self.buffer.clear();
            self.buffer.shrink_to(4 << 20);
        }
        let write = began.elapsed();
        if !sync || !self.unsynced {
            return Ok(Flushed { bytes, write, sync: Duration::ZERO });
        }
        setpoint_failpoint::hit("log.before-sync");
        self.file.sync()?;
        setpoint_failpoint::hit("log.after-sync");
        self.unsynced = false;
        if bytes > 0 {
            // Only now does the newest record close its epoch; a sync of older records alone opens no new
            // one.
            self.epoch += 1;
        }
        Ok(Flushed { bytes, write, sync: began.elapsed() - write })
    }

    fn seal(&mut self, closes_epoch: bool) {
        if let Some(start) = self.unsealed.take() {
            record::seal(&mut self.buffer[start..], self.sequence, closes_epoch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_nothing_else_is() {
        assert_eq!(sequence_of(&file_name(Sequence(12))), Some(Sequence(12)));
        for name in
            ["12.log", "0000000000000000.log", "000000000000012x.log", "LOCK", "0000000000000012.spare"]
        {
            assert_eq!(sequence_of(name), None, "{name}");
        }
    }
}
