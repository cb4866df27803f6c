//! One watch: what it sends, in order, for as long as it lasts.
//!
//! A bookmark at R promises that everything up to R was sent (O2). It comes when nothing was sent for an interval, as long
//! as this node knows a leader (O6), and before the stream ends because its time is up. Events of one revision are always
//! in one answer (O3).

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use setpoint_access::{Need, Share, Verb};
use setpoint_api::raw::{RawEvent, RawWatchResponse};
use setpoint_api::setpoint::v1::Reason;
use setpoint_store::ReadFailure;
use setpoint_types::Revision;
use tokio::time::{Instant, sleep_until};

use super::initial::Initial;
use crate::access::Standing;
use crate::load::Seat;
use crate::objects::catalog::Rules;
use crate::objects::error::Refusal;
use crate::objects::event::{self, View};
use crate::objects::feed::{Batch, Feed, FeedEnd};
use crate::objects::reader::Reader;
use crate::watch::PreviousMissing;

/// What a client is sent; it ends by itself.
pub type WatchAnswers = Pin<Box<dyn Stream<Item = RawWatchResponse> + Send>>;

pub struct Watching {
    pub reader: Reader,
    pub view: Arc<View>,
    /// None for all.
    pub namespace: Option<String>,
    pub feed: Feed,
    /// What is left of it.
    pub initial: Option<Initial>,
    pub held: Held,
    /// Everything up to here was sent, once the initial state was.
    pub position: Revision,
    pub bookmark_interval: Duration,
    /// When something was last sent.
    pub sent_at: Instant,
    pub deadline: Instant,
}

/// What its client holds for a watch, and gives back with it.
#[derive(Default)]
pub struct Held {
    /// Until the initial state is sent: from then on a watch only waits.
    pub seat: Option<Seat>,
    pub watches: Option<Share>,
    /// That it may watch at all, which may end before the watch does.
    pub standing: Standing,
}

/// What comes next.
enum Next {
    Answer(RawWatchResponse),
    /// The last one.
    End(RawWatchResponse),
}

impl Watching {
    /// Driven by whoever reads it: while nobody does, nothing happens and nothing is held.
    pub fn into_answers(self) -> WatchAnswers {
        Box::pin(futures::stream::unfold(Some(self), |watching: Option<Self>| async move {
            let mut watching = watching?;
            match watching.next().await {
                Next::Answer(answer) => {
                    watching.sent_at = Instant::now();
                    Some((answer, Some(watching)))
                }
                Next::End(answer) => Some((answer, None)),
            }
        }))
    }

    async fn next(&mut self) -> Next {
        if self.initial.is_some()
            && let Err(refusal) = self.check_standing()
        {
            return self.end(refusal);
        }
        if let Some(initial) = &mut self.initial {
            match initial.next().await {
                Ok(Some(chunk)) => return Next::Answer(chunk),
                Ok(None) => {
                    self.initial = None;
                    self.held.seat = None;
                    return Next::Answer(only(event::bookmark(self.position, true)));
                }
                Err(failure) => return self.initial_failed(failure),
            }
        }
        match self.next_change().await {
            Ok(next) => next,
            Err(refusal) => self.end(refusal),
        }
    }

    fn end(&self, refusal: Refusal) -> Next {
        if matches!(refusal.reason(), Reason::Expired | Reason::TooSlow) {
            self.reader.watches_overtaken.inc();
        }
        Next::End(only(event::error(refusal.into_error())))
    }

    async fn next_change(&mut self) -> Result<Next, Refusal> {
        loop {
            self.check_standing()?;
            if Instant::now() >= self.deadline {
                return Ok(Next::End(only(event::bookmark(self.position, false))));
            }
            let (events, more) = self.take().await?;
            if !events.is_empty() {
                return Ok(Next::Answer(RawWatchResponse { events }));
            }
            if more {
                tokio::task::consume_budget().await;
                continue;
            }
            self.check_served()?;
            let bookmark_at = self.sent_at + self.bookmark_interval;
            if Instant::now() >= bookmark_at {
                if self.reader.barrier.is_led() {
                    return Ok(Next::Answer(only(event::bookmark(self.position, false))));
                }
                // Silence is how a client finds out that this node is cut off and would tell it nothing new.
                self.sent_at = Instant::now();
                continue;
            }
            let until = bookmark_at.min(self.deadline);
            tokio::select! {
                () = self.feed.changed() => {}
                () = sleep_until(self.held.standing.look_again().map_or(until, |at| at.min(until))) => {}
            }
        }
    }

