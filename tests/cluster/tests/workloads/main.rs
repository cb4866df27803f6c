//! Everything together, as processes: three nodes of the store, two schedulers, two programs of controllers, three hosts with their
//! agents, and workloads of real HTTP servers. Submitted, scaled, rolled, repaired, drained, deleted; and nothing is left behind.
//!
//! - `estate`: all of it, started and stopped; `host`: an agent and what it runs; `program`: one of the others
//! - `shop`: what is submitted, and what is seen of it; `page`: one HTTP request; `sampler`: a client that asks all the time
//! - `containers`: an engine, and a workload of containers
//! - `sessions`: logs and commands, by way of every node of the store
//! - `log`: what the store has written, revision by revision; `leftovers`: what must not be left
//!
//! Each test starts an estate of its own. Times are short, but nothing is asserted on them.

#![allow(clippy::print_stderr, reason = "the test runner shows it with a failure")]

mod containers;
mod estate;
mod host;
mod impossible;
mod leftovers;
mod life;
mod log;
mod loss;
mod page;
mod program;
mod reach;
mod sampler;
mod sessions;
mod shop;
