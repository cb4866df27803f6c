//! Writing one counted record: made with its count in one commit, or found and counted up.
//!
//! Writes carry no fence: what somebody saw while it led is still true when it no longer leads, and the record says at which epoch.
//! They are conditional on the revision that was counted on, so that several writers of one record lose nothing; and one whose answer
//! was lost is sent again as it was, under its operation id, so that nothing is counted twice while the server remembers it.

use std::error::Error as _;

use setpoint_client::{Api, Client, Error, OperationId, Typed, Writable, WriteOptions};
use setpoint_types::{Metadata, Revision};

use super::book::{Job, Wrote};
use super::tally::{Known, Tallied};

/// How often one write looks again after somebody else was faster.
const ROUNDS_MAX: usize = 4;

/// A write as it was sent.
pub struct Sent<T: Tallied> {
    operation: String,
    object: Typed<T>,
    is_new: bool,
}

/// Writes what was counted.
pub async fn write<T>(client: &Client, mut job: Job<T>) -> Wrote<T>
where
    T: Tallied + Writable<Object = Typed<T>>,
    T::Spec: Clone,
    T::Status: Clone + Default,
{
    let client = client.with_namespace(&job.namespace);
    let api = client.api::<T>();
    let operation = || client.entropy().operation();
    let unsure = job.unsure.take();
    let counted = |known: Option<Known<T::Status>>| Sent {
        operation: operation(),
        is_new: known.is_none(),
        object: counted_up(&job, known),
    };
    let mut sent = unsure.map_or_else(|| counted(job.known.clone()), |unsure| *unsure);
    for _ in 0..ROUNDS_MAX {
        let error = match send(&api, &sent).await {
            Ok(revision) => {
                let status = sent.object.status.unwrap_or_default();
                return Wrote::Done(Known { revision, status });
            }
            Err(error) => error,
        };
        if error.is_ambiguous() {
            return Wrote::Failed { unsure: Some(Box::new(sent)) };
        }
        let moved = error.is_already_exists() || error.is_conflict() || error.is_not_found() && !sent.is_new;
        if !moved {
            return given_up(&job.name, &error);
        }
        sent =
            match api.find(&job.name).await {
                Ok(found) => counted(found.map(|it| Known {
                    revision: it.metadata.revision,
                    status: it.status.unwrap_or_default(),
                })),
                Err(error) => return given_up(&job.name, &error),
            };
    }
    Wrote::Failed { unsure: None }
}

/// The record with what was counted, on top of what is known.
fn counted_up<T>(job: &Job<T>, known: Option<Known<T::Status>>) -> Typed<T>
where
    T: Tallied,
    T::Spec: Clone,
    T::Status: Default,
{
    let (revision, mut status) = known.map_or_else(Default::default, |it| (it.revision, it.status));
    T::add(&mut status, &job.delta);
    let (name, namespace) = (job.name.clone(), job.namespace.clone());
    let metadata = Metadata { name, namespace, revision, ..Metadata::default() };
    Typed { metadata, spec: job.spec.clone(), status: Some(status) }
}

async fn send<T>(api: &Api<T>, sent: &Sent<T>) -> Result<Revision, Error>
where
    T: Tallied + Writable<Object = Typed<T>>,
{
    let operation = OperationId::Chosen(sent.operation.clone());
    let options = WriteOptions { operation, ..WriteOptions::default() };
    if sent.is_new {
        let both = api.client().transaction().create::<T>(&sent.object).update_status::<T>(&sent.object);
        Ok(both.commit(&options).await?.revision)
    } else {
        Ok(api.update_status(&sent.object, &options).await?.revision)
    }
}

/// Tells what may succeed later from what never will.
fn given_up<T: Tallied>(name: &str, error: &Error) -> Wrote<T> {
    let source = error.source().map(ToString::to_string).unwrap_or_default();
    if error.is_transient() {
        tracing::debug!(name, %error, source, "a record was not written, and is tried again");
        return Wrote::Failed { unsure: None };
    }
    tracing::warn!(name, %error, source, "a record is refused, and is not written");
    Wrote::Refused
}
