//! A whole cluster in one process: all controllers and the scheduler as their programs start them, the server's own Placement, and a
//! fleet of hosts that only pretend.

use std::time::Duration;

use setpoint_client::{Client, Error, Typed, WriteOptions};
use setpoint_runtime::WallClock;
use setpoint_scheduler::shell::scheduler::Scheduler;
use setpoint_scheduler::shell::settings::Settings;
use setpoint_testkit::{State, World, now};
use setpoint_types::kinds::{ReplicaTemplate, Rollout, Workload, WorkloadSpec};
use setpoint_types::quantity::CountOrPercent::Count;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// What a replica asks for, in thousandths of a processor.
pub const CPU: i64 = 1_000;

/// The scheduler, as its program starts it, with one lease.
pub async fn scheduler(client: Client, stop: CancellationToken) {
    let settings = Settings { shards: 1, ..Settings::default() };
    let scheduler = Scheduler::new(client, settings).expect("good settings");
    let scheduler = scheduler.with_clock(WallClock::new(now));
    scheduler.run(stop).await.expect("it runs until it is stopped");
}

pub async fn controllers(client: Client, stop: CancellationToken) {
    super::run("all", client, stop).await;
}

/// Controllers and scheduler in one process.
pub async fn everybody(client: Client, stop: CancellationToken) {
    tokio::join!(controllers(client.clone(), stop.clone()), scheduler(client, stop));
}

/// The same for a world of one's own, with nothing that goes wrong.
pub fn start_everybody(world: &World) {
    let never = CancellationToken::new();
    tokio::spawn(controllers(world.client_as("controller"), never.clone()));
    tokio::spawn(scheduler(world.client_as("scheduler"), never));
}

pub fn workload(name: &str, replicas: u32, command: &str) -> Typed<Workload> {
    let template = ReplicaTemplate {
        command: vec![command.to_owned()],
        resources: [("cpu".to_owned(), CPU)].into_iter().collect(),
        unknown_grace_seconds: 60,
        ..ReplicaTemplate::default()
    };
    let rollout = Rollout { max_surge: Count(1), max_unavailable: Count(1), ..Rollout::default() };
    let spec = WorkloadSpec { replicas, template, rollout, ..WorkloadSpec::default() };
    Typed::<Workload>::new(name, spec).in_namespace("default")
}

pub async fn create(client: &Client, workload: &Typed<Workload>) -> Result<(), Error> {
    client.api::<Workload>().create(workload, &WriteOptions::default()).await.map(drop)
}

/// Waits until something is so, in simulated time.
pub async fn until(world: &World, what: &str, mut holds: impl FnMut(&State) -> Result<(), String>) {
    let mut why = String::new();
    for _ in 0..7_200 {
        match holds(&world.state()) {
            Ok(()) => return,
            Err(amiss) => why = amiss,
        }
        sleep(Duration::from_millis(500)).await;
    }
    panic!("it did not come to this within an hour: {what}: {why}");
}
