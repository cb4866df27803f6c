//! Real etcd clients against a cluster of three: the `etcdctl` program, and the `etcd-client` crate.
//!
//! What they print and return is what users of etcd see, so that is what is checked. With
//! `SETPOINT_CLIENTS_TARGET=etcd` the same tests run against a real etcd, to see that they ask for the right things.
//! The tests with the crate need the feature `rust-client`; `scripts/test-rust-client` runs them.

mod kv;
mod lease;
mod maintenance;
mod membership;
mod watch;

#[cfg(feature = "rust-client")]
mod rust_client;

use setpoint_etcd_tests::etcdctl::Etcdctl;
use setpoint_etcd_tests::peer::EtcdBinaries;
use setpoint_etcd_tests::skip::skipped;
use setpoint_etcd_tests::testbed::Testbed;

/// A cluster of three, and an etcdctl that talks to all of it. `None`, with the reason printed, if there is no etcdctl.
async fn cluster() -> Option<(Testbed, Etcdctl)> {
    let binaries = match EtcdBinaries::find() {
        Ok(binaries) => binaries,
        Err(error) => {
            skipped(&error.to_string());
            return None;
        }
    };
    let testbed = Testbed::start(3).await.unwrap_or_else(|error| panic!("{error}"));
    let etcdctl = Etcdctl::new(&binaries, &testbed.endpoints());
    Some((testbed, etcdctl))
}

/// A number in JSON, which etcdctl prints as such.
fn number(value: &serde_json::Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

/// A member id in JSON: it may exceed what a signed number holds.
fn id(value: &serde_json::Value) -> u64 {
    value.as_u64().unwrap_or(0)
}
