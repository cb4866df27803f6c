//! Indexes: finding objects by something in them.

use std::sync::Arc;

use setpoint_types::FieldProblem;

use super::Key;
use super::entry::Entry;
use super::pages::Pages;

/// Reads the values out of an object under which it is found. Run once per change, while the cache takes it in.
type Values = dyn Fn(&Entry) -> Result<Vec<String>, FieldProblem> + Send + Sync;

/// How objects are found: a name, and a function from an object to the values under which it is found.
///
/// **Assumes** that the function depends on nothing but the object, and is quick: at a hundred thousand objects it delays the
/// first state. What it costs is what it reads: nothing for [`Entry::key`], about a microsecond for metadata, more for JSON.
///
/// **Guarantees**: an object whose values cannot be read is found under none, and counted
/// ([`crate::informer::Stats::unreadable`]).
#[derive(Clone)]
pub struct Index {
    name: &'static str,
    values: Arc<Values>,
}

impl Index {
    /// Two indexes of one name must be the same function: where a cache has one of that name, the second is not added.
    pub fn new(
        name: &'static str,
        values: impl Fn(&Entry) -> Result<Vec<String>, FieldProblem> + Send + Sync + 'static,
    ) -> Self {
        Self { name, values: Arc::new(values) }
    }

    /// By the uid of each owner: the parts of an object.
    pub fn owner() -> Self {
        Self::new("owner", |entry| {
            let owners = entry.metadata()?.owners;
            Ok(owners.into_iter().map(|owner| owner.uid.as_str().to_owned()).collect())
        })
    }

    /// By the value of a label. `name` is that of the index.
    pub fn label(name: &'static str, label: &'static str) -> Self {
        Self::new(name, move |entry| Ok(entry.metadata()?.labels.remove(label).into_iter().collect()))
    }

    /// By something in the spec, as JSON: `/node`, `/zone` (RFC 6901). Texts are found as they are, all else by its JSON.
    pub fn spec(name: &'static str, pointer: &'static str) -> Self {
        Self::new(name, move |entry| {
            let spec: serde_json::Value = entry.parts()?.spec()?;
            Ok(match spec.pointer(pointer) {
                None | Some(serde_json::Value::Null) => Vec::new(),
                Some(serde_json::Value::String(text)) => vec![text.clone()],
                Some(other) => vec![other.to_string()],
            })
        })
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Each value once.
    pub(super) fn values(&self, entry: &Entry) -> Result<Vec<String>, FieldProblem> {
        let mut values = (self.values)(entry)?;
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }
}

/// An index with what it has found.
#[derive(Clone)]
pub(super) struct Postings {
    pub index: Index,
    /// In the order of the values, and of the keys within.
    found: Pages<(Arc<str>, Key), ()>,
}

impl Postings {
    pub fn new(index: Index) -> Self {
        Self { index, found: Pages::default() }
    }

    pub fn clear(&mut self) {
        self.found = Pages::default();
    }

    /// One object changed. False if either state of it cannot be read.
    pub fn change(&mut self, before: Option<&Entry>, after: Option<&Entry>) -> bool {
        let values = |entry: Option<&Entry>| entry.map_or(Ok(Vec::new()), |entry| self.index.values(entry));
        let (old, new) = (values(before), values(after));
        let readable = old.is_ok() && new.is_ok();
        let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
        let posting = |value: &String, entry: &Entry| (Arc::from(value.as_str()), entry.key().clone());
        if let Some(before) = before {
            for value in old.iter().filter(|value| !new.contains(value)) {
                self.found.remove(&posting(value, before));
            }
        }
        if let Some(after) = after {
            for value in new.iter().filter(|value| !old.contains(value)) {
                self.found.insert(posting(value, after), ());
            }
        }
        readable
    }

    /// The keys found under a value, in order.
    pub fn keys(&self, value: &str) -> impl Iterator<Item = &Key> {
        let value: Arc<str> = value.into();
        let from = (value.clone(), Key::new("", ""));
        // The least key is "/", and every key has the slash; so nothing of the value is before it but namespaces below
        // '/', which none has: a name begins with a letter or digit.
        self.found
            .range_from(&from)
            .map(|((found, key), ())| (found, key))
            .take_while(move |(found, _)| **found == value)
            .map(|(_, key)| key)
    }
}
