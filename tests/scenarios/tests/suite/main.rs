//! Every controller through every fault: crashes after each write, lost answers, stale views, missed states, two leaders. Whatever goes
//! wrong, the rules hold at every revision and the end is the same.
//!
//! - `rollouts`, `repairs`, `batches`, `garbage`: sweeps
//! - `operations`: node monitor, quota, autoscaler and policy rollout, with the weak variants of their lessons
//! - `fraud_batch`, `node_b7`, `recovery`, `stale_canary`, `cascade`: the worked examples of the lessons, beside the weak ones that fail
//! - `decisions`: who says why
//! - `deposed`: a leader that wakes up when another leads
//! - `random`: everything at once, from a seed
//! - `rules`: what holds at every revision, and that each rule sees what it is for
//! - `hands`, `fleet`, `whole`: what schedulers and agents do, in a few lines; hosts; all programs together
//! - `records`: what is kept of Events and Decisions

mod batches;
mod cascade;
mod decisions;
mod deposed;
mod fleet;
mod fraud_batch;
mod garbage;
mod hands;
mod node_b7;
mod operations;
mod random;
mod records;
mod recovery;
mod repairs;
mod rollouts;
mod rules;
mod stale_canary;
mod whole;

use std::time::Duration;

use setpoint_client::Client;
use setpoint_controllers::assemble;
use setpoint_controllers::settings::{Settings, choose};
use setpoint_runtime::WallClock;
use setpoint_testkit::{Limits, now};
use tokio_util::sync::CancellationToken;

/// Whether there is time for much more.
fn is_deep() -> bool {
    std::env::var_os("SETPOINT_TEST_DEEP").is_some()
}

/// How far a sweep goes that runs with every change: the first places of each sort, a quiet time that is longer than any pause of a
/// controller. `SETPOINT_TEST_DEEP=1` goes on to many more.
fn limits(places: u64) -> Limits {
    Limits {
        places_max: if is_deep() { places * 4 } else { places },
        drawn: if is_deep() { 20 } else { 2 },
        settling: Duration::from_secs(60),
        quiet: Duration::from_secs(180),
        ..Limits::default()
    }
}

/// Controllers as the program runs them, by the date of the test's world.
async fn run(names: &str, client: Client, stop: CancellationToken) {
    let chosen = choose(names).expect("they exist");
    let manager = assemble(client, &chosen, &Settings::default(), None).expect("they fit together");
    let manager = manager.with_clock(WallClock::new(now));
    manager.run(stop.cancelled()).await.expect("they run until they are stopped");
}
