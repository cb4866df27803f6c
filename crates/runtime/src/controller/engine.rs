//! A controller that runs: its tasks, and how they end.

use std::sync::Arc;

use setpoint_client::Client;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Controller;
use super::feed::{Feed, Parts};
use super::keeper::{Keeper, Present};
use super::metrics::ControllerMetrics;
use super::ownership::Ownership;
use super::resync::Schedule;
use super::settings::Options;
use super::shards;
use super::source::Primary;
use super::standing::Notices;
use super::worker::Workshop;
use super::writers::Writers;
use crate::informer::Informers;
use crate::queue::{Drain, Priority, Queue, QueueMetrics, Seams, Tenant, TenantOf};
use crate::recorder::Recorder;
use crate::wall_clock::WallClock;

/// What controllers of a process share.
pub(crate) struct Surroundings {
    pub client: Client,
    pub informers: Informers,
    pub clock: WallClock,
    pub metrics: ControllerMetrics,
    pub queue_metrics: QueueMetrics,
    pub recorder: Recorder,
}

/// A controller with everything it needs, before and while it runs.
pub(crate) struct Engine {
    options: Options,
    feed: Arc<Feed>,
    keeper: Arc<Keeper>,
    workshop: Arc<Workshop>,
    informers: Informers,
    client: Client,
}

/// Which task of a controller ended.
pub(crate) type Part = &'static str;

impl Engine {
    pub fn new(
        controller: Controller,
        options: Options,
        primary: Primary,
        ownership: Arc<dyn Ownership>,
        around: &Surroundings,
    ) -> Self {
        let Controller { name, work, sources, urgent, .. } = controller;
        let by_namespace = TenantOf::new(|key: &crate::cache::Key| Tenant::named(key.namespace()));
        let seams = Seams::tokio(around.client.entropy().draw());
        let queue = Queue::new(options.queue.clone(), by_namespace, seams);
        queue.show(&name, &around.queue_metrics);
        let scope = sources.iter().find(|it| it.is_primary()).map(|it| it.cache.scope.clone());
        let present = Present {
            client: around.client.clone(),
            kind: primary.kind.clone(),
            scope: scope.unwrap_or(setpoint_client::Scope::AllNamespaces),
        };
        let own_manager = format!("{name}/runtime");
        let counters = around.metrics.of(&name);
        let notices = Notices::new(own_manager.clone(), options.settings.conditions, counters.clone());
        let writers = Writers::new(options.oscillation_window());
        let parts = Parts { primary, sources, urgent, queue, ownership, counters, own_manager, writers };
        let feed = Feed::new(parts);
        let (informers, client) = (around.informers.clone(), around.client.clone());
        let keeper = Keeper::new(informers.clone(), feed.clone(), present, &options);
        let workshop = Arc::new(Workshop {
            name: name.clone(),
            work,
            client: client.clone(),
            clock: around.clock.clone(),
            options: options.clone(),
            feed: feed.clone(),
            keeper: keeper.clone(),
            recorder: around.recorder.component(&name),
            informers: informers.clone(),
            notices,
            repeats: Default::default(),
            at_work: tokio::sync::watch::Sender::new(0),
        });
        Self { options, feed, keeper, workshop, informers, client }
    }

    /// Starts everything; the caches have their first state. The workers end when the queue is shut down, the rest at `stop`.
    pub fn start(&self, tasks: &mut JoinSet<Part>, stop: &CancellationToken) {
        self.feed.listen();
        let (feed, keeper, informers) = (self.feed.clone(), self.keeper.clone(), self.informers.clone());
        let stopped = stop.clone();
        tasks.spawn(async move {
            // It ends early only if the informers do, which is told of where they are watched.
            let _ended = shards::follow(feed, keeper, informers, stopped.clone()).await;
            stopped.cancelled().await;
            "shards"
        });
        let (keeper, stopped) = (self.keeper.clone(), stop.clone());
        tasks.spawn(async move {
            keeper.run(stopped).await;
            "keeper"
        });
        let (feed, stopped) = (self.feed.clone(), stop.clone());
        tasks.spawn(async move {
            answer_overflows(&feed, &stopped).await;
            "overflow"
        });
        if let Some(period) = self.options.resync() {
            let schedule = Schedule::new(period, self.client.entropy().draw());
            let (feed, stopped) = (self.feed.clone(), stop.clone());
            tasks.spawn(async move {
                resync(&feed, schedule, &stopped).await;
                "resync"
            });
        }
        for _ in 0..self.options.settings.concurrency {
            let workshop = self.workshop.clone();
            tasks.spawn(async move {
                workshop.worker().await;
                "worker"
            });
        }
    }

    /// Begins no more runs.
    pub fn shut_down(&self) {
        self.feed.queue.shut_down(Drain::Running);
    }

    /// Waits until the runs there are have ended.
    pub async fn quiet(&self) {
        self.workshop.idle().await;
    }
}

/// A queue that had no room is given every key once it has.
async fn answer_overflows(feed: &Feed, stop: &CancellationToken) {
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            overflowed = feed.queue.overflowed() => if !overflowed {
                return stop.cancelled().await;
            },
        }
        tracing::info!(kind = &*feed.primary.kind, "the queue had no room, and is given every key again");
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            _ = feed.replay(|shard| feed.gate.is_open(shard)) => {}
        }
    }
}

/// Adds each key at its time in each round.
async fn resync(feed: &Feed, mut schedule: Schedule, stop: &CancellationToken) {
    let start = Instant::now();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep_until(start + schedule.next()) => {}
        }
        let slots = schedule.take(start.elapsed());
        for source in feed.sources.iter().filter(|source| source.is_primary()) {
            let view = source.view();
            for entry in view.iter() {
                let key = entry.key();
                if schedule.is_due(&slots, key.stable_hash()) && feed.works_on(key) {
                    feed.counters.resyncs.inc();
                    // Where there is no room the queue asks for everything later.
                    feed.queue.offer(key.clone(), Priority::Bulk);
                }
                tokio::task::consume_budget().await;
            }
        }
    }
}
