//! Writing objects: one path for every write, from a single create to a transaction over many kinds.
//!
//! | file | what |
//! |---|---|
//! | [`writer`] | read, decide, commit; again if a race was lost |
//! | [`turns`] | writes of one object, one after the other |
//! | [`intent`] | what one write wants of one object |
//! | [`parts`] | both parts of one object in one request |
//! | [`refusals`] | the refusals of several writes, as one |
//! | [`request`] | requests as intents, guards and ledger operations |
//! | [`admit`] | what a kind's rules say about the result |
//! | [`policies`] | what policies make of it |
//! | [`giving`] | what a role or binding gives away, and whether its writer has it |
//! | [`contents`] | what a kind and a namespace contain, and that neither goes before it |
//! | [`follow`] | ledgers that follow nodes and quotas |
//! | [`told`] | the status that the server itself gives |
//! | [`commit`] | decisions as one commit, and what its refusal means |
//! | [`answer`] | what was committed, as the client is told |
//! | [`options`] | what every write may carry |
//! | [`convert`] | objects between wire, store and rules |
//!
//! The rules themselves are pure functions in the crate `objects`; the proof that what they read still holds is the
//! commit's guard.

pub(crate) mod admit;
mod answer;
pub(crate) mod commit;
pub(crate) mod contents;
pub(crate) mod convert;
mod follow;
mod giving;
mod intent;
pub(crate) mod options;
mod parts;
mod policies;
mod refusals;
mod request;
mod told;
mod turns;
pub(crate) mod writer;

pub use commit::{ClusterCommits, CommitError, Commits};
pub use options::Draw;
pub use turns::Turns;
pub use writer::{WriteLimits, Writer};
