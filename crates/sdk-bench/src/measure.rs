//! Processor time and memory of this process.

use std::collections::BTreeMap;
use std::time::Duration;

/// What a measurement came to, by the names of `rows`.
pub type Figures = BTreeMap<String, f64>;

/// Counts the time this thread spends on the processor.
pub struct Stopwatch(Duration);

impl Stopwatch {
    pub fn start() -> Self {
        Self(processor_time())
    }

    /// How much was done in a second of it.
    pub fn rate(&self, done: usize) -> f64 {
        done as f64 / (processor_time() - self.0).as_secs_f64()
    }
}

fn processor_time() -> Duration {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = statistics.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0);
    Duration::from_nanos(nanos)
}

/// What the process holds in memory. Pages the allocator keeps for later count: they are gone for everybody else.
pub fn resident_bytes() -> usize {
    let statistics = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statistics.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0);
    pages * 4096
}
