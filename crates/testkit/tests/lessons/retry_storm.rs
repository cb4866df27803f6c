//! While the server cannot be reached it is asked seldom, and soon after it can be reached everything is done.

use std::time::Duration;

use setpoint_client::{Backoff, BreakerSettings, Client, Entropy, ListOptions, Settings};
use setpoint_testkit::{Fault, Faults, Plan, World};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::ours::ours;
use crate::stage::{Pool, as_wanted, define, make, resize};

const OUTAGE: Duration = Duration::from_secs(600);

/// What is asked for in a minute of an outage, and whether everything is well three minutes after it.
async fn outage<F, Run>(program: F) -> (u64, Result<(), String>)
where
    F: Fn(&setpoint_testkit::Process, CancellationToken) -> Run,
    Run: Future<Output = ()> + Send + 'static,
{
    let world = World::new();
    let author = world.client_as("author");
    define(author.clone()).await.expect("a good kind");
    make(author.clone(), "web", 2).await.expect("a good pool");
    let faults = Faults::new(&world, &Plan::default());
    let (process, stop) = (faults.process("controller"), CancellationToken::new());
    let running = tokio::spawn(program(&process, stop.clone()));
    world.pass(Duration::from_secs(60)).await;
    faults.inject(Fault::Gone(OUTAGE));
    resize(author, "web", 4).await.expect("a good size");
    let before = faults.counts().requests;
    world.pass(OUTAGE).await;
    let per_minute = (faults.counts().requests - before) / 10;
    world.pass(Duration::from_secs(180)).await;
    stop.cancel();
    running.await.expect("it does not panic");
    (per_minute, as_wanted(&world.state()))
}

/// Asks again as soon as it was not answered, with a client that lets it.
fn weak(process: &setpoint_testkit::Process, stop: CancellationToken) -> impl Future<Output = ()> + use<> {
    let backoff = Backoff { first: Duration::from_millis(1), max: Duration::from_millis(1) };
    let mut settings = Settings::new(vec!["world".parse().expect("a host")]);
    settings.backoff = backoff;
    settings.breaker = BreakerSettings { failures_max: u32::MAX, open: backoff };
    let client = Client::with_seams(settings, process, Entropy::seeded(1)).expect("good settings");
    async move {
        let forever = async {
            loop {
                if client.api::<Pool>().list(&ListOptions::default()).await.is_ok() {
                    sleep(Duration::from_secs(10)).await;
                }
            }
        };
        stop.run_until_cancelled(forever).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_makes_no_storm() {
    let (weak, _) = outage(weak).await;
    assert!(weak > 2_000, "the weak variant asked {weak} times a minute");
    let (asked, done) = outage(|process, stop| ours(process.client(), stop)).await;
    assert!(asked < 60, "ours asked {asked} times a minute");
    assert_eq!(done, Ok(()));
}
