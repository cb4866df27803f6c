//! Who asks, what they may do, what was done, and how much of it at a time.
//!
//! The order of a request: [`Authenticator::identify`] makes a [`Principal`] of a certificate or a token,
//! [`Flow::admit`] waits for a seat, [`Authorizer::check`] decides, and [`AuditLog`] remembers every write and every
//! denial. The decisions are pure; time, randomness and files come in through arguments. Start with `principal`.
//!
//! Not here: sockets, gRPC and the stored objects. Whoever serves requests calls this crate, and gives it the roles,
//! bindings and tokens it is to know.

mod audit;
mod authenticator;
mod bearer;
mod certificate;
mod flow;
pub mod pki;
mod principal;
mod proof;
mod rbac;
mod token;

pub use audit::{
    AuditCounts, AuditEntry, AuditFailure, AuditLog, AuditOptions, AuditResult, AuditWriter, Recorded,
};
pub use authenticator::{Authenticator, Refusal};
pub use certificate::CertificateProblem;
pub use flow::{
    Admission, Arrival, Flow, FlowKey, FlowOptions, Full, LEVELS, Level, LevelCounts, LevelOptions, Outcome,
    Period, Permit, Seating, Seats, Share, Tally, TallyCounts, TallyOptions, Ticket, TooMany, Waiter,
};
pub use principal::{
    ADMINS, AUTHENTICATED, CONTROLLERS, Class, NODES, NameProblem, Principal, UNAUTHENTICATED,
};
pub use proof::Proof;
pub use rbac::{
    Authorizer, CLUSTER, Decision, Denial, EVERYTHING, Holder, KEYS, LEDGERS, Name, Need, Part, Permission,
    Policy, PolicyProblem, ReservedKeys, Role, RoleBinding, Rule, Source, Target, Verb, builtin_roles,
    key_delete, key_put, key_read, key_watch,
};
pub use token::{
    Minted, TOKEN_ENTROPY_BYTES, TokenFile, TokenFileError, TokenId, TokenRecord, TokenRefusal, TokenTable,
};
