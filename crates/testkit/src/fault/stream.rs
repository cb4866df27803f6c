//! What happens to the answers of a stream: they are held, delayed, or lost with the stream.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tonic::Status;
use tonic::body::Body;

use super::carrier::Carrier;
use super::frames::{self, Streamed};

/// On the way at a time; further ones wait at the server.
const PIECES_MAX: usize = 1024;

struct Carried {
    carrier: Carrier,
    server: Body,
    is_watch: bool,
    /// How far it is behind for itself.
    late: Duration,
    cuts: [watch::Receiver<u64>; 2],
    /// On the way, each not before its time.
    pieces: VecDeque<(Instant, Piece)>,
    /// The server has said all it had to say.
    ended: bool,
}

type Piece = Result<Frame<Bytes>, Status>;

/// The stream as the process gets it; of a watch, with how far it is behind for itself.
pub fn carried(carrier: Carrier, server: Body, watch: Option<Duration>) -> Body {
    let cuts = carrier.faults.cuts();
    let (is_watch, late) = (watch.is_some(), watch.unwrap_or_default());
    let stream = Carried { carrier, server, is_watch, late, cuts, pieces: VecDeque::new(), ended: false };
    Streamed::body(futures::stream::unfold(Some(stream), |stream: Option<Carried>| async move {
        let mut stream = stream?;
        match stream.next().await? {
            Ok(frame) => Some((Ok(frame), Some(stream))),
            Err(status) => Some((Err(status), None)),
        }
    }))
}

impl Carried {
    async fn next(&mut self) -> Option<Piece> {
        loop {
            let due = self.pieces.front().map(|(due, _)| self.released(*due));
            if self.ended && due.is_none() {
                return None;
            }
            let [watches, streams] = &mut self.cuts;
            tokio::select! {
                biased;
                () = self.carrier.life.ended() => std::future::pending().await,
                Ok(()) = watches.changed(), if self.is_watch => return Some(Err(broken())),
                Ok(()) = streams.changed() => return Some(Err(broken())),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    // It may have been held while it was on its way.
                    if let Some((due, _)) = self.pieces.front()
                        && self.released(*due) <= Instant::now()
                    {
                        return self.pieces.pop_front().map(|(_, piece)| piece);
                    }
                }
                piece = frames::next(&mut self.server), if !self.ended && self.pieces.len() < PIECES_MAX => {
                    self.take(piece);
                }
            }
        }
    }

    /// When something arrives that is due then.
    fn released(&self, due: Instant) -> Instant {
        let wrong = self.carrier.faults.wrong();
        let held = if self.is_watch { wrong.held_until } else { due };
        due.max(wrong.frozen_until).max(held)
    }

    fn take(&mut self, piece: Option<Piece>) {
        let Some(piece) = piece else {
            self.ended = true;
            return;
        };
        let data = match piece.map(Frame::into_data) {
            Ok(Ok(data)) => data,
            Ok(Err(trailers)) => return self.send(Ok(trailers)),
            Err(status) => return self.send(Err(status)),
        };
        for message in frames::split(data) {
            if self.is_watch && frames::tells_of_change(&message) && self.carrier.faults.count_event() {
                self.carrier.life.end();
            }
            self.send(Ok(Frame::data(message)));
        }
    }

    fn send(&mut self, piece: Piece) {
        let lag = if self.is_watch { self.carrier.faults.wrong().lag + self.late } else { self.late };
        self.pieces.push_back((Instant::now() + lag, piece));
    }
}

fn broken() -> Status {
    Status::unavailable("the connection broke")
}
