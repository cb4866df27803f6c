//! Writing objects over a real store, as clients see it.
//!
//! - `kit`: a node without a cluster: commits go straight into the store
//! - `script`: golden scripts, one property each, in `scripts`
//! - `access`: golden scripts of who may do it, in `access`, through the services
//! - `races`: what another writer does between the decision of a write and its commit
//! - `refusals`: what a refusal carries, and what policies note
//! - `given`: the arguments of a script's command
//! - `render`: answers as text
//! - `restart`: what a node knows of kinds and policies when it has just started
//! - `speed`: what a write costs, for a profiler

mod access;
mod given;
mod kit;
mod races;
mod refusals;
mod render;
mod restart;
mod script;
mod speed;
