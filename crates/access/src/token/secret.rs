//! A token's text, its public half and the hash of its secret half.
//!
//! `setpoint_ID_SECRET`: the id finds the record, so that looking one up costs the same with any number of tokens; the
//! secret has 256 random bits, so that a plain hash keeps it, and guessing is hopeless without a limit on attempts. The
//! beginning is there for programs that look for leaked secrets.

use std::fmt;
use std::str::FromStr;

use setpoint_types::Timestamp;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::record::TokenRecord;
use crate::principal::{NameProblem, Principal};

const PREFIX: &str = "setpoint_";
const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;
/// Hashes of other things than tokens never look like those of tokens.
const DOMAIN: &[u8] = b"setpoint token 1\0";

/// What a token is made of, drawn from the system's source of randomness.
pub const TOKEN_ENTROPY_BYTES: usize = ID_BYTES + SECRET_BYTES;

/// Names a token in files, lists and logs. Not secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId([u8; ID_BYTES]);

/// The hash of a token's secret half.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecretHash([u8; 32]);

/// A new token. Its text is nowhere else, and cannot be had again.
pub struct Minted {
    text: String,
    pub record: TokenRecord,
}

/// The halves of a token that somebody shows.
pub struct Shown {
    pub id: TokenId,
    secret: [u8; SECRET_BYTES],
}

impl Minted {
    /// Makes a token for `name` of 40 random bytes.
    pub fn new(
        entropy: &[u8; TOKEN_ENTROPY_BYTES],
        name: &str,
        groups: &[String],
        expires: Timestamp,
    ) -> Result<Self, NameProblem> {
        Principal::new(name, groups.iter().map(String::as_str))?;
        let (mut id, mut secret) = ([0; ID_BYTES], [0; SECRET_BYTES]);
        id.copy_from_slice(&entropy[..ID_BYTES]);
        secret.copy_from_slice(&entropy[ID_BYTES..]);
        let shown = Shown { id: TokenId(id), secret };
        let text = format!("{PREFIX}{}_{}", shown.id, hex::encode(secret));
        let (name, groups) = (name.to_owned(), groups.to_vec());
        Ok(Self { text, record: TokenRecord { id: shown.id, hash: shown.hash(), name, groups, expires } })
    }

    /// What the client is given.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Shown {
    /// Takes a token apart; none if it is not one of ours.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let mut bytes = [0; SECRET_BYTES];
        hex::decode_to_slice(secret, &mut bytes).ok()?;
        Some(Self { id: id.parse().ok()?, secret: bytes })
    }

    pub fn hash(&self) -> SecretHash {
        let digest = Sha256::new().chain_update(DOMAIN).chain_update(self.id.0).chain_update(self.secret);
        SecretHash(digest.finalize().into())
    }
}

impl SecretHash {
    /// Takes the same time wherever the two differ.
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenId({self})")
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(..)")
    }
}

impl fmt::Debug for Minted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Minted").field("record", &self.record).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a token: 16 hexadecimal digits")]
pub struct NotATokenId;

impl FromStr for TokenId {
    type Err = NotATokenId;

    fn from_str(text: &str) -> Result<Self, NotATokenId> {
        let mut bytes = [0; ID_BYTES];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| NotATokenId)?;
        Ok(Self(bytes))
    }
}

const HASH_NAME: &str = "sha256:";

impl fmt::Display for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{HASH_NAME}{}", hex::encode(self.0))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the hash of a token: `sha256:` and 64 hexadecimal digits")]
pub struct NotAHash;

impl FromStr for SecretHash {
    type Err = NotAHash;

    fn from_str(text: &str) -> Result<Self, NotAHash> {
        let mut bytes = [0; 32];
        let digits = text.strip_prefix(HASH_NAME).ok_or(NotAHash)?;
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| NotAHash)?;
        Ok(Self(bytes))
    }
}
