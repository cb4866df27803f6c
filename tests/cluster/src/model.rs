//! The state at every revision, folded from a log of changes.

use std::collections::BTreeMap;

use crate::history::{Keys, Version};

/// One change as a watch shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub revision: i64,
    pub deleted: bool,
    pub now: Version,
}

/// Every version of every key.
#[derive(Default)]
pub struct Model {
    keys: BTreeMap<String, Vec<(i64, Option<Version>)>>,
}

impl Model {
    /// Folds the log. The second value lists what does not follow from what was before it.
    pub fn fold(log: &[Change]) -> (Self, Vec<String>) {
        let (mut model, mut problems) = (Self::default(), Vec::new());
        for change in log {
            let before = model.version(&change.now.key, change.revision);
            let expected = match (&before, change.deleted) {
                (None, true) => None,
                (Some(_), true) => Some((0, 0)),
                (None, false) => Some((change.revision, 1)),
                (Some(before), false) => Some((before.created, before.version + 1)),
            };
            if expected != Some((change.now.created, change.now.version))
                || change.now.modified != change.revision
            {
                problems.push(format!("{change:?} does not follow from {before:?}"));
            }
            let now = (!change.deleted).then(|| change.now.clone());
            model.keys.entry(change.now.key.clone()).or_default().push((change.revision, now));
        }
        (model, problems)
    }

    /// The version of a key at a revision, if it exists there.
    pub fn version(&self, key: &str, revision: i64) -> Option<Version> {
        let versions = self.keys.get(key)?;
        let known = versions.partition_point(|(at, _)| *at <= revision);
        versions[..known].last()?.1.clone()
    }

    pub fn at(&self, keys: &Keys, revision: i64) -> Vec<Version> {
        let matching = self.keys.keys().filter(|key| keys.contains(key));
        matching.filter_map(|key| self.version(key, revision)).collect()
    }
}
