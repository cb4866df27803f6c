//! The controller through everything that can go wrong between it and the server: lost answers, crashes, stale caches.

use greeter::kind::{Greeter, GreeterSpec};
use serde_json::json;
use setpoint_client::{Client, Error, Patch, PatchOptions, Typed, WriteOptions};
use setpoint_runtime::ManagerSettings;
use setpoint_testkit::{Scenario, State, sweep};
use setpoint_types::kinds::{KindDefinition, Workload};

async fn create(client: Client) -> Result<(), Error> {
    let spec = GreeterSpec { message: "Hello!".to_owned(), replicas: 2 };
    client.api::<Greeter>().create(&Typed::new("hello", spec), &WriteOptions::default()).await.map(drop)
}

async fn change(client: Client) -> Result<(), Error> {
    let patch = Patch::Merge(json!({"spec": {"replicas": 3}}));
    client.api::<Greeter>().patch("hello", &patch, &PatchOptions::default()).await.map(drop)
}

/// The kind is served; every Greeter has its Workload, as large as it should be, and says which generation that is for.
fn converged(state: &State) -> Result<(), String> {
    state.one::<KindDefinition>("", "greeters").ok_or("the kind is not defined")?;
    for greeter in state.all::<Greeter>() {
        let name = &greeter.metadata.name;
        let workload = state.one::<Workload>("default", name).ok_or(format!("{name} has no workload"))?;
        let status = greeter.status.unwrap_or_default();
        if workload.spec.replicas != greeter.spec.replicas {
            return Err(format!("{name} has {} replicas", workload.spec.replicas));
        }
        if status.observed_generation != greeter.metadata.generation {
            return Err(format!("{name} shows generation {:?}", status.observed_generation));
        }
    }
    Ok(())
}

#[test]
fn whatever_goes_wrong_each_greeter_ends_with_its_workload() {
    let scenario = Scenario::new(|client, stop| async move {
        let settings = ManagerSettings::named(greeter::NAME);
        greeter::run(client, settings, stop.cancelled_owned()).await.expect("it runs until it is stopped");
    })
    .step("one comes", create)
    .step("it changes", change)
    .converged(converged);
    sweep(&scenario);
}
