//! How many times a second a key is added, taken and finished, on one core with 100,000 distinct keys.
//!
//! `cargo run --release -p setpoint-runtime --example queue_speed`. *Filled* keeps all keys in the queue; *flood* adds
//! all of them and then takes all of them. `core` is the state machine alone, `queue` has the lock, the clock, the wake-ups
//! and the metrics around it. Counted is the time on the processor, so that a busy machine does not change the result by more
//! than what it does to the caches.

#![allow(clippy::print_stdout, reason = "it prints what it measures")]

use std::sync::Arc;
use std::time::Duration;

use setpoint_runtime::queue::core::{Core, Next};
use setpoint_runtime::queue::{Moment, Options, Outcome, Priority, Queue, Seams, Settings, Tenant, TenantOf};

const KEYS: usize = 100_000;
const TENANTS: usize = 1_000;
const CYCLES: usize = 3_000_000;

type Key = Arc<str>;

fn main() {
    let keys: Vec<Key> =
        (0..KEYS).map(|n| format!("tenant-{:04}/object-{n:06}", n % TENANTS).into()).collect();
    println!("{KEYS} keys of {TENANTS} tenants, add + get + done, one thread");
    core_filled(&keys);
    core_flood(&keys);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(queue_filled(&keys));
}

fn tenants() -> TenantOf<Key> {
    TenantOf::new(|key: &Key| Tenant::named(key.split('/').next().unwrap_or_default()))
}

/// Without the limit on starts, which is what would be measured.
fn options() -> Options {
    Settings { starts_per_second: 0, ..Settings::default() }.check().expect("settings within bounds")
}

fn core_filled(keys: &[Key]) {
    let mut core = Core::new(options(), tenants());
    for key in keys {
        core.add(Moment::default(), key.clone(), Priority::Normal.into()).expect("room");
    }
    let start = processor_time();
    for n in 0..CYCLES {
        cycle(&mut core, Moment::at(Duration::from_nanos(n as u64)));
    }
    report("core, filled", CYCLES, start);
}

fn cycle(core: &mut Core<Key>, now: Moment) {
    let Next::Run(ticket) = core.next(now) else { panic!("all keys are in the queue") };
    let key = (*ticket.key).clone();
    core.finish(now, ticket, Outcome::Done, 0);
    core.add(now, key, Priority::Normal.into()).expect("room");
}

fn core_flood(keys: &[Key]) {
    let mut core = Core::new(options(), tenants());
    let rounds = CYCLES / KEYS;
    let start = processor_time();
    for round in 0..rounds {
        let now = Moment::at(Duration::from_nanos(round as u64));
        for key in keys {
            core.add(now, key.clone(), Priority::Bulk.into()).expect("room");
        }
        while let Next::Run(ticket) = core.next(now) {
            core.finish(now, ticket, Outcome::Done, 0);
        }
    }
    report("core, flood", rounds * KEYS, start);
}

async fn queue_filled(keys: &[Key]) {
    let queue = Queue::new(options(), tenants(), Seams::tokio(1));
    for key in keys {
        queue.try_add(key.clone(), Priority::Normal).expect("room");
    }
    let start = processor_time();
    for _ in 0..CYCLES {
        let running = queue.next().await.expect("not shut down");
        let key = (**running.key()).clone();
        running.finish(Outcome::Done);
        queue.try_add(key, Priority::Normal).expect("room");
    }
    report("queue, filled", CYCLES, start);
}

/// What this thread has used up so far.
fn processor_time() -> Duration {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanos = statistics.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("a number first");
    Duration::from_nanos(nanos)
}

fn report(what: &str, cycles: usize, start: Duration) {
    let seconds = (processor_time() - start).as_secs_f64();
    let (millions, nanos) = (cycles as f64 / seconds / 1e6, seconds * 1e9 / cycles as f64);
    println!("{what:>14}: {millions:.2} M/s ({nanos:.0} ns each)");
}