    /// Nothing is sent to whoever may no longer watch (A13).
    fn check_standing(&mut self) -> Result<(), Refusal> {
        let (kind, namespace) = (self.view.kind.name(), self.namespace.as_deref().unwrap_or_default());
        Ok(self.held.standing.check_again(|| vec![Need::all(Verb::Watch, kind, namespace)])?)
    }

    /// Nothing comes any more of a kind whose definition is gone: then there are no objects of it.
    fn check_served(&self) -> Result<(), Refusal> {
        let kind = &self.view.kind;
        if matches!(kind.rules, Rules::Custom(_)) && self.reader.catalog.get(kind.name()).is_none() {
            return Err(Refusal::invalid("kind", "is no longer served: its definition was deleted"));
        }
        Ok(())
    }

    /// The events of the next revisions, as many as fit an answer, and whether there are more revisions to look at.
    async fn take(&mut self) -> Result<(Vec<Arc<RawEvent>>, bool), Refusal> {
        let bytes_max = self.reader.limits.response_bytes;
        // What is compacted cannot be watched, on any node, even if this one still holds it.
        let oldest = Revision::new(self.reader.store.compacted().max(0) as u64);
        if self.position.successor() < oldest && self.feed.is_behind() {
            return Err(overtaken(oldest));
        }
        let Batch { sets, until, more } = self.feed.take(bytes_max).await.map_err(|end| self.ended(end))?;
        let (mut events, mut bytes) = (Vec::new(), 0);
        for (place, set) in sets.iter().enumerate() {
            for (record_place, record) in set.changes.records.iter().enumerate() {
                if !self.feed.range().contains(&record.key) {
                    continue;
                }
                let event = set.event(record_place, &self.view, &self.reader.store);
                if let Some(event) = event.map_err(|missing| self.missing(missing))? {
                    bytes += event.len();
                    events.push(event);
                }
            }
            self.position = set.revision();
            if bytes >= bytes_max
                && let Some(next) = sets.get(place + 1)
            {
                self.feed.back_to(next.revision());
                return Ok((events, true));
            }
        }
        self.position = until;
        Ok((events, more))
    }

    fn ended(&self, end: FeedEnd) -> Refusal {
        match end {
            FeedEnd::Overtaken { oldest } => overtaken(oldest),
            FeedEnd::Stopping => {
                Refusal::new(Reason::Unavailable, "this node is stopping; go on at another one")
            }
            FeedEnd::Storage(failure) => self.reader.storage_failure(&failure),
        }
    }

    fn missing(&self, missing: PreviousMissing) -> Refusal {
        match missing {
            PreviousMissing::Collected => overtaken(self.reader.oldest_kept()),
            PreviousMissing::Storage(failure) => self.reader.storage_failure(&failure),
        }
    }

    fn initial_failed(&self, failure: ReadFailure) -> Next {
        let refusal = match failure {
            ReadFailure::Engine(failure) => self.reader.storage_failure(&failure),
            ReadFailure::Overtaken | ReadFailure::Rejected(_) => {
                let text = "the initial state was read so slowly that a compaction overtook it; begin again";
                Refusal::new(Reason::TooSlow, text).at(self.reader.oldest_kept())
            }
        };
        self.end(refusal)
    }
}

fn overtaken(oldest: Revision) -> Refusal {
    let text =
        format!("the changes that come next are no longer kept, the oldest revision is {oldest}; list again");
    Refusal::new(Reason::Expired, text).at(oldest)
}

fn only(event: RawEvent) -> RawWatchResponse {
    RawWatchResponse { events: vec![Arc::new(event)] }
}
