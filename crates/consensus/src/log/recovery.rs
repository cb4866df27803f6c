//! Opening a log: finds its segments, replays their records, drops what was being written when it stopped.
//!
//! A power loss leaves the last epoch of the last segment in any state: nothing of it was confirmed, unless
//! it was whole. So it is cut at its first bad record, which is normal. A bad record that a later epoch or
//! segment follows was once synced: that is damage, and damage stops the node, because it may have voted or
//! acknowledged what is lost.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tracing::{info, warn};

use super::error::LogError;
use super::fs::{LogFile, LogFs};
use super::index::{Change, Index};
use super::options::{LogObserver, LogOptions};
use super::outline::Outline;
use super::queue::Queue;
use super::record::{self, ALIGN, Epoch, Header, Record, Sequence};
use super::segment::{Active, Place, file_name, number_of_spare, sequence_of};
use super::spare::Spares;
use super::store::LogStore;
use super::view::View;
use super::writer::{LogWriter, Written, begin};
use crate::raft::LogId;

/// Opens the log in `fs`, or begins one. The store confirms nothing until the writer is driven:
/// `LogWriter::spawn`.
pub fn open(
    fs: Arc<dyn LogFs>,
    options: LogOptions,
    observer: Arc<dyn LogObserver>,
) -> Result<(LogStore, LogWriter), LogError> {
    let spares = Arc::new(Spares::new(fs.clone(), options.segment_bytes, options.spares_max));
    let Found { segments, abandoned } = load(&*fs, &spares)?;
    let mut replay = Replay::default();
    let end = replay.all(&segments)?;
    replay.check_complete()?;
    // Not earlier: until here, a refusal to open has changed nothing that could be evidence.
    for name in abandoned {
        fs.remove(&name).map_err(LogError::io("remove", name))?;
    }
    let active = match end.zip(segments.last()) {
        Some(((end, content), segment)) => resume(segment, &content, &end)?,
        None => start(&*fs, &spares, &mut replay)?,
    };
    let Replay { written, index, .. } = replay;
    let held = written.outline.range();
    info!(segments = segments.len(), first = held.start, next = held.end, "raft log opened");

    let view = View::new(written.vote, written.committed, written.outline.clone(), index, &options);
    let (view, queue) = (Arc::new(view), Arc::new(Queue::new(options.clone())));
    let store = LogStore::new(queue.clone(), view.clone(), options.read_bytes_max);
    let writer = LogWriter { fs, queue, view, observer, spares, active, written, failed: false };
    Ok((store, writer))
}

struct Loaded {
    sequence: Sequence,
    name: String,
    file: Arc<dyn LogFile>,
    header: Header,
}

/// Where the records of a segment end, and in which state its last epoch is.
#[derive(Clone, Copy)]
struct End {
    position: usize,
    /// Where the last epoch begins: from here on nothing is known to have been synced.
    epoch_start: usize,
    epoch: Epoch,
    epoch_closed: bool,
}

impl End {
    const BEGINNING: Self = Self { position: 0, epoch_start: 0, epoch: 0, epoch_closed: true };

    /// The epoch to which a record here belongs: the only one that may be torn, and the one to go on with.
    fn open_epoch(&self) -> Epoch {
        if self.epoch_closed { self.epoch + 1 } else { self.epoch }
    }
}

struct Found {
    /// In order, each the successor of the one before.
    segments: Vec<Loaded>,
    /// Files that the log had given up already, or not yet begun to use.
    abandoned: Vec<String>,
}

fn load(fs: &dyn LogFs, spares: &Spares) -> Result<Found, LogError> {
    let names = fs.list().map_err(LogError::io("list", "the directory"))?;
    for name in &names {
        if let Some(number) = number_of_spare(name) {
            spares.adopt(name.clone(), number).map_err(LogError::io("adopt", name))?;
        }
    }
    let mut sequences: Vec<Sequence> = names.iter().filter_map(|name| sequence_of(name)).collect();
    sequences.sort_unstable();
    let newest = sequences.last().copied();
    let (mut segments, mut abandoned) = (Vec::<Loaded>::new(), Vec::new());
    for sequence in sequences.into_iter().rev() {
        let name = file_name(sequence);
        let continues = segments.last().is_none_or(|successor| {
            // Segments are removed from the front, not always all at once. Whether one is missing shows in
            // the entries.
            successor.header.previous.is_some_and(|previous| previous.sequence == sequence)
        });
        let segment = match continues {
            true => load_segment(fs, sequence, &name, Some(sequence) == newest)?,
            false => None,
        };
        match segment {
            Some(segment) => segments.push(segment),
            None => abandoned.push(name),
        }
    }
    segments.reverse();
    Ok(Found { segments, abandoned })
}

