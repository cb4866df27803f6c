//! What a request does, as roles name it.

use std::fmt;
use std::str::FromStr;

/// One per way to read or write an object.
///
/// A write inside a transaction needs its own verb, as it would alone. `transact` is for what only a transaction can do:
/// the limits and reservations of ledgers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Apply,
    Delete,
    Transact,
}

const ALL: [(Verb, &str); 9] = [
    (Verb::Get, "get"),
    (Verb::List, "list"),
    (Verb::Watch, "watch"),
    (Verb::Create, "create"),
    (Verb::Update, "update"),
    (Verb::Patch, "patch"),
    (Verb::Apply, "apply"),
    (Verb::Delete, "delete"),
    (Verb::Transact, "transact"),
];

impl Verb {
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.iter().map(|(verb, _)| *verb)
    }

    pub fn as_str(self) -> &'static str {
        ALL[self as usize].1
    }

    /// Whether it changes anything, and is therefore in the audit log.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no verb {0:?}")]
pub struct UnknownVerb(String);

impl FromStr for Verb {
    type Err = UnknownVerb;

    fn from_str(text: &str) -> Result<Self, UnknownVerb> {
        let found = ALL.iter().find(|(_, name)| *name == text);
        found.map(|(verb, _)| *verb).ok_or_else(|| UnknownVerb(text.to_owned()))
    }
}

/// Some of the verbs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerbSet(u16);

impl VerbSet {
    /// Reads the verbs of a rule, where `*` is all of them.
    pub fn parse(texts: &[String]) -> Result<Self, UnknownVerb> {
        let mut set = Self::default();
        for text in texts {
            if text == "*" {
                Verb::all().for_each(|verb| set.insert(verb));
            } else {
                set.insert(text.parse()?);
            }
        }
        Ok(set)
    }

    fn insert(&mut self, verb: Verb) {
        self.0 |= 1 << verb as u16;
    }

    pub fn contains(self, verb: Verb) -> bool {
        self.0 & (1 << verb as u16) != 0
    }

    pub fn iter(self) -> impl Iterator<Item = Verb> {
        Verb::all().filter(move |verb| self.contains(*verb))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_read_as_it_is_written() {
        for verb in Verb::all() {
            assert_eq!(verb.as_str().parse(), Ok(verb));
        }
        assert!("Get".parse::<Verb>().is_err());
        let all = VerbSet::parse(&["*".to_owned()]).expect("a set");
        assert_eq!(all.iter().count(), 9);
        assert_eq!(VerbSet::default().iter().count(), 0);
    }
}
