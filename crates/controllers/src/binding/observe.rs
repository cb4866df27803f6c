//! What the plan of a binding is made from: the binding and the replica of its name.
//!
//! Caches may be behind. Before it is acted on that something is not there, or of another uid, the server is asked: that the replica of a
//! binding is gone, and that the binding a replica waits for is.

use setpoint_client::{Client, Typed};
use setpoint_runtime::ReconcileError;
use setpoint_runtime::cache::{Cache, Key};
use setpoint_types::kinds::{Binding, BindingState, Replica};
use setpoint_types::{Metadata, Timestamp, Uid};

use crate::facts::{BINDING_FINALIZER, ReplicaFacts};

/// Everything the plan is made from.
#[derive(Clone, Debug)]
pub struct Observed {
    pub binding: Option<Typed<Binding>>,
    pub replica: Option<ReplicaFacts>,
    /// What is not there was looked for at the server, and is not there either.
    pub is_confirmed: bool,
    pub now: Timestamp,
}

/// The caches it reads.
pub(super) struct Caches {
    pub bindings: Cache<Binding>,
    pub replicas: Cache<Replica>,
}

impl Caches {
    pub async fn observe(
        &self,
        client: &Client,
        key: &Key,
        now: Timestamp,
    ) -> Result<Option<Observed>, ReconcileError> {
        let (binding, replica) = (self.bindings.read(key)?, self.replicas.get(key));
        let facts = replica.map(|entry| ReplicaFacts::read(&entry)).transpose()?;
        let mut observed = Observed { is_confirmed: false, now, binding, replica: facts };
        if observed.binding.is_none() && observed.replica.is_none() {
            return Ok(None);
        }
        if observed.is_widowed() {
            observed.is_confirmed = is_without_replica(client, key, &observed).await?;
        } else if observed.is_stuck() {
            observed.is_confirmed = is_without_binding(client, key).await?;
        }
        Ok(Some(observed))
    }
}

impl Observed {
    /// The binding's replica is not there.
    pub fn is_widowed(&self) -> bool {
        let Some(binding) = &self.binding else { return false };
        self.replica.as_ref().is_none_or(|replica| replica.uid != binding.spec.replica_uid)
    }

    /// The replica waits for a binding that is not there, or has been released.
    pub fn is_stuck(&self) -> bool {
        let Some(replica) = &self.replica else { return false };
        replica.is_going && replica.is_held && self.released().is_none_or(|is_released| is_released)
    }

    /// Whether the replica's binding is released, if it has one.
    fn released(&self) -> Option<bool> {
        let replica = self.replica.as_ref()?;
        let binding = self.binding.as_ref().filter(|it| it.spec.replica_uid == replica.uid)?;
        Some(binding.status.as_ref().is_some_and(|status| status.state == BindingState::Released))
    }
}

/// There is no replica of the binding's uid, says the server.
async fn is_without_replica(client: &Client, key: &Key, observed: &Observed) -> Result<bool, ReconcileError> {
    let Some(binding) = &observed.binding else { return Ok(false) };
    let found = client.api::<Replica>().namespace(key.namespace()).find(key.name()).await?;
    Ok(found.is_none_or(|replica| replica.metadata.uid != binding.spec.replica_uid))
}

/// The replica is still held, and there is no binding of its that holds a node, says the server.
async fn is_without_binding(client: &Client, key: &Key) -> Result<bool, ReconcileError> {
    let replica = client.api::<Replica>().namespace(key.namespace()).find(key.name()).await?;
    let Some(replica) = replica.filter(|replica| is_held(&replica.metadata)) else { return Ok(false) };
    let binding = client.api::<Binding>().namespace(key.namespace()).find(key.name()).await?;
    Ok(binding.is_none_or(|binding| is_of_another(&binding, &replica.metadata.uid) || is_released(&binding)))
}

fn is_held(metadata: &Metadata) -> bool {
    metadata.finalizers.iter().any(|finalizer| finalizer == BINDING_FINALIZER)
}

fn is_of_another(binding: &Typed<Binding>, replica: &Uid) -> bool {
    binding.spec.replica_uid != *replica
}

fn is_released(binding: &Typed<Binding>) -> bool {
    binding.status.as_ref().is_some_and(|status| status.state == BindingState::Released)
}
