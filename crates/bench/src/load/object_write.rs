//! Creates, updates and applies of objects by 100 clients; what they are compared with is a put of as many bytes.
//!
//! An update or an apply sends the whole object with a new image and one new variable, as a release does. Every put, too,
//! changes half of its value; a create is compared with a put of a new key.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use setpoint_api::etcdserverpb::PutRequest;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::objects_client::ObjectsClient;
use tonic::transport::Channel;

use super::clients::{Operation, OperationError, closed_loop};
use super::object_preload::{fill, options};
use super::{Interface, LoadError, Sample};
use crate::connection::{Connections, Lanes, objects};
use crate::manifest::{Manifests, beside};
use crate::options::Plan;
use crate::system::Cluster;
use crate::workload::Random;

const CLIENTS: usize = 100;
const OBJECTS: usize = 10_000;
const MANIFESTS: Manifests = Manifests { stored_bytes: 2_048, group_size: 100 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Create,
    Update,
    Apply,
}

pub async fn measure(
    cluster: &Cluster,
    plan: &Plan,
    interface: Interface,
    verb: Verb,
) -> Result<Sample, LoadError> {
    // Creates begin behind what is there; the little that is there shows that objects have the size they should.
    let filled = if verb == Verb::Create { 100 } else { OBJECTS };
    fill(cluster, interface, MANIFESTS, 0..filled).await?;
    let connections = Connections::new(&cluster.addresses(), CLIENTS);
    let next = Arc::new(AtomicUsize::new(OBJECTS));
    let choice = |client| Choice { verb, random: Random::for_client(client), next: next.clone() };
    match interface {
        Interface::Objects => {
            let clients = (0..CLIENTS).map(|client| ObjectWrite {
                service: objects(connections.of_client(client)),
                choice: choice(client),
            });
            closed_loop(cluster, plan, clients).await
        }
        Interface::Etcd => {
            let clients =
                (0..CLIENTS).map(|client| Put { lanes: connections.lanes(client), choice: choice(client) });
            closed_loop(cluster, plan, clients).await
        }
    }
}

/// What a client writes next.
struct Choice {
    verb: Verb,
    random: Random,
    /// The number of the next new object, of all clients.
    next: Arc<AtomicUsize>,
}

impl Choice {
    /// A number and a version.
    fn draw(&mut self) -> (usize, u64) {
        let number = match self.verb {
            Verb::Create => self.next.fetch_add(1, Ordering::Relaxed),
            Verb::Update | Verb::Apply => self.random.below(OBJECTS),
        };
        (number, self.random.next())
    }
}

struct ObjectWrite {
    service: ObjectsClient<Channel>,
    choice: Choice,
}

impl Operation for ObjectWrite {
    async fn call(&mut self) -> Result<(), OperationError> {
        let (number, version) = self.choice.draw();
        let (object, options) =
            (Some(MANIFESTS.workload(number, version, Duration::from_nanos(version))), Some(options()));
        let service = &mut self.service;
        let written = match self.choice.verb {
            Verb::Create => service.create(pb::CreateRequest { object, options }).await?.into_inner(),
            Verb::Update => service.update(pb::UpdateRequest { object, options }).await?.into_inner(),
            Verb::Apply => {
                let request = pb::ApplyRequest { object, options, force: true, status: false };
                service.apply(request).await?.into_inner().write.unwrap_or_default()
            }
        };
        if written.changed && written.object.is_some() {
            return Ok(());
        }
        Err(OperationError::Wrong("a write that changed nothing"))
    }
}

struct Put {
    lanes: Lanes,
    choice: Choice,
}

impl Operation for Put {
    async fn call(&mut self) -> Result<(), OperationError> {
        let (number, version) = self.choice.draw();
        let value = MANIFESTS.value(number, version, Duration::from_nanos(version));
        let request = PutRequest { key: beside(number), value, ..PutRequest::default() };
        self.lanes.next().put(request).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creates_take_new_numbers_and_updates_known_ones() {
        let next = Arc::new(AtomicUsize::new(OBJECTS));
        let choice = |verb| Choice { verb, random: Random::new(1), next: next.clone() };
        let (mut one, mut other) = (choice(Verb::Create), choice(Verb::Create));
        let drawn = [one.draw().0, other.draw().0, one.draw().0];
        assert_eq!(drawn, [OBJECTS, OBJECTS + 1, OBJECTS + 2]);
        let mut update = choice(Verb::Update);
        assert!((0..100).all(|_| update.draw().0 < OBJECTS));
    }
}
