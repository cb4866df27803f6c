//! The collector through every fault: parts go after their owners in all three ways, namespaces are emptied, and nothing else goes.

use setpoint_client::{Client, DeleteOptions, Error, Propagation, Typed, WriteOptions};
use setpoint_testkit::{Moment, Scenario, State, sweep};
use setpoint_types::kinds::{
    Namespace, NamespaceSpec, ReplicaSet, ReplicaSetSpec, ReplicaTemplate, Workload,
};

use super::rollouts::workload;
use super::rules::watched;
use super::{limits, run};

async fn make(client: &Client, namespace: &str, name: &str) -> Result<(), Error> {
    let once = WriteOptions::default();
    let owner = workload(name, 1, "x").in_namespace(namespace);
    let owner = client.api::<Workload>().namespace(namespace).create(&owner, &once).await?.object;
    for number in 1..=2 {
        let template = ReplicaTemplate { command: vec!["x".to_owned()], ..ReplicaTemplate::default() };
        let spec = ReplicaSetSpec {
            workload: name.to_owned(),
            revision: number,
            template,
            template_hash: "h".to_owned(),
            ..ReplicaSetSpec::default()
        };
        let mut part = Typed::<ReplicaSet>::new(format!("{name}-{number}"), spec).in_namespace(namespace);
        part.metadata.owners.push(owner.as_controller());
        client.api::<ReplicaSet>().namespace(namespace).create(&part, &once).await?;
    }
    Ok(())
}

async fn delete(client: Client, name: &str, propagation: Propagation) -> Result<(), Error> {
    let options = DeleteOptions { propagation, ..DeleteOptions::default() };
    client.api::<Workload>().namespace("default").delete(name, &options).await.map(drop)
}

/// What names an owner that was there has it, and what is being deleted is gone.
fn nothing_is_left(state: &State) -> Result<(), String> {
    for object in state.iter() {
        if object.metadata.is_terminating() {
            return Err(format!("{} is still there", object.key()));
        }
        for owner in &object.metadata.owners {
            if !state.iter().any(|it| it.metadata.uid == owner.uid) {
                return Err(format!("{} is left", object.key()));
            }
        }
    }
    Ok(())
}

/// Only what has an owner that is gone, or goes, is deleted.
fn nobody_else_goes(moment: &Moment) -> Result<(), String> {
    for change in
        moment.changes.iter().filter(|it| super::rules::is_controllers(it) && it.key.namespace == "default")
    {
        let Some(before) = &change.before else { continue };
        if change.after.is_some() || change.key.kind != "ReplicaSet" {
            continue;
        }
        let stays =
            |uid| moment.state.iter().any(|it| it.metadata.uid == uid && !it.metadata.is_terminating());
        if before.metadata.owners.iter().any(|owner| stays(owner.uid.clone())) {
            return Err(format!("{} has an owner", change.key));
        }
    }
    Ok(())
}

#[test]
fn parts_go_after_their_owners_and_nobody_else() {
    let scenario = Scenario::new(|client, stop| run("garbage-collector", client, stop))
        .setup(|client| async move {
            for name in ["kept", "background", "foreground", "orphaned"] {
                make(&client, "default", name).await?;
            }
            let team = Typed::<Namespace>::new("team", NamespaceSpec::default());
            client.api::<Namespace>().create(&team, &WriteOptions::default()).await?;
            make(&client, "team", "web").await
        })
        .step("in the background", |client| delete(client, "background", Propagation::Background))
        .step("in the foreground", |client| delete(client, "foreground", Propagation::Foreground))
        .step("orphaning", |client| delete(client, "orphaned", Propagation::Orphan))
        .step("a namespace", |client| async move {
            client.api::<Namespace>().delete("team", &DeleteOptions::default()).await.map(drop)
        })
        .converged(nothing_is_left)
        .invariant("K6: nobody else goes", nobody_else_goes)
        .limits(limits(2));
    sweep(&watched(scenario));
}
