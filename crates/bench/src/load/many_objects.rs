//! 100,000 objects of 2 KiB: reading all of them at once, and the hundred of them that a selector names.
//!
//! All of them are one watch that begins with the state, read up to the bookmark that ends it; in etcd one range of as many keys of the
//! same size, which is how its clients get a state. Both are taken as they come and not decoded. Neither is the first to read:
//! one round before the measured ones warms caches. Memory is what the serving node has at its peak beyond what it had before.
//! A selected list is compared with a range over a prefix with as many keys: there is no selector in etcd.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use setpoint_api::etcdserverpb::RangeRequest;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::objects_client::ObjectsClient;
use tonic::Status;
use tonic::transport::Channel;

use super::clients::{Operation, OperationError, closed_loop};
use super::object_preload::fill;
use super::{Interface, LoadError, Sample, frames};
use crate::connection::{Connections, Lanes, connection, objects};
use crate::manifest::{GROUP, KIND, Manifests, all_keys, group, keys_of};
use crate::metric::Metric;
use crate::options::Plan;
use crate::probe;
use crate::system::{Cluster, NodeIndex};
use crate::workload::Random;

const MANIFESTS: Manifests = Manifests { stored_bytes: 2_048, group_size: 100 };
const LISTERS: usize = 10;
/// How often the whole state is read on one cluster.
pub const ROUNDS: usize = 3;
/// Between rounds, for memory to be given back.
const PAUSE: Duration = Duration::from_millis(500);

pub async fn measure(cluster: &Cluster, plan: &Plan, interface: Interface) -> Result<Sample, LoadError> {
    let count = plan.objects;
    fill(cluster, interface, MANIFESTS, 0..count).await?;
    tokio::time::sleep(plan.settle).await;
    let mut sample = Sample { operations: count as u64, ..Sample::default() };
    let node = cluster.two_nodes().0;
    read_state(cluster.address(node), interface, count).await?;
    for _ in 0..ROUNDS {
        tokio::time::sleep(PAUSE).await;
        observe_state(cluster, node, interface, count, &mut sample).await?;
    }
    let groups = count / MANIFESTS.group_size;
    let connections = Connections::new(&cluster.addresses(), LISTERS);
    let listed = match interface {
        Interface::Objects => {
            let clients = (0..LISTERS).map(|client| SelectedList {
                service: objects(connections.of_client(client)),
                random: Random::for_client(client),
                groups,
            });
            closed_loop(cluster, plan, clients).await?
        }
        Interface::Etcd => {
            let clients = (0..LISTERS).map(|client| PrefixRange {
                lanes: connections.lanes(client),
                random: Random::for_client(client),
                groups,
            });
            closed_loop(cluster, plan, clients).await?
        }
    };
    add_list(&mut sample, listed);
    Ok(sample)
}

/// The figures of the list under the names they have in this row.
fn add_list(sample: &mut Sample, listed: Sample) {
    for (from, to) in [
        (Metric::ServerCpuPerOp, Metric::ListCpu),
        (Metric::Rate, Metric::ListRate),
        (Metric::LatencyP50, Metric::ListLatencyP50),
        (Metric::LatencyP99, Metric::ListLatencyP99),
    ] {
        for value in listed.values.get(&from).into_iter().flatten() {
            sample.observe(to, *value);
        }
    }
    sample.operations += listed.operations;
    sample.errors += listed.errors;
    sample.first_error = sample.first_error.take().or(listed.first_error);
}

async fn observe_state(
    cluster: &Cluster,
    node: NodeIndex,
    interface: Interface,
    count: usize,
    sample: &mut Sample,
) -> Result<(), LoadError> {
    cluster.reset_peak(node)?;
    let before = cluster.resident_of(node)?.total;
    let cpu = cluster.cpu_used()?;
    let state = read_state(cluster.address(node), interface, count).await?;
    let cpu = cluster.cpu_used()?.saturating_sub(cpu);
    let added = cluster.peak_of(node)?.saturating_sub(before);
    sample.observe(Metric::StateRate, count as f64 / state.whole.as_secs_f64());
    sample.observe_duration(Metric::FirstObject, state.first);
    sample.observe(Metric::StateMemory, added as f64);
    sample.observe(Metric::StateCpu, cpu.as_secs_f64() / count as f64);
    Ok(())
}

