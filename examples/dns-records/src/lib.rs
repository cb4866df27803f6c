//! DNS records: a `DnsRecord` is published by an outside provider, and taken back before the object goes.
//!
//! | file | what |
//! |---|---|
//! | `kind` | the kind `DnsRecord`, as Rust types |
//! | `provider` | the seam to the outside: who publishes |
//! | `zone_file` | the provider that comes with it: a zone file as name servers read it |
//! | `plan` | what is there, inside and outside → what is to be done; pure |
//! | `reconciler` | reading before the plan, and acting after it |
//!
//! Two rules make it safe to crash anywhere. Nothing is published before the object carries the finalizer, and the finalizer goes only
//! after everything of the object was taken back. And the provider itself knows whose each name is (the object's uid), so that a run asks
//! what is published instead of remembering it.

pub mod kind;
pub mod plan;
pub mod provider;
mod reconciler;
pub mod zone_file;

use kind::DnsRecord;
use provider::Provider;
pub use reconciler::Publisher;
use setpoint_client::Client;
use setpoint_runtime::cache::{Delta, Entry, Index};
use setpoint_runtime::finalizer::BadFinalizer;
use setpoint_runtime::informer::Selection;
use setpoint_runtime::{Controller, Manager, ManagerError, ManagerSettings};

/// The controller's name: that of its lease, and of the manager of every field it writes.
pub const NAME: &str = "dns-records";
/// What keeps an object until its name is taken back.
pub const FINALIZER: &str = "dns-records.example.com/published";
/// The index by which all claims to a DNS name are found.
const BY_DNS_NAME: &str = "dns-name";

/// Why the program ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Finalizer(#[from] BadFinalizer),
    #[error("the controller ended")]
    Manager(#[from] ManagerError),
}

/// Publishes every DnsRecord of the cluster with `provider`, until `shutdown` ends.
pub async fn run(
    client: Client,
    provider: impl Provider,
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let manager = Manager::new(client, ManagerSettings::named(NAME))?;
    manager.add(controller(&manager, provider)?)?;
    Ok(manager.run(shutdown).await?)
}

/// What the controller looks at, and what wakes which key.
pub fn controller(manager: &Manager, provider: impl Provider) -> Result<Controller, BadFinalizer> {
    let records = manager.informers().cache::<DnsRecord>(Selection::everywhere());
    records.add_index(Index::spec(BY_DNS_NAME, "/name"));
    let publisher = Publisher::new(records.clone(), provider)?;
    let claims = records.clone();
    Ok(Controller::new(NAME, publisher)
        .defines(kind::definition())
        .for_kind(&records)
        // Whoever claims the same name, or the name it had, is concerned: one of them may publish now, or no longer.
        .watches(&records, move |delta: &Delta, wake| {
            for name in delta.states().filter_map(dns_name) {
                claims.find(BY_DNS_NAME, &name).iter().for_each(|claim| wake(claim.key().clone()));
            }
        }))
}

fn dns_name(entry: &Entry) -> Option<String> {
    Some(entry.read::<DnsRecord>().ok()?.spec.name)
}
