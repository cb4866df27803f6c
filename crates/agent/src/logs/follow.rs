//! Reading the log of a process as fast as somebody takes it, off the async workers.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use setpoint_client::LogQuery;
use tokio::sync::mpsc;

use super::Reader;

/// Between two looks at a log that is followed.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);

/// What runs wrote, oldest first, whose folders these are. Ends when there is no more, and when it is dropped.
pub fn follow(runs: Vec<PathBuf>, query: LogQuery) -> mpsc::Receiver<Bytes> {
    // One: what nobody takes is not read.
    let (sender, receiver) = mpsc::channel(1);
    tokio::task::spawn_blocking(move || send(runs, query, &sender));
    receiver
}

fn send(runs: Vec<PathBuf>, query: LogQuery, sender: &mpsc::Sender<Bytes>) {
    let follow = query.follow;
    let mut reader = Reader::new(runs, query);
    loop {
        // Looked at first: what is written between the look and the read is then read.
        let over = reader.is_over();
        while let Some(lines) = reader.more() {
            if sender.blocking_send(lines.into()).is_err() {
                return;
            }
        }
        if over || !follow || sender.is_closed() {
            return;
        }
        std::thread::sleep(FOLLOW_EVERY);
    }
}
