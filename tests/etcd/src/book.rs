//! Which watches are open, and what is due on each: derived from the steps and the reference's answers alone.
//!
//! A watch delivers some time after the write that caused it, and servers say nothing when there is nothing to say. So
//! the test must know what to wait for. Against a running reference the events that are due come from `history`;
//! against a recorded one, from the record. Both sides of a comparison wait for the same things.
//!
//! Knowledge about etcd that this file relies on: a watch whose start lies in the past is served by a separate loop
//! until it has caught up, and until then a compaction cancels it; a progress request is answered only if every watch
//! of the stream has caught up and none was asked to start in the future; a watch canceled by compaction keeps its id, and keeps the
//! stream from reporting progress, until the client cancels it too.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::history::{History, KeyRange};
use crate::normalise::reported_revision;
use crate::resolve::Bearings;
use crate::side::Wait;
use crate::step::{Step, StreamSlot, WatchStep};

/// `WatchCreateRequest.FilterType`.
const FILTER_NO_PUT: i32 = 0;
const FILTER_NO_DELETE: i32 = 1;

/// How a watch stands with the compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Open,
    /// It starts before the compaction and is going to be canceled.
    Doomed,
    /// It was canceled for that reason, and the client has not canceled it yet.
    Compacted,
}

/// An open watch.
#[derive(Clone, Debug)]
pub struct OpenWatch {
    pub range: KeyRange,
    pub start: i64,
    /// The start as it was asked for: 0 stands for "after now".
    asked: i64,
    pub puts: bool,
    pub deletes: bool,
    /// It may still be reading the past.
    lagging: bool,
    life: Life,
    /// Events delivered under the same id by earlier watches.
    delivered_before: usize,
}

#[derive(Debug, Default)]
pub struct Book {
    open: BTreeMap<StreamSlot, BTreeMap<i64, OpenWatch>>,
    delivered: BTreeMap<(StreamSlot, i64), usize>,
    canceled: BTreeMap<(StreamSlot, i64), usize>,
}

impl Book {
    /// What a side has to wait for in this step. `record` is the recorded answer, if the reference is not running.
    pub fn wait(&self, step: &Step, bearings: &Bearings, record: Option<&Value>) -> Wait {
        let mut wait = Wait { revision: bearings.revision, ..Wait::default() };
        match step {
            Step::CancelWatch { stream, id } => {
                wait.answered = self.open.get(stream).is_some_and(|watches| watches.contains_key(id));
            }
            Step::Progress { stream } => {
                wait.answered = self.answers_progress(*stream, bearings);
                wait.futile = self.has_compacted(*stream);
            }
            Step::Settle => {
                for (stream, watches) in &self.open {
                    if self.answers_progress(*stream, bearings) {
                        wait.barrier.insert(*stream);
                    } else {
                        wait.scout |= watches.values().any(|watch| watch.lagging);
                    }
                }
                for (key, _) in self.watches().filter(|(_, watch)| watch.life == Life::Doomed) {
                    wait.cancels.insert(key, self.canceled.get(&key).copied().unwrap_or(0) + 1);
                }
                if let Some(record) = record {
                    for (key, events) in recorded_events(record) {
                        wait.events.insert(key, self.delivered.get(&key).copied().unwrap_or(0) + events);
                    }
                }
            }
            _ => {}
        }
        wait
    }

    /// Adds to what a settle step waits for the events that the history says are due.
    pub fn expect_history(&self, wait: &mut Wait, history: &History) {
        for (key, watch) in self.watches().filter(|(_, watch)| watch.life == Life::Open) {
            wait.events.insert(key, watch.delivered_before + history.count(watch));
        }
    }

