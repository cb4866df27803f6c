//! One step of a test sequence: a request in symbolic form, as it is generated, stored, shrunk and printed.
//!
//! Two kinds of value cannot be written down as numbers. Revisions are relative to what the store has reached
//! ([`Rev`]), so that a sequence keeps its meaning when steps before it are removed or it runs on a store with a
//! past. Leases whose id the server picks are named by a slot ([`LeaseRef`]), because each server picks its own.
//! `resolve` turns a step into a request; enumerations are plain numbers so that invalid ones can be sent too.
//!
//! Not here: what a step answers (`answer`), and how steps are chosen (`generate`).

use serde::{Deserialize, Serialize};

use crate::blob::Blob;

/// A revision in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rev {
    /// The number 0, which most requests read as "the latest".
    #[default]
    Unset,
    /// This number, whatever the store has reached.
    Exactly(i64),
    /// The store's revision before the step, plus this.
    Now(i64),
    /// The revision of the last compaction (0 before the first), plus this.
    Compacted(i64),
}

/// A lease in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseRef {
    /// The number 0.
    #[default]
    None,
    /// An id chosen by the client.
    Id(i64),
    /// An id chosen by the server in the grant step that names the same slot. A slot that was never granted
    /// stands for an id that no server has.
    Slot(u32),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RangeStep {
    pub key: Blob,
    #[serde(skip_serializing_if = "is_default")]
    pub end: Blob,
    #[serde(skip_serializing_if = "is_default")]
    pub limit: i64,
    #[serde(skip_serializing_if = "is_default")]
    pub revision: Rev,
    #[serde(skip_serializing_if = "is_default")]
    pub sort_order: i32,
    #[serde(skip_serializing_if = "is_default")]
    pub sort_target: i32,
    #[serde(skip_serializing_if = "is_default")]
    pub serializable: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub keys_only: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub count_only: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub min_mod: Rev,
    #[serde(skip_serializing_if = "is_default")]
    pub max_mod: Rev,
    #[serde(skip_serializing_if = "is_default")]
    pub min_create: Rev,
    #[serde(skip_serializing_if = "is_default")]
    pub max_create: Rev,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PutStep {
    pub key: Blob,
    #[serde(skip_serializing_if = "is_default")]
    pub value: Blob,
    #[serde(skip_serializing_if = "is_default")]
    pub lease: LeaseRef,
    #[serde(skip_serializing_if = "is_default")]
    pub prev_kv: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub ignore_value: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub ignore_lease: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteStep {
    pub key: Blob,
    #[serde(skip_serializing_if = "is_default")]
    pub end: Blob,
    #[serde(skip_serializing_if = "is_default")]
    pub prev_kv: bool,
}

/// What a compare compares with. It need not match the compare's target: servers see that too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operand {
    #[default]
    Missing,
    Version(i64),
    Create(Rev),
    Mod(Rev),
    Value(Blob),
    Lease(LeaseRef),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompareStep {
    pub key: Blob,
    #[serde(skip_serializing_if = "is_default")]
    pub end: Blob,
    #[serde(skip_serializing_if = "is_default")]
    pub target: i32,
    #[serde(skip_serializing_if = "is_default")]
    pub result: i32,
    #[serde(skip_serializing_if = "is_default")]
    pub operand: Operand,
}

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    Range(RangeStep),
    Put(PutStep),
    Delete(DeleteStep),
    Txn(TxnStep),
    /// An operation without a request in it.
    Empty,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TxnStep {
    #[serde(skip_serializing_if = "is_default")]
    pub compare: Vec<CompareStep>,
    #[serde(skip_serializing_if = "is_default")]
    pub success: Vec<Op>,
    #[serde(skip_serializing_if = "is_default")]
    pub failure: Vec<Op>,
}

/// The number of a watch stream within a sequence; a stream is opened by its first request.
pub type StreamSlot = u8;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchStep {
    pub stream: StreamSlot,
    #[serde(skip_serializing_if = "is_default")]
    pub key: Blob,
    #[serde(skip_serializing_if = "is_default")]
    pub end: Blob,
    #[serde(skip_serializing_if = "is_default")]
    pub start: Rev,
    #[serde(skip_serializing_if = "is_default")]
    pub progress_notify: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub filters: Vec<i32>,
    #[serde(skip_serializing_if = "is_default")]
    pub prev_kv: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub id: i64,
    #[serde(skip_serializing_if = "is_default")]
    pub fragment: bool,
}

/// A membership or maintenance request whose subject does not exist: only its refusal can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stray {
    MemberRemove,
    MemberUpdate,
    MemberPromote,
    MemberAddBadUrl,
    MoveLeader,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    Range(RangeStep),
    Put(PutStep),
    /// `count` puts of one key, one after the other, of which only the last is compared.
    PutMany {
        key: Blob,
        count: u32,
    },
    Delete(DeleteStep),
    Txn(TxnStep),
    Compact {
        revision: Rev,
        physical: bool,
    },

    Grant {
        lease: LeaseRef,
        ttl: i64,
    },
    /// A grant and at once a revoke: for lifetimes so short that the lease could expire between two steps.
    GrantBriefly {
        lease: LeaseRef,
        ttl: i64,
    },
    Revoke {
        lease: LeaseRef,
    },
    TimeToLive {
        lease: LeaseRef,
        keys: bool,
    },
    Leases,
    KeepAlive {
        lease: LeaseRef,
    },
    /// Waits until the range is empty, which only the expiry of a lease can bring about.
    AwaitGone {
        key: Blob,
        end: Blob,
    },

    Watch(WatchStep),
    CancelWatch {
        stream: StreamSlot,
        id: i64,
    },
    Progress {
        stream: StreamSlot,
    },
    /// A watch request with nothing in it.
    EmptyWatchRequest {
        stream: StreamSlot,
    },
    CloseStream {
        stream: StreamSlot,
    },
    /// Waits until every open watch has delivered what has happened so far, and compares it. Inserted by
    /// [`Sequence::settled`] wherever the next step would race with deliveries.
    Settle,

    Status,
    AlarmGet,
    /// Raises (1) or lifts (2) an alarm of the given type (1 no space, 2 corrupt).
    Alarm {
        action: i32,
        alarm: i32,
    },
    Hash,
    HashKv {
        revision: Rev,
    },
    Defragment,
    MemberList {
        linearizable: bool,
    },
    Stray(Stray),
}

/// Steps that belong together, with the seed that made them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sequence {
    pub seed: u64,
    /// What kind of sequence the seed made; only for reports.
    pub profile: String,
    /// The last steps empty the store and compact it, so what follows does not depend on this sequence.
    pub resets: bool,
    pub steps: Vec<Step>,
}