/// `None` for a segment that was being begun: without a header it holds nothing that was confirmed.
fn load_segment(
    fs: &dyn LogFs,
    sequence: Sequence,
    name: &str,
    is_newest: bool,
) -> Result<Option<Loaded>, LogError> {
    let name = name.to_owned();
    let file = fs.open(&name).map_err(LogError::io("open", &name))?;
    let beginning = read(&*file, &name, HEADER_BYTES_MAX)?;
    let Some(frame) = record::frame(&beginning, 0, sequence) else {
        if !is_newest || synced_after(&read(&*file, &name, u64::MAX)?, sequence, &End::BEGINNING) {
            return Err(LogError::Damaged { file: name, offset: 0, damage: "its header is not valid" });
        }
        warn!(file = name, "dropped a raft log segment that was being begun");
        return Ok(None);
    };
    match frame.record() {
        Ok(Record::Header(header)) => Ok(Some(Loaded { sequence, name, file, header })),
        Ok(_) => Err(LogError::Damaged { file: name, offset: 0, damage: "it does not begin with a header" }),
        Err(source) => Err(LogError::Unreadable { file: name, offset: 0, source }),
    }
}

/// More than a header's frame takes.
const HEADER_BYTES_MAX: u64 = 512;

fn read(file: &dyn LogFile, name: &str, bytes_max: u64) -> Result<Bytes, LogError> {
    let length = file.length().map_err(LogError::io("measure", name))?.min(bytes_max);
    let mut content = BytesMut::zeroed(length as usize);
    file.read_at(&mut content, 0).map_err(LogError::io("read", name))?;
    Ok(content.freeze())
}

#[derive(Default)]
struct Replay {
    written: Written,
    index: Index,
    /// The last entry that is in none of the segments here. It must have been purged, or replaced.
    absent: Option<LogId>,
}

impl Replay {
    /// Returns the end and the content of the last segment, or nothing if there is no segment. One content at
    /// a time is in memory.
    fn all(&mut self, segments: &[Loaded]) -> Result<Option<(End, Bytes)>, LogError> {
        let mut last = None;
        for (at, segment) in segments.iter().enumerate() {
            if at == 0 {
                self.begin(&segment.header);
            } else if segment.header.checkpoint != self.written.checkpoint() {
                return Err(segment.damaged(0, "its header contradicts the segment before"));
            }
            self.index.apply(Change::Begin { sequence: segment.sequence, file: segment.file.clone() });
            let content = read(&*segment.file, &segment.name, u64::MAX)?;
            let known_end =
                segments.get(at + 1).and_then(|next| next.header.previous).map(|previous| previous.end);
            let end = self.segment(segment, &content, known_end.map(|end| end as usize))?;
            if known_end.is_none() && synced_after(&content, segment.sequence, &end) {
                return Err(segment.damaged(end.position, "a record is not valid, but later ones are"));
            }
            last = Some((end, content));
        }
        Ok(last)
    }

    fn check_complete(&self) -> Result<(), LogError> {
        let purged = self.written.outline.purged();
        match self.absent.filter(|absent| purged.is_none_or(|purged| purged.index < absent.index)) {
            Some(LogId { index: last, .. }) => Err(LogError::Missing { last }),
            None => Ok(()),
        }
    }

    fn begin(&mut self, header: &Header) {
        let checkpoint = &header.checkpoint;
        self.written.vote = checkpoint.vote;
        self.written.committed = checkpoint.committed;
        self.written.outline = Outline::starting_after(checkpoint.purged, checkpoint.last);
        self.absent = checkpoint.last.filter(|_| checkpoint.last != checkpoint.purged);
    }

