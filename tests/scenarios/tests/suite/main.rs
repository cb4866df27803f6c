//! Every controller through every fault: crashes after each write, lost answers, stale views, missed states, two leaders. Whatever goes
//! wrong, the limits hold at every revision and the end is the same.
//!
//! - `rollouts`, `repairs`, `batches`, `garbage`: sweeps
//! - `fraud_batch`: the worked example of a lost replica, and the weak controller that fails it
//! - `hands`: what schedulers and agents do, in a few lines
//! - `rules`: what holds at every revision

mod batches;
mod fraud_batch;
mod garbage;
mod hands;
mod repairs;
mod rollouts;
mod rules;

use setpoint_client::Client;
use setpoint_controllers::assemble;
use setpoint_controllers::settings::{Settings, choose};
use setpoint_runtime::WallClock;
use setpoint_testkit::now;
use tokio_util::sync::CancellationToken;

/// Controllers as the program runs them, by the date of the test's world.
async fn run(names: &str, client: Client, stop: CancellationToken) {
    let chosen = choose(names).expect("they exist");
    let manager = assemble(client, &chosen, &Settings::default(), None).expect("they fit together");
    let manager = manager.with_clock(WallClock::new(now));
    manager.run(stop.cancelled()).await.expect("they run until they are stopped");
}