impl Sequence {
    /// The same steps with a [`Step::Settle`] wherever the outcome would otherwise be a race: before a compaction
    /// (it cancels watches that lag), before a watch or stream ends, and before progress is asked for.
    pub fn settled(mut self) -> Self {
        let mut steps = Vec::with_capacity(self.steps.len());
        let mut streams = std::collections::BTreeSet::new();
        let mut dirty = false;
        for step in self.steps.into_iter().filter(|step| *step != Step::Settle) {
            match &step {
                Step::Watch(watch) => {
                    streams.insert(watch.stream);
                }
                Step::Compact { .. }
                | Step::CancelWatch { .. }
                | Step::Progress { .. }
                | Step::CloseStream { .. }
                    if dirty && !streams.is_empty() =>
                {
                    steps.push(Step::Settle);
                    dirty = false;
                }
                _ => {}
            }
            if let Step::CloseStream { stream } = &step {
                streams.remove(stream);
            }
            dirty |= step.may_cause_deliveries();
            steps.push(step);
        }
        self.steps = steps;
        self
    }
}

impl Step {
    /// After this step a watch may have something to deliver.
    fn may_cause_deliveries(&self) -> bool {
        matches!(
            self,
            Step::Put(_)
                | Step::PutMany { .. }
                | Step::Delete(_)
                | Step::Txn(_)
                | Step::Compact { .. }
                | Step::Revoke { .. }
                | Step::AwaitGone { .. }
                | Step::Watch(_)
                | Step::CancelWatch { .. }
        )
    }

    /// The step changes nothing on the server, and is not about watches.
    pub fn is_read(&self) -> bool {
        matches!(
            self,
            Step::Range(_)
                | Step::TimeToLive { .. }
                | Step::Leases
                | Step::KeepAlive { .. }
                | Step::Status
                | Step::AlarmGet
                | Step::Hash
                | Step::HashKv { .. }
                | Step::MemberList { .. }
                | Step::Defragment
                | Step::Stray(_)
        )
    }

    /// The step's name, as in its text form.
    pub fn name(&self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(name)) => name,
            Ok(serde_json::Value::Object(fields)) => fields.keys().next().cloned().unwrap_or_default(),
            _ => String::new(),
        }
    }

    /// The step talks on a watch stream or waits for one.
    pub fn is_watch(&self) -> bool {
        matches!(
            self,
            Step::Watch(_)
                | Step::CancelWatch { .. }
                | Step::Progress { .. }
                | Step::EmptyWatchRequest { .. }
                | Step::CloseStream { .. }
                | Step::Settle
        )
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::{PutStep, Rev, Sequence, Step, WatchStep};

    #[test]
    fn settling_comes_before_each_race_and_only_there() {
        let watch = || Step::Watch(WatchStep::default());
        let put = || Step::Put(PutStep::default());
        let compact = || Step::Compact { revision: Rev::Now(0), physical: false };
        let close = || Step::CloseStream { stream: 0 };
        let sequence = |steps| Sequence { seed: 0, profile: String::new(), resets: false, steps };
        let settled =
            sequence(vec![put(), compact(), watch(), put(), put(), compact(), close(), compact()]).settled();
        let expected = vec![
            put(),
            compact(),
            watch(),
            put(),
            put(),
            Step::Settle,
            compact(),
            Step::Settle,
            close(),
            compact(),
        ];
        assert_eq!(settled.steps, expected);
        assert_eq!(settled.clone().settled(), settled, "settling twice changes nothing");
    }
}
