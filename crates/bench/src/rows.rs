//! The rows of the benchmark: what each is called, which figures it has, and what is asked of them.
//!
//! Not here: how a row is measured (`load`).

use clap::ValueEnum;
use serde::{Serialize, Serializer};

use crate::metric::{Metric, Unit};

/// What one reader of everything may cost a server: a fraction of the 200 MB that are read.
const STATE_MEMORY_MAX: f64 = 64.0 * 1024.0 * 1024.0;

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Row {
    /// Puts by one client
    #[value(name = "put-1")]
    Put1,
    /// Puts by 100 clients
    #[value(name = "put-100")]
    Put100,
    /// Puts by 1,000 clients
    #[value(name = "put-1000")]
    Put1000,
    /// Compare-and-put transactions
    Txn,
    /// Linearizable reads of one key
    RangeLinearizable,
    /// Serializable reads of one key
    RangeSerializable,
    /// Reads of 500 keys
    #[value(name = "range-500")]
    Range500,
    /// Nine reads to one put
    Mixed,
    /// Watchers on one prefix
    Watch,
    /// Lease keep-alives
    KeepAlive,
    /// Memory, disk and restart with many keys
    ManyKeys,
    /// Memory of many watches
    ManyWatches,
    /// Puts while compaction runs
    Compaction,
    /// Time without writes after the leader is killed
    LeaderKill,
    /// Creates of objects
    ObjectCreate,
    /// Updates of objects
    ObjectUpdate,
    /// Server-side applies of objects
    ObjectApply,
    /// Reading the whole state, and a selected part of it
    ManyObjects,
    /// Watchers of one kind of objects
    ObjectWatch,
    /// Many leases kept alive
    LeaseObjects,
}

/// What ours is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Etcd,
    /// Ourselves, asked through the etcd API.
    OwnFacade,
}

/// What is asked of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// Ours divided by theirs, at most.
    RatioAtMost(f64),
    /// Ours divided by theirs, at least.
    RatioAtLeast(f64),
    /// Ours by itself, at least.
    OwnAtLeast(f64),
    /// Ours by itself, at most.
    OwnAtMost(f64),
    /// Shown without being judged.
    None,
}

