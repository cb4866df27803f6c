//! The node's metrics: what is counted as it happens, and what is looked up when somebody asks.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use setpoint_access::{AuditCounts, AuditLog, LEVELS};
use setpoint_apiserver::etcd::context::Context;
use setpoint_apiserver::load::Load;
use setpoint_apiserver::objects::Index;
use setpoint_consensus::log::{LogFailure, LogObserver, SyncedBatch};
use setpoint_consensus::{Counts, Role, Status};
use setpoint_types::NodeId;

/// What the log's writer reports.
pub struct LogMetrics {
    sync: Histogram,
    entries: Histogram,
    bytes: Counter,
}

impl LogMetrics {
    pub fn new(registry: &mut Registry) -> Arc<Self> {
        let sync = Histogram::new(exponential_buckets(0.000_05, 2.0, 18));
        let entries = Histogram::new(exponential_buckets(1.0, 2.0, 13));
        let bytes = Counter::default();
        registry.register("log_sync_duration_seconds", "Time of one fdatasync of the Raft log", sync.clone());
        registry.register("log_batch_entries", "Log entries made durable by one sync", entries.clone());
        registry.register("log_written_bytes", "Bytes written to the Raft log", bytes.clone());
        Arc::new(Self { sync, entries, bytes })
    }
}

impl LogObserver for LogMetrics {
    fn synced(&self, batch: &SyncedBatch) {
        self.sync.observe(batch.sync.as_secs_f64());
        self.entries.observe(batch.entries as f64);
        self.bytes.inc_by(batch.bytes as u64);
    }

    /// The log has said so itself, and consensus stops the node.
    fn failed(&self, _: &LogFailure) {}
}

type Levels<M> = Family<[(&'static str, &'static str); 1], M>;

/// What clients have and were refused, as it stands when somebody asks.
#[derive(Default)]
struct LoadMetrics {
    seats_used: Levels<Gauge>,
    waiting: Levels<Gauge>,
    admitted: Levels<Counter>,
    refused: Levels<Counter>,
    open: Levels<Gauge>,
    open_refused: Levels<Counter>,
}

impl LoadMetrics {
    fn register(&self, registry: &mut Registry) {
        registry.register("seats_used", "Seats that requests have, by level", self.seats_used.clone());
        registry.register(
            "requests_waiting",
            "Requests that wait for a seat, by level",
            self.waiting.clone(),
        );
        registry.register("requests_admitted", "Requests that got a seat, by level", self.admitted.clone());
        let help = "Requests that found no place to wait, waited too long or left, by level";
        registry.register("requests_turned_away", help, self.refused.clone());
        let help = "Open streams of clients (signs: of keep-alives and health), watches and sessions that are counted";
        registry.register("client_open", help, self.open.clone());
        let help = "Streams, watches and sessions refused because there were too many";
        registry.register("client_open_refused", help, self.open_refused.clone());
    }

    fn set(&self, load: &Load) {
        let count = |counter: &Counter, count| counter.inner().store(count, Ordering::Relaxed);
        for level in LEVELS {
            let (counts, labels) = (load.flow.counts(level), [("level", level.name())]);
            self.seats_used.get_or_create(&labels).set(counts.seats_used.into());
            self.waiting.get_or_create(&labels).set(counts.waiting as i64);
            count(&self.admitted.get_or_create(&labels), counts.admitted);
            count(&self.refused.get_or_create(&labels), counts.refused + counts.given_up);
        }
        let tallies = [
            ("streams", &load.streams),
            ("signs", &load.signs),
            ("watches", &load.watches),
            ("sessions", &load.sessions),
        ];
        for (what, tally) in tallies {
            let (counts, labels) = (tally.counts(), [("what", what)]);
            self.open.get_or_create(&labels).set(counts.open as i64);
            count(&self.open_refused.get_or_create(&labels), counts.refused);
        }
    }
}

