//! Who asks: certificates, headers, and the file of tokens.

use std::sync::LazyLock;

use http::{HeaderMap, HeaderName, HeaderValue};
use setpoint_access::{
    Authenticator, Minted, Principal, TOKEN_ENTROPY_BYTES, TokenFile, TokenRecord, TokenTable,
};
use setpoint_types::Timestamp;

use crate::input::Input;

const NOW: Timestamp = Timestamp(1_800_000_000_000);

static MINTED: LazyLock<Minted> = LazyLock::new(|| {
    let expires = Timestamp(NOW.0 + 1000);
    Minted::new(&[7; TOKEN_ENTROPY_BYTES], "ci", &[], expires).expect("a name that fits")
});

static AUTHENTICATOR: LazyLock<Authenticator> = LazyLock::new(|| {
    Authenticator::new(TokenTable::new(std::slice::from_ref(&MINTED.record)).expect("one token"))
});

/// Whoever a certificate names has a name in plain text (A6).
pub fn certificate(data: &[u8]) {
    let mut input = Input::new(data);
    let now = if input.flag() { NOW } else { Timestamp(input.number()) };
    if let Ok(proof) = AUTHENTICATOR.identify(Some(input.rest()), &HeaderMap::new(), now) {
        check_plain(&proof.principal);
    }
}

/// Headers name nobody but the owner of the one token there is.
pub fn credentials(data: &[u8]) {
    let mut input = Input::new(data);
    let mut headers = HeaderMap::new();
    let mut shown = false;
    for _ in 0..input.roll(4) {
        let name = if input.flag() { "authorization" } else { "token" };
        let value = input.part();
        shown |= value.windows(MINTED.text().len()).any(|window| window == MINTED.text().as_bytes());
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(HeaderName::from_static(name), value);
        }
    }
    if let Ok(Proof { principal, .. }) = AUTHENTICATOR.identify(None, &headers, NOW) {
        check_plain(&principal);
        assert!(shown || principal == Principal::anonymous(), "{headers:?} is {principal:?}");
    }
}

fn check_plain(principal: &Principal) {
    let name = principal.as_str();
    assert!(!name.is_empty() && !name.chars().any(char::is_control), "{name:?}");
}

/// A file of tokens is refused, or can be added to without losing a token.
pub fn token_file(data: &[u8]) {
    static FOLDER: LazyLock<tempfile::TempDir> =
        LazyLock::new(|| tempfile::tempdir().expect("a temporary folder"));
    let path = FOLDER.path().join("tokens");
    std::fs::write(&path, data).expect("written");
    let file = TokenFile::new(&path);
    let _ = file.table();
    let Ok(records) = file.records() else { return };
    for record in &records {
        let written = serde_json::to_string(record).expect("records are JSON");
        let again: TokenRecord = serde_json::from_str(&written).expect("what was written");
        // Written in whole seconds.
        let whole = Timestamp(record.expires.0 / 1000 * 1000);
        assert_eq!(again, TokenRecord { expires: whole, ..record.clone() });
    }
    file.add(&MINTED.record).expect("added");
    let added = file.records().expect("what was written");
    assert_eq!(added.split_last(), Some((&MINTED.record, &records[..])));
}