impl Row {
    pub fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// The name used on the command line and in files.
    pub fn id(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Put1 => "put, 1 client",
            Self::Put100 => "put, 100 clients",
            Self::Put1000 => "put, 1,000 clients",
            Self::Txn => "compare-and-put txn, 1 KiB, 100 clients",
            Self::RangeLinearizable => "linearizable range of one key, 100 clients",
            Self::RangeSerializable => "serializable range of one key, 100 clients",
            Self::Range500 => "range of 500 × 1 KiB, 10 clients",
            Self::Mixed => "90 % linearizable reads, 10 % puts, 100 clients",
            Self::Watch => "100 watchers on one prefix, 50 writers",
            Self::KeepAlive => "lease keep-alive, 10,000 leases, 100 streams",
            Self::ManyKeys => "many keys",
            Self::ManyWatches => "10,000 watches on 100 streams",
            Self::Compaction => "puts while compaction runs, 100 clients",
            Self::LeaderKill => "leader killed (kill -9)",
            Self::ObjectCreate => "object create, 2 KiB, 100 clients, against a put by our etcd API",
            Self::ObjectUpdate => "object update, 2 KiB, 100 clients, against a put by our etcd API",
            Self::ObjectApply => "object apply, 2 KiB, 100 clients, against a put by our etcd API",
            Self::ManyObjects => "many objects",
            Self::ObjectWatch => "1,000 watchers of objects, 2 KiB",
            Self::LeaseObjects => "many leases, each kept alive every 10 s",
        }
    }

    pub fn peer(self) -> Peer {
        match self {
            Self::ObjectCreate | Self::ObjectUpdate | Self::ObjectApply => Peer::OwnFacade,
            _ => Peer::Etcd,
        }
    }

    /// The figures shown in the table, in order. Others a row yields are in the JSON file only.
    pub fn figures(self) -> &'static [(Metric, Target)] {
        use Metric::{
            CpuPerEvent, Disk, EventsDelivered, FirstObject, LatencyP50, LatencyP99, ListCpu, ListLatencyP50,
            ListRate, LogEntries, MemoryAdded, MemoryAddedAnonymous, Rate, RateCompacting, RateKept,
            RateUndisturbed, Recovery, Resident, ResidentAnonymous, Restart, RestartAfterKill, ServerCores,
            ServerCpuPerOp, StateCpu, StateMemory, StateRate, WatchLagP99,
        };
        use Target::{OwnAtLeast, OwnAtMost, RatioAtLeast, RatioAtMost};
        match self {
            Self::Put1 => &[(LatencyP50, RatioAtMost(0.8))],
            Self::Put100 | Self::Put1000 | Self::Txn => &[
                (ServerCpuPerOp, RatioAtMost(0.5)),
                (Rate, RatioAtLeast(1.7)),
                (LatencyP99, RatioAtMost(0.5)),
            ],
            Self::RangeLinearizable => &[
                (ServerCpuPerOp, RatioAtMost(0.5)),
                (Rate, RatioAtLeast(1.5)),
                (LatencyP99, RatioAtMost(0.6)),
            ],
            Self::RangeSerializable => &[(ServerCpuPerOp, RatioAtMost(0.6)), (Rate, RatioAtLeast(1.3))],
            Self::Range500 | Self::Mixed => &[(ServerCpuPerOp, RatioAtMost(0.5)), (Rate, RatioAtLeast(1.7))],
            Self::Watch => &[(EventsDelivered, RatioAtLeast(2.0)), (WatchLagP99, RatioAtMost(0.5))],
            Self::KeepAlive => &[(Rate, RatioAtLeast(3.0))],
            Self::ManyKeys => &[
                (Resident, RatioAtMost(0.5)),
                (ResidentAnonymous, Target::None),
                (Disk, RatioAtMost(0.5)),
                (Restart, RatioAtMost(0.5)),
                (RestartAfterKill, Target::None),
            ],
            Self::ManyWatches => &[(MemoryAdded, RatioAtMost(1.0)), (MemoryAddedAnonymous, Target::None)],
            Self::Compaction => &[
                (RateKept, OwnAtLeast(0.9)),
                (RateUndisturbed, Target::None),
                (RateCompacting, Target::None),
            ],
            Self::LeaderKill => &[(Recovery, RatioAtMost(1.0))],
            Self::ObjectCreate | Self::ObjectUpdate => {
                &[(ServerCpuPerOp, RatioAtMost(1.5)), (Rate, Target::None), (LatencyP99, Target::None)]
            }
            Self::ObjectApply => {
                &[(ServerCpuPerOp, Target::None), (Rate, Target::None), (LatencyP99, Target::None)]
            }
            Self::ManyObjects => &[
                (StateRate, RatioAtLeast(1.5)),
                (FirstObject, OwnAtMost(0.010)),
                (StateMemory, OwnAtMost(STATE_MEMORY_MAX)),
                (StateCpu, Target::None),
                (ListCpu, RatioAtMost(1.5)),
                (ListRate, Target::None),
                (ListLatencyP50, Target::None),
            ],
            Self::ObjectWatch => &[
                (WatchLagP99, OwnAtMost(0.050)),
                (ServerCores, Target::None),
                (EventsDelivered, RatioAtLeast(2.0)),
                (CpuPerEvent, Target::None),
            ],
            Self::LeaseObjects => &[
                (LogEntries, OwnAtMost(0.0)),
                (ServerCores, OwnAtMost(0.5)),
                (Rate, Target::None),
                (LatencyP99, Target::None),
            ],
        }
    }

    /// Whether a server that answers without doing anything can stand in, to show what the gRPC stack costs.
    pub fn has_floor(self) -> bool {
        match self {
            Self::Put1
            | Self::Put100
            | Self::Put1000
            | Self::Txn
            | Self::RangeLinearizable
            | Self::RangeSerializable
            | Self::Range500
            | Self::Mixed => true,
            Self::Watch
            | Self::KeepAlive
            | Self::ManyKeys
            | Self::ManyWatches
            | Self::Compaction
            | Self::LeaderKill
            | Self::ObjectCreate
            | Self::ObjectUpdate
            | Self::ObjectApply
            | Self::ManyObjects
            | Self::ObjectWatch
            | Self::LeaseObjects => false,
        }
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.id())
    }
}

