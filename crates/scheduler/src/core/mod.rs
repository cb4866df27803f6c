//! The scheduler without IO: what is seen comes in, what is to be bound comes out. No clock, no randomness, no task: the time and a seed
//! are arguments, so that the same input always gives the same nodes.
//!
//! | start with | for |
//! |---|---|
//! | [`engine`] | the whole: who waits, whose turn it is, what came of it |
//! | [`cluster`] | nodes, who is bound where, quotas, counts by place |
//! | [`class`], [`site`] | replicas that are alike; nodes that suit them |
//! | [`filter`], [`score`] | what keeps a replica from a node; which node is best |
//! | [`place`], [`gang`] | finding nodes: one by one, all together |
//! | [`preempt`], [`seats`] | the same in the place of others |
//! | [`explain`], [`blocker`] | why there is none, and what would have to change |
//! | [`queue`] | who waits, and what wakes them |
//! | [`policy`] | placement policies |

pub mod blocker;
pub mod class;
pub mod cluster;
pub mod engine;
pub mod explain;
pub mod filter;
pub mod gang;
pub mod hash;
pub mod interner;
pub mod place;
pub mod policy;
pub mod preempt;
pub mod queue;
pub mod score;
pub mod seats;
pub mod site;
