//! Which changes wake a controller at all.

use std::fmt;
use std::sync::Arc;

use setpoint_types::Metadata;

use crate::cache::{Delta, Entry};

/// Says whether a change is of interest. Cheap to clone.
///
/// **Assumes** that it depends on the change alone, and is quick: it is asked for every change of its source, by the task that
/// feeds the cache.
///
/// **Does not promise** that runs only follow such changes: restarts, resyncs and other sources run keys, too. It saves work;
/// no decision may rest on it.
#[derive(Clone)]
pub struct Predicate(Arc<dyn Fn(&Delta) -> bool + Send + Sync>);

impl Predicate {
    pub fn new(holds: impl Fn(&Delta) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(holds))
    }

    /// The spec changed, or deletion began; not the status. New and gone objects always pass.
    pub fn generation_changed() -> Self {
        Self::changed(|metadata| metadata.generation)
    }

    pub fn labels_changed() -> Self {
        Self::changed(|metadata| metadata.labels.clone())
    }

    pub fn annotations_changed() -> Self {
        Self::changed(|metadata| metadata.annotations.clone())
    }

    /// Something in the metadata is another than before. New and gone objects always pass, and so do those that cannot be read.
    pub fn changed<T: PartialEq>(part: impl Fn(&Metadata) -> T + Send + Sync + 'static) -> Self {
        Self::new(move |delta| {
            let read = |entry: &Entry| entry.metadata().ok().map(|metadata| part(&metadata));
            match (&delta.before, &delta.after) {
                (Some(before), Some(after)) => match (read(before), read(after)) {
                    (Some(before), Some(after)) => before != after,
                    _ => true,
                },
                _ => true,
            }
        })
    }

    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::new(move |delta| self.holds(delta) && other.holds(delta))
    }

    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::new(move |delta| self.holds(delta) || other.holds(delta))
    }

    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "beside `and` and `or`, which are no operators either")]
    pub fn not(self) -> Self {
        Self::new(move |delta| !self.holds(delta))
    }

    pub fn holds(&self, delta: &Delta) -> bool {
        (self.0)(delta)
    }
}

impl<F: Fn(&Delta) -> bool + Send + Sync + 'static> From<F> for Predicate {
    fn from(holds: F) -> Self {
        Self::new(holds)
    }
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Predicate")
    }
}

#[cfg(test)]
mod tests {
    use setpoint_client::Parts;
    use setpoint_types::{Generation, Revision};

    use super::*;
    use crate::cache::Key;

    fn entry(generation: u64, label: &str) -> Entry {
        let mut parts = Parts::default();
        parts.metadata.generation = Generation(generation);
        parts.metadata.labels.insert("app".into(), label.into());
        Entry::new(Key::new("", "a"), Revision::new(1), parts.encode()[..].into())
    }

    fn change(before: Option<Entry>, after: Entry) -> Delta {
        Delta { before, ..Delta::initial(after) }
    }

    #[test]
    fn only_what_it_looks_at_counts() {
        let generation = Predicate::generation_changed();
        let labels = Predicate::labels_changed();
        let status_only = change(Some(entry(1, "a")), entry(1, "a"));
        let spec = change(Some(entry(1, "a")), entry(2, "a"));
        let label = change(Some(entry(1, "a")), entry(1, "b"));
        let holds = |predicate: &Predicate| [&status_only, &spec, &label].map(|delta| predicate.holds(delta));
        assert_eq!(holds(&generation), [false, true, false]);
        assert_eq!(holds(&labels), [false, false, true]);
        assert_eq!(holds(&generation.clone().or(labels.clone())), [false, true, true]);
        assert_eq!(holds(&generation.clone().and(labels.clone())), [false, false, false]);
        assert_eq!(holds(&labels.not()), [true, true, false]);
        let named: Predicate = (|delta: &Delta| delta.key.name() == "a").into();
        assert_eq!(holds(&named), [true, true, true]);
    }

    #[test]
    fn what_is_new_or_unreadable_passes() {
        let generation = Predicate::generation_changed();
        assert!(generation.holds(&change(None, entry(1, "a"))));
        let broken = Entry::new(Key::new("", "a"), Revision::new(1), [0xff_u8][..].into());
        assert!(generation.holds(&change(Some(broken), entry(1, "a"))));
    }
}
