//! Of several processes one works, and what another one sends late is not done.

use setpoint_client::Client;
use setpoint_testkit::{Moment, Scenario};
use tokio_util::sync::CancellationToken;

use crate::ours::run;
use crate::stage::{check, scenario as one_pool};
use crate::weak::{create_some, every_few_seconds, missing, tell, trim};

/// Every replica does everything.
async fn weak(client: Client, stop: CancellationToken) {
    every_few_seconds(client, stop, |client, pool, parts| async move {
        for slot in missing(&pool, &parts) {
            create_some(&client, &pool, slot).await?;
        }
        trim(&client, &pool, &parts).await?;
        tell(&client, pool).await
    })
    .await;
}

async fn ours(client: Client, stop: CancellationToken) {
    run(client, stop, setpoint_runtime::ManagerSettings::named("pools")).await;
}

/// Every write of a controller to pools and parts proves that it is the holder.
fn fenced(moment: &Moment) -> Result<(), String> {
    let of_controllers = moment.changes.iter().filter(|change| {
        ["Pool", "Part"].contains(&change.key.kind.as_str()) && change.author.principal != "user:author"
    });
    for change in of_controllers {
        if change.author.fence.is_none() {
            return Err(format!("{} wrote {} without a fence", change.author.principal, change.key));
        }
    }
    Ok(())
}

fn scenario<F, Run>(program: F) -> Scenario
where
    F: Fn(Client, CancellationToken) -> Run + Send + Sync + 'static,
    Run: Future<Output = ()> + Send + 'static,
{
    one_pool(program).replicas(2)
}

#[test]
fn two_replicas_make_no_part_twice() {
    check("freeze(60s)@write:2", &scenario(weak), &scenario(ours));
}

#[test]
fn every_write_is_fenced() {
    let fenced = |scenario: Scenario| scenario.invariant("fenced", fenced);
    check("freeze(60s)@write:4", &fenced(scenario(weak)), &fenced(scenario(ours)));
}
