//! The tokens that are valid now, found by their ids.

use std::collections::HashMap;

use setpoint_types::Timestamp;

use super::record::TokenRecord;
use super::secret::{SecretHash, Shown, TokenId};
use crate::principal::{NameProblem, Principal};

/// Why a token identifies nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    /// The same whether it never was one, was revoked, or is wrong by a letter.
    #[error("the token is not valid")]
    Unknown,
    /// Only ever said to whoever has the right secret.
    #[error("the token has expired")]
    Expired,
}

/// Why records make no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableProblem {
    #[error("the token {id} names somebody who cannot be: {problem}")]
    Name { id: TokenId, problem: NameProblem },
    #[error("two tokens have the id {0}")]
    Repeated(TokenId),
}

/// Every token that is known. Made anew when they change.
#[derive(Debug, Default)]
pub struct TokenTable {
    tokens: HashMap<TokenId, Known>,
}

#[derive(Debug)]
struct Known {
    hash: SecretHash,
    principal: Principal,
    expires: Timestamp,
}

impl TokenTable {
    pub fn new(records: &[TokenRecord]) -> Result<Self, TableProblem> {
        let mut tokens = HashMap::with_capacity(records.len());
        for record in records {
            let principal = Principal::new(&record.name, record.groups.iter().map(String::as_str))
                .map_err(|problem| TableProblem::Name { id: record.id, problem })?;
            let known = Known { hash: record.hash, principal, expires: record.expires };
            if tokens.insert(record.id, known).is_some() {
                return Err(TableProblem::Repeated(record.id));
            }
        }
        Ok(Self { tokens })
    }

    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Whether a token that was shown before is still this one's.
    pub fn check(&self, id: TokenId, owner: &Principal, now: Timestamp) -> Result<(), TokenRefusal> {
        let known = self.tokens.get(&id).filter(|known| known.principal == *owner);
        let known = known.ok_or(TokenRefusal::Unknown)?;
        if now >= known.expires { Err(TokenRefusal::Expired) } else { Ok(()) }
    }

    /// Which token this is, and whose.
    pub fn identify(&self, text: &str, now: Timestamp) -> Result<(TokenId, Principal), TokenRefusal> {
        let shown = Shown::parse(text).ok_or(TokenRefusal::Unknown)?;
        let known = self.tokens.get(&shown.id).ok_or(TokenRefusal::Unknown)?;
        if !known.hash.matches(&shown.hash()) {
            return Err(TokenRefusal::Unknown);
        }
        if now >= known.expires {
            return Err(TokenRefusal::Expired);
        }
        Ok((shown.id, known.principal.clone()))
    }
}
