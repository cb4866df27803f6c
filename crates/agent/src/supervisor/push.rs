//! Tells the server how a replica stands, in the order in which others may rely on it: its status, that it was accepted, that
//! nothing of it runs, and then that what is reserved for it can be given back. Each can be said again.

use setpoint_client::{BindingReference, Client, Error, ReleaseReason, Scope, Typed, WriteOptions};
use setpoint_runtime::cache::{Cache, Key};
use setpoint_types::kinds::{Binding, BindingState, Replica, Stage};
use setpoint_types::{Timestamp, Uid};

use super::ward::Told;
use crate::record::Record;

/// How often a write is tried that others are faster with. After that it waits for its next turn.
const TRIES: u32 = 5;

/// Why the server could not be told everything.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    #[error(transparent)]
    Server(#[from] Error),
    #[error("the server does not give back what is reserved: {0}")]
    Refused(String),
    #[error("{0} changes faster than this agent can write")]
    Contention(String),
}

/// What is needed to tell the server.
#[derive(Clone)]
pub struct Pusher {
    /// Carries the fence of the node's lease.
    pub client: Client,
    pub replicas: Cache<Replica>,
    pub bindings: Cache<Binding>,
}

impl Pusher {
    /// Tells all of it. What was said before is not said again: the server's state is looked at first.
    pub async fn push(&self, record: &Record, wanted: &Told, now: Timestamp) -> Result<(), PushError> {
        if let Some(report) = wanted.report.as_ref().filter(|report| report.stage != Stage::Bound) {
            let endpoints = &record.endpoints;
            self.change::<Replica>(&self.replicas, record, &record.uid, |replica| {
                let mut status = replica.status.clone().unwrap_or_default();
                let changed = report.write(&mut status, endpoints, replica.metadata.generation, now);
                replica.status = Some(status);
                changed
            })
            .await?;
        }
        if !wanted.accepted && !wanted.released {
            return Ok(());
        }
        let mut given_back = false;
        let there = self
            .change::<Binding>(&self.bindings, record, &record.binding, |binding| {
                let status = binding.status.get_or_insert_default();
                given_back = status.state == BindingState::Released;
                if given_back {
                    return false;
                }
                let before = status.clone();
                status.accepted |= wanted.accepted;
                if wanted.released {
                    status.stopped.get_or_insert(now);
                }
                *status != before
            })
            .await?;
        setpoint_failpoint::hit("agent.told");
        if wanted.released && there && !given_back {
            self.release(record).await?;
            setpoint_failpoint::hit("agent.released");
        }
        Ok(())
    }

    async fn release(&self, record: &Record) -> Result<(), PushError> {
        let reference = BindingReference {
            namespace: record.namespace.clone(),
            binding: record.name.clone(),
            uid: record.binding.clone(),
        };
        match self.client.placement().release(&[reference]).await?.into_iter().next() {
            Some(Ok(_)) => Ok(()),
            Some(Err(refusal)) if refusal.reason == ReleaseReason::BindingGone => Ok(()),
            Some(Err(refusal)) => Err(PushError::Refused(refusal.message)),
            None => Err(PushError::Refused("it said nothing".to_owned())),
        }
    }

    /// Changes the status of the object of this uid, if `change` changes anything. False: there is no such object.
    async fn change<K>(
        &self,
        cache: &Cache<K>,
        record: &Record,
        uid: &Uid,
        mut change: impl FnMut(&mut Typed<K>) -> bool,
    ) -> Result<bool, PushError>
    where
        K: setpoint_types::KindType + setpoint_client::Writable<Object = Typed<K>>,
    {
        let api = self.client.shaped::<K>(K::INFO.name, Scope::namespace(&record.namespace));
        let key = Key::new(&record.namespace, &record.name);
        // What the cache shows may be old: then the write is refused, and the server asked.
        let mut seen = cache.read(&key).ok().flatten().filter(|object| object.metadata.uid == *uid);
        for _ in 0..TRIES {
            let object = match seen.take() {
                Some(object) => Some(object),
                None => api.find(&record.name).await?.filter(|object| object.metadata.uid == *uid),
            };
            let Some(mut object) = object else { return Ok(false) };
            if !change(&mut object) {
                return Ok(true);
            }
            match api.update_status(&object, &WriteOptions::default()).await {
                Ok(_) => return Ok(true),
                Err(error) if error.is_not_found() => return Ok(false),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(PushError::Contention(format!("{} {key}", K::INFO.name)))
    }
}
