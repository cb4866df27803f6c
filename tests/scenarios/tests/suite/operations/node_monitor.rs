//! The node monitor through every fault: nobody is given up whose lease is held, and nobody stays given up who is back.

use std::time::Duration;

use serde_json::json;
use setpoint_client::Client;
use setpoint_controllers::node_monitor::{NAME, SYSTEM, UNREACHABLE, lease_of};
use setpoint_controllers::settings::Settings;
use setpoint_testkit::{Limits, Moment, Scenario, State, sweep};
use setpoint_types::kinds::{Binding, BindingState, BindingStatus, Lease, Node};

use crate::operations::stage::{
    Agents, bound, condition, edit, namespace, node, only_conditions, run, workload,
};
use crate::rules::watched;

fn is_held(state: &State, node: &str) -> bool {
    let lease = state.one::<Lease>(SYSTEM, &lease_of(node));
    lease.and_then(|lease| lease.status).is_some_and(|status| !status.holder.is_empty())
}

/// What is shown of every node and binding follows from who is heard, and who is drained.
fn converged(state: &State) -> Result<(), String> {
    for node in state.all::<Node>() {
        let name = &node.metadata.name;
        let conditions = node.status.map(|status| status.conditions).unwrap_or_default();
        let shown = (condition(&conditions, "Reachable"), condition(&conditions, "Lost"));
        let wanted = match is_held(state, name) {
            true => ("True LeaseHeld".to_owned(), String::new()),
            false => ("False LeaseExpired".to_owned(), "True Confirmed".to_owned()),
        };
        if shown != wanted {
            return Err(format!("{name} shows {shown:?}, not {wanted:?}"));
        }
        let is_tainted = node.spec.taints.iter().any(|taint| taint.key == UNREACHABLE);
        if is_tainted == is_held(state, name) {
            return Err(format!("{name} is tainted: {is_tainted}"));
        }
        for binding in state.all::<Binding>().into_iter().filter(|it| it.spec.node == *name) {
            let BindingStatus { state: is, grace_until, .. } = binding.status.unwrap_or_default();
            let wanted = match (is_held(state, name), node.spec.drain) {
                (false, _) => BindingState::Unknown,
                (true, true) => BindingState::ReleaseRequested,
                (true, false) => BindingState::Bound,
            };
            if is != wanted || grace_until.is_some() != (is == BindingState::Unknown) {
                return Err(format!(
                    "{} is {is:?} until {grace_until:?}, not {wanted:?}",
                    binding.metadata.name
                ));
            }
        }
    }
    Ok(())
}

/// At the revision at which a binding is called unknown, the lease of its node is not held.
fn evidence_holds(moment: &Moment) -> Result<(), String> {
    for change in moment.changes.iter().filter(|change| change.key.kind == "Binding") {
        let state = |object: &Option<std::sync::Arc<setpoint_types::object::Object>>| {
            let object = object.as_ref()?;
            Some((object.status["state"].clone(), object.status["graceUntilMs"].clone()))
        };
        let after = state(&change.after);
        let is_unknown = after.as_ref().is_some_and(|(state, _)| state == "Unknown");
        let node = change.after.as_ref().and_then(|it| it.spec["node"].as_str().map(str::to_owned));
        if is_unknown && after != state(&change.before) && is_held(&moment.state, &node.unwrap_or_default()) {
            return Err(format!("{} is called unknown, and its node holds its lease", change.key));
        }
    }
    Ok(())
}

async fn set_up(client: Client, agents: Agents) -> Result<(), setpoint_client::Error> {
    agents.forget();
    namespace(&client, SYSTEM).await?;
    for (name, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
        node(&client, name, zone).await?;
        agents.start(&client, name).await?;
    }
    workload(&client, "web", 2).await?;
    bound(&client, "web", "web-0", "a1").await?;
    bound(&client, "web", "web-1", "a2").await
}

#[test]
fn nobody_is_given_up_who_is_heard() {
    let agents = Agents::default();
    let (first, dies, lives) = (agents.clone(), agents.clone(), agents);
    let scenario = Scenario::new(|client, stop| run(client, stop, &[NAME], Settings::default()))
        .setup(move |client| set_up(client, first.clone()))
        .step("a1 falls silent", move |_| {
            dies.kill("a1");
            async {
                tokio::time::sleep(crate::operations::stage::TTL).await;
                Ok(())
            }
        })
        .step("a1 is back", move |client| {
            let agents = lives.clone();
            async move { agents.start(&client, "a1").await }
        })
        .step("a2 is drained", |client| async move {
            edit(&client, "Node", "a2", json!({"unschedulable": true, "drain": true})).await
        })
        .converged(converged)
        // What was seen, and at which revision, is another on every way.
        .may_differ(|object| {
            match object.kind.as_str() {
                "Node" => only_conditions(&mut object.status),
                // One that was never touched is bound, too.
                "Binding" => object.status = json!(object.status["state"].as_str().unwrap_or("Bound")),
                _ => {}
            }
            true
        })
        .invariant("the lease of a node that is called unknown is not held", evidence_holds)
        .limits(Limits { places_max: 2, drawn: 2, quiet: Duration::from_secs(120), ..Limits::default() });
    sweep(&watched(scenario));
}