/// When a state came.
struct State {
    first: Duration,
    whole: Duration,
}

/// Reads everything once, over a connection that is open already.
async fn read_state(address: SocketAddr, interface: Interface, count: usize) -> Result<State, LoadError> {
    let connection = connection(address);
    probe::read(connection.clone()).await.map_err(LoadError::prepare("connect"))?;
    let started = Instant::now();
    let (first, found) = match interface {
        Interface::Objects => initial_state(connection, started).await,
        Interface::Etcd => whole_range(connection, started).await,
    }
    .map_err(LoadError::prepare("read everything"))?;
    if found != count {
        return Err(LoadError::Incomplete { found, expected: count });
    }
    Ok(State { first, whole: started.elapsed() })
}

/// When the first object came, and how many came.
async fn initial_state(connection: Channel, started: Instant) -> Result<(Duration, usize), Status> {
    let request =
        pb::WatchRequest { kind: KIND.to_owned(), initial_state: true, ..pb::WatchRequest::default() };
    let mut answers = frames::watch_objects(connection, request).await?;
    let (mut first, mut found) = (None, 0);
    while let Some(frame) = answers.message().await? {
        for change in frames::object_events(&frame) {
            if change.error {
                return Err(Status::aborted("the watch ended with an error"));
            }
            if change.bookmark {
                return Ok((first.unwrap_or_default(), found));
            }
            first.get_or_insert_with(|| started.elapsed());
            found += 1;
        }
    }
    Err(Status::unavailable("the watch ended before the state did"))
}

async fn whole_range(connection: Channel, started: Instant) -> Result<(Duration, usize), Status> {
    let (key, range_end) = all_keys();
    let answer =
        frames::range(connection, RangeRequest { key, range_end, ..RangeRequest::default() }).await?;
    Ok((started.elapsed(), frames::keys_in(&answer)))
}

struct SelectedList {
    service: ObjectsClient<Channel>,
    random: Random,
    groups: usize,
}

impl Operation for SelectedList {
    async fn call(&mut self) -> Result<(), OperationError> {
        let label_selector = format!("{GROUP}={}", group(self.random.below(self.groups)));
        let request = pb::ListRequest { kind: KIND.to_owned(), label_selector, ..pb::ListRequest::default() };
        let answer = self.service.list(request).await?.into_inner();
        right_length(answer.objects.len())
    }
}

struct PrefixRange {
    lanes: Lanes,
    random: Random,
    groups: usize,
}

impl Operation for PrefixRange {
    async fn call(&mut self) -> Result<(), OperationError> {
        let (key, range_end) = keys_of(self.random.below(self.groups));
        let request = RangeRequest { key, range_end, ..RangeRequest::default() };
        right_length(self.lanes.next().range(request).await?.into_inner().kvs.len())
    }
}

fn right_length(found: usize) -> Result<(), OperationError> {
    if found == MANIFESTS.group_size {
        return Ok(());
    }
    Err(OperationError::Wrong("a list of another length"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_the_list_get_names_of_their_own() {
        let mut listed = Sample { operations: 5, errors: 1, ..Sample::default() };
        listed.observe(Metric::Rate, 7.0);
        listed.observe(Metric::ServerCpuPerOp, 0.5);
        let mut sample = Sample { operations: 100, ..Sample::default() };
        add_list(&mut sample, listed);
        assert_eq!((sample.operations, sample.errors), (105, 1));
        assert_eq!(sample.values.get(&Metric::ListRate), Some(&vec![7.0]));
        assert_eq!(sample.values.get(&Metric::ListCpu), Some(&vec![0.5]));
        assert_eq!(sample.values.get(&Metric::Rate), None);
    }
}
