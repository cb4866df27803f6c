//! The task behind an informer: does what the machine says, and tells it what happens.

use std::sync::Arc;

use futures::future::BoxFuture;
use setpoint_client::{Api, Error, RawWatch, ReadAt, Shape, WatchOptions};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::machine::{Effect, End, Input, Machine, Start, StreamId};
use super::settings::{InformerSettings, Selection};
use super::stats::Counters;
use crate::cache::shared::Shared;

pub struct Driver<S> {
    api: Api<S>,
    selection: Selection,
    settings: InformerSettings,
    shared: Arc<Shared>,
    machine: Machine,
    link: Link,
    /// In a row.
    refusals: u32,
}

/// So many refusals in a row, which take a second or two, are told of. A kind that its program is only just defining is refused at first.
const REFUSALS_MAX: u32 = 4;

/// The stream there is at the moment.
enum Link {
    Closed,
    Opening(StreamId, BoxFuture<'static, Result<RawWatch, Error>>),
    Open(StreamId, Box<RawWatch>),
}

impl<S: Shape> Driver<S> {
    pub fn new(api: Api<S>, selection: Selection, settings: InformerSettings, shared: Arc<Shared>) -> Self {
        let machine = Machine::new(settings, Instant::now());
        Self { api, selection, settings, shared, machine, link: Link::Closed, refusals: 0 }
    }

    /// Until it is told to stop.
    pub async fn run(mut self, stop: CancellationToken) {
        // Also if it panics: whoever waits for the cache must not wait for ever.
        let _end = EndOf(self.shared.clone());
        loop {
            let wake_at = self.machine.wake_at();
            let happened = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                happened = self.link.next() => happened,
                () = sleep_until(wake_at) => Happened::Tick,
            };
            let input = self.reached(happened);
            let effects = self.machine.step(input, Instant::now(), self.fraction());
            self.perform(effects);
            // A stream that always has something must not keep others on this thread waiting.
            tokio::task::consume_budget().await;
        }
    }

    fn fraction(&self) -> f64 {
        self.api.client().entropy().fraction()
    }

    /// Counts, logs, and makes something plain of what the network said.
    fn reached(&mut self, happened: Happened) -> Input {
        let counters = &self.shared.counters;
        match happened {
            Happened::Tick => Input::Tick,
            Happened::Opened(stream, watch) => {
                Counters::add(&counters.streams, 1);
                self.link = Link::Open(stream, watch);
                Input::Opened(stream)
            }
            Happened::Answer(stream, events) => {
                Counters::add(&counters.answers, 1);
                self.refusals = 0;
                Input::Answer(stream, events)
            }
            Happened::Ended(stream, None) => Input::Ended(stream, End::InOrder),
            Happened::Ended(stream, Some(error)) => {
                Counters::add(&counters.failures, 1);
                let position = self.machine.position().map(|position| position.get());
                self.refusals = if needs_mending(&error) { self.refusals.saturating_add(1) } else { 0 };
                if self.refusals >= REFUSALS_MAX {
                    tracing::warn!(kind = &*self.shared.kind, %error, "the server refuses the watch");
                } else {
                    tracing::debug!(kind = &*self.shared.kind, revision = position, %error, "watch ended");
                }
                Input::Ended(stream, End::of(&error))
            }
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        let mut taken = Ok(());
        for effect in effects {
            match effect {
                Effect::Open(stream, start) => self.open(stream, start),
                Effect::Close { stalled } => self.close(stalled),
                Effect::Stage(events) => taken = taken.and_then(|()| self.shared.stage(&events)),
                Effect::Finish(at) if taken.is_ok() => self.shared.finish(at),
                Effect::Finish(_) => {}
                Effect::Apply(events, position) => {
                    Counters::add(&self.shared.counters.events, events.len());
                    taken = taken.and_then(|()| self.shared.apply(&events, position));
                }
            }
        }
        if let Err(error) = taken {
            tracing::warn!(kind = &*self.shared.kind, %error, "watch answered what cannot be read");
            let effects = self.machine.unusable(Instant::now(), self.fraction());
            // It only closes: there is nothing in it that could fail again.
            self.perform(effects);
        }
    }

    fn open(&mut self, stream: StreamId, start: Start) {
        self.shared.begin();
        let after = match start {
            Start::State(cause) => {
                self.shared.counters.relist(cause);
                None
            }
            Start::After(revision) => Some(revision),
        };
        let options = WatchOptions {
            labels: self.selection.labels.clone(),
            fields: self.selection.fields.clone(),
            after,
            // A whole state that is older than what was seen would take the cache back in time.
            at: ReadAt::Latest,
            bookmarks: Some(self.settings.bookmarks),
            lasts: None,
        };
        let api = self.api.clone();
        let opening = async move { api.watch_raw(&options).await };
        self.link = Link::Opening(stream, Box::pin(opening));
    }

    fn close(&mut self, stalled: bool) {
        if stalled {
            Counters::add(&self.shared.counters.stalls, 1);
        }
        if let (Link::Open(_, watch), true) = (&mut self.link, stalled) {
            watch.report_stalled();
        }
        self.link = Link::Closed;
    }
}

/// A server that is away comes back by itself. A kind that there is not, a selector that it cannot read or a permission that is missing
/// are somebody's to mend, and until then the cache stays as it is: that is said aloud, as often as it is tried.
fn needs_mending(error: &Error) -> bool {
    error.refusal().is_some() && !error.is_transient() && !error.is_expired()
}

/// Says that the cache is fed no more when it is dropped.
struct EndOf(Arc<Shared>);

impl Drop for EndOf {
    fn drop(&mut self) {
        self.0.counters.end();
    }
}

/// What the network did.
enum Happened {
    Tick,
    Opened(StreamId, Box<RawWatch>),
    Answer(StreamId, Vec<setpoint_api::raw::ReceivedEvent>),
    Ended(StreamId, Option<Error>),
}

impl Link {
    /// The next thing that happens to it; nothing ever happens to a closed one.
    async fn next(&mut self) -> Happened {
        match self {
            Self::Closed => std::future::pending().await,
            Self::Opening(stream, opening) => {
                let stream = *stream;
                match opening.await {
                    Ok(watch) => Happened::Opened(stream, Box::new(watch)),
                    Err(error) => Happened::Ended(stream, Some(error)),
                }
            }
            Self::Open(stream, watch) => match watch.next().await {
                Ok(Some(events)) => Happened::Answer(*stream, events),
                Ok(None) => Happened::Ended(*stream, None),
                Err(error) => Happened::Ended(*stream, Some(error)),
            },
        }
    }
}
