//! Ours comes to the same end whatever goes wrong, wherever it does; a weak one is caught, with the smallest plan that shows it.

use std::time::Duration;

use setpoint_client::Client;
use setpoint_runtime::ManagerSettings;
use setpoint_testkit::{Limits, Plan, Scenario, examine, replay, sweep};
use tokio_util::sync::CancellationToken;

use crate::ours::{ours, run};
use crate::stage::{delete, scenario};
use crate::weak::{create_some, every_few_seconds, missing, tell, trim};

/// The pool goes in the end, and its parts with it.
fn to_the_end<F, Run>(program: F) -> Scenario
where
    F: Fn(Client, CancellationToken) -> Run + Send + Sync + 'static,
    Run: Future<Output = ()> + Send + 'static,
{
    scenario(program).step("go", |client| async move { delete(client, "web").await })
}

#[test]
fn ours_survives_everything() {
    sweep(&to_the_end(ours));
}

#[test]
fn ours_survives_whatever_happens_to_the_replica_that_stands_by() {
    let elected = |client, stop| run(client, stop, ManagerSettings::named("pools"));
    let limits = Limits { places_max: 6, drawn: 6, quiet: Duration::from_secs(300), ..Limits::default() };
    sweep(&to_the_end(elected).replicas(2).faulty(1).limits(limits));
}

async fn weak(client: Client, stop: CancellationToken) {
    every_few_seconds(client, stop, |client, pool, parts| async move {
        for slot in missing(&pool, &parts) {
            while create_some(&client, &pool, slot).await.is_err() {}
        }
        trim(&client, &pool, &parts).await?;
        tell(&client, pool).await
    })
    .await;
}

#[test]
fn the_smallest_plan_is_told_and_shows_it_again() {
    let report = examine(&scenario(weak));
    let smallest = report.failures.first().expect("it is caught");
    assert_eq!(smallest.plan.0.len(), 1, "{report}");
    let text = smallest.plan.to_string();
    assert!(report.to_string().contains(&format!("replay(&scenario, \"{text}\")")), "{report}");
    let again = replay(&scenario(weak), &text);
    assert_eq!(again.problem, smallest.problem);
    assert_eq!(again.plan, text.parse::<Plan>().expect("a plan"));
}

#[test]
fn a_run_repeats() {
    for plan in ["no faults", "lose-answer@write:2", "miss(30s)@step:1", "gone(180s)@event:2"] {
        let tell = || {
            let outcome = replay(&scenario(ours), plan);
            let changes = outcome.history.changes();
            let told: Vec<String> = changes.map(|(revision, it)| format!("{revision} {it:?}")).collect();
            (told, outcome.counts)
        };
        assert_eq!(tell(), tell(), "{plan}");
    }
}
