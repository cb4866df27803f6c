//! The sending end of a snapshot transfer: a checkpoint, read file by file on a blocking thread, as one client stream.
//!
//! The snapshot is offered first. A follower that is down would otherwise cost a checkpoint, which pins files and
//! flushes the state, at every try.
//!
//! Memory is bounded by the few chunks between the reader and the connection. Dropping the future ends everything: the
//! reader, the call and the checkpoint.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use openraft::error::ErrorSource;
use openraft::impls::BoxedErrorSource;
use openraft::{RPCTypes, StorageError};
use setpoint_api::setpoint::peer::v1 as proto;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tracing::warn;

use super::depot::{Checkpoint, Depot, DepotError};
use crate::raft::{SnapshotError, SnapshotMeta, Vote};
use crate::transport::{Lane, Link, wire};

const CHUNK_BYTES: usize = 1 << 20;
const CHUNKS_AHEAD: usize = 4;
/// Installing takes no bytes from us but time: syncing and opening the files.
const INSTALL_STALLS: u32 = 10;
/// For a question that costs the receiver nothing.
const OFFER_PATIENCE: Duration = Duration::from_secs(3);

/// The receiver's ballot, if it is there to be sent a snapshot.
async fn offer(link: &Link, leader: Vote, patience: Duration) -> Result<Vote, SnapshotError> {
    let mut client = link.client(Lane::Snapshot)?;
    let call =
        client.offer_snapshot(link.request(proto::SnapshotOffer { leader: Some(wire::ballot(&leader)) }));
    let reply = timeout(patience, call).await;
    let reply = reply.map_err(|_| link.timed_out(RPCTypes::InstallSnapshot, patience))?;
    let ballot = reply.map_err(|status| link.failed(&status))?.into_inner().ballot;
    link.worked();
    let vote = wire::vote(ballot).map_err(|malformed| link.unreachable(&malformed))?;
    if vote > leader {
        wire::newer(ballot, link.us()).map_err(|malformed| link.unreachable(&malformed))?;
    }
    Ok(vote)
}

/// Makes a checkpoint no older than `meta`, sends it, and returns the receiver's ballot once it is installed there.
pub async fn send(
    link: &Link,
    leader: Vote,
    meta: &SnapshotMeta,
    depot: &Depot,
    stall: Duration,
) -> Result<Vote, SnapshotError> {
    let ballot = offer(link, leader, stall.min(OFFER_PATIENCE)).await?;
    if ballot > leader {
        return Ok(ballot);
    }
    let checkpoint = depot.checkpoint(meta.last_log_id).await.map_err(|error| match error {
        // Ours, not the follower's, and final.
        DepotError::Machine(failure) => {
            SnapshotError::from(StorageError::read_snapshot(None, BoxedErrorSource::from_error(&failure)))
        }
        other => {
            warn!(error = &other as &dyn std::error::Error, "a checkpoint for a follower could not be made");
            link.unreachable(&other).into()
        }
    })?;
    let (parts, stream) = mpsc::channel(CHUNKS_AHEAD);
    let sent = Arc::new(AtomicU64::new(0));
    let reader = Reader { parts, sent: Arc::clone(&sent), files: 0, bytes: 0 };
    let (header, directory) = (header(leader, &checkpoint), checkpoint.directory().to_owned());
    let reading = spawn_blocking(move || {
        if let Err(error) = reader.run(header, &directory) {
            warn!(%error, "a checkpoint could not be read while it was sent");
        }
    });

    let mut client = link.client(Lane::Snapshot)?;
    let call = client.install_snapshot(link.request(ReceiverStream::new(stream)));
    let stalled = async {
        watch_progress(&sent, stall).await;
        // Everything is with the receiver, or nothing moves any more; either way it gets time to install.
        sleep(stall * INSTALL_STALLS).await;
    };
    let reply = tokio::select! {
        reply = call => reply.map_err(|status| link.failed(&status))?,
        () = stalled => return Err(link.timed_out(RPCTypes::InstallSnapshot, stall).into()),
    };
    // Answered early, the reader may still hang on its channel, which is closed now.
    let _ = timeout(stall, reading).await;
    drop(checkpoint);
    let ballot = reply.into_inner().ballot;
    wire::vote(ballot).map_err(|malformed| link.unreachable(&malformed).into())
}

fn header(leader: Vote, checkpoint: &Checkpoint) -> proto::SnapshotPart {
    let header = proto::SnapshotHeader {
        leader: Some(wire::ballot(&leader)),
        last_log: checkpoint.last_log_id.map(wire::log_id),
        membership: checkpoint.membership.clone(),
    };
    proto::SnapshotPart { part: Some(proto::snapshot_part::Part::Header(header)) }
}

/// Returns when no chunk was taken for `stall`.
async fn watch_progress(sent: &AtomicU64, stall: Duration) {
    let mut seen = u64::MAX;
    loop {
        let now = sent.load(Ordering::Relaxed);
        if now == seen {
            return;
        }
        seen = now;
        sleep(stall).await;
    }
}

struct Reader {
    parts: mpsc::Sender<proto::SnapshotPart>,
    sent: Arc<AtomicU64>,
    files: u64,
    bytes: u64,
}

impl Reader {
    fn run(mut self, header: proto::SnapshotPart, directory: &Path) -> io::Result<()> {
        if !self.push(header) {
            return Ok(());
        }
        let mut names = Vec::new();
        for entry in directory.read_dir()? {
            names.push(entry?.file_name());
        }
        names.sort();
        for name in names {
            let text =
                name.to_str().ok_or_else(|| io::Error::other("a checkpoint file's name is not text"))?;
            if !self.send_file(text, File::open(directory.join(&name))?)? {
                return Ok(());
            }
        }
        let end = proto::SnapshotEnd { files: self.files, bytes: self.bytes };
        self.push(proto::SnapshotPart { part: Some(proto::snapshot_part::Part::End(end)) });
        Ok(())
    }

    /// False if nobody listens any more.
    fn send_file(&mut self, name: &str, mut file: File) -> io::Result<bool> {
        let mut offset = 0;
        loop {
            let data = read_chunk(&mut file)?;
            // The first chunk goes out even if it is empty: it creates the file.
            if data.is_empty() && offset > 0 {
                break;
            }
            let length = data.len();
            let crc = crc32c::crc32c(&data);
            let chunk = proto::SnapshotChunk { file: name.to_owned(), offset, data, crc };
            if !self.push(proto::SnapshotPart { part: Some(proto::snapshot_part::Part::Chunk(chunk)) }) {
                return Ok(false);
            }
            offset += length as u64;
            if length < CHUNK_BYTES {
                break;
            }
        }
        self.files += 1;
        self.bytes += offset;
        Ok(true)
    }

    fn push(&self, part: proto::SnapshotPart) -> bool {
        let taken = self.parts.blocking_send(part).is_ok();
        self.sent.fetch_add(1, Ordering::Relaxed);
        taken
    }
}

/// A full chunk, or what is left of the file.
fn read_chunk(file: &mut File) -> io::Result<Bytes> {
    let mut data = BytesMut::zeroed(CHUNK_BYTES);
    let mut length = 0;
    while length < CHUNK_BYTES {
        match file.read(&mut data[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    data.truncate(length);
    Ok(data.freeze())
}
