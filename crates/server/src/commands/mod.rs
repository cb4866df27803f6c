//! What `setpointd` does besides running a node; one file per command.

pub mod backup;
pub mod health;
pub mod init_pki;
pub mod restore;
pub mod token;
