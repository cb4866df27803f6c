//! Who asks: certificates and tokens as they are shown, and bytes that are neither.

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use rcgen::string::BmpString;
use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair, date_time_ymd};
use setpoint_access::pki::{Authority, Usage};
use setpoint_access::{
    ADMINS, Authenticator, CertificateProblem, Minted, Principal, Refusal, TOKEN_ENTROPY_BYTES, TokenRefusal,
    TokenTable,
};
use setpoint_types::Timestamp;

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

fn der(pem: &str) -> Vec<u8> {
    x509_parser::pem::parse_x509_pem(pem.as_bytes()).expect("a certificate").1.contents
}

fn signed(name: &str, group: Option<&str>) -> Vec<u8> {
    let (authority, _) = Authority::create("test", NOW).expect("an authority");
    der(&authority.issue(name, Usage::Client { group }, NOW).expect("a certificate").certificate)
}

/// A certificate whose subject has exactly these parts.
fn with_subject(parts: Vec<(DnType, DnValue)>) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.not_before = date_time_ymd(2020, 1, 1);
    let mut subject = DistinguishedName::new();
    parts.into_iter().for_each(|(kind, value)| subject.push(kind, value));
    params.distinguished_name = subject;
    params.self_signed(&KeyPair::generate().expect("a key")).expect("signed").der().to_vec()
}

fn authenticator() -> (Authenticator, String) {
    let expires = Timestamp(NOW.0 + DAY_MS);
    let minted = Minted::new(&[7; TOKEN_ENTROPY_BYTES], "ci", &["deployers".to_owned()], expires);
    let minted = minted.expect("a name that fits");
    let table = TokenTable::new(std::slice::from_ref(&minted.record)).expect("one token");
    (Authenticator::new(table), minted.text().to_owned())
}

fn bearing(token: &str) -> HeaderMap {
    let value = HeaderValue::from_str(&format!("Bearer {token}")).expect("a header");
    HeaderMap::from_iter([(http::header::AUTHORIZATION, value)])
}

fn by_certificate(leaf: &[u8], now: Timestamp) -> Result<Principal, Refusal> {
    authenticator().0.identify(Some(leaf), &HeaderMap::new(), now).map(|proof| proof.principal)
}

#[test]
fn a_certificates_common_name_is_the_user_and_its_organizations_are_the_groups() {
    let jane = by_certificate(&signed("jane", Some(ADMINS)), NOW).expect("identified");
    assert_eq!(jane.as_str(), "user:jane");
    assert!(jane.is_in(ADMINS));
    let organization = DnType::CustomDnType(vec![2, 5, 4, 10]);
    let two = with_subject(vec![
        (DnType::CommonName, "jane".into()),
        (DnType::OrganizationName, "a".into()),
        (organization, "b".into()),
    ]);
    let jane = by_certificate(&two, NOW).expect("identified");
    assert!(jane.is_in("a") && jane.is_in("b"), "{jane:?}");
}

#[test]
fn a_subject_that_is_not_plainly_somebody_is_refused() {
    let common_name = || DnType::CustomDnType(vec![2, 5, 4, 3]);
    let wide = BmpString::try_from("jane").expect("letters");
    for (parts, problem) in [
        (vec![], "CommonNames(0)"),
        (vec![(DnType::CommonName, "a".into()), (common_name(), "b".into())], "CommonNames(2)"),
        (vec![(DnType::CommonName, "".into())], "Name(NameLength)"),
        (vec![(DnType::CommonName, "a\0b".into())], "Name(NameCharacters)"),
        (vec![(DnType::CommonName, DnValue::BmpString(wide))], "NotText"),
        (
            vec![(DnType::CommonName, "a".into()), (DnType::OrganizationName, "setpoint:root".into())],
            r#"Name(ReservedGroup("setpoint:root"))"#,
        ),
    ] {
        let Err(Refusal::Certificate(found)) = by_certificate(&with_subject(parts), NOW) else {
            panic!("{problem}: was let in")
        };
        assert_eq!(format!("{found:?}"), problem);
    }
}

#[test]
fn a_certificate_counts_in_its_time_only_also_on_a_connection_that_outlives_it() {
    let leaf = signed("jane", None);
    let (authenticator, _) = authenticator();
    let at = |now| authenticator.identify(Some(&leaf), &HeaderMap::new(), now);
    assert!(at(NOW).is_ok());
    let refused = |problem| Err(Refusal::Certificate(problem));
    assert_eq!(at(Timestamp(NOW.0 - DAY_MS)), refused(CertificateProblem::NotYet));
    assert_eq!(at(Timestamp(NOW.0 + 366 * DAY_MS)), refused(CertificateProblem::Expired));
    assert!(at(NOW).is_ok());
}

