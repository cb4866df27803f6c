//! Label selectors: `app=web,tier in (a,b),!legacy`.
//!
//! The language is that of Kubernetes: `=`, `==`, `!=`, `in`, `notin`, a key alone for "has it", `!` and a key for "has it
//! not". All requirements must hold. `!=` and `notin` also match where the key is missing.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::SelectorError;
use super::scanner::Scanner;
use crate::names::{check_label_key, check_label_value};

/// Requirements that must all hold. Without any it matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
}

/// What one label must be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelRequirement {
    pub key: String,
    pub operator: LabelOperator,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LabelOperator {
    Equals(String),
    /// Also where the key is missing.
    NotEquals(String),
    /// Never without values.
    In(BTreeSet<String>),
    /// Also where the key is missing. Never without values.
    NotIn(BTreeSet<String>),
    Exists,
    NotExists,
}

impl LabelSelector {
    /// Matches everything.
    pub const fn everything() -> Self {
        Self { requirements: Vec::new() }
    }

    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut scanner = Scanner::new(text)?;
        let mut requirements = Vec::new();
        scanner.skip_spaces();
        if scanner.peek().is_none() {
            return Ok(Self::everything());
        }
        loop {
            requirements.push(parse_requirement(&mut scanner)?);
            scanner.skip_spaces();
            if scanner.peek().is_none() {
                return Ok(Self { requirements });
            }
            if !scanner.take(",") {
                return Err(scanner.error(format!("expected `,` or the end, found {}", scanner.found())));
            }
        }
    }

    /// What must hold; an index may look for one it can answer.
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches_with(|key| labels.get(key).map(String::as_str))
    }

    /// For labels that are not in a `BTreeMap`.
    pub fn matches_with<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(value_of(&requirement.key)))
    }
}

impl LabelRequirement {
    /// Whether it holds for a label's value, or for its absence.
    pub fn matches(&self, value: Option<&str>) -> bool {
        match &self.operator {
            LabelOperator::Equals(wanted) => value == Some(wanted),
            LabelOperator::NotEquals(unwanted) => value != Some(unwanted),
            LabelOperator::In(wanted) => value.is_some_and(|value| wanted.contains(value)),
            LabelOperator::NotIn(unwanted) => value.is_none_or(|value| !unwanted.contains(value)),
            LabelOperator::Exists => value.is_some(),
            LabelOperator::NotExists => value.is_none(),
        }
    }
}

fn parse_requirement(scanner: &mut Scanner<'_>) -> Result<LabelRequirement, SelectorError> {
    scanner.skip_spaces();
    let negated = scanner.take("!");
    scanner.skip_spaces();
    let key = parse_key(scanner)?;
    if negated {
        return Ok(LabelRequirement { key, operator: LabelOperator::NotExists });
    }
    scanner.skip_spaces();
    let operator = match scanner.peek() {
        None | Some(',') => LabelOperator::Exists,
        Some('=') => {
            // Both spellings mean the same.
            let _ = scanner.take("==") || scanner.take("=");
            LabelOperator::Equals(parse_value(scanner)?)
        }
        Some('!') if scanner.take("!=") => LabelOperator::NotEquals(parse_value(scanner)?),
        _ => parse_set_operator(scanner)?,
    };
    Ok(LabelRequirement { key, operator })
}

fn parse_set_operator(scanner: &mut Scanner<'_>) -> Result<LabelOperator, SelectorError> {
    let at = scanner.at();
    match scanner.take_while(|letter| letter.is_ascii_alphabetic()) {
        "in" => Ok(LabelOperator::In(parse_values(scanner)?)),
        "notin" => Ok(LabelOperator::NotIn(parse_values(scanner)?)),
        _ => {
            let message = "expected `=`, `==`, `!=`, `in`, `notin`, `,` or the end after the key";
            Err(scanner.error_at(at, message))
        }
    }
}

fn parse_values(scanner: &mut Scanner<'_>) -> Result<BTreeSet<String>, SelectorError> {
    scanner.skip_spaces();
    if !scanner.take("(") {
        return Err(scanner.error(format!("expected `(` and values, found {}", scanner.found())));
    }
    let mut values = BTreeSet::new();
    loop {
        values.insert(parse_value(scanner)?);
        scanner.skip_spaces();
        if scanner.take(")") {
            return Ok(values);
        }
        if !scanner.take(",") {
            return Err(scanner.error(format!("expected `,` or `)`, found {}", scanner.found())));
        }
    }
}

fn parse_key(scanner: &mut Scanner<'_>) -> Result<String, SelectorError> {
    let at = scanner.at();
    let key = scanner.take_while(|letter| is_word(letter) || letter == '/');
    match (key, check_label_key(key)) {
        ("", _) => Err(scanner.error_at(at, format!("expected a label's key, found {}", scanner.found()))),
        (_, Err(message)) => Err(scanner.error_at(at, format!("the key `{key}` {message}"))),
        (_, Ok(())) => Ok(key.to_owned()),
    }
}

