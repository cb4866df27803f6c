//! Election: the pure parts in a model world, and the driver over a server in this process.

mod driver;
mod random;
mod script;
mod server;
mod world;
