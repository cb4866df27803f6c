//! Bearer tokens: random, shown once, kept as a hash, and valid for a time.
//!
//! `secret` makes them and checks them, `record` is what is stored of one, `table` finds it, `file` keeps records in a
//! file. A record is also what the spec of an object would hold: a source other than the file fills the same table.

mod file;
mod record;
mod secret;
mod table;

pub use file::{TokenFile, TokenFileError};
pub use record::TokenRecord;
pub use secret::{Minted, TOKEN_ENTROPY_BYTES, TokenId};
pub use table::{TokenRefusal, TokenTable};