/// Everything `/metrics` shows.
pub struct NodeMetrics {
    context: Context,
    index: Arc<Index>,
    audit: Option<(AuditLog, AuditCounters)>,
    registry: Registry,
    gauges: Gauges,
    consensus: ConsensusCounters,
    load: LoadMetrics,
    leader_changes: Counter,
    last_leader: Mutex<Option<NodeId>>,
}

macro_rules! gauges {
    ($($field:ident: $help:literal,)*) => {
        /// Values that are looked up when somebody asks.
        #[derive(Default)]
        struct Gauges { $($field: Gauge<i64, AtomicI64>),* }

        impl Gauges {
            fn register(&self, registry: &mut Registry) {
                $(registry.register(stringify!($field), $help, self.$field.clone());)*
            }
        }
    };
}

gauges! {
    is_leader: "1 while this node leads and a quorum follows it",
    has_leader: "1 while this node knows a leader",
    raft_term: "Current Raft term",
    log_last_index: "Index of the last log entry",
    log_committed_index: "Index of the last committed log entry",
    log_applied_index: "Index of the last applied log entry",
    applied_lag: "Committed log entries not yet applied",
    quorum_ack_age_milliseconds: "On the leader: age of the last round that a quorum answered",
    revision: "Newest revision",
    compacted_revision: "Revision last compacted at",
    collected_revision: "Revision below which compacted data is deleted",
    keys: "Live keys",
    leases: "Leases",
    db_total_bytes: "Size of the database on disk and in write buffers",
    db_live_bytes: "Estimated size of live data",
    watch_streams: "Open watch streams",
    watchers: "Running watches",
    watchers_behind: "Watches that read history to catch up",
    proposals_pending: "Commands of this node that wait for their verdict",
    object_index_objects: "Objects in the index of labels and selectable fields",
    object_index_bytes: "About how much memory that index takes",
    object_index_revision: "Revision that index has come to",
}

/// What consensus counts by itself, shown as it stands when somebody asks.
#[derive(Default)]
struct ConsensusCounters {
    commands_proposed: Counter,
    entries_proposed: Counter,
    commands_forwarded: Counter,
    read_barriers: Counter,
    read_rounds: Counter,
}

impl ConsensusCounters {
    fn register(&self, registry: &mut Registry) {
        let all = [
            ("commands_proposed", "Commands this node proposed as the leader", &self.commands_proposed),
            ("entries_proposed", "Log entries those commands travelled in", &self.entries_proposed),
            ("commands_forwarded", "Commands this node sent to the leader", &self.commands_forwarded),
            ("read_barriers", "Linearizable reads that asked for a barrier here", &self.read_barriers),
            ("read_rounds", "Rounds that answered them, each for all that waited", &self.read_rounds),
        ];
        for (name, help, counter) in all {
            registry.register(name, help, counter.clone());
        }
    }

    fn set(&self, counts: Counts) {
        let set = |counter: &Counter, count| counter.inner().store(count, Ordering::Relaxed);
        set(&self.commands_proposed, counts.commands_proposed);
        set(&self.entries_proposed, counts.entries_proposed);
        set(&self.commands_forwarded, counts.commands_forwarded);
        set(&self.read_barriers, counts.barriers);
        set(&self.read_rounds, counts.read_rounds);
    }
}

/// What the audit log counts by itself.
#[derive(Default)]
struct AuditCounters {
    written: Counter,
    writes_dropped: Counter,
    denials_dropped: Counter,
    failures: Counter,
}

impl AuditCounters {
    fn register(registry: &mut Registry) -> Self {
        let own = Self::default();
        let all = [
            ("audit_records", "Lines written to the audit log", &own.written),
            ("audit_writes_dropped", "Writes that are missing from the audit log", &own.writes_dropped),
            ("audit_denials_dropped", "Denials that are missing from the audit log", &own.denials_dropped),
            ("audit_failures", "Times that the audit log could not be written", &own.failures),
        ];
        for (name, help, counter) in all {
            registry.register(name, help, counter.clone());
        }
        own
    }

