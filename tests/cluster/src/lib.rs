//! Clusters of real `setpointd` processes under faults, and the check of everything their clients were told.
//!
//! - [`testbed`]: a cluster, the [`mesh`] between its nodes, and clients for each of them
//! - [`load`] does bounded work from several clients at once and records it as a [`history`]; [`follow`] watches meanwhile
//! - [`churn`] writes objects of which [`informer`]s keep a copy, a [`fold`]; [`deeds`] are transactions that clients
//!   insist on, checked by [`ledger`]; [`object`] has what they share
//! - [`dump`] reads a node's whole log of changes; [`check`] holds the history against it
//! - [`document`]: documents whose commands are run; [`walk`]: those whose results are compared, too
//! - [`certificates`], [`wire`], [`volume`], [`metrics`], [`door`]: TLS, malformed requests, small and failing disks,
//!   `/metrics`, lost answers
//!
//! Times are never asserted on, only orders: these tests run on machines that are busy with something else. Whatever is
//! random comes from a seed, which a failing test prints; `SETPOINT_SEED` repeats it.
//!
//! Not here: how processes are started (`setpoint-etcd-tests`), and the comparison with etcd.

#![expect(clippy::print_stderr, reason = "the test runner shows it with a failure")]

pub mod certificates;
pub mod check;
pub mod churn;
pub mod client;
pub mod cut;
pub mod deeds;
pub mod document;
pub mod door;
pub mod dump;
pub mod fold;
pub mod follow;
pub mod history;
pub mod informer;
pub mod ledger;
pub mod load;
pub mod mesh;
pub mod metrics;
pub mod model;
pub mod object;
pub mod socket;
pub mod testbed;
pub mod volume;
pub mod walk;
pub mod wire;
