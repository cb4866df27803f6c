//! One node's services: what clients ask, answered from the local copy and through the cluster.
//!
//! | module | what |
//! |---|---|
//! | `etcd` | etcd's v3 protocol |
//! | `objects` | objects over keys: get, list, watch, history |
//! | `access` | who may ask for what, and what is written down of it |
//! | `ledgers` | reading what is reserved, and by whom |
//! | `placement` | which replica has which node, proven by the commit |
//! | `coordination` | leases over objects: who may act now |
//! | `sessions` | logs of replicas and commands in them, passed on between clients and agents |
//! | `watch` | changes, handed to every stream that asked for them |
//! | `lease` | who keeps time, who renews, who expires |
//! | `load` | how much clients may have of it at a time |
//! | `replica` | the local copy joined to consensus |
//! | `leader` | what only the leader can answer |
//! | `collector`, `housekeeping`, `quota` | what a node does by itself |
//! | `backup` | the state as one stream of bytes |
//!
//! Not here: sockets, configuration and start-up (`server`), the meaning of commands (`store`), Raft (`consensus`).

pub mod access;
pub mod backup;
pub mod collector;
pub mod coordination;
pub mod etcd;
pub mod housekeeping;
pub mod leader;
pub mod lease;
pub mod ledgers;
pub mod load;
pub mod metrics;
pub mod objects;
pub mod placement;
pub mod quota;
pub mod replica;
pub mod sessions;
pub mod watch;
