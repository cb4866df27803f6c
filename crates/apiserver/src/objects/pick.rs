//! Taking a few fields out of JSON without building the rest of it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Where the wanted fields lie, below one object: `nodeName`, `template.priority`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picks {
    /// The place of this field among all that are wanted.
    wanted: Option<usize>,
    /// The name as it stands in JSON, with its quotes.
    quoted: String,
    below: BTreeMap<String, Picks>,
}

impl Picks {
    /// Adds a path; what is found there is put down at `place`.
    pub fn add(&mut self, path: &str, place: usize) {
        let mut at = self;
        for name in path.split('.') {
            at = at.below.entry(name.to_owned()).or_default();
            at.quoted = serde_json::Value::from(name).to_string();
        }
        at.wanted = Some(place);
    }

    pub fn is_empty(&self) -> bool {
        self.wanted.is_none() && self.below.is_empty()
    }

    /// Puts each wanted value down as text. What is not there, is null, or is no single value stays as it is, and so does
    /// everything behind a place where the JSON cannot be read.
    pub fn pick<'v>(&self, json: &'v [u8], found: &mut [Option<Cow<'v, str>>]) {
        if !self.is_empty() && self.may_be_in(json) {
            let mut reader = serde_json::Deserializer::from_slice(json);
            let _ = Seed { picks: self, found }.deserialize(&mut reader);
        }
    }

    /// False if none of the names is there. Looking for a name costs a fraction of reading the JSON, and every change of every
    /// object is looked through. A name may be written with escapes, so where there is one it is read.
    fn may_be_in(&self, json: &[u8]) -> bool {
        json.contains(&b'\\') || std::str::from_utf8(json).map_or(true, |json| self.is_named_in(json))
    }

    fn is_named_in(&self, json: &str) -> bool {
        // The last name of a path is the one that is rare.
        let below =
            || self.below.values().any(|picks| picks.is_named_in(json) && json.contains(&picks.quoted));
        self.wanted.is_some() || below()
    }
}

struct Seed<'a, 'v> {
    picks: &'a Picks,
    found: &'a mut [Option<Cow<'v, str>>],
}

impl<'v> Seed<'_, 'v> {
    fn put(self, value: impl Into<Cow<'v, str>>) {
        if let Some(place) = self.picks.wanted
            && let Some(slot) = self.found.get_mut(place)
        {
            *slot = Some(value.into());
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            match self.picks.below.get(&*name) {
                Some(picks) => map.next_value_seed(Seed { picks, found: &mut *self.found })?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.put(value.to_string());
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.put(value.to_string());
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.put(value.to_string());
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        // Written as in JSON, whatever Rust makes of the number.
        if let Some(number) = serde_json::Number::from_f64(value) {
            self.put(number.to_string());
        }
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.put(value.to_owned());
        Ok(())
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<(), E> {
        self.put(value);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wanted_fields_are_found_at_any_depth_and_nothing_else_matters() {
        let mut picks = Picks::default();
        for (place, path) in ["a", "b.c", "b.d", "list", "none", "b"].iter().enumerate() {
            picks.add(path, place);
        }
        let found = |json: &str| {
            let mut found = vec![None; 6];
            picks.pick(json.as_bytes(), &mut found);
            found.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>().join("|")
        };
        assert_eq!(
            found(r#"{"a":"x","b":{"x":[{}],"c":true,"d":-2},"list":[1,{"a":3}],"none":null}"#),
            "x|true|-2|||"
        );
        assert_eq!(found(r#"{"b":"text","a":2.0}"#), "2.0|||||text");
        assert_eq!(found(r#"{"a":"q\"uote"}"#), "q\"uote|||||");
        assert_eq!(found(r#"{"\u0061":"escaped"}"#), "escaped|||||");
        assert_eq!(found(r#"{"c":1,"other":{"d":2}}"#), "|||||", "not where it should be");
        assert_eq!(found(r#"{"a":"kept","b":{"c":"#), "kept|||||");
        for nothing in ["", "[]", "7", "{", "\u{0}"] {
            assert_eq!(found(nothing), "|||||", "{nothing}");
        }
    }
}
