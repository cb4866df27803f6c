//! What a sync costs: the Raft log against a plain append and against a bare preallocated file, on the disk
//! under a directory.
//!
//! `cargo run --release -p setpoint-consensus --example log_engines -- DIRECTORY [SLICES]`
//!
//! One client appends a batch of entries of 300 bytes, waits until it is durable, and goes on. Contenders take
//! turns in short slices, so that a noisy machine is unfair to all of them alike. Printed is the median of the
//! slices, and in brackets the fastest tenth, which noise touches least: the first contender as a rate, the
//! others as ratios to it. docs/adr/0002 quotes the result.

#![allow(clippy::print_stdout)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use openraft::EntryPayload;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::type_config::TypeConfigExt;
use setpoint_consensus::Batch;
use setpoint_consensus::log::{
    DirFs, Entry, Ignore, LogId, LogOptions, LogStore, LogThread, TypeConfig, open,
};
use setpoint_types::Timestamp;
use tokio::runtime::Runtime;

const ENTRY_BYTES: usize = 300;
const SEGMENT_BYTES: u64 = 16 << 20;

/// Something that makes a batch of entries durable.
trait Contender {
    fn append(&mut self, entries: usize) -> io::Result<()>;
}

type Make = fn(&Path) -> io::Result<Box<dyn Contender>>;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let slices: usize = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(300);
    let directory = directory.join(format!("log-engines-{}", std::process::id()));
    let contenders: [(&str, Make); 4] = [
        ("plain append", |directory| Plain::begin(directory, 0)),
        ("bare preallocated", |directory| Plain::begin(directory, SEGMENT_BYTES)),
        ("log, stepped", |directory| Log::begin(directory, false)),
        ("log, with its thread", |directory| Log::begin(directory, true)),
    ];
    println!("| entries per sync | {} |", contenders.map(|(name, _)| name).join(" | "));
    println!("|---|{}", "---|".repeat(contenders.len()));
    for (batch, rounds) in [(1, 10), (16, 10), (128, 5), (1024, 2)] {
        let rates = compare(&directory, &contenders.map(|(_, make)| make), slices, batch, rounds)?;
        let [median, fast] = rates[0];
        let ratio = |rate: &[f64; 2]| format!(" {:.2} ({:.2}) |", rate[0] / median, rate[1] / fast);
        let ratios = rates[1..].iter().map(ratio).collect::<String>();
        println!("| {batch} | {median:.0}/s ({fast:.0}/s) |{ratios}");
    }
    Ok(())
}

/// The median rate of each contender and that of its fastest tenth, in entries per second.
fn compare(
    directory: &Path,
    makes: &[Make],
    slices: usize,
    batch: usize,
    rounds: usize,
) -> io::Result<Vec<[f64; 2]>> {
    let mut contenders = Vec::new();
    for (number, make) in makes.iter().enumerate() {
        let directory = directory.join(number.to_string());
        std::fs::create_dir_all(&directory)?;
        contenders.push((make(&directory)?, Vec::new()));
    }
    for slice in 0..slices {
        // Each slice begins with another contender, and the first ones are not counted.
        for turn in 0..makes.len() {
            let (contender, rates) = &mut contenders[(slice + turn) % makes.len()];
            let began = Instant::now();
            for _ in 0..rounds {
                contender.append(batch)?;
            }
            if slice >= makes.len() {
                rates.push((batch * rounds) as f64 / began.elapsed().as_secs_f64());
            }
        }
    }
    let summaries = contenders.into_iter().map(|(_, rates)| summary(rates)).collect();
    std::fs::remove_dir_all(directory)?;
    Ok(summaries)
}

fn summary(mut rates: Vec<f64>) -> [f64; 2] {
    rates.sort_by(f64::total_cmp);
    [rates[rates.len() / 2], rates[rates.len() * 9 / 10]]
}

/// One write and one fdatasync per batch: into a file that grows, or over one that was filled before.
struct Plain {
    file: File,
    position: u64,
    capacity: u64,
}

impl Plain {
    fn begin(directory: &Path, capacity: u64) -> io::Result<Box<dyn Contender>> {
        let path = directory.join("plain");
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        file.write_all_at(&vec![0; capacity as usize], 0)?;
        file.sync_all()?;
        Ok(Box::new(Self { file, position: 0, capacity }))
    }
}

impl Contender for Plain {
    fn append(&mut self, entries: usize) -> io::Result<()> {
        let bytes = vec![7; entries * ENTRY_BYTES];
        if self.capacity > 0 && self.position + bytes.len() as u64 > self.capacity {
            self.position = 0;
        }
        self.file.write_all_at(&bytes, self.position)?;
        self.position += bytes.len() as u64;
        self.file.sync_data()
    }
}

/// This crate's log as a node has it: openraft's interface, checksums, index, tail, rotation, purge.
struct Log {
    runtime: Runtime,
    store: Option<LogStore>,
    writer: Writer,
    next: u64,
    purged_bytes: usize,
}

enum Writer {
    Stepped(Box<setpoint_consensus::log::LogWriter>),
    Thread(Option<LogThread>),
}

impl Log {
    fn begin(directory: &Path, thread: bool) -> io::Result<Box<dyn Contender>> {
        let fs = Arc::new(DirFs::open(directory.join("raft"))?);
        let (store, writer) = open(fs, LogOptions::default(), Arc::new(Ignore)).map_err(io::Error::other)?;
        let writer =
            if thread { Writer::Thread(Some(writer.spawn()?)) } else { Writer::Stepped(Box::new(writer)) };
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        Ok(Box::new(Self { runtime, store: Some(store), writer, next: 0, purged_bytes: 0 }))
    }
}

impl Contender for Log {
    fn append(&mut self, entries: usize) -> io::Result<()> {
        let Some(store) = &mut self.store else { return Ok(()) };
        let command = Bytes::from(vec![7; ENTRY_BYTES - 8 - 4]);
        let log_id = |index| LogId { leader_id: 1.into(), index };
        let batch: Vec<Entry> = (self.next..self.next + entries as u64)
            .map(|index| {
                let payload = EntryPayload::Normal(Batch::new(Timestamp(index), [&command]));
                Entry { log_id: log_id(index), payload }
            })
            .collect();
        self.next += entries as u64;
        self.purged_bytes += entries * ENTRY_BYTES;
        let (sender, receiver) = TypeConfig::oneshot();
        let writer = &mut self.writer;
        let purge = self.purged_bytes > 8 << 20 && std::mem::take(&mut self.purged_bytes) > 0;
        self.runtime.block_on(async {
            if purge {
                store.purge(log_id(self.next - 2 * entries as u64)).await?;
            }
            store.append(batch, IOFlushed::signal(sender)).await?;
            if let Writer::Stepped(writer) = writer {
                writer.step();
            }
            receiver.await.map_err(io::Error::other)?
        })
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.store = None;
        if let Writer::Thread(thread) = &mut self.writer
            && let Some(thread) = thread.take()
        {
            thread.join();
        }
    }
}
