//! The figures a row can have: names, units, and which way is better.
//!
//! Not here: which figures a row has and what is asked of them (`rows`).

use serde::Serialize;

/// One kind of figure. Values are kept in the base unit: seconds, bytes, per second, or a plain number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    ServerCpuPerOp,
    Rate,
    LatencyP50,
    LatencyP99,
    EventsDelivered,
    WatchLagP50,
    WatchLagP99,
    Resident,
    ResidentAnonymous,
    ResidentFileMapped,
    Disk,
    Restart,
    RestartAfterKill,
    LoadTime,
    MemoryAdded,
    MemoryAddedAnonymous,
    RateUndisturbed,
    RateCompacting,
    RateKept,
    CompactionsDone,
    Recovery,
    ClientCpuPerOp,
    StateRate,
    StateCpu,
    StateMemory,
    FirstObject,
    ListRate,
    ListCpu,
    ListLatencyP50,
    ListLatencyP99,
    ServerCores,
    CpuPerEvent,
    LogEntries,
}

/// What a figure is counted in, which decides how it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    PerSecond,
    Bytes,
    /// Processors kept busy.
    Cores,
    /// Of something that should not be.
    Count,
    Plain,
}

impl Metric {
    pub fn title(self) -> &'static str {
        match self {
            Self::ServerCpuPerOp => "server CPU per op",
            Self::Rate => "rate",
            Self::LatencyP50 => "latency p50",
            Self::LatencyP99 => "latency p99",
            Self::EventsDelivered => "events delivered",
            Self::WatchLagP50 => "lag p50",
            Self::WatchLagP99 => "lag p99",
            Self::Resident => "resident memory per node",
            Self::ResidentAnonymous => "of it anonymous",
            Self::ResidentFileMapped => "of it file-mapped",
            Self::Disk => "disk per node",
            Self::Restart => "restart to serving",
            Self::RestartAfterKill => "restart after kill -9",
            Self::LoadTime => "time to load",
            Self::MemoryAdded => "memory added, all nodes",
            Self::MemoryAddedAnonymous => "of it anonymous",
            Self::RateUndisturbed => "rate, none running",
            Self::RateCompacting => "rate, compacting",
            Self::RateKept => "share of the rate kept",
            Self::CompactionsDone => "compactions done",
            Self::Recovery => "time to the next write",
            Self::ClientCpuPerOp => "client CPU per op",
            Self::StateRate => "whole state, objects",
            Self::StateCpu => "server CPU per object",
            Self::StateMemory => "memory added at its peak",
            Self::FirstObject => "first object after",
            Self::ListRate => "lists of 100 selected",
            Self::ListCpu => "server CPU per such list",
            Self::ListLatencyP50 => "latency of it p50",
            Self::ListLatencyP99 => "latency of it p99",
            Self::ServerCores => "server CPU",
            Self::CpuPerEvent => "server CPU per event",
            Self::LogEntries => "log entries meanwhile",
        }
    }

    pub fn unit(self) -> Unit {
        match self {
            Self::ServerCpuPerOp
            | Self::ClientCpuPerOp
            | Self::LatencyP50
            | Self::LatencyP99
            | Self::WatchLagP50
            | Self::WatchLagP99
            | Self::Restart
            | Self::RestartAfterKill
            | Self::LoadTime
            | Self::StateCpu
            | Self::FirstObject
            | Self::ListCpu
            | Self::ListLatencyP50
            | Self::ListLatencyP99
            | Self::CpuPerEvent
            | Self::Recovery => Unit::Seconds,
            Self::Rate
            | Self::EventsDelivered
            | Self::RateUndisturbed
            | Self::RateCompacting
            | Self::StateRate
            | Self::ListRate => Unit::PerSecond,
            Self::Resident
            | Self::ResidentAnonymous
            | Self::ResidentFileMapped
            | Self::Disk
            | Self::MemoryAdded
            | Self::StateMemory
            | Self::MemoryAddedAnonymous => Unit::Bytes,
            Self::ServerCores => Unit::Cores,
            Self::LogEntries => Unit::Count,
            Self::RateKept | Self::CompactionsDone => Unit::Plain,
        }
    }

    /// Whether more of it is better.
    pub fn more_is_better(self) -> bool {
        match self.unit() {
            Unit::PerSecond | Unit::Plain => true,
            Unit::Seconds | Unit::Bytes | Unit::Cores | Unit::Count => false,
        }
    }
}

impl Unit {
    /// A value with three significant digits and a fitting prefix.
    pub fn show(self, value: f64) -> String {
        let magnitude = value.abs();
        let (scaled, suffix) = match self {
            Self::Seconds if magnitude < 1e-3 => (value * 1e6, " µs"),
            Self::Seconds if magnitude < 1.0 => (value * 1e3, " ms"),
            Self::Seconds => (value, " s"),
            Self::PerSecond if magnitude >= 1e6 => (value / 1e6, " M/s"),
            Self::PerSecond if magnitude >= 1e3 => (value / 1e3, " k/s"),
            Self::PerSecond => (value, " /s"),
            Self::Bytes if magnitude >= GIB => (value / GIB, " GiB"),
            Self::Bytes if magnitude >= MIB => (value / MIB, " MiB"),
            Self::Bytes => (value / KIB, " KiB"),
            Self::Cores => (value, " cores"),
            Self::Count => return format!("{value:.0}"),
            Self::Plain => (value, ""),
        };
        let decimals = match scaled.abs() {
            large if large >= 99.95 => 0,
            medium if medium >= 9.995 => 1,
            _ => 2,
        };
        format!("{scaled:.decimals$}{suffix}")
    }
}

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;
const GIB: f64 = 1024.0 * MIB;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(unit: Unit, value: f64, expected: &str) {
        assert_eq!(unit.show(value), expected);
    }

    #[test]
    fn seconds() {
        check(Unit::Seconds, 0.000_034_2, "34.2 µs");
        check(Unit::Seconds, 0.012_5, "12.5 ms");
        check(Unit::Seconds, 1.25, "1.25 s");
        check(Unit::Seconds, 0.254_4, "254 ms");
    }

    #[test]
    fn rates() {
        check(Unit::PerSecond, 950.0, "950 /s");
        check(Unit::PerSecond, 28_340.0, "28.3 k/s");
        check(Unit::PerSecond, 1_250_000.0, "1.25 M/s");
    }

    #[test]
    fn bytes() {
        check(Unit::Bytes, 512.0 * 1024.0, "512 KiB");
        check(Unit::Bytes, -3.0 * 1024.0 * 1024.0, "-3.00 MiB");
        check(Unit::Bytes, 1.5 * 1024.0 * 1024.0 * 1024.0, "1.50 GiB");
    }

    #[test]
    fn shares() {
        check(Unit::Plain, 0.932, "0.93");
        check(Unit::Cores, 0.257, "0.26 cores");
        check(Unit::Count, 0.0, "0");
        check(Unit::Count, 1_234.0, "1234");
    }
}