    fn set(&self, counts: AuditCounts) {
        let set = |counter: &Counter, count| counter.inner().store(count, Ordering::Relaxed);
        set(&self.written, counts.written);
        set(&self.writes_dropped, counts.writes_dropped);
        set(&self.denials_dropped, counts.denials_dropped);
        set(&self.failures, counts.failures);
    }
}

impl NodeMetrics {
    pub fn new(
        context: Context,
        index: Arc<Index>,
        audit: Option<AuditLog>,
        mut registry: Registry,
    ) -> Arc<Self> {
        let gauges = Gauges::default();
        gauges.register(&mut registry);
        let consensus = ConsensusCounters::default();
        consensus.register(&mut registry);
        let audit = audit.map(|log| (log, AuditCounters::register(&mut registry)));
        let load = LoadMetrics::default();
        load.register(&mut registry);
        let leader_changes = Counter::<u64, AtomicU64>::default();
        registry.register("leader_changes", "Leader changes this node has seen", leader_changes.clone());
        let last_leader = Mutex::new(context.replica.leader());
        let metrics =
            Self { context, index, audit, registry, gauges, consensus, load, leader_changes, last_leader };
        let metrics = Arc::new(metrics);
        tokio::spawn(metrics.clone().follow_leaders());
        metrics
    }

    /// Counts every change, also those nobody asked about in time.
    async fn follow_leaders(self: Arc<Self>) {
        let mut status = self.context.replica.node.status();
        while status.changed().await.is_ok() {
            let leader = status.borrow_and_update().leader;
            let mut last = self.last_leader.lock();
            if leader.is_some() && *last != leader {
                if last.is_some() {
                    self.leader_changes.inc();
                }
                *last = leader;
            }
        }
    }

    pub fn encode(&self) -> Result<String, fmt::Error> {
        self.look_up(&self.context.replica.status());
        self.consensus.set(self.context.replica.node.counts());
        if let Some((log, counters)) = &self.audit {
            counters.set(log.counts());
        }
        self.load.set(&self.context.load);
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    fn look_up(&self, status: &Status) {
        let (gauges, replica) = (&self.gauges, &self.context.replica);
        let index = |index: Option<u64>| index.map_or(0, |index| index as i64);
        // A leader that has lost its quorum is none: it knows no leader, and does not count as one.
        gauges.is_leader.set((status.role == Role::Leader && status.leader.is_some()).into());
        gauges.has_leader.set(status.leader.is_some().into());
        gauges.raft_term.set(status.term as i64);
        gauges.log_last_index.set(index(status.last_index));
        gauges.log_committed_index.set(index(status.committed));
        gauges.log_applied_index.set(index(status.applied));
        gauges.applied_lag.set(index(status.committed) - index(status.applied));
        let age = status.quorum_acked.map_or(0, |at| at.elapsed().as_millis() as i64);
        gauges.quorum_ack_age_milliseconds.set(age);
        gauges.revision.set(replica.store.revision().wire());
        gauges.compacted_revision.set(replica.store.compacted());
        gauges.collected_revision.set(self.context.collector.progress().borrow().wire());
        gauges.keys.set(replica.store.key_count() as i64);
        gauges.leases.set(replica.store.lease_count() as i64);
        let size = replica.store.size();
        gauges.db_total_bytes.set(size.total as i64);
        gauges.db_live_bytes.set(size.live as i64);
        let watches = replica.hub.counts();
        gauges.watch_streams.set(watches.streams as i64);
        gauges.watchers.set(watches.watchers as i64);
        gauges.watchers_behind.set(watches.behind as i64);
        gauges.proposals_pending.set(replica.pending() as i64);
        let size = self.index.size();
        gauges.object_index_objects.set(size.objects as i64);
        gauges.object_index_bytes.set(size.bytes as i64);
        gauges.object_index_revision.set(self.index.revision().wire());
    }
}