fn parse_value(scanner: &mut Scanner<'_>) -> Result<String, SelectorError> {
    scanner.skip_spaces();
    let at = scanner.at();
    let value = scanner.take_while(is_word);
    check_label_value(value)
        .map_err(|message| scanner.error_at(at, format!("the value `{value}` {message}")))?;
    Ok(value.to_owned())
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.')
}

impl FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        Self::parse(text)
    }
}

impl fmt::Display for LabelSelector {
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

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let list =
            |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        match &self.operator {
            LabelOperator::Equals(value) => write!(f, "{key}={value}"),
            LabelOperator::NotEquals(value) => write!(f, "{key}!={value}"),
            LabelOperator::In(values) => write!(f, "{key} in ({})", list(values)),
            LabelOperator::NotIn(values) => write!(f, "{key} notin ({})", list(values)),
            LabelOperator::Exists => f.write_str(key),
            LabelOperator::NotExists => write!(f, "!{key}"),
        }
    }
}

impl Serialize for LabelSelector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LabelSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for LabelSelector {
    fn schema_name() -> Cow<'static, str> {
        "LabelSelector".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "label-selector"})
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(selector: &str, matching: &[&str], others: &[&str]) {
        let selector = LabelSelector::parse(selector).unwrap();
        let labels = |text: &&str| -> BTreeMap<String, String> {
            let pairs = text.split_whitespace().map(|pair| pair.split_once('=').unwrap());
            pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
        };
        for text in matching {
            assert!(selector.matches(&labels(text)), "{selector} should match {text:?}");
        }
        for text in others {
            assert!(!selector.matches(&labels(text)), "{selector} should not match {text:?}");
        }
    }

    #[test]
    fn each_operator_means_what_it_means_in_kubernetes() {
        check("", &["", "a=1"], &[]);
        check("a=1", &["a=1", "a=1 b=2"], &["", "a=2", "b=1"]);
        check("a==1", &["a=1"], &["a=2"]);
        check("a=", &["a="], &["", "a=1"]);
        check("a!=1", &["", "a=2"], &["a=1"]);
        check("a in (1,2)", &["a=1", "a=2"], &["", "a=3"]);
        check("a in ()", &["a="], &["", "a=1"]);
        check("a notin (1,2)", &["", "a=3"], &["a=1", "a=2"]);
        check("a", &["a=", "a=1"], &["", "b=1"]);
        check("!a", &["", "b=1"], &["a=", "a=1"]);
        check(" e.com/a = 1 , ! b,in in ( x , y ) ", &["e.com/a=1 in=y"], &["e.com/a=1 in=y b=", "in=y"]);
    }

    #[test]
    fn errors_name_the_position() {
        for (text, position, word) in [
            (",", 1, "key"),
            ("a,", 3, "key"),
            ("a=1,,b", 5, "key"),
            ("a=1 b", 5, "`,`"),
            ("a ! b", 3, "expected"),
            ("a on (1)", 3, "`notin`"),
            ("a in 1", 6, "`(`"),
            ("a in (1", 8, "the end"),
            ("a in (1 2)", 9, "`)`"),
            ("a/b/c=1", 1, "key"),
            ("ab=-x", 4, "-x"),
            ("ä=1", 1, "key"),
            ("a=ä", 3, "`,`"),
            ("!a=1", 3, "`,`"),
        ] {
            let error = LabelSelector::parse(text).unwrap_err();
            assert_eq!(error.position, position, "{text:?}: {error}");
            assert!(error.message.contains(word), "{text:?}: {error}");
        }
        assert!(LabelSelector::parse(&"a,".repeat(100_000)).is_err());
    }

    #[test]
    fn in_json_a_selector_is_its_text() {
        let selector: LabelSelector = serde_json::from_str(r#""a == 1, b""#).unwrap();
        assert_eq!(serde_json::to_string(&selector).unwrap(), r#""a=1,b""#);
        assert!(serde_json::from_str::<LabelSelector>(r#""a ~ 1""#).is_err());
    }

    fn requirements() -> impl Strategy<Value = LabelRequirement> {
        let key = "([a-z]{1,5}(\\.[a-z]{1,3})?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,6}[A-Za-z0-9])?";
        let value = || "([A-Za-z0-9]([A-Za-z0-9_.-]{0,6}[A-Za-z0-9])?)?";
        let values = || proptest::collection::btree_set(value(), 1..4);
        let operator = prop_oneof![
            value().prop_map(LabelOperator::Equals),
            value().prop_map(LabelOperator::NotEquals),
            values().prop_map(LabelOperator::In),
            values().prop_map(LabelOperator::NotIn),
            Just(LabelOperator::Exists),
            Just(LabelOperator::NotExists),
        ];
        (key, operator).prop_map(|(key, operator)| LabelRequirement { key, operator })
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(requirements in proptest::collection::vec(requirements(), 0..5)) {
            let selector = LabelSelector { requirements };
            prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
        }

        #[test]
        fn no_text_is_too_strange_to_be_read_or_refused(text in "[ab=!(), nti/ä.-]{0,24}") {
            if let Ok(selector) = LabelSelector::parse(&text) {
                prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
            }
        }
    }
}
