//! Who somebody is, and by what that was proved: a stream may outlast its token or certificate.

use setpoint_types::Timestamp;

use crate::principal::Principal;
use crate::token::TokenId;

/// What [`Authenticator::identify`](crate::Authenticator::identify) found. Holds no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    pub principal: Principal,
    pub(crate) by: By,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Nothing,
    /// Good up to and including this moment.
    Certificate {
        until: Timestamp,
    },
    Token(TokenId),
}

impl Proof {
    /// Of somebody who has shown nothing.
    pub fn none() -> Self {
        Self { principal: Principal::anonymous(), by: By::Nothing }
    }
}
