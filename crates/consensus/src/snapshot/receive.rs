//! The receiving end of a snapshot transfer: parts are checked, written and synced into `recv/`.
//!
//! One transfer at a time: a new one ends the one before it, which must be from a leader that is gone or has retried.
//! Whatever a peer sends, the worst outcome is an error and an abandoned directory. Not here: what installing means
//! (`state`).

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_api::setpoint::peer::v1 as proto;
use setpoint_api::setpoint::peer::v1::snapshot_part::Part;
use tokio::sync::{OwnedMutexGuard, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::depot::empty_directory;
use crate::codec::CodecError;
use crate::membership::MembershipRecord;
use crate::raft::{LogId, SnapshotMeta, Vote};
use crate::transport::wire::{self, Malformed};

const CHUNKS_AHEAD: usize = 4;
const NAME_BYTES_MAX: usize = 255;

#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    #[error("the snapshot stream broke")]
    Broken(#[source] Box<Status>),
    #[error("the snapshot stream stalled")]
    Stalled,
    #[error("a newer snapshot stream took over")]
    Superseded,
    #[error("the snapshot's parts are out of order: {0}")]
    Order(&'static str),
    #[error("the snapshot's header is malformed")]
    Header(#[source] Malformed),
    #[error("the snapshot's membership is malformed")]
    Membership(#[source] CodecError),
    #[error("a chunk of {file:?} does not match its checksum")]
    Checksum { file: String },
    #[error("{name:?} is not a plain file name")]
    Name { name: String },
    #[error("a received file could not be written")]
    Write(#[source] io::Error),
}

impl ReceiveError {
    /// True if the sender is at fault, not the network or this node.
    pub fn is_senders_fault(&self) -> bool {
        use ReceiveError::{Checksum, Header, Membership, Name, Order};
        matches!(self, Order(_) | Header(_) | Membership(_) | Checksum { .. } | Name { .. })
    }
}

pub struct Receiver {
    directory: PathBuf,
    stall: Duration,
    /// Held by whoever writes to the directory, also after its transfer was given up.
    turn: Arc<tokio::sync::Mutex<()>>,
    current: Mutex<CancellationToken>,
}

/// A complete, durable snapshot. No other transfer starts while this value lives.
pub struct Received {
    pub leader: Vote,
    pub meta: SnapshotMeta,
    pub directory: PathBuf,
    _turn: OwnedMutexGuard<()>,
}

impl Receiver {
    pub fn new(directory: PathBuf, stall: Duration) -> Self {
        Self { directory, stall, turn: Arc::default(), current: Mutex::default() }
    }

    pub async fn receive(&self, mut parts: Streaming<proto::SnapshotPart>) -> Result<Received, ReceiveError> {
        let superseded = CancellationToken::new();
        std::mem::replace(&mut *self.current.lock(), superseded.clone()).cancel();
        let turn = Arc::clone(&self.turn).lock_owned().await;
        tokio::select! {
            () = superseded.cancelled() => Err(ReceiveError::Superseded),
            received = self.receive_parts(&mut parts, turn) => received,
        }
    }

    async fn receive_parts(
        &self,
        parts: &mut Streaming<proto::SnapshotPart>,
        turn: OwnedMutexGuard<()>,
    ) -> Result<Received, ReceiveError> {
        let Part::Header(header) = self.next(parts).await? else {
            return Err(ReceiveError::Order("the header is not first"));
        };
        let (leader, meta) = read_header(header)?;

        let (chunks, queue) = mpsc::channel(CHUNKS_AHEAD);
        let directory = self.directory.clone();
        // The turn goes with the writer, which may outlive this transfer by a moment.
        let writing = spawn_blocking(move || (Writer::run(directory, queue), turn));
        let announced = loop {
            match self.next(parts).await? {
                // If the writer has ended, its error is the reason; it comes out below.
                Part::Chunk(chunk) => match chunks.send(chunk).await {
                    Ok(()) => {}
                    Err(_) => break None,
                },
                Part::End(end) => break Some((end.files, end.bytes)),
                Part::Header(_) => return Err(ReceiveError::Order("a second header")),
            }
        };
        drop(chunks);
        let (written, turn) = writing.await.map_err(|error| ReceiveError::Write(io::Error::other(error)))?;
        if announced != Some(written?) {
            return Err(ReceiveError::Order("the end does not match what came before"));
        }
        Ok(Received { leader, meta, directory: self.directory.clone(), _turn: turn })
    }

    async fn next(&self, parts: &mut Streaming<proto::SnapshotPart>) -> Result<Part, ReceiveError> {
        let message = timeout(self.stall, parts.message()).await.map_err(|_| ReceiveError::Stalled)?;
        let message = message.map_err(|status| ReceiveError::Broken(Box::new(status)))?;
        message.and_then(|part| part.part).ok_or(ReceiveError::Order("the stream ended before the snapshot"))
    }
}

fn read_header(header: proto::SnapshotHeader) -> Result<(Vote, SnapshotMeta), ReceiveError> {
    let leader = wire::leader(header.leader).map_err(ReceiveError::Header)?;
    let last_log_id: LogId =
        header.last_log.map(wire::read_log_id).ok_or(ReceiveError::Header(Malformed("no last log id")))?;
    if *last_log_id.leader_id > leader.leader_id.term {
        return Err(ReceiveError::Header(Malformed("the snapshot is newer than the leader that sends it")));
    }
    let record = MembershipRecord::decode(Some(&header.membership)).map_err(ReceiveError::Membership)?;
    let meta = SnapshotMeta { last_log_id: Some(last_log_id), last_membership: record.stored().clone() };
    if meta.last_membership.log_id().is_some_and(|log_id| log_id > last_log_id) {
        return Err(ReceiveError::Header(Malformed("the membership is newer than the snapshot")));
    }
    Ok((leader, meta))
}

struct Writer {
    directory: PathBuf,
    open: Option<Open>,
    files: u64,
    bytes: u64,
}

struct Open {
    name: String,
    file: File,
    length: u64,
}

impl Writer {
    /// Writes chunks until there are no more. Returns the number of files and bytes, all durable.
    fn run(
        directory: PathBuf,
        mut chunks: mpsc::Receiver<proto::SnapshotChunk>,
    ) -> Result<(u64, u64), ReceiveError> {
        empty_directory(&directory).map_err(ReceiveError::Write)?;
        let mut writer = Self { directory, open: None, files: 0, bytes: 0 };
        while let Some(chunk) = chunks.blocking_recv() {
            writer.write(chunk)?;
        }
        writer.close()?;
        sync_directory(&writer.directory).map_err(ReceiveError::Write)?;
        setpoint_failpoint::hit("snapshot.after-receive");
        Ok((writer.files, writer.bytes))
    }

    fn write(&mut self, chunk: proto::SnapshotChunk) -> Result<(), ReceiveError> {
        if crc32c::crc32c(&chunk.data) != chunk.crc {
            return Err(ReceiveError::Checksum { file: chunk.file });
        }
        if chunk.offset == 0 {
            self.close()?;
            self.open = Some(create(&self.directory, chunk.file)?);
            self.files += 1;
        } else if self
            .open
            .as_ref()
            .is_none_or(|open| (&open.name, open.length) != (&chunk.file, chunk.offset))
        {
            return Err(ReceiveError::Order("a chunk does not continue the one before it"));
        }
        let open = self.open.as_mut().ok_or(ReceiveError::Order("a chunk without a file"))?;
        open.file.write_all(&chunk.data).map_err(ReceiveError::Write)?;
        open.length += chunk.data.len() as u64;
        self.bytes += chunk.data.len() as u64;
        setpoint_failpoint::hit("snapshot.during-receive");
        Ok(())
    }

    fn close(&mut self) -> Result<(), ReceiveError> {
        match self.open.take() {
            Some(open) => open.file.sync_all().map_err(ReceiveError::Write),
            None => Ok(()),
        }
    }
}

fn create(directory: &Path, name: String) -> Result<Open, ReceiveError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let is_plain =
        name.len() <= NAME_BYTES_MAX && name.bytes().all(plain) && !matches!(&*name, "" | "." | "..");
    if !is_plain {
        return Err(ReceiveError::Name { name });
    }
    let file = OpenOptions::new().write(true).create_new(true).open(directory.join(&name));
    Ok(Open { file: file.map_err(ReceiveError::Write)?, name, length: 0 })
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn chunk(file: &str, offset: u64, data: &'static [u8]) -> proto::SnapshotChunk {
        let crc = crc32c::crc32c(data);
        proto::SnapshotChunk { file: file.to_owned(), offset, data: Bytes::from_static(data), crc }
    }

    fn check(chunks: Vec<proto::SnapshotChunk>) -> (tempfile::TempDir, Result<(u64, u64), ReceiveError>) {
        let parent = tempfile::tempdir().expect("a temporary directory");
        let (sender, queue) = mpsc::channel(chunks.len().max(1));
        for chunk in chunks {
            sender.try_send(chunk).expect("the channel was made large enough");
        }
        drop(sender);
        let outcome = Writer::run(parent.path().join("recv"), queue);
        (parent, outcome)
    }

    #[test]
    fn files_arrive_whole_also_empty_ones() {
        let (parent, outcome) =
            check(vec![chunk("a", 0, b"one "), chunk("a", 4, b"two"), chunk("b", 0, b"")]);
        assert_eq!(outcome.expect("all chunks are in order"), (2, 7));
        let read = |name| std::fs::read(parent.path().join("recv").join(name)).expect("the file was written");
        assert_eq!((&read("a")[..], &read("b")[..]), (&b"one two"[..], &b""[..]));
    }

    #[test]
    fn a_flipped_bit_is_found() {
        let damaged = proto::SnapshotChunk { data: Bytes::from_static(b"onf"), ..chunk("a", 0, b"one") };
        assert!(matches!(check(vec![damaged]).1, Err(ReceiveError::Checksum { .. })));
    }

    #[test]
    fn gaps_and_repeated_files_are_refused() {
        assert!(matches!(check(vec![chunk("a", 1, b"x")]).1, Err(ReceiveError::Order(_))));
        assert!(matches!(
            check(vec![chunk("a", 0, b"x"), chunk("a", 2, b"x")]).1,
            Err(ReceiveError::Order(_))
        ));
        assert!(matches!(
            check(vec![chunk("a", 0, b"x"), chunk("b", 1, b"x")]).1,
            Err(ReceiveError::Order(_))
        ));
        assert!(matches!(
            check(vec![chunk("a", 0, b"x"), chunk("a", 0, b"x")]).1,
            Err(ReceiveError::Write(_))
        ));
    }

    #[test]
    fn a_name_cannot_leave_the_directory() {
        for name in ["", ".", "..", "../x", "/etc/x", "a/b", "a\0b", "a\\b"] {
            let (parent, outcome) = check(vec![chunk(name, 0, b"x")]);
            assert!(matches!(outcome, Err(ReceiveError::Name { .. })), "{name:?} was accepted");
            assert!(!parent.path().join("x").exists());
        }
    }
}
