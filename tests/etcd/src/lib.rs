//! Tests of the etcd face of the server against the real thing.
//!
//! - `tests/differential.rs` compares `setpointd` with a real etcd, request by request, on generated sequences; where no
//!   etcd can be had, with answers recorded from one (`corpus/`).
//! - `tests/clients.rs` drives a cluster with real clients: `etcdctl` and the `etcd-client` crate.
//! - `tests/self_validation.rs` tests the comparison itself: etcd against etcd, and with planted differences.
//!
//! How a comparison works: [`generate`] makes a [`step::Sequence`] from a seed; [`run`] performs it on two [`side`]s;
//! [`normalise`] turns both answers into what must be equal, and lists everything that need not be; [`compare`] finds
//! the first difference; [`campaign`] [`shrink`]s it to a few steps and says how to replay them. Watches are the hard
//! part, because servers deliver when they please: [`book`] and [`history`] know what is due, [`rules`] what is never
//! allowed.
//!
//! [`cluster`] starts real `setpointd` processes and is of use to other tests too.

pub mod answer;
pub mod blob;
pub mod book;
pub mod campaign;
pub mod cluster;
pub mod compare;
pub mod corpus;
pub mod deviations;
pub mod error;
pub mod etcdctl;
pub mod generate;
pub mod history;
pub mod normalise;
pub mod peer;
pub mod ports;
pub mod process;
pub mod resolve;
pub mod rules;
pub mod run;
pub mod shrink;
pub mod side;
mod side_watch;
pub mod skip;
pub mod stage;
pub mod step;
pub mod stream;
pub mod survey;
pub mod testbed;
