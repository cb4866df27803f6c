//! The token in a request's headers, if there is one.
//!
//! Two places: `authorization: Bearer TOKEN`, and `token: TOKEN`, where etcd's clients put theirs. More than one token
//! in a request is refused: whoever stands between us and the client may take another one for the one that counts.

use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderValue};

/// What etcd's clients name it.
const ETCD_TOKEN: &str = "token";
const SCHEME: &str = "bearer";

/// The headers carry a credential that nobody can check.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BearerProblem {
    #[error("the request carries several credentials; send one")]
    Several,
    #[error("the authorization header is not `Bearer TOKEN`")]
    NotBearer,
}

/// The token, as it was sent.
pub fn token(headers: &HeaderMap) -> Result<Option<&str>, BearerProblem> {
    let mut found = headers
        .get_all(AUTHORIZATION)
        .iter()
        .map(bearer)
        .chain(headers.get_all(ETCD_TOKEN).iter().map(|value| value.to_str().ok()));
    let Some(first) = found.next() else { return Ok(None) };
    if found.next().is_some() {
        return Err(BearerProblem::Several);
    }
    first.map(Some).ok_or(BearerProblem::NotBearer)
}

fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case(SCHEME).then_some(token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&'static str, &[u8])], expected: Result<Option<&str>, BearerProblem>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_bytes(value).expect("a header"));
        }
        assert_eq!(token(&map), expected, "{headers:?}");
    }

    #[test]
    fn one_token_is_found_and_anything_else_is_refused() {
        check(&[], Ok(None));
        check(&[("authorization", b"Bearer abc")], Ok(Some("abc")));
        check(&[("authorization", b"bEARER  abc ")], Ok(Some("abc")));
        check(&[("token", b"abc")], Ok(Some("abc")));
        check(&[("authorization", b"Basic abc")], Err(BearerProblem::NotBearer));
        check(&[("authorization", b"abc")], Err(BearerProblem::NotBearer));
        check(&[("authorization", b"")], Err(BearerProblem::NotBearer));
        check(&[("authorization", b"Bearer \xff\xfe")], Err(BearerProblem::NotBearer));
        check(&[("token", b"\xff")], Err(BearerProblem::NotBearer));
        check(&[("authorization", b"Bearer a"), ("authorization", b"Bearer a")], Err(BearerProblem::Several));
        check(&[("authorization", b"Bearer a"), ("token", b"a")], Err(BearerProblem::Several));
    }
}
