//! Field selectors: `metadata.name=a,status.stage!=ready`.
//!
//! Only fields a kind declares can be named, because only those can be indexed. A value contains anything; `\` before `,`,
//! `=`, a space or `\` takes away its meaning. A missing field is compared as the empty text.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use super::SelectorError;
use super::scanner::Scanner;
use crate::object::Object;

/// What can be named for every kind.
const ALWAYS: [&str; 2] = ["metadata.name", "metadata.namespace"];

/// Requirements that must all hold. Without any it matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// What one field must be, or must not be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldRequirement {
    /// As the kind declares it: `status.stage`.
    pub field: String,
    /// False for `!=`.
    pub equals: bool,
    pub value: String,
}

impl FieldSelector {
    /// Matches everything.
    pub const fn everything() -> Self {
        Self { requirements: Vec::new() }
    }

    /// `declared` are the selectable fields of the kind.
    pub fn parse<T: AsRef<str>>(text: &str, declared: &[T]) -> Result<Self, SelectorError> {
        let mut scanner = Scanner::new(text)?;
        let mut requirements = Vec::new();
        scanner.skip_spaces();
        if scanner.peek().is_none() {
            return Ok(Self::everything());
        }
        loop {
            requirements.push(parse_requirement(&mut scanner, declared)?);
            if !scanner.take(",") {
                return Ok(Self { requirements });
            }
        }
    }

    /// What must hold; an index may look for one it can answer.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    pub fn matches(&self, object: &Object) -> bool {
        self.matches_with(|field| field_text(object, field))
    }

    /// For objects in another form. `text_of` returns a field's text, empty if it is missing.
    pub fn matches_with<'a>(&self, text_of: impl Fn(&str) -> Cow<'a, str>) -> bool {
        self.requirements.iter().all(|wanted| (text_of(&wanted.field) == wanted.value) == wanted.equals)
    }
}

/// A field of an object as selectors compare it: text as it is, numbers and truth as JSON, anything else as empty.
pub fn field_text<'a>(object: &'a Object, field: &str) -> Cow<'a, str> {
    let mut parts = field.split('.');
    let mut value = match (parts.next(), field) {
        (_, "metadata.name") => return object.metadata.name.as_str().into(),
        (_, "metadata.namespace") => return object.metadata.namespace.as_str().into(),
        (Some("spec"), _) => &object.spec,
        (Some("status"), _) => &object.status,
        _ => return "".into(),
    };
    for part in parts {
        match value.get(part) {
            Some(inner) => value = inner,
            None => return "".into(),
        }
    }
    match value {
        Value::String(text) => text.as_str().into(),
        Value::Number(number) => number.to_string().into(),
        Value::Bool(truth) => truth.to_string().into(),
        Value::Null | Value::Array(_) | Value::Object(_) => "".into(),
    }
}

fn parse_requirement<T: AsRef<str>>(
    scanner: &mut Scanner<'_>,
    declared: &[T],
) -> Result<FieldRequirement, SelectorError> {
    scanner.skip_spaces();
    let at = scanner.at();
    let field = scanner
        .take_while(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-' | '/'));
    if field.is_empty() {
        return Err(scanner.error(format!("expected a field, found {}", scanner.found())));
    }
    let mut known = ALWAYS.into_iter().chain(declared.iter().map(AsRef::as_ref));
    if !known.any(|known| known == field) {
        let known: Vec<&str> = ALWAYS.into_iter().chain(declared.iter().map(AsRef::as_ref)).collect();
        let message = format!("`{field}` cannot be selected by, only {}", known.join(", "));
        return Err(scanner.error_at(at, message));
    }
    scanner.skip_spaces();
    let equals = match () {
        () if scanner.take("!=") => false,
        () if scanner.take("==") || scanner.take("=") => true,
        () => {
            return Err(scanner.error(format!("expected `=`, `==` or `!=`, found {}", scanner.found())));
        }
    };
    let value = parse_value(scanner)?;
    Ok(FieldRequirement { field: field.to_owned(), equals, value })
}

/// Up to a comma or the end. Spaces around it do not belong to it, unless they are escaped.
fn parse_value(scanner: &mut Scanner<'_>) -> Result<String, SelectorError> {
    scanner.skip_spaces();
    let mut value = String::new();
    let mut kept = 0;
    while let Some(letter) = scanner.peek() {
        match letter {
            ',' => break,
            '=' => return Err(scanner.error("a `=` inside a value is written `\\=`")),
            _ => {}
        }
        let at = scanner.at();
        scanner.bump();
        if letter == '\\' {
            match scanner.bump() {
                Some(escaped @ (',' | '=' | '\\' | ' ')) => value.push(escaped),
                _ => return Err(scanner.error_at(at, "expected `,`, `=`, a space or `\\` after `\\`")),
            }
            kept = value.len();
        } else {
            value.push(letter);
            if letter != ' ' {
                kept = value.len();
            }
        }
    }
    value.truncate(kept);
    Ok(value)
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for FieldRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.field, if self.equals { "=" } else { "!=" })?;
        let last = self.value.chars().count().saturating_sub(1);
        for (index, letter) in self.value.chars().enumerate() {
            let at_an_end = index == 0 || index == last;
            if matches!(letter, ',' | '=' | '\\') || (letter == ' ' && at_an_end) {
                f.write_str("\\")?;
            }
            write!(f, "{letter}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const DECLARED: &[&str] = &["spec.node", "spec.count", "status.stage", "status.done"];

    fn object() -> Object {
        let mut object = Object::new("Replica", "default", "web-1");
        object.spec = json!({"node": "n1", "count": 3, "list": []});
        object.status = json!({"done": true});
        object
    }

    #[test]
    fn declared_fields_are_compared_as_text() {
        for (text, expected) in [
            ("", true),
            ("metadata.name=web-1,metadata.namespace == default", true),
            ("metadata.name!=web-1", false),
            ("spec.node = n1", true),
            ("spec.count=3,status.done=true", true),
            ("spec.count!=3", false),
            ("status.stage=", true),
            ("status.stage!=ready", true),
            ("status.stage=ready", false),
        ] {
            let selector = FieldSelector::parse(text, DECLARED).unwrap();
            assert_eq!(selector.matches(&object()), expected, "{text:?}");
        }
    }

    #[test]
    fn errors_name_the_position() {
        for (text, position, word) in [
            ("=a", 1, "field"),
            ("spec.node=a,", 13, "field"),
            ("spec.node=a,spec.list=b", 13, "only metadata.name"),
            ("spec.node", 10, "`!=`"),
            ("spec.node in (a)", 11, "`!=`"),
            ("spec.node=a=b", 12, "inside"),
            ("spec.node=a\\b", 12, "after"),
            ("spec.node=a\\", 12, "after"),
        ] {
            let error = FieldSelector::parse(text, DECLARED).unwrap_err();
            assert_eq!(error.position, position, "{text:?}: {error}");
            assert!(error.message.contains(word), "{text:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(
            pairs in proptest::collection::vec((0..4usize, any::<bool>(), "[ab ,=\\\\ä!]{0,5}"), 0..4),
        ) {
            let requirements = pairs.into_iter().map(|(index, equals, value)| FieldRequirement {
                field: DECLARED[index].to_owned(),
                equals,
                value,
            });
            let selector = FieldSelector { requirements: requirements.collect() };
            prop_assert_eq!(FieldSelector::parse(&selector.to_string(), DECLARED), Ok(selector));
        }
    }
}
