//! What is read before a version is judged: the other versions, what each component has seen, and how the replicas fare.

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_client::{Client, Holder, Typed};
use setpoint_runtime::ReconcileError;
use setpoint_runtime::cache::{Cache, Key};
use setpoint_types::kinds::{Activation, Binding, Lease, PlacementPolicy, PlacementPolicySpec, Replica};
use setpoint_types::{Revision, Timestamp};

use super::census::{Census, Seen};
use super::gate::{Component, Witness};
use super::plan::{Observed, newer, settled};

/// What is looked at.
pub struct Views {
    pub policies: Cache<PlacementPolicy>,
    pub leases: Cache<Lease>,
    pub replicas: Cache<Replica>,
    pub bindings: Cache<Binding>,
}

impl Views {
    pub async fn observe(
        &self,
        client: &Client,
        key: &Key,
        now: Timestamp,
    ) -> Result<Option<Observed>, ReconcileError> {
        let Some(policy) = self.policies.read(key)? else { return Ok(None) };
        let mut others = Vec::new();
        for other in self.policies.snapshot().iter().filter(|other| other.key() != key) {
            let other = other.read()?;
            if other.spec.policy == policy.spec.policy {
                others.push(other);
            }
        }
        let mut observed = Observed {
            policy,
            others,
            components: Vec::new(),
            census: Census::default(),
            placed: 0,
            own: Revision::NONE,
            now,
        };
        if is_rolling(&observed.policy) {
            self.judge_by(client, &mut observed).await?;
        }
        Ok(Some(observed))
    }

    /// What a gate needs to know, which is much.
    async fn judge_by(&self, client: &Client, observed: &mut Observed) -> Result<(), ReconcileError> {
        let required = &observed.policy.spec.gate.required_components;
        if !required.is_empty() {
            let holders = client.leases().holders("").await?;
            observed.components = required.iter().map(|name| self.component(name, &holders)).collect();
        }
        let since = settled(observed);
        let in_force = newer(observed).map(|it| it.spec.clone());
        let in_force: Vec<PlacementPolicySpec> =
            in_force.filter(|it| it.activation != Activation::Inactive).collect();
        let newer: Vec<&PlacementPolicySpec> = in_force.iter().collect();
        let spec = &observed.policy.spec;
        let replicas = self.replicas.snapshot();
        observed.own = replicas.revision();
        for replica in replicas.iter() {
            let namespaces = &spec.scope.namespaces;
            if !namespaces.is_empty() && !namespaces.iter().any(|it| it == replica.key().namespace()) {
                continue;
            }
            let replica = replica.read()?;
            let metadata = &replica.metadata;
            if !metadata.is_terminating() {
                let seen = Seen {
                    namespace: &metadata.namespace,
                    uid: &metadata.uid,
                    labels: &metadata.labels,
                    spec: &replica.spec,
                    status: replica.status.as_ref(),
                };
                observed.census.count(spec, &newer, &seen, since);
            }
        }
        let version = format!("{}/{}", spec.policy, spec.version);
        let named = self.bindings.find(super::BY_VERSION, &version).len()
            + self.bindings.find(super::BY_VERSION, &observed.policy.metadata.name).len();
        observed.placed = named as u64;
        Ok(())
    }

    fn component(&self, name: &str, holders: &[Holder]) -> Component {
        let shard = format!("{name}.shard-");
        let own = holders.iter().filter(|it| it.fence.lease == name || it.fence.lease.starts_with(&shard));
        Component { name: name.to_owned(), witnesses: own.map(|holder| self.witness(holder)).collect() }
    }

    fn witness(&self, holder: &Holder) -> Witness {
        let fence = &holder.fence;
        let lease = self.leases.read(&Key::new(&fence.namespace, &fence.lease)).ok().flatten();
        let held = lease.and_then(|lease| lease.status).filter(|status| status.epoch == fence.epoch);
        let ttl = held.map(|status| Duration::from_secs(status.ttl_seconds.into()));
        Witness {
            lease: fence.lease.clone(),
            slowest: slowest(&holder.observed),
            age: ttl.map(|ttl| ttl.saturating_sub(holder.remaining)),
        }
    }
}

fn slowest(observed: &BTreeMap<String, Revision>) -> Option<(String, Revision)> {
    observed.iter().min_by_key(|(_, revision)| **revision).map(|(kind, revision)| (kind.clone(), *revision))
}

/// Whether there is anything to judge.
fn is_rolling(policy: &Typed<PlacementPolicy>) -> bool {
    let status = policy.status.as_ref();
    policy.spec.activation == Activation::Active
        && status.is_some_and(|status| {
            status.observed_generation == policy.metadata.generation && !status.previous_version.is_empty()
        })
}
