//! What a controller tells of itself: events for people, decisions for whoever asks why.
//!
//! - [`event`]: what happened to an object
//! - [`decision`], [`detail`]: why something was done or not, and how much of that is written down
//! - [`book`], [`tally`]: what was told and is not written yet, pure
//! - [`flush`], [`writer`]: writing it
//!
//! Not here: how long records are kept, and reading them.

mod book;
mod decision;
mod detail;
mod event;
mod flush;
mod metrics;
mod settings;
mod tally;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use book::{Book, Counted};
pub use decision::{Draft, Grounds, WithDecision};
pub use detail::Detail;
pub use event::Note;
pub use metrics::RecorderMetrics;
use parking_lot::Mutex;
use setpoint_client::Client;
use setpoint_types::Timestamp;
use setpoint_types::kinds::{Decision, DetailLevel, Event};
pub use settings::{DetailSettings, RecorderSettings, SettingProblem};
use tally::{Tallied, Told};
use tokio::sync::Notify;

use crate::queue::{Clock, Moment, TokioClock};

/// Takes what controllers tell, and writes it. Cheap to clone; clones share the memory and differ in the component they speak for.
///
/// **Guarantees**
/// - *Nothing is written twice over restarts and retries*: what is equal (object, component, type, reason, and message but for
///   words with digits in them) is one record, whose name follows from it, with a count.
/// - *The first of a reason for an object is never dropped*, once `event` or `decision` has returned: it has a place of its own in
///   memory, and is written until the server has it. While there is no place, because everything in memory is yet to be written, they
///   do not return. Excepted is what the server refuses for good, and what is left at the end of a shutdown: both are in
///   `recorder_lost`.
/// - *Counts add up*: what was told is counted once, as `status.count` or `status.dropped` of a record, or in `recorder_lost`.
/// - Memory is bounded, and so are the writes about one object, of all together, and at a time ([`RecorderSettings`]).
///
/// **Assumes** that [`Recorder::run`] runs, and that the client has no fence: what was seen by somebody who led is true also when it
/// leads no longer, and would otherwise be lost just when it matters. A decision with an effect is fenced with its effect
/// ([`Draft::into_transaction`]).
///
/// **Does not promise** anything about what was told less than a settling time before the process died; nor that every variant of
/// a message is written; nor that a count is exact if a write was not answered for longer than the server remembers operations.
#[derive(Clone)]
pub struct Recorder {
    shared: Arc<Shared>,
    component: Arc<str>,
}

struct Shared {
    client: Client,
    settings: RecorderSettings,
    detail: Detail,
    events: Shelf<Event>,
    decisions: Shelf<Decision>,
    clock: TokioClock,
    metrics: RecorderMetrics,
    /// Something was told.
    work: Notify,
    /// Something was written.
    room: Notify,
    closed: AtomicBool,
}

/// The records of one kind.
struct Shelf<T: Tallied> {
    book: Mutex<Book<T>>,
    label: &'static str,
}

/// A first of a reason for which there is no place. It was not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no room for the first of a reason before something was written")]
pub struct Full;

impl Recorder {
    /// Speaks for a component: "scheduler", "agent/a1". Nothing is written before [`Recorder::run`].
    pub fn new(
        client: &Client,
        component: &str,
        settings: RecorderSettings,
        metrics: RecorderMetrics,
    ) -> Result<Self, Vec<SettingProblem>> {
        let problems = settings.problems();
        if !problems.is_empty() {
            return Err(problems);
        }
        let timeout = std::time::Duration::from_millis(settings.write_timeout_ms);
        let shared = Shared {
            client: client.with_manager(component).with_timeout(timeout),
            detail: Detail::new(&settings),
            events: Shelf { book: Mutex::new(Book::new(&settings)), label: "event" },
            decisions: Shelf { book: Mutex::new(Book::new(&settings)), label: "decision" },
            clock: TokioClock::start(),
            metrics,
            work: Notify::new(),
            room: Notify::new(),
            closed: AtomicBool::new(false),
            settings,
        };
        Ok(Self { shared: Arc::new(shared), component: component.into() })
    }

    /// The same recorder, speaking for another component.
    #[must_use]
    pub fn component(&self, component: &str) -> Self {
        Self { shared: self.shared.clone(), component: component.into() }
    }

    /// How much of decisions is written down, and the switch for incidents.
    pub fn detail(&self) -> &Detail {
        &self.shared.detail
    }

    /// Tells of an event at this time. Returns at once, unless it is the first of its reason and there is no room.
    pub async fn event(&self, note: Note, now: Timestamp) {
        let told = note.told(&self.component, &self.shared.settings.cluster_namespace, now);
        self.shared.tell(&self.shared.events, told).await;
    }

    /// The same for those who cannot wait.
    pub fn try_event(&self, note: Note, now: Timestamp) -> Result<(), Full> {
        let told = note.told(&self.component, &self.shared.settings.cluster_namespace, now);
        self.shared.offer(&self.shared.events, Box::new(told)).map_err(|_| Full)
    }

    /// Tells of a decision without effect, or of one whose effect was refused. What came to nothing is counted with its like; that
    /// there was nothing to do is only written if it is in the sample, or its object's namespace or an incident asks for it.
    pub async fn decision(&self, draft: Draft) {
        let shelf = &self.shared.decisions;
        if self.shared.detail.level(draft.spec()) == DetailLevel::Counts {
            self.shared.metrics.of(shelf.label).sampled_out();
            return;
        }
        self.shared.tell(shelf, draft.told(&self.shared.detail)).await;
    }

    /// What was told and is not written yet.
    pub fn unwritten(&self) -> u64 {
        self.shared.events.book.lock().unwritten() + self.shared.decisions.book.lock().unwritten()
    }

    /// What was told and will never be written.
    pub fn lost(&self) -> u64 {
        self.shared.events.book.lock().lost() + self.shared.decisions.book.lock().lost()
    }
}

impl Shared {
    fn now(&self) -> Moment {
        self.clock.now()
    }

    async fn tell<T>(&self, shelf: &Shelf<T>, told: Told<T>)
    where
        T: Tallied,
        T::Spec: Clone,
        T::Status: Clone,
    {
        let mut told = Box::new(told);
        let mut has_waited = false;
        loop {
            // Before looking, or what is written in between would wake nobody.
            let room = self.room.notified();
            match self.offer(shelf, told) {
                Ok(()) => return,
                Err(back) => told = back,
            }
            if !has_waited {
                self.metrics.of(shelf.label).waited();
                has_waited = true;
            }
            room.await;
        }
    }

    fn offer<T>(&self, shelf: &Shelf<T>, told: Box<Told<T>>) -> Result<(), Box<Told<T>>>
    where
        T: Tallied,
        T::Spec: Clone,
        T::Status: Clone,
    {
        let mut book = shelf.book.lock();
        // Under the lock that the end takes, too: nothing is told into a book that nobody reads any more.
        let counted = if self.closed.load(Ordering::Acquire) {
            book.lose();
            Counted::Counted
        } else {
            book.tell(told, self.now())?
        };
        drop(book);
        self.metrics.of(shelf.label).told(counted == Counted::Dropped);
        self.work.notify_one();
        Ok(())
    }
}
