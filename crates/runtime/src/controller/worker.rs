//! Workers: each takes a key, runs it within its limits, and tells what came of it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use setpoint_client::{Client, Partial, Scope};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::{Instrument, Span, field};

use super::error::ReconcileError;
use super::feed::Feed;
use super::keeper::Keeper;
use super::ownership::Hold;
use super::reconciler::{Finished, Work};
use super::run::{Run, RunId, Start};
use super::settings::Options;
use super::verdict::{Ending, Label, judge};
use crate::cache::{Cache, Key};
use crate::queue::{Outcome, Running};
use crate::wall_clock::WallClock;

/// What all workers of a controller share.
pub(super) struct Workshop {
    pub name: Arc<str>,
    pub work: Box<dyn Work>,
    pub client: Client,
    pub clock: WallClock,
    pub options: Options,
    pub feed: Arc<Feed>,
    pub keeper: Arc<Keeper>,
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
            // Whoever gains the shard begins with all its keys.
            return running.finish(Outcome::Done);
        };
        let Hold { fence, lost, guard, .. } = hold;
        let epoch = fence.as_ref().map(|fence| fence.epoch.0);
        let mut client = self.client.with_manager(&*self.name);
        if let Some(fence) = fence {
            client = client.with_fence(fence);
        }
        let run = Run::new(Start {
            key: (**running.key()).clone(),
            kind: self.feed.primary.kind.clone(),
            id: RunId::new(self.client.entropy().draw()),
            attempt: running.failures().saturating_add(1),
            now: self.clock.now(),
            client,
            wake: self.feed.take_wake(running.key()),
            expectations: self.keeper.expectations.clone(),
        });
        let span = self.span(&run, epoch);
        self.conclude(running, &run, lost).instrument(span).await;
        drop(guard);
    }

    /// Runs it, and does what follows from how it ends.
    async fn conclude(&self, running: Running<Key>, run: &Run, lost: BoxFuture<'static, ()>) {
        let counters = &self.feed.counters;
        let started = Instant::now();
        counters.active.inc();
        let ending = self.supervise(run, lost).await;
        counters.active.dec();
        let verdict = judge(&ending, running.failures(), &self.options);
        counters.ended(verdict.label);
        counters.duration.observe(started.elapsed().as_secs_f64());
        counters.writes.observe(run.writes() as f64);
        if verdict.clamped {
            counters.clamped.inc();
        }
        log(&ending, run, running.failures());
        self.keeper.settle(running, verdict.outcome, verdict.dropped || run.any_ambiguous());
    }

    /// Runs it until its end, the end of its time, or the loss of its shard.
    async fn supervise(&self, run: &Run, lost: BoxFuture<'static, ()>) -> Ending {
        let work = async {
            match AssertUnwindSafe(self.work.work(run)).catch_unwind().await {
                Ok(Ok(Finished { action, .. })) => Ending::Finished(action),
                Ok(Err(error @ ReconcileError::Vanished { .. })) => self.look_again(run, error).await,
                Ok(Err(error)) => Ending::Failed(error),
                Err(panic) => Ending::Panicked(said(&*panic)),
            }
        };
        tokio::select! {
            biased;
            () = lost => Ending::Lost,
            ending = timeout(self.options.timeout(), work) => ending.unwrap_or(Ending::TimedOut),
        }
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
    fn span(&self, run: &Run, epoch: Option<u64>) -> Span {
        let object = run.object();
        let span = tracing::info_span!(
            "reconcile",
            controller = &*self.name,
            run = %run.id(),
            attempt = run.attempt(),
            kind = %object.kind,
            namespace = %object.namespace,
            name = %object.name,
            uid = field::Empty,
            generation = field::Empty,
            revision = field::Empty,
            node = field::Empty,
            epoch,
            operation = field::Empty,
            decision = field::Empty,
            trace = run.cause().and_then(|wake| wake.trace.as_deref()),
        );
        if !span.is_disabled()
            && let Some(source) = self.feed.sources.iter().find(|source| source.is_primary())
            && let Some(entry) = Cache::<setpoint_client::Dynamic>::new(source.cache.clone()).get(run.key())
            && let Ok(metadata) = entry.metadata()
        {
            span.record("uid", metadata.uid.as_str());
            span.record("generation", metadata.generation.0);
            span.record("revision", entry.revision().get());
        }
        span
    }
}

fn log(ending: &Ending, run: &Run, failures: u32) {
    match ending {
        Ending::Finished(_) | Ending::Gone => tracing::debug!(writes = run.writes(), "reconciled"),
        Ending::Lost | Ending::Failed(ReconcileError::NotHolder) => tracing::debug!("another took over"),
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
