//! Watch requests on up to three streams: starts in the past, present, future and below the compaction, ids chosen by
//! either side, every option, cancellations of known and unknown watches, progress requests.

use super::{Maker, keys};
use crate::step::{Rev, Step, StreamSlot, WatchStep};

const STREAMS: u64 = 3;
/// Watch ids chosen by the client. Not -1, which marks answers that belong to no watch.
const IDS: [i64; 5] = [1, 2, 3, 50, -5];

impl Maker {
    pub(super) fn watch(&mut self) -> Step {
        let stream = self.some_stream();
        match self.rng.weighted(&[66, 14, 8, 3, 9]) {
            0 => Step::Watch(self.create(stream)),
            1 => self.cancel(stream),
            2 => Step::Progress { stream },
            3 => Step::EmptyWatchRequest { stream },
            _ if self.streams.contains(&stream) => {
                self.streams.remove(&stream);
                self.watch_ids.retain(|(slot, _)| *slot != stream);
                Step::CloseStream { stream }
            }
            _ => Step::Watch(self.create(stream)),
        }
    }

    fn some_stream(&mut self) -> StreamSlot {
        StreamSlot::try_from(self.rng.below(STREAMS)).unwrap_or(0)
    }

    fn create(&mut self, stream: StreamSlot) -> WatchStep {
        self.streams.insert(stream);
        let rng = &mut self.rng;
        let (key, end) = match rng.weighted(&[70, 30]) {
            0 => keys::range(rng),
            _ => (keys::first(), keys::first()),
        };
        let start = match rng.weighted(&[30, 6, 10, 22, 4, 7, 5, 6, 5, 5]) {
            0 => Rev::Unset,
            1 => Rev::Now(1),
            2 => Rev::Now(0),
            3 => Rev::Now(-rng.between(1, 10)),
            4 => Rev::Now(rng.between(2, 6)),
            5 => Rev::Compacted(0),
            6 => Rev::Compacted(1),
            7 => Rev::Compacted(-1),
            8 => Rev::Exactly(1),
            _ => Rev::Exactly(*rng.pick(&[-1, i64::MIN, i64::MAX])),
        };
        let filters: &[i32] = match rng.weighted(&[72, 8, 8, 6, 6]) {
            0 => &[],
            1 => &[0],
            2 => &[1],
            3 => &[0, 1],
            _ => &[9],
        };
        let id = if rng.percent(35) { *rng.pick(&IDS) } else { 0 };
        let step = WatchStep {
            stream,
            key,
            end,
            start,
            progress_notify: rng.percent(15),
            filters: filters.to_vec(),
            prev_kv: rng.percent(45),
            id,
            fragment: rng.percent(15),
        };
        // Ids the server picks count up from 0.
        let assigned = if id == 0 { self.rng.between(0, 4) } else { id };
        self.watch_ids.push((stream, assigned));
        step
    }

    fn cancel(&mut self, stream: StreamSlot) -> Step {
        self.streams.insert(stream);
        let ids: Vec<i64> =
            self.watch_ids.iter().filter(|(slot, _)| *slot == stream).map(|(_, id)| *id).collect();
        let known = !ids.is_empty() && self.rng.percent(85);
        let id = if known { *self.rng.pick(&ids) } else { *self.rng.pick(&[0, 999, -3, i64::MAX]) };
        Step::CancelWatch { stream, id }
    }
}
