//! Workers: each takes a key, runs it within its limits, and tells what came of it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use setpoint_client::{Client, Partial, Scope};
use setpoint_types::Epoch;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::{Instrument, Span, field};

use super::error::ReconcileError;
use super::feed::Feed;
use super::keeper::Keeper;
use super::ownership::Hold;
use super::reconciler::{Finished, Work};
use super::repeat::Repeats;
use super::run::{Known, Run, RunId, Start, Telling};
use super::settings::Options;
use super::standing::Notices;
use super::verdict::{Ending, Label, Standing, Verdict, judge};
use crate::cache::{Entry, Key};
use crate::informer::Informers;
use crate::queue::{Outcome, Running};
use crate::recorder::Recorder;
use crate::wall_clock::WallClock;

/// After which a key comes up again whose shard seems open and cannot be worked on. Leases are decided in seconds.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What all workers of a controller share.
pub(super) struct Workshop {
    pub name: Arc<str>,
    pub work: Box<dyn Work>,
    pub client: Client,
    pub clock: WallClock,
    pub options: Options,
    pub feed: Arc<Feed>,
    pub keeper: Arc<Keeper>,
    pub recorder: Recorder,
    pub informers: Informers,
    pub notices: Notices,
    pub repeats: Mutex<Repeats>,
    /// Workers that have not ended.
    pub at_work: watch::Sender<usize>,
}

impl Workshop {
    /// One worker, until the queue is shut down.
    pub async fn worker(self: Arc<Self>) {
        self.at_work.send_modify(|workers| *workers += 1);
        while let Some(running) = self.feed.queue.next().await {
            // The run itself is contained below; this is for what is dropped with it, which is the reconciler's too. The key
            // counts as failed then.
            let contained = AssertUnwindSafe(self.run(running)).catch_unwind().await;
            if contained.is_err() {
                self.feed.counters.ended(Label::Panic);
                tracing::error!(controller = &*self.name, "a run panicked while it was dropped");
            }
        }
        self.at_work.send_modify(|workers| *workers -= 1);
    }

    /// Waits until all workers have ended.
    pub async fn idle(&self) {
        // It cannot be closed as long as this has it.
        let _ = self.at_work.subscribe().wait_for(|workers| *workers == 0).await;
    }

    async fn run(&self, running: Running<Key>) {
        let hold = self.feed.ownership.begin(running.key().stable_hash());
        let Some(hold) = hold.filter(|hold| self.feed.gate.admits(hold)) else {
            // Whoever opens a shard begins with all its keys, so the key can be dropped, but only if the shard is to be opened
            // again: one that is closed for a moment may come back as it was, and nobody would notice.
            let stays_open = self.feed.works_on(running.key());
            return running.finish(if stays_open { Outcome::After(LOOK_AGAIN) } else { Outcome::Done });
        };
        let epoch = hold.fence.as_ref().map(|fence| fence.epoch);
        let mut client = self.client.with_manager(&*self.name);
        if let Some(fence) = &hold.fence {
            client = client.with_fence(fence.clone());
        }
        let known = self.entry(running.key()).and_then(|entry| entry.metadata().ok());
        let woken = self.feed.take_woken(running.key(), running.failures() > 0);
        let run = Run::new(Start {
            key: (**running.key()).clone(),
            kind: self.feed.primary.kind.clone(),
            id: RunId::new(self.client.entropy().draw()),
            attempt: running.failures().saturating_add(1),
            now: self.clock.now(),
            client,
            woken,
            visible_within: self.options.visible_within(),
            fence: hold.fence.clone(),
            known: known.map(|it| Known { uid: it.uid, generation: it.generation }).unwrap_or_default(),
            telling: Telling {
                recorder: self.recorder.clone(),
                informers: self.informers.clone(),
                component: self.name.clone(),
                queue_wait: running.waited(),
                epoch: epoch.unwrap_or_default(),
            },
            expectations: self.keeper.expectations.clone(),
        });
        let span = self.span(&run, epoch);
        self.conclude(running, &run, &hold).instrument(span).await;
    }

    /// The object as the cache has it.
    fn entry(&self, key: &Key) -> Option<Entry> {
        let primary = self.feed.sources.iter().find(|source| source.is_primary())?;
        primary.cache.store().get(key)
    }

    /// Runs it, and does what follows from how it ends.
    async fn conclude(&self, running: Running<Key>, run: &Run, hold: &Hold) {
        let counters = &self.feed.counters;
        let started = Instant::now();
        let (ending, fingerprint) = {
            let _active = Active::new(&counters.active);
            self.supervise(run, hold).await
        };
        let mut verdict = judge(&ending, running.failures(), &self.options);
        if let Ending::Finished(_) = ending {
            self.note_repeats(run, fingerprint, &mut verdict);
        }
        counters.ended(verdict.label);
        counters.duration.observe(started.elapsed().as_secs_f64());
        counters.writes.observe(run.writes() as f64);
        if verdict.clamped {
            counters.clamped.inc();
        }
        log(&ending, run, running.failures());
        if let Ending::Failed(ReconcileError::NotHolder) = ending {
            self.feed.ownership.refused(hold);
        }
        if !matches!(ending, Ending::Lost | Ending::Gone | Ending::Failed(ReconcileError::NotHolder)) {
            self.show(run, &mut verdict).await;
        }
        self.keeper.settle(running, verdict.outcome, verdict.dropped || run.any_ambiguous());
    }

