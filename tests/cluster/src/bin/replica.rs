//! One replica of a controller, as a process that a test can stop, continue and kill.
//!
//! For each of its keys (namespaces `key-0`, `key-1`, …) it writes a new label again and again, under the claim to the key's
//! shard. When a claim is gone, it does what no controller should: it goes on writing under the old fence, a few times, and
//! says what came of it. What it says is one line each on standard output.
//!
//! ```text
//! replica ADDRESS,... CONTROLLER NAME SHARDS TTL_SECONDS KEYS
//! ```

use std::error::Error;
use std::time::Duration;

use serde_json::json;
use setpoint_client::{Client, Patch, PatchOptions, Settings};
use setpoint_runtime::cache::Key;
use setpoint_runtime::election::{self, Election, Shards};
use setpoint_runtime::informer::{InformerSettings, Informers};
use setpoint_types::kinds::Namespace;
use setpoint_types::object::Fence;
use tokio_util::sync::CancellationToken;

const PAUSE: Duration = Duration::from_millis(100);
/// Writes under a fence that is no longer ours.
const DEFIANCE: u32 = 5;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [addresses, controller, name, shards, ttl, keys] = &arguments[..] else {
        return Err("replica ADDRESS,... CONTROLLER NAME SHARDS TTL_SECONDS KEYS".into());
    };
    let endpoints = addresses.split(',').map(str::parse).collect::<Result<Vec<_>, _>>()?;
    let client = Client::new(Settings::new(endpoints))?.with_manager(name.as_str());
    let informers = Informers::new(client.clone(), InformerSettings::default());
    let settings = election::Settings {
        shards: shards.parse()?,
        ttl_seconds: ttl.parse()?,
        drain_ms: 2_000,
        ..election::Settings::default()
    };
    let election = Election::new(&client, &informers, controller, name, settings.check()?)?;
    for key in 0..keys.parse::<u32>()? {
        tokio::spawn(work(client.clone(), election.shards(), format!("key-{key}")));
    }
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    tokio::spawn(async move {
        let terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
        if let Ok(mut terminated) = terminated {
            terminated.recv().await;
            stopping.cancel();
        }
    });
    election.run(stop).await;
    say("left");
    Ok(())
}

#[expect(clippy::print_stdout, reason = "it is how it tells the test what it did")]
fn say(line: &str) {
    println!("{line}");
}

/// Writes one key as long as it may, and a little longer.
async fn work(client: Client, shards: Shards, name: String) {
    let hash = Key::new("", &name).stable_hash();
    let mut last: Option<Fence> = None;
    let mut number = 0;
    loop {
        let run = shards.begin_run(hash);
        let fence = run.as_ref().map(|run| run.claim().fence.clone());
        if let Some(old) = last.take().filter(|old| fence.as_ref() != Some(old)) {
            defy(&client, &name, &old, &mut number).await;
        }
        if let (Some(run), Some(fence)) = (run, fence) {
            let written = write(&client, &name, &fence, &mut number).await;
            if written.is_err_and(|error| error.is_fenced()) {
                shards.fenced(run.claim());
            }
            last = Some(fence);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn defy(client: &Client, name: &str, fence: &Fence, number: &mut u64) {
    for _ in 0..DEFIANCE {
        let what = match write(client, name, fence, number).await {
            Ok(()) => "accepted",
            Err(error) if error.is_fenced() => "refused",
            Err(_) => "failed",
        };
        say(&format!("{what} {name} {} {}", fence.lease, fence.epoch));
    }
}

async fn write(
    client: &Client,
    name: &str,
    fence: &Fence,
    number: &mut u64,
) -> Result<(), setpoint_client::Error> {
    *number += 1;
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "number": number.to_string() } } }));
    let fenced = client.with_fence(fence.clone());
    fenced.api::<Namespace>().patch(name, &patch, &PatchOptions::default()).await.map(drop)
}
