//! The controllers that make workloads run. One folder each: `observe.rs`, `plan.rs` (pure), `execute.rs`; who writes what is settled in
//! docs/adr/0016.