    /// Whoever writes the same again and again gets nowhere. Its own writes wake it, so it is slowed down like one that fails.
    fn note_repeats(&self, run: &Run, fingerprint: Option<u64>, verdict: &mut Verdict) {
        let repeats = self.repeats.lock().executed(run.key(), fingerprint, run.writes());
        if repeats > 0 {
            self.feed.counters.repeats.inc();
        }
        if repeats >= self.options.settings.stalled_after {
            let message = format!("the same was written {repeats} times in a row, and does not last");
            verdict.standing = Standing::Stalled { reason: "RepeatedDecision".to_owned(), message };
            verdict.outcome = Outcome::Failed;
        }
    }

    /// Shows on the object how its key stands. What it takes is bounded as a run is.
    async fn show(&self, run: &Run, verdict: &mut Verdict) {
        let oscillation = self.feed.writers.oscillation(run.key());
        if oscillation.is_some() && verdict.outcome == Outcome::Done {
            // To take the condition back when it is over, if nothing else happens.
            verdict.outcome = Outcome::After(self.options.oscillation_window() * 2);
        }
        let entry = self.entry(run.key());
        let shown = self.notices.show(run, entry, &verdict.standing, oscillation.as_ref());
        match timeout(self.options.timeout(), shown).await {
            Ok(true) => {}
            // Nobody would know what became of it, perhaps until the next resync.
            Ok(false) if verdict.outcome == Outcome::Done => verdict.outcome = Outcome::Failed,
            Ok(false) => {}
            Err(_) => verdict.dropped = true,
        }
    }

    /// Runs it until its end, the end of its time, or the loss of its shard. Tells the fingerprint of its plan if it came to one.
    async fn supervise(&self, run: &Run, hold: &Hold) -> (Ending, Option<u64>) {
        let mut executed = None;
        let work = async {
            match AssertUnwindSafe(self.work.work(run)).catch_unwind().await {
                Ok(Ok(Finished { action, fingerprint })) => {
                    executed = fingerprint;
                    Ending::Finished(action)
                }
                Ok(Err(error @ ReconcileError::Vanished { .. })) => self.look_again(run, error).await,
                Ok(Err(error)) => Ending::Failed(error),
                Err(panic) => Ending::Panicked(said(&*panic)),
            }
        };
        let ending = tokio::select! {
            biased;
            () = hold.lost() => Ending::Lost,
            ending = timeout(self.options.timeout(), work) => ending.unwrap_or(Ending::TimedOut),
        };
        (ending, executed)
    }

    /// Something was not there. If that is because the object is gone, all is done.
    async fn look_again(&self, run: &Run, error: ReconcileError) -> Ending {
        let object = run.object();
        let scope = match self.feed.primary.namespaced {
            true => Scope::namespace(&object.namespace),
            false => Scope::Cluster,
        };
        let api = run.client().shaped::<Partial<()>>(&object.kind, scope);
        match api.find(&object.name).await {
            Ok(None) => Ending::Gone,
            // It is there, or nobody can say: another run will see.
            Ok(Some(_)) | Err(_) => Ending::Failed(error),
        }
    }

    /// The vocabulary of fields that logs, metrics and records share. What is not known yet is filled in when it is.
    fn span(&self, run: &Run, epoch: Option<Epoch>) -> Span {
        let object = run.object();
        let reference = run.reference();
        let revision = self.entry(run.key()).map(|entry| entry.revision().get());
        tracing::info_span!(
            "reconcile",
            controller = &*self.name,
            run = %run.id(),
            attempt = run.attempt(),
            kind = %object.kind,
            namespace = %object.namespace,
            name = %object.name,
            uid = %reference.uid,
            generation = run.generation().0,
            revision,
            node = field::Empty,
            epoch = epoch.map(|epoch| epoch.0),
            operation = field::Empty,
            decision = field::Empty,
            trace = %run.trace().trace,
        )
    }
}

/// Counts a run as long as it lasts, however it ends.
struct Active<'a>(&'a Gauge);

impl<'a> Active<'a> {
    fn new(gauge: &'a Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// One that is not fast enough so often in a row is worth a look.
const CONFLICTS_TOLD_AFTER: u32 = 3;

fn log(ending: &Ending, run: &Run, failures: u32) {
    match ending {
        Ending::Finished(_) | Ending::Gone => tracing::debug!(writes = run.writes(), "reconciled"),
        Ending::Lost | Ending::Failed(ReconcileError::NotHolder) => tracing::debug!("another took over"),
        Ending::Failed(error) if error.is_conflict() && failures <= CONFLICTS_TOLD_AFTER => {
            tracing::debug!(
                error = error.chain(),
                failures,
                "somebody else was faster: it is looked at again"
            );
        }
        Ending::Failed(error) => tracing::warn!(error = error.chain(), failures, "reconcile failed"),
        Ending::TimedOut => tracing::warn!(phase = run.phase(), failures, "reconcile took too long"),
        Ending::Panicked(said) => tracing::error!(phase = run.phase(), said, failures, "reconcile panicked"),
    }
}

/// The message of a panic.
fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
