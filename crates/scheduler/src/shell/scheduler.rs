//! The loop: looks at what has changed, lets the engine decide, sends off what it wants, hears what came of it.
//!
//! One task owns the engine. Requests are tasks of their own, a bounded number at a time; until their answers come, what they are about
//! counts as bound. A scheduler works on the workloads of the shards it holds ([`Shards`]); it sees all nodes and bindings, so
//! that two of them only meet where they want the same node at the same moment, and then the server decides.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use setpoint_client::{Client, ListOptions};
use setpoint_runtime::WallClock;
use setpoint_runtime::cache::{Cache, Key, Transform};
use setpoint_runtime::election::{Claim, Election, ElectionError, ElectionMetrics, SettingsError, Shards};
use setpoint_runtime::informer::{InformerMetrics, Informers, Selection};
use setpoint_runtime::recorder::{Recorder, RecorderMetrics, SettingProblem};
use setpoint_types::kinds::{Binding, Node, PlacementPolicy, PriorityClass, Quota, Replica};
use setpoint_types::{Epoch, FieldProblem, Revision, Timestamp};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::bind::{Batch, Sent, send};
use super::evict::{Stayed, evict};
use super::inbox::{Inbox, Source};
use super::metrics::Metrics;
use super::settings::Settings;
use super::status::{Shown, show};
use super::{read, record};
use crate::core::engine::{Answer, BindItem, Engine, Eviction, Plan};

/// What happens when nothing does: gauges are set, times looked at.
const IDLE: Duration = Duration::from_millis(500);
/// Gauges are set this often: it needs a look at every line.
const GAUGES: Duration = Duration::from_millis(250);
/// A status that could not be written is tried again after this.
const REPORT_AGAIN_MS: u64 = 300;
/// How long requests may take to be answered after a shutdown was asked for.
const WIND_DOWN: Duration = Duration::from_secs(10);
/// At most so many evictions are under way.
const EVICTIONS_MAX: usize = 32;
/// Kinds that a bind is decided by.
const KINDS: [&str; 6] = ["Node", "Replica", "Binding", "Quota", "PlacementPolicy", "PriorityClass"];

