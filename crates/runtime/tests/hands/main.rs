//! What a controller does with its hands, against a store with the real semantics: the verbs, finalizers, records and traces, with
//! a crash after every single write.

mod crash;
mod deleting;
mod ensuring;
mod finalizing;
mod recording;
mod tracing;

use std::sync::Arc;

use setpoint_client::{
    Api, Client, ConnectError, Connector, Endpoint, Entropy, Settings, Typed, Wire, WireError, WriteOptions,
};
use setpoint_types::kinds::{Quota, QuotaSpec};
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};

/// A namespaced kind with little to say.
fn quota(name: &str, cpu: i64) -> Typed<Quota> {
    let limits = [("cpu".to_owned(), cpu)].into_iter().collect();
    Typed::new(name, QuotaSpec { limits, ..QuotaSpec::default() }).in_namespace("default")
}

async fn created(api: &Api<Quota>, object: Typed<Quota>) -> Typed<Quota> {
    api.create(&object, &WriteOptions::default()).await.expect("it is not there yet").object
}

/// A client that reaches nobody: what works with it asks nothing.
fn unreachable() -> Client {
    struct Nowhere;
    impl Connector for Nowhere {
        fn connect(&self, _: &Endpoint) -> Result<Wire, ConnectError> {
            let refuse =
                |_: Request<Body>| async { Err::<Response<Body>, _>(WireError::new("nobody is there")) };
            Ok(Wire::new(tower::service_fn(refuse)))
        }
    }
    let settings = Settings::new(vec!["nowhere".parse().expect("a host")]);
    let client = Client::with_seams(settings, &Nowhere, Entropy::seeded(1)).expect("good settings");
    client.with_manager("me").with_timeout(std::time::Duration::from_secs(1))
}

/// Counts the writes of a client.
fn counted(client: &Client) -> (Client, Arc<std::sync::atomic::AtomicUsize>) {
    let count = Arc::<std::sync::atomic::AtomicUsize>::default();
    let counter = count.clone();
    let client = client.with_on_write(Arc::new(move |_, _| {
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }));
    (client, count)
}
