//! What a node is told at start, and how that becomes openraft's configuration.
//!
//! Every setting has a default that suits a cluster in one data centre. Not here: addresses and TLS, which belong to
//! the membership and to the `Connector`.

use std::path::PathBuf;
use std::time::Duration;

use openraft::SnapshotPolicy;
use setpoint_types::{ClusterId, NodeId};

#[derive(Clone, Debug)]
pub struct Config {
    pub id: NodeId,
    pub cluster: ClusterId,
    /// Holds `raft/` (the log), `snap/` (at most one checkpoint while it is sent) and `recv/` (a snapshot while it is
    /// received). On the file system of the state machine, so that received files can be moved into it.
    pub directory: PathBuf,
    pub timing: Timing,
    pub limits: Limits,
    pub log: LogRetention,
}

impl Config {
    pub fn new(id: NodeId, cluster: ClusterId, directory: impl Into<PathBuf>) -> Self {
        Self {
            id,
            cluster,
            directory: directory.into(),
            timing: Timing::default(),
            limits: Limits::default(),
            log: LogRetention::default(),
        }
    }
}

/// How long to wait for what.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Between heartbeats, and the patience for one. Should exceed the slowest usual fsync.
    pub heartbeat: Duration,
    /// An election starts between these after the leader's lease, which lasts `election_max`, has run out.
    pub election_min: Duration,
    pub election_max: Duration,
    /// A replication stream whose oldest append is unanswered for so long is opened anew.
    pub replication_stall: Duration,
    /// A snapshot transfer that makes no progress for so long is given up.
    pub snapshot_stall: Duration,
    /// Patience for a barrier: for the quorum to confirm the leader, and again for the local state to catch up.
    pub read: Duration,
    /// Patience for an answer from the leader's service.
    pub call: Duration,
    /// Patience for a leadership transfer, also that of an orderly shutdown.
    pub transfer: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(100),
            election_min: Duration::from_millis(1000),
            election_max: Duration::from_millis(1500),
            replication_stall: Duration::from_secs(5),
            snapshot_stall: Duration::from_secs(30),
            read: Duration::from_secs(3),
            call: Duration::from_secs(10),
            transfer: Duration::from_secs(3),
        }
    }
}

impl Timing {
    /// A leader that was silent for so long is taken for lost. Two whole elections: each waits for the lease of the
    /// leader before it and then for a random part, both up to `election_max`.
    pub fn leader_silence(&self) -> Duration {
        4 * self.election_max
    }
}

/// What is refused beyond.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Commands taken by `submit` and not yet applied, by number and by bytes.
    pub pending_commands: usize,
    pub pending_bytes: usize,
    /// One command.
    pub command_bytes: usize,
    /// A log entry takes no further command beyond this. A single larger command still gets its entry.
    pub entry_bytes: usize,
    /// Entries proposed and not yet committed. While they are on their way, further commands collect into the next one.
    pub entries_in_flight: usize,
    /// Barriers waiting for a round, and calls waiting for an answer.
    pub waiting_reads: usize,
    pub waiting_calls: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            pending_commands: 8192,
            pending_bytes: 64 << 20,
            command_bytes: 8 << 20,
            entry_bytes: 512 << 10,
            entries_in_flight: 2,
            waiting_reads: 64 << 10,
            waiting_calls: 1024,
        }
    }
}

/// When the log is cut. A follower that lags by less than what is kept catches up without a snapshot.
#[derive(Clone, Debug)]
pub struct LogRetention {
    /// The state is flushed after so many entries, and the log below may go.
    pub snapshot_every: u64,
    /// Entries kept nevertheless.
    pub keep: u64,
    /// Entries dropped at a time.
    pub purge_batch: u64,
    /// The same by bytes, whichever is reached first: after so many the state is flushed, ...
    pub flush_bytes: u64,
    /// ... so many are kept nevertheless, ...
    pub keep_bytes: u64,
    /// ... and so many while a member is being sent a snapshot, because it will need what comes after.
    pub lent_bytes: u64,
}

impl Default for LogRetention {
    fn default() -> Self {
        Self {
            snapshot_every: 50_000,
            keep: 20_000,
            purge_batch: 5_000,
            flush_bytes: 32 << 20,
            keep_bytes: 16 << 20,
            lent_bytes: 1 << 30,
        }
    }
}

impl Config {
    pub(crate) fn raft(&self) -> Result<openraft::Config, openraft::ConfigError> {
        let timing = &self.timing;
        let config = openraft::Config {
            cluster_name: self.cluster.to_string(),
            heartbeat_interval: millis(timing.heartbeat),
            // Appends that were acknowledged recently are heartbeats enough.
            heartbeat_min_interval: Some(millis(timing.heartbeat) / 2),
            election_timeout_min: millis(timing.election_min),
            election_timeout_max: millis(timing.election_max),
            enable_pre_vote: Some(true),
            // A restored leader could give a log id it lost in the crash to another entry (docs/adr/0001).
            enable_leader_restore: Some(false),
            // Without it a leader cut off from its quorum keeps a bridging follower from electing another one.
            quorum_loss_probe_interval: Some(2 * millis(timing.election_max)),
            max_payload_entries: 512,
            broadcast_submitted_on_append: Some(true),
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.log.snapshot_every.max(1)),
            max_in_snapshot_log_to_keep: self.log.keep,
            purge_batch_size: self.log.purge_batch.max(1),
            // Unused by our transport, which watches for progress instead.
            install_snapshot_timeout: millis(timing.snapshot_stall),
            state_machine_channel_size: Some(1024),
            backoff: "50ms 100ms ...1s".to_owned(),
            ..openraft::Config::default()
        };
        config.validate()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_the_dangerous_switches_are_set() {
        let raft =
            Config::new(NodeId(1), ClusterId(1), "unused").raft().expect("the defaults are consistent");
        assert_eq!(raft.enable_leader_restore, Some(false));
        assert_eq!(raft.enable_pre_vote, Some(true));
        assert!(raft.quorum_loss_probe_interval >= Some(2 * raft.election_timeout_max));
    }

    #[test]
    fn elections_shorter_than_heartbeats_are_refused() {
        let mut config = Config::new(NodeId(1), ClusterId(1), "unused");
        config.timing.election_min = config.timing.heartbeat / 2;
        assert!(config.raft().is_err());
    }
}
