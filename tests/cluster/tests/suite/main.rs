//! Clusters of real processes under faults, one file per kind.

mod backup;
mod bad_objects;
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
mod partitions;
mod pki;
mod reflection;
mod rejoin;
mod shutdown;
mod space;
mod tls;