impl Target {
    /// Whether the figures meet it; `None` if nothing is asked or nothing can be said.
    pub fn is_met(self, ours: Option<f64>, ratio: Option<f64>) -> Option<bool> {
        match self {
            Self::RatioAtMost(limit) => ratio.map(|ratio| ratio <= limit),
            Self::RatioAtLeast(limit) => ratio.map(|ratio| ratio >= limit),
            Self::OwnAtLeast(limit) => ours.map(|ours| ours >= limit),
            Self::OwnAtMost(limit) => ours.map(|ours| ours <= limit),
            Self::None => None,
        }
    }

    /// As it stands in the table, for a figure of that unit.
    pub fn show(self, unit: Unit) -> String {
        match self {
            Self::RatioAtMost(limit) => format!("≤ {limit}×"),
            Self::RatioAtLeast(limit) => format!("≥ {limit}×"),
            Self::OwnAtLeast(limit) => format!("ours ≥ {}", unit.show(limit)),
            Self::OwnAtMost(limit) => format!("ours ≤ {}", unit.show(limit)),
            Self::None => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_has_a_name_of_its_own_and_all_but_one_something_asked_of_it() {
        let ids: BTreeSet<String> = Row::all().iter().map(|row| row.id()).collect();
        assert_eq!(ids.len(), Row::all().len());
        for row in Row::all() {
            let asked = row.figures().iter().any(|(_, target)| *target != Target::None);
            assert_eq!(asked, *row != Row::ObjectApply, "{row:?}");
        }
    }

    #[test]
    fn a_target_points_the_way_its_metric_does() {
        for (metric, target) in Row::all().iter().flat_map(|row| row.figures()) {
            match target {
                Target::RatioAtMost(_) | Target::OwnAtMost(_) => {
                    assert!(!metric.more_is_better(), "{metric:?}")
                }
                Target::RatioAtLeast(_) | Target::OwnAtLeast(_) => {
                    assert!(metric.more_is_better(), "{metric:?}")
                }
                Target::None => {}
            }
        }
    }

    #[test]
    fn limits_are_inclusive() {
        assert_eq!(Target::RatioAtMost(0.5).is_met(Some(9.0), Some(0.5)), Some(true));
        assert_eq!(Target::RatioAtMost(0.5).is_met(Some(9.0), Some(0.51)), Some(false));
        assert_eq!(Target::RatioAtLeast(1.7).is_met(Some(9.0), Some(1.7)), Some(true));
        assert_eq!(Target::RatioAtLeast(1.7).is_met(Some(9.0), Some(1.6)), Some(false));
        assert_eq!(Target::OwnAtLeast(0.9).is_met(Some(0.95), None), Some(true));
        assert_eq!(Target::OwnAtLeast(0.9).is_met(Some(0.85), Some(2.0)), Some(false));
        assert_eq!(Target::OwnAtMost(0.0).is_met(Some(0.0), None), Some(true));
        assert_eq!(Target::OwnAtMost(0.5).is_met(Some(0.6), Some(0.1)), Some(false));
    }

    #[test]
    fn limits_are_shown_in_the_unit_of_their_figure() {
        assert_eq!(Target::RatioAtMost(0.5).show(Unit::Seconds), "≤ 0.5×");
        assert_eq!(Target::OwnAtMost(0.010).show(Unit::Seconds), "ours ≤ 10.0 ms");
        assert_eq!(Target::OwnAtMost(STATE_MEMORY_MAX).show(Unit::Bytes), "ours ≤ 64.0 MiB");
        assert_eq!(Target::OwnAtMost(0.0).show(Unit::Count), "ours ≤ 0");
    }

    #[test]
    fn a_missing_figure_meets_nothing_and_misses_nothing() {
        assert_eq!(Target::RatioAtMost(0.5).is_met(Some(1.0), None), None);
        assert_eq!(Target::None.is_met(Some(1.0), Some(1.0)), None);
    }
}
