//! The Raft log against openraft's own suite, a model, power loss, damage and faults.

mod damage;
mod faults;
mod kit;
mod model;
mod suite;
mod threads;
