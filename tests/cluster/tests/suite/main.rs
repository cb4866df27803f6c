//! Clusters of real processes under faults, one file per kind.

mod backup;
mod coordination;
mod crash_points;
mod disk;
mod failover;
mod input;
mod kills;
mod leases;
mod limits;
mod members;
mod metrics;
mod overload;
mod partitions;
mod pki;
mod rejoin;
mod rules;
mod shutdown;
mod space;
mod tls;