#[test]
fn a_token_counts_before_a_certificate_and_a_wrong_one_before_none() {
    let (authenticator, token) = authenticator();
    let leaf = signed("jane", None);
    let ci = authenticator.identify(Some(&leaf), &bearing(&token), NOW).expect("identified");
    assert_eq!(ci.principal.as_str(), "user:ci");
    let anonymous = authenticator.identify(None, &HeaderMap::new(), NOW).expect("identified");
    assert_eq!(anonymous.principal, Principal::anonymous());

    let mut wrong = token.clone();
    let last = if wrong.pop() == Some('0') { '1' } else { '0' };
    wrong.push(last);
    let unknown = Err(Refusal::Token(TokenRefusal::Unknown));
    for text in
        [wrong.as_str(), "", "setpoint_", "setpoint__", &token[..token.len() - 1], &token.to_uppercase()]
    {
        assert_eq!(authenticator.identify(Some(&leaf), &bearing(text), NOW), unknown, "{text:?}");
    }
    authenticator.replace_tokens(TokenTable::default());
    assert_eq!(authenticator.identify(None, &bearing(&token), NOW), unknown);
}

#[test]
fn a_proof_is_good_until_it_expires_or_is_revoked() {
    let (authenticator, token) = authenticator();
    let leaf = signed("jane", None);
    let ci = authenticator.identify(None, &bearing(&token), NOW).expect("identified");
    let jane = authenticator.identify(Some(&leaf), &HeaderMap::new(), NOW).expect("identified");
    let nobody = authenticator.identify(None, &HeaderMap::new(), NOW).expect("identified");
    let later = Timestamp(NOW.0 + 366 * DAY_MS);
    for proof in [&ci, &jane, &nobody] {
        assert_eq!(authenticator.check(proof, NOW), Ok(()));
    }
    assert_eq!(authenticator.check(&ci, later), Err(Refusal::Token(TokenRefusal::Expired)));
    let expired = Err(Refusal::Certificate(CertificateProblem::Expired));
    assert_eq!(authenticator.check(&jane, later), expired);
    assert_eq!(authenticator.check(&nobody, later), Ok(()));
    authenticator.replace_tokens(TokenTable::default());
    assert_eq!(authenticator.check(&ci, NOW), Err(Refusal::Token(TokenRefusal::Unknown)));
    assert_eq!(authenticator.check(&jane, NOW), Ok(()));
}

#[test]
fn an_expired_token_is_told_apart_only_for_whoever_has_it() {
    let (authenticator, token) = authenticator();
    let later = Timestamp(NOW.0 + DAY_MS);
    let refused = |text: &str| authenticator.identify(None, &bearing(text), later).expect_err("refused");
    assert_eq!(refused(&token), Refusal::Token(TokenRefusal::Expired));
    assert_eq!(refused(&token.replace("07", "08")), Refusal::Token(TokenRefusal::Unknown));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn bytes_that_are_no_certificate_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        prop_assert!(by_certificate(&bytes, NOW).is_err());
    }

    /// A refusal or a name that is fit to be one: never a panic, never a name with anything strange in it.
    #[test]
    fn a_damaged_certificate_never_does_harm(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        shorten in any::<bool>(),
    ) {
        let mut leaf = FIXED.with(Vec::clone);
        for (place, byte) in damage {
            let place = place.index(leaf.len());
            leaf[place] = byte;
        }
        if shorten {
            leaf.truncate(cut.index(leaf.len()));
        }
        if let Ok(principal) = by_certificate(&leaf, NOW) {
            prop_assert!(!principal.as_str().chars().any(char::is_control));
        }
    }

    #[test]
    fn headers_of_any_bytes_never_do_harm(
        values in proptest::collection::vec((0..3_usize, proptest::collection::vec(any::<u8>(), 0..200)), 0..4)
    ) {
        let (authenticator, _) = authenticator();
        let mut headers = HeaderMap::new();
        for (name, value) in values {
            let name = HeaderName::from_static(["authorization", "token", "x-other"][name]);
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.append(name, value);
            }
        }
        let proved = authenticator.identify(None, &headers, NOW);
        let credentials = headers.contains_key("authorization") || headers.contains_key("token");
        prop_assert_eq!(proved.is_ok(), !credentials);
    }
}

thread_local! {
    /// Made once: keys take time.
    static FIXED: Vec<u8> = signed("jane", Some("deployers"));
}
