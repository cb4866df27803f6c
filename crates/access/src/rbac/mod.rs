//! Who may do what: roles, bindings, and the decision.
//!
//! A role lists what may be done (`role`), a binding says by whom and where. `policy` compiles all of them into what
//! each subject may do; `authorizer` holds the present policy and decides. `need` is what a
//! request is checked for, and `keys` says what etcd's requests need.

mod authorizer;
mod builtin;
mod decision;
mod grant;
mod keys;
mod need;
mod pattern;
mod policy;
mod role;
mod target;
mod verb;

pub use authorizer::{Authorizer, Permission};
pub use builtin::builtin_roles;
pub use decision::{Decision, Denial};
pub use keys::{ReservedKeys, key_delete, key_put, key_read, key_watch};
pub use need::Need;
pub use policy::{Holder, Policy, PolicyProblem, Source};
pub use role::{Role, RoleBinding, Rule};
pub use target::{CLUSTER, EVERYTHING, KEYS, LEDGERS, Name, Part, Target};
pub use verb::Verb;
