//! From followers to the leader: commands to propose and questions to answer, over one stream per follower.
//!
//! Commands are not answered. Their verdicts reach whoever waits for them through the log, applied by the follower
//! itself (docs/adr/0003); only what was certainly not proposed comes back. Questions are answered, or fail at once
//! when the stream breaks.

mod client;
mod message;
mod server;

pub use self::client::{ForwardTask, Forwarder};
pub use self::message::{Answer, Question, admission, admission_reply, confirm, newcomer, refused};
pub use self::server::serve;