    /// Replays until the known end, or until the first record that is not valid.
    fn segment(
        &mut self,
        segment: &Loaded,
        content: &Bytes,
        known_end: Option<usize>,
    ) -> Result<End, LogError> {
        let mut end = End::BEGINNING;
        while known_end != Some(end.position) {
            let at = end.position;
            let Some(frame) = record::frame(content, at, segment.sequence) else {
                if known_end.is_none() {
                    break;
                }
                return Err(segment.damaged(at, "a record is not valid, but a later segment follows"));
            };
            if frame.epoch != end.epoch {
                (end.epoch_start, end.epoch) = (at, frame.epoch);
            }
            (end.position, end.epoch_closed) = (frame.end, frame.closes_epoch);
            let place = Place { offset: at as u32, length: (frame.end - at) as u32 };
            let unreadable =
                |source| LogError::Unreadable { file: segment.name.clone(), offset: at as u64, source };
            let record = frame.record().map_err(unreadable)?;
            self.record(record, place).map_err(|damage| segment.damaged(at, damage))?;
        }
        Ok(end)
    }

    fn record(&mut self, record: Record, place: Place) -> Result<(), &'static str> {
        match record {
            Record::Header(_) if place.offset == 0 => {}
            Record::Header(_) => return Err("a header is not at the beginning"),
            Record::Append(entry) => {
                self.written
                    .outline
                    .append(entry.log_id)
                    .map_err(|_| "an entry does not follow the one before")?;
                self.index.apply(Change::Place { index: entry.log_id.index, place });
            }
            Record::TruncateAfter(keep) => {
                let next = self.written.outline.truncate_after(keep);
                self.index.apply(Change::Truncate { next });
                self.absent = self
                    .absent
                    .filter(|absent| absent.index < next)
                    .or(keep.filter(|_| self.absent.is_some()));
            }
            Record::Purge(upto) => {
                self.written.outline.purge(upto);
                self.index.apply(Change::Purge { upto: upto.index });
            }
            Record::Vote(vote) => self.written.vote = Some(vote),
            Record::Committed(committed) => self.written.committed = committed,
        }
        Ok(())
    }
}

impl Loaded {
    fn damaged(&self, offset: usize, damage: &'static str) -> LogError {
        LogError::Damaged { file: self.name.clone(), offset: offset as u64, damage }
    }
}

/// Whether a valid record beyond `end` proves that what is bad at `end` had been synced.
fn synced_after(content: &Bytes, sequence: Sequence, end: &End) -> bool {
    candidates(content, sequence, end.position)
        .filter_map(|(at, _)| record::frame(content, at, sequence))
        .any(|frame| frame.epoch > end.open_epoch())
}

/// Where frames of this segment might begin and end, from `from` on. Stale bytes of an earlier life hardly
/// ever match.
fn candidates(content: &Bytes, sequence: Sequence, from: usize) -> impl Iterator<Item = (usize, usize)> {
    (from..content.len())
        .step_by(ALIGN)
        .filter_map(move |at| record::candidate(content, at, sequence).map(|end| (at, end)))
}

/// Makes what was found durable, and what comes after it impossible to mistake for records.
fn resume(segment: &Loaded, content: &Bytes, end: &End) -> Result<Active, LogError> {
    let torn_end =
        candidates(content, segment.sequence, end.position).map(|(_, end)| end.min(content.len())).max();
    let write = |bytes: &[u8], at: usize| {
        segment.file.write_at(bytes, at as u64).map_err(LogError::io("repair", &segment.name))
    };
    if let Some(torn_end) = torn_end {
        let dropped = torn_end - end.position;
        warn!(file = segment.name, offset = end.position, dropped, "dropped the torn end of the raft log");
        write(&vec![0; dropped], end.position)?;
    }
    // After a failed sync the kernel may hold pages that it will never write, and call them clean. Writing
    // them again makes the sync below mean what it says.
    write(&content[end.epoch_start..end.position], end.epoch_start)?;
    segment.file.sync().map_err(LogError::io("sync", &segment.name))?;
    let capacity = u32::try_from(content.len()).unwrap_or(u32::MAX);
    Ok(Active::new(segment.sequence, segment.file.clone(), capacity, end.position as u32, end.open_epoch()))
}

fn start(fs: &dyn LogFs, spares: &Spares, replay: &mut Replay) -> Result<Active, LogError> {
    let begun = begin(fs, spares, None, &replay.written, 0).and_then(|mut active| {
        active.flush(true)?;
        Ok(active)
    });
    let active = begun.map_err(LogError::io("begin", "the first file"))?;
    replay.index.apply(Change::Begin { sequence: active.sequence, file: active.file.clone() });
    Ok(active)
}
