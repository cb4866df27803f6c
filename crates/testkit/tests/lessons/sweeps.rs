//! Ours comes to the same end whatever goes wrong, wherever it does; a weak one is caught, with the smallest plan that shows it.

use setpoint_client::Client;
use setpoint_testkit::{Plan, examine, replay, sweep};
use tokio_util::sync::CancellationToken;

use crate::ours::ours;
use crate::stage::scenario;
use crate::weak::{create_some, every_few_seconds, missing, tell, trim};

#[test]
fn ours_survives_everything() {
    sweep(&scenario(ours));
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