/// Why a scheduler could not be made, or ended.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    #[error("the settings of the leases make no sense")]
    Leases(#[from] SettingsError),
    #[error("the name of the scheduler makes no sense")]
    Name(#[from] ElectionError),
    #[error("the settings of the recorder make no sense: {0:?}")]
    Recorder(Vec<SettingProblem>),
    #[error("an informer has ended")]
    Informers,
}

/// The local copies it decides by.
#[derive(Clone)]
struct Caches {
    nodes: Cache<Node>,
    bindings: Cache<Binding>,
    bound: Cache<Replica>,
    waiting: Cache<Replica>,
    quotas: Cache<Quota>,
    policies: Cache<PlacementPolicy>,
    priority_classes: Cache<PriorityClass>,
}

/// A scheduler. Nothing happens before [`Scheduler::run`].
///
/// **Guarantees**: every replica of its shards is bound, or has in its status a reason that people can act on. Nothing is bound that
/// the server does not find in order at that moment. After `stop` no bind is begun, and leases are given back.
///
/// **Does not promise** that what it sees is current, or that two schedulers never choose the same place: one of them is refused.
pub struct Scheduler {
    client: Client,
    settings: Settings,
    informers: Informers,
    caches: Caches,
    election: Option<Election>,
    recorder: Recorder,
    registry: Arc<Mutex<Registry>>,
    metrics: Metrics,
    clock: WallClock,
    ready: watch::Sender<bool>,
}

impl Scheduler {
    pub fn new(client: Client, settings: Settings) -> Result<Self, SchedulerError> {
        let client = client.with_manager(&settings.name);
        let mut registry = Registry::with_prefix("setpoint");
        let recorder_metrics = RecorderMetrics::new(&mut registry);
        let recorder = Recorder::new(&client, record::COMPONENT, settings.recorder.clone(), recorder_metrics)
            .map_err(SchedulerError::Recorder)?;
        let informers = Informers::new(client.clone(), settings.informers);
        InformerMetrics::show(&informers, &mut registry);
        let caches = caches(&informers);
        let election = if settings.alone {
            None
        } else {
            let options = settings.leases().check()?;
            let identity = format!("{}-{:08x}", settings.name, client.entropy().draw() as u32);
            let election = Election::new(&client, &informers, &settings.name, &identity, options)?;
            let metrics = ElectionMetrics::new(&mut registry);
            let seen = informers.clone();
            Some(election.with_metrics(&metrics).observing(move || seen.observed()))
        };
        let metrics = Metrics::new(&mut registry);
        let registry = Arc::new(Mutex::new(registry));
        let (clock, ready) = (WallClock::system(), watch::Sender::new(false));
        Ok(Self { client, settings, informers, caches, election, recorder, registry, metrics, clock, ready })
    }

    /// The same with another clock, for tests.
    #[must_use]
    pub fn with_clock(mut self, clock: WallClock) -> Self {
        self.clock = clock;
        self
    }

    pub fn registry(&self) -> Arc<Mutex<Registry>> {
        self.registry.clone()
    }

    /// True once the caches have their first state, until shutdown begins.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// Works until `stop`.
    pub async fn run(self, stop: CancellationToken) -> Result<(), SchedulerError> {
        let flush = CancellationToken::new();
        let mut recording = JoinSet::new();
        let (recorder, flushed) = (self.recorder.clone(), flush.clone());
        recording.spawn(async move { recorder.run(flushed).await });
        let informers = self.informers.clone();
        let ended = tokio::select! {
            () = stop.cancelled() => Ok(()),
            synced = informers.synced() => match synced {
                Ok(()) => self.work(&stop).await,
                Err(_) => Err(SchedulerError::Informers),
            },
        };
        flush.cancel();
        while recording.join_next().await.is_some() {}
        informers.shutdown().await;
        ended
    }

    async fn work(self, stop: &CancellationToken) -> Result<(), SchedulerError> {
        let ready = self.ready.clone();
        let leave = CancellationToken::new();
        let mut elections = JoinSet::new();
        let shards = self.election.as_ref().map(Election::shards);
        if let Some(election) = self.election {
            elections.spawn(election.run(leave.clone()));
        }
        let mut worker = Worker {
            engine: Engine::new(self.settings.engine(), self.client.entropy().draw()),
            inbox: Inbox::default(),
            tasks: JoinSet::new(),
            requests: 0,
            reports: 0,
            evictions: 0,
            to_evict: VecDeque::new(),
            report_again: BTreeSet::new(),
            gauged: Instant::now(),
            observed: BTreeMap::new(),
            client: self.client,
            settings: self.settings,
            informers: self.informers,
            caches: self.caches,
            recorder: self.recorder,
            metrics: self.metrics,
            clock: self.clock,
            shards,
        };
        worker.follow();
        ready.send_replace(true);
        let ended = worker.run(stop).await;
        ready.send_replace(false);
        worker.wind_down().await;
        leave.cancel();
        while elections.join_next().await.is_some() {}
        ended
    }
}

fn caches(informers: &Informers) -> Caches {
    let all = Selection::everywhere;
    let plain = || all().transform(Transform::without_managed_fields());
    Caches {
        nodes: informers.cache(plain()),
        bindings: informers.cache(all().transform(read::binding())),
        bound: informers.cache(all().fields("status.node!=").transform(read::bound_replica())),
        waiting: informers.cache(plain().fields("status.node=")),
        quotas: informers.cache(plain()),
        policies: informers.cache(plain()),
        priority_classes: informers.cache(plain()),
    }
}

/// What a request came to.
enum Done {
    Sent(Sent),
    Shown(Shown),
    Evicted(Stayed),
    /// Everything up to now was seen: these were bound, or never will be.
    Settled(Vec<Arc<str>>),
}

/// The loop and all it has.
struct Worker {
    engine: Engine,
    inbox: Inbox,
    tasks: JoinSet<Done>,
    requests: usize,
    reports: usize,
    evictions: usize,
    /// Those that wait for their turn. Nobody is in it twice: from the moment it was chosen a victim counts as leaving.
    to_evict: VecDeque<Eviction>,
    /// When, and who.
    report_again: BTreeSet<(u64, Arc<str>)>,
    gauged: Instant,
    observed: BTreeMap<String, Revision>,
    client: Client,
    settings: Settings,
    informers: Informers,
    caches: Caches,
    recorder: Recorder,
    metrics: Metrics,
    clock: WallClock,
    /// None: there is no other scheduler.
    shards: Option<Shards>,
}

impl Worker {
    fn follow(&self) {
        let (inbox, caches) = (&self.inbox, &self.caches);
        inbox.follow(Source::Node, &caches.nodes);
        inbox.follow(Source::Binding, &caches.bindings);
        inbox.follow(Source::Bound, &caches.bound);
        inbox.follow(Source::Quota, &caches.quotas);
        inbox.follow(Source::Policy, &caches.policies);
        inbox.follow(Source::PriorityClass, &caches.priority_classes);
        inbox.follow(Source::Waiting, &caches.waiting);
    }

    async fn run(&mut self, stop: &CancellationToken) -> Result<(), SchedulerError> {
        let mut changes = self.shards.as_ref().map(Shards::changes);
        let informers = self.informers.clone();
        // No revision is that late: it ends with the informers.
        let ended = informers.at_least(Revision::MAX);
        tokio::pin!(ended);
        loop {
            self.look();
            self.act().await;
            let wake = self.wake_at();
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                Some(done) = self.tasks.join_next(), if !self.tasks.is_empty() => self.done(done),
                () = self.inbox.came() => {}
                () = changed(&mut changes) => self.look_at_all(),
                () = sleep_until(wake) => {}
                _ = &mut ended => return Err(SchedulerError::Informers),
            }
        }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn wake_at(&self) -> Instant {
        let now = self.now().0;
        let again = self.report_again.first().map(|it| it.0);
        let due = [self.engine.next_tick(now), again].into_iter().flatten().min();
        let wait = due.map_or(IDLE, |due| Duration::from_millis(due.saturating_sub(now).max(1)).min(IDLE));
        Instant::now() + wait
    }

    /// Takes in what has changed. How far the caches are is asked before, so that no more is claimed than was seen.
    fn look(&mut self) {
        let observed = self.informers.observed();
        let now = self.now().0;
        for (source, key) in self.inbox.take() {
            if let Err(problem) = self.see(source, &key, now) {
                self.metrics.unreadable();
                tracing::error!(%problem, %key, ?source, "an object cannot be read: it is left out");
            }
        }
        self.observed = observed.into_iter().filter(|(kind, _)| KINDS.contains(&&**kind)).collect();
        self.engine.set_seen(self.observed.values().min().copied().unwrap_or_default());
        self.engine.tick(now);
        while let Some((due, _)) = self.report_again.first()
            && *due <= now
            && let Some((_, replica)) = self.report_again.pop_first()
        {
            self.engine.report_again(&replica);
        }
        if self.gauged.elapsed() >= GAUGES {
            self.gauged = Instant::now();
            self.metrics.show(&self.engine);
        }
    }

    fn see(&mut self, source: Source, key: &Key, now: u64) -> Result<(), FieldProblem> {
        let (namespace, name) = (key.namespace(), key.name());
        let full = format!("{namespace}/{name}");
        match source {
            Source::Node => match self.caches.nodes.read(key)? {
                Some(node) => {
                    let (attributes, capacity) = read::node(&node);
                    let revision = node.metadata.revision;
                    self.engine.cluster_mut().set_node(name, attributes, &capacity, revision);
                }
                None => self.engine.cluster_mut().remove_node(name),
            },
            Source::Binding => {
                let cluster = self.engine.cluster_mut();
                let held = match self.caches.bindings.get(key) {
                    Some(entry) => read::held(&entry, cluster)?,
                    None => None,
                };
                let is_free = held.is_none();
                cluster.see_binding(&full, held);
                if is_free && self.caches.waiting.get(key).is_some() {
                    return self.see(Source::Waiting, key, now);
                }
            }
            Source::Bound => {
                let traits = self.caches.bound.get(key).map(|entry| read::traits(&entry)).transpose()?;
                self.engine.cluster_mut().see_traits(&full, traits);
            }
            Source::Quota => match self.caches.quotas.read(key)? {
                Some(quota) => {
                    let limits = read::limits(&quota, self.engine.cluster_mut());
                    self.engine.cluster_mut().set_quota(namespace, name, limits);
                }
                None => self.engine.cluster_mut().remove_quota(namespace, name),
            },
            Source::Policy => {
                let policy = self.caches.policies.read(key)?;
                let version = policy.map(|it| (read::version(&it), it.metadata.revision));
                self.engine.see_policy(name, version, now);
            }
            Source::PriorityClass => {
                let class = self.caches.priority_classes.read(key)?;
                self.engine.see_priority_class(name, class.map(|it| it.spec.preemption));
            }
            Source::Waiting => self.see_waiting(key, &full, now)?,
        }
        Ok(())
    }

    fn see_waiting(&mut self, key: &Key, full: &str, now: u64) -> Result<(), FieldProblem> {
        let entry = self.caches.waiting.get(key);
        let waiting = entry.as_deref().map(read::waiting).transpose()?.flatten();
        match waiting.filter(|it| self.is_ours(&it.wants.namespace, &it.wants.workload)) {
            None => self.engine.drop_replica(full),
            Some(waiting) => self.engine.see_replica(full, waiting, now),
        }
        Ok(())
    }

    fn is_ours(&self, namespace: &str, workload: &str) -> bool {
        self.shards.as_ref().is_none_or(|it| it.claim(shard_key(namespace, workload)).is_some())
    }

    /// Shards came or went: everybody who waits is looked at again.
    fn look_at_all(&self) {
        for entry in self.caches.waiting.snapshot().iter() {
            self.inbox.put(Source::Waiting, entry.key().clone());
        }
    }

    /// Sends off what there is to do, as far as there is room for more.
    async fn act(&mut self) {
        while self.requests < self.settings.requests as usize {
            let begin = Instant::now();
            let plan = self.engine.plan(self.now().0, self.settings.batch as usize);
            let is_empty = plan.binds.is_empty();
            if !is_empty || !plan.notices.is_empty() {
                self.metrics.planned(begin.elapsed().as_secs_f64());
            }
            self.perform(plan).await;
            if is_empty {
                break;
            }
        }
        while self.reports < self.settings.status_writes as usize {
            let Some(report) = self.engine.take_reports(1).pop() else { break };
            let Some(client) = self.client_for(&report.replica) else { continue };
            let (replicas, now) = (self.caches.waiting.clone(), self.now());
            let seen = self.observed.values().min().copied().unwrap_or_default();
            self.reports += 1;
            self.metrics.wrote_status();
            self.tasks.spawn(async move { Done::Shown(show(client, replicas, report, seen, now).await) });
        }
    }

    /// A client that writes under the lease of a replica's shard.
    fn client_for(&self, replica: &str) -> Option<Client> {
        let Some(shards) = &self.shards else { return Some(self.client.clone()) };
        let (namespace, name) = replica.split_once('/')?;
        let entry = self.caches.waiting.get(&Key::new(namespace, name))?;
        let claim = shards.claim(shard_key(namespace, &read::workload(&entry).ok()?))?;
        Some(self.client.with_fence(claim.fence))
    }

    async fn perform(&mut self, plan: Plan) {
        let now = self.now();
        for notice in &plan.notices {
            self.metrics.refused(notice.refusal.reason);
            let flush = Timestamp(now.0.saturating_add(self.settings.flush.as_millis() as u64));
            let epoch =
                self.claim(&notice.namespace, &notice.workload).map_or(Epoch::default(), |it| it.fence.epoch);
            self.recorder.decision(record::draft(notice, epoch, &self.observed, flush, now)).await;
        }
        self.to_evict.extend(plan.evictions);
        self.evict_next();
        for (claim, items) in self.by_shard(plan.binds) {
            self.requests += 1;
            items.iter().for_each(|item| self.metrics.waited(item.waited_ms));
            let batch = Batch { items, claim, observed: self.observed.clone() };
            let (client, detail) = (self.client.clone(), self.recorder.detail().clone());
            self.tasks.spawn(async move { Done::Sent(send(client, batch, detail).await) });
        }
    }

    /// Asks those to leave who have to, as far as there is room for more requests.
    fn evict_next(&mut self) {
        while self.evictions < EVICTIONS_MAX
            && let Some(eviction) = self.to_evict.pop_front()
        {
            let claim = self.claim(&eviction.namespace, &eviction.workload);
            let client = match (&self.shards, claim) {
                (None, _) => self.client.clone(),
                (Some(_), Some(claim)) => self.client.with_fence(claim.fence),
                (Some(_), None) => {
                    // Whoever has the workload now decides anew.
                    self.look_at_binding(&eviction.victim);
                    continue;
                }
            };
            self.evictions += 1;
            self.metrics.evicted();
            let (bindings, recorder, now) = (self.caches.bindings.clone(), self.recorder.clone(), self.now());
            self.tasks
                .spawn(async move { Done::Evicted(evict(client, bindings, recorder, eviction, now).await) });
        }
    }

    fn claim(&self, namespace: &str, workload: &str) -> Option<Claim> {
        self.shards.as_ref()?.claim(shard_key(namespace, workload))
    }

    /// Binds by the lease they are sent under. What is no longer ours is not sent.
    fn by_shard(&mut self, items: Vec<BindItem>) -> Vec<(Option<Claim>, Vec<BindItem>)> {
        if items.is_empty() {
            return Vec::new();
        }
        if self.shards.is_none() {
            return vec![(None, items)];
        }
        let mut batches: BTreeMap<u32, (Option<Claim>, Vec<BindItem>)> = BTreeMap::new();
        let now = self.now().0;
        for item in items {
            let namespace = item.replica.split_once('/').map_or("", |it| it.0);
            match self.claim(namespace, &item.workload) {
                Some(claim) => {
                    let batch = batches.entry(claim.shard.0).or_insert_with(|| (Some(claim), Vec::new()));
                    batch.1.push(item);
                }
                None => {
                    self.engine.answer(&item.replica, Answer::Dropped, now);
                    self.engine.drop_replica(&item.replica);
                }
            }
        }
        batches.into_values().collect()
    }

    fn done(&mut self, done: Result<Done, tokio::task::JoinError>) {
        let now = self.now().0;
        match done {
            Ok(Done::Sent(sent)) => {
                self.requests -= 1;
                self.sent(sent, now);
            }
            Ok(Done::Shown(shown)) => {
                self.reports -= 1;
                if let Shown::Again(replica) = shown {
                    self.report_again.insert((now + REPORT_AGAIN_MS, replica));
                }
            }
            Ok(Done::Evicted(stayed)) => {
                self.evictions -= 1;
                if let Some(victim) = stayed {
                    self.look_at_binding(&victim);
                    self.engine.stayed(&victim);
                }
                self.evict_next();
            }
            Ok(Done::Settled(replicas)) => {
                for replica in replicas {
                    self.engine.answer(&replica, Answer::Dropped, now);
                }
            }
            // A request that panics is a mistake of the program; its answer is missing for ever.
            Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "a request has panicked"),
        }
    }

    fn sent(&mut self, sent: Sent, now: u64) {
        if let (Some(shards), Some(claim)) = (&self.shards, &sent.fenced) {
            shards.fenced(claim);
        }
        sent.refusals.into_iter().for_each(|reason| self.metrics.rejected(reason));
        for (replica, answer) in sent.answers {
            if matches!(answer, Answer::Bound(_)) {
                self.metrics.bound();
            }
            self.engine.answer(&replica, answer, now);
        }
        if !sent.unknown.is_empty() {
            let (client, informers) = (self.client.clone(), self.informers.clone());
            self.tasks.spawn(settle(client, informers, sent.unknown));
        }
    }

    /// It is not known whether it leaves: what its binding says counts.
    fn look_at_binding(&self, replica: &str) {
        if let Some((namespace, name)) = replica.split_once('/') {
            self.inbox.put(Source::Binding, Key::new(namespace, name));
        }
    }

    /// Lets requests be answered that are under way.
    async fn wind_down(&mut self) {
        let answered = async {
            while let Some(done) = self.tasks.join_next().await {
                self.done(done);
            }
        };
        if timeout(WIND_DOWN, answered).await.is_err() {
            tracing::warn!("requests were dropped at shutdown: they took too long");
        }
    }
}

/// After binds of unknown outcome: waits until the caches have seen everything that may have come of them.
async fn settle(client: Client, informers: Informers, replicas: Vec<Arc<str>>) -> Done {
    loop {
        let options = ListOptions { page: 1, ..ListOptions::default() };
        if let Ok(page) = client.api::<Node>().list(&options).await {
            // If the informers are shut down, nothing is decided any more.
            informers.at_least(page.revision).await.ok();
            return Done::Settled(replicas);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn changed(changes: &mut Option<watch::Receiver<u64>>) {
    if let Some(changes) = changes
        && changes.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// All replicas of a workload are one scheduler's: they are spread, counted and ganged together.
fn shard_key(namespace: &str, workload: &str) -> u64 {
    Key::new(namespace, workload).stable_hash()
}
