//! Where a list goes on.

use bytes::Bytes;
use setpoint_api::setpoint::v1 as pb;
use setpoint_apiserver::objects::key::{self, ObjectName};
use setpoint_apiserver::objects::token::Token;
use setpoint_types::{KeyRange, Revision};

use crate::input::Input;

/// A token says what it was made of, to its own request only; what no server made is refused.
pub fn continue_token(data: &[u8]) {
    let mut input = Input::new(data);
    let (revision, remaining) = (input.number(), input.flag().then(|| input.number() >> 1));
    let texts = [input.text(), input.text(), input.text()];
    let question = pb::ListRequest {
        kind: texts[0].to_owned(),
        namespace: texts[1].to_owned(),
        label_selector: texts[2].to_owned(),
        ..pb::ListRequest::default()
    };
    let last = input.rest().to_vec();
    let everything = KeyRange::From(Bytes::new());
    if let Ok(text) = std::str::from_utf8(&last)
        && let Ok(read) = Token::decode(text, &question, &everything)
    {
        assert_eq!(read.encode(&question), text.to_lowercase());
    }
    let token = Token { revision: Revision::new(revision), last, remaining };
    let text = token.encode(&question);
    match Token::decode(&text, &question, &everything) {
        Ok(read) => assert_eq!(read, token),
        Err(_) => assert!(revision == 0 || revision > Revision::MAX.get(), "{token:?}"),
    }
    let other = pb::ListRequest { kind: format!("{}x", question.kind), ..question };
    assert!(Token::decode(&text, &other, &everything).is_err(), "it fits another kind");
    // Nobody gets out of the range of a list, and what lies behind a key of it is of it.
    let range = key::of_kind("Thing");
    let question = pb::ListRequest { kind: "Thing".to_owned(), ..pb::ListRequest::default() };
    if Token::decode(&token.encode(&question), &question, &range).is_ok() {
        assert!(range.contains(&token.last));
        let rest = key::after(range.clone(), &token.last);
        assert!(rest.start() > &token.last[..] && rest.end() == range.end());
    }
    if let Some((kind, within)) = ObjectName::within_kind(&token.last) {
        assert!(token.last.ends_with(format!("{kind}/{within}").as_bytes()));
    }
}
