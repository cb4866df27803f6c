//! Where a list goes on: the token between two of its pages.
//!
//! Opaque to clients. It says of which revision the list is, behind which object it goes on and how many were left, and
//! belongs to one request: another kind, namespace or selector is refused, as is a token that was damaged. It is not secret,
//! and whoever makes one up gets nothing by it that the request itself would not give: the key must be one of the list's.

use bytes::{Buf, BufMut};
use setpoint_api::setpoint::v1 as pb;
use setpoint_types::{KeyRange, Revision};

use super::error::Refusal;

const VERSION: u8 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub revision: Revision,
    /// The key of the last object looked at.
    pub last: Vec<u8>,
    /// How many are left, if that is known.
    pub remaining: Option<u64>,
}

impl Token {
    /// For the request that `question` is.
    pub fn encode(&self, question: &pb::ListRequest) -> String {
        let mut bytes = vec![VERSION];
        bytes.put_u64(self.revision.get());
        bytes.put_u64(self.remaining.map_or(u64::MAX, |remaining| remaining.min(u64::MAX - 1)));
        bytes.put_slice(&self.last);
        bytes.put_u32(checksum(&bytes, question));
        hex(&bytes)
    }

    /// The token of a list over `range`.
    pub fn decode(token: &str, question: &pb::ListRequest, range: &KeyRange) -> Result<Self, Refusal> {
        let refused = || {
            Refusal::invalid(
                "continue",
                "is not a token of this list; repeat the request it came from, or start anew",
            )
        };
        let bytes = unhex(token).ok_or_else(refused)?;
        let (mut content, sum) = bytes.split_last_chunk::<4>().ok_or_else(refused)?;
        if u32::from_be_bytes(*sum) != checksum(content, question) {
            return Err(refused());
        }
        if content.try_get_u8() != Ok(VERSION) {
            return Err(refused());
        }
        let revision = Revision::new(content.try_get_u64().map_err(|_| refused())?);
        if revision.is_none() || revision > Revision::MAX {
            return Err(refused());
        }
        let remaining = content.try_get_u64().map_err(|_| refused())?;
        let remaining = (remaining != u64::MAX).then_some(remaining);
        if !range.contains(content) {
            return Err(refused());
        }
        Ok(Self { revision, last: content.to_vec(), remaining })
    }
}

/// Over the token and over what it belongs to, so that it fits no other request.
fn checksum(bytes: &[u8], question: &pb::ListRequest) -> u32 {
    let parts = [&question.kind, &question.namespace, &question.label_selector, &question.field_selector];
    let sum = crc32c::crc32c(bytes);
    parts.iter().fold(sum, |sum, part| {
        let sum = crc32c::crc32c_append(sum, &(part.len() as u64).to_be_bytes());
        crc32c::crc32c_append(sum, part.as_bytes())
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use setpoint_api::setpoint::v1::Reason;

    use super::*;

    fn question() -> pb::ListRequest {
        pb::ListRequest { kind: "Node".into(), label_selector: "a=b".into(), ..Default::default() }
    }

    fn range() -> KeyRange {
        crate::objects::key::of_kind("Node")
    }

    fn token() -> Token {
        Token { revision: Revision::new(7), last: b"/setpoint.v1/Node//a".to_vec(), remaining: Some(3) }
    }

    #[test]
    fn a_token_fits_the_request_it_was_made_for_and_no_other() {
        for remaining in [None, Some(0), Some(3)] {
            let token = Token { remaining, ..token() };
            let text = token.encode(&question());
            assert_eq!(Token::decode(&text, &question(), &range()), Ok(token));
            let others = [
                pb::ListRequest { kind: "Nod".into(), namespace: "e".into(), ..question() },
                pb::ListRequest { label_selector: "a=c".into(), ..question() },
                pb::ListRequest { label_selector: "".into(), field_selector: "a=b".into(), ..question() },
            ];
            for other in others {
                let refusal = Token::decode(&text, &other, &range()).expect_err("another request");
                assert_eq!(refusal.reason(), Reason::Invalid);
            }
            // How much of each object, and how many, may change between pages.
            let wider = pb::ListRequest { limit: 9, metadata_only: true, ..question() };
            assert!(Token::decode(&text, &wider, &range()).is_ok());
        }
    }

    #[test]
    fn a_token_that_is_made_up_leads_nowhere_else() {
        for last in
            ["", "/", "/setpoint.v1/Node", "/setpoint.v1/Job/a/b", "/setpoint.v1/Zone//a", "/setpoint.hold/a"]
        {
            let made_up = Token { last: last.into(), ..token() };
            let read = Token::decode(&made_up.encode(&question()), &question(), &range());
            assert_eq!(read.expect_err(last).reason(), Reason::Invalid);
        }
        for revision in [0, u64::MAX] {
            let made_up = Token { revision: Revision::new(revision), ..token() };
            assert!(
                Token::decode(&made_up.encode(&question()), &question(), &range()).is_err(),
                "{revision}"
            );
        }
    }

    proptest! {
        #[test]
        fn whatever_is_no_token_is_refused(text in ".{0,80}", place in 0usize..80, digit in "[0-9a-f]") {
            prop_assert!(Token::decode(&text, &question(), &range()).is_err());
            let good = token().encode(&question());
            let place = place % good.len();
            let damaged = format!("{}{digit}{}", &good[..place], &good[place + 1..]);
            if damaged != good {
                prop_assert!(Token::decode(&damaged, &question(), &range()).is_err());
            }
            prop_assert!(Token::decode(&good[..place], &question(), &range()).is_err());
        }
    }
}
