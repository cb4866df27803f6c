//! What is read from the operating system and from clocks: CPU time, memory, disk, latencies.
//!
//! Not here: what a figure means for a row (`rows`), or how figures of repetitions are combined (`statistics`).

pub mod cpu;
pub mod disk;
pub mod histogram;
pub mod memory;