    /// Takes note of the reference's answer to a step.
    pub fn observe(&mut self, step: &Step, answer: &Value, before: &Bearings) {
        match step {
            Step::Watch(watch) => self.observe_created(watch, answer, before),
            Step::CancelWatch { stream, id } if !answer.is_null() => {
                *self.canceled.entry((*stream, *id)).or_default() += 1;
                if let Some(watches) = self.open.get_mut(stream) {
                    watches.remove(id);
                }
            }
            Step::CloseStream { stream } => {
                self.open.remove(stream);
                self.delivered.retain(|(slot, _), _| slot != stream);
                self.canceled.retain(|(slot, _), _| slot != stream);
            }
            Step::Settle => self.observe_settled(answer),
            _ => {}
        }
    }

    fn observe_created(&mut self, step: &WatchStep, answer: &Value, before: &Bearings) {
        let watches = self.open.entry(step.stream).or_default();
        let refused = answer.get("canceled").is_some();
        if answer.is_null() || refused {
            return;
        }
        let id = answer.get("id").and_then(Value::as_i64).unwrap_or(0);
        let asked = before.resolve(step.start);
        let revision = reported_revision(answer).unwrap_or(before.revision);
        let start = if asked == 0 { revision + 1 } else { asked };
        let watch = OpenWatch {
            range: KeyRange::of_watch(&step.key, &step.end),
            start,
            asked,
            puts: !step.filters.contains(&FILTER_NO_PUT),
            deletes: !step.filters.contains(&FILTER_NO_DELETE),
            lagging: start <= revision,
            life: if start < before.compacted { Life::Doomed } else { Life::Open },
            delivered_before: self.delivered.get(&(step.stream, id)).copied().unwrap_or(0),
        };
        watches.insert(id, watch);
    }

    fn observe_settled(&mut self, answer: &Value) {
        for (key, events) in recorded_events(answer) {
            *self.delivered.entry(key).or_default() += events;
        }
        for (stream, id) in recorded_cancels(answer) {
            *self.canceled.entry((stream, id)).or_default() += 1;
            if let Some(watch) = self.open.get_mut(&stream).and_then(|watches| watches.get_mut(&id)) {
                watch.life = Life::Compacted;
            }
        }
        for watch in self.open.values_mut().flat_map(BTreeMap::values_mut) {
            watch.lagging = false;
        }
    }

    fn watches(&self) -> impl Iterator<Item = ((StreamSlot, i64), &OpenWatch)> {
        self.open
            .iter()
            .flat_map(|(stream, watches)| watches.iter().map(|(id, watch)| ((*stream, *id), watch)))
    }

    /// Once nothing lags any more, a progress request on the stream is answered.
    fn answers_progress(&self, stream: StreamSlot, bearings: &Bearings) -> bool {
        let Some(watches) = self.open.get(&stream) else { return false };
        let started = |watch: &OpenWatch| watch.life == Life::Open && watch.asked <= bearings.revision;
        !watches.is_empty() && watches.values().all(started)
    }

    fn has_compacted(&self, stream: StreamSlot) -> bool {
        let watches = self.open.get(&stream).into_iter().flat_map(BTreeMap::values);
        watches.into_iter().any(|watch| watch.life != Life::Open)
    }
}

/// The watches of a settle answer, by stream and id.
fn recorded(answer: &Value) -> impl Iterator<Item = ((StreamSlot, i64), &Value)> {
    let streams = answer.as_object().into_iter().flatten();
    streams.flat_map(|(stream, content)| {
        let watches = content.get("watches").and_then(Value::as_object).into_iter().flatten();
        watches.filter_map(move |(id, watch)| Some(((stream.parse().ok()?, id.parse().ok()?), watch)))
    })
}

fn recorded_events(answer: &Value) -> impl Iterator<Item = ((StreamSlot, i64), usize)> {
    recorded(answer)
        .map(|(key, watch)| (key, watch.get("events").and_then(Value::as_array).map_or(0, Vec::len)))
}

fn recorded_cancels(answer: &Value) -> impl Iterator<Item = (StreamSlot, i64)> {
    recorded(answer).flat_map(|(key, watch)| {
        let states = watch.get("states").and_then(Value::as_array).into_iter().flatten();
        states.filter(|state| state.get("canceled").is_some()).map(move |_| key)
    })
}
