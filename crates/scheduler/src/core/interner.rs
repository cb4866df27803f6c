//! Names as small numbers, so that what is compared a million times is compared as numbers.
//!
//! A name keeps its number for good. What is interned here are names that people give to kinds of things: resources, zones, keys of
//! labels and their values as places. There are few of them, and they are never given back.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Names in the order they came.
#[derive(Clone, Debug, Default)]
pub struct Interner {
    ids: BTreeMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
}

impl Interner {
    pub fn with(names: &[&str]) -> Self {
        let mut interner = Self::default();
        for name in names {
            interner.intern(name);
        }
        interner
    }

    pub fn intern(&mut self, name: &str) -> u32 {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = self.names.len() as u32;
        let name: Arc<str> = name.into();
        self.names.push(name.clone());
        self.ids.insert(name, id);
        id
    }

    pub fn get(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }

    /// Empty for a number that was never given.
    pub fn name(&self, id: u32) -> &str {
        self.names.get(id as usize).map_or("", |name| name)
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}
