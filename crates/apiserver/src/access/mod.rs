//! Who may ask this node for what, and what is written down of it.
//!
//! | file | what |
//! |---|---|
//! | [`caller`] | who sent a request, as the listener found out |
//! | [`gate`] | what every service asks before it does anything |
//! | [`pass`] | a write that was let in, and its place in the audit log |
//! | [`standing`] | whether what lasts is still allowed |
//! | [`roles`] | the stored roles and bindings, compiled |
//! | [`service`] | for clients: who they are, what they may do |
//!
//! A service says what a request needs; the gate decides. With access control off and no audit log the gate stands open,
//! and costs one look.
//!
//! Not here: how somebody is identified (`server`), what rules mean and the audit log's file (`access`, the crate).

mod caller;
mod gate;
mod pass;
mod roles;
mod service;
mod standing;

pub use caller::Caller;
pub use gate::{Denied, Gate};
pub use pass::Pass;
pub use roles::{ROLE, ROLE_BINDING, Roles};
pub use service::AccessService;
pub use standing::Standing;
