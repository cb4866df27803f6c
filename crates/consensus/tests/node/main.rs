//! Real nodes on loopback sockets: what a cluster promises, and what it does when parts of it fail.

mod faults;
mod hostile;
mod limits;
mod members;
mod replication;
mod restart;
mod snapshots;
mod storm;
mod support;
