//! Clusters of real processes under faults, one file per kind.

mod ambiguous;
mod backup;
mod coordination;
mod crash_points;
mod deletion;
mod disk;
mod failover;
mod fences;
mod informers;
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
mod shutdown;
mod space;
mod tls;
mod transactions;
mod watches;
mod writers;
