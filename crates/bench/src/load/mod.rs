//! How each row is measured: one file per kind of load.
//!
//! Each measures one fresh cluster and yields a `Sample`: through the etcd API, or, the rows about objects, ours through the
//! object API and what it is compared with through the etcd API. Not here: starting clusters, alternating systems and repeating
//! (`run`).

mod clients;
mod compaction;
mod frames;
mod insist;
mod keep_alive;
mod leader_kill;
mod lease_objects;
mod many_keys;
mod many_objects;
mod many_watches;
mod mixed;
mod object_preload;
mod object_watch;
mod object_write;
mod preload;
mod put;
mod range;
mod txn;
mod watch;
mod watch_stream;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

pub use self::insist::insist;
pub use self::many_objects::ROUNDS as STATE_ROUNDS;
use self::object_write::Verb;
use crate::metric::Metric;
use crate::options::Plan;
use crate::rows::Row;
use crate::system::{Cluster, SystemError};

/// What a row about objects speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// `setpoint.v1`.
    Objects,
    /// Keys and values that stand for objects.
    Etcd,
}

/// What one repetition of a row yielded on one system.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sample {
    /// What was observed of each figure: once for most, several times for what can be repeated on one cluster.
    pub values: BTreeMap<Metric, Vec<f64>>,
    pub operations: u64,
    pub errors: u64,
    /// The first error, as an example.
    pub first_error: Option<String>,
}

/// Why a row could not be measured. Errors of single operations are counted in the sample instead.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("the cluster failed")]
    System(#[from] SystemError),
    #[error("cannot {what}")]
    Prepare {
        what: &'static str,
        #[source]
        source: Box<tonic::Status>,
    },
    #[error("a task of the client failed")]
    Task(#[from] tokio::task::JoinError),
    #[error("the client's own CPU time cannot be read")]
    ClientCpu(#[source] std::io::Error),
    #[error("not one operation succeeded; the first error: {first}")]
    NothingDone { first: String },
    #[error("{found} objects of {expected} were read")]
    Incomplete { found: usize, expected: usize },
    #[error("a stored object has {found} bytes and not {expected}; adjust what `manifest` counts with")]
    ObjectSize { found: usize, expected: usize },
    #[error("{what} did not happen within {seconds} s")]
    TooSlow { what: &'static str, seconds: u64 },
}

/// Measures one row on one cluster.
pub async fn measure(
    row: Row,
    cluster: &mut Cluster,
    plan: &Plan,
    interface: Interface,
) -> Result<Sample, LoadError> {
    match row {
        Row::Put1 => put::measure(cluster, plan, 1).await,
        Row::Put100 => put::measure(cluster, plan, 100).await,
        Row::Put1000 => put::measure(cluster, plan, 1_000).await,
        Row::Txn => txn::measure(cluster, plan).await,
        Row::RangeLinearizable => {
            range::measure_single(cluster, plan, range::Consistency::Linearizable).await
        }
        Row::RangeSerializable => {
            range::measure_single(cluster, plan, range::Consistency::Serializable).await
        }
        Row::Range500 => range::measure_list(cluster, plan).await,
        Row::Mixed => mixed::measure(cluster, plan).await,
        Row::Watch => watch::measure(cluster, plan).await,
        Row::KeepAlive => keep_alive::measure(cluster, plan).await,
        Row::ManyKeys => many_keys::measure(cluster, plan).await,
        Row::ManyWatches => many_watches::measure(cluster, plan).await,
        Row::Compaction => compaction::measure(cluster, plan).await,
        Row::LeaderKill => leader_kill::measure(cluster, plan).await,
        Row::ObjectCreate => object_write::measure(cluster, plan, interface, Verb::Create).await,
        Row::ObjectUpdate => object_write::measure(cluster, plan, interface, Verb::Update).await,
        Row::ObjectApply => object_write::measure(cluster, plan, interface, Verb::Apply).await,
        Row::ManyObjects => many_objects::measure(cluster, plan, interface).await,
        Row::ObjectWatch => object_watch::measure(cluster, plan, interface).await,
        Row::LeaseObjects => lease_objects::measure(cluster, plan, interface).await,
    }
}

impl Sample {
    fn observe(&mut self, metric: Metric, value: f64) {
        self.values.entry(metric).or_default().push(value);
    }

    fn observe_duration(&mut self, metric: Metric, value: impl Into<Option<Duration>>) {
        if let Some(value) = value.into() {
            self.observe(metric, value.as_secs_f64());
        }
    }
}

impl LoadError {
    fn prepare(what: &'static str) -> impl Fn(tonic::Status) -> Self {
        move |status| Self::Prepare { what, source: Box::new(status) }
    }
}
