//! One counted record: what it says, what was counted since it was last written, and what is being written.

use std::sync::Arc;

use setpoint_types::object::ObjectReference;
use setpoint_types::{KindType, Revision, Timestamp};

use crate::ensure::digest;

/// A kind whose objects are counted: the spec says what, and never changes; the status how often.
pub trait Tallied: KindType {
    /// What only the last time counts of.
    type Latest: Clone + std::fmt::Debug + Send;

    /// Adds what was counted to what the status says.
    fn add(status: &mut Self::Status, delta: &Delta<Self::Latest>);

    /// What is said of variants that are counted together.
    fn together(spec: Self::Spec) -> Self::Spec;
}

/// What is counted together: one object, one component, one reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Topic {
    pub component: Arc<str>,
    pub object: ObjectReference,
    /// "Warning ImagePullFailed".
    pub reason: String,
}

/// Which of the things that are said of a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// By the class of its message.
    Class(String),
    /// All that are beyond those told apart.
    Others,
}

/// Something that is told once.
pub struct Told<T: Tallied> {
    pub topic: Topic,
    /// The class of its message.
    pub class: String,
    /// Where its record is.
    pub namespace: String,
    pub spec: T::Spec,
    pub at: Timestamp,
    pub latest: T::Latest,
}

/// What was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta<L> {
    pub count: u64,
    /// Variants that found no room, or came too fast.
    pub dropped: u64,
    pub first: Timestamp,
    pub last: Timestamp,
    /// None if nothing but drops was counted.
    pub latest: Option<L>,
}

impl<L> Default for Delta<L> {
    fn default() -> Self {
        Self { count: 0, dropped: 0, first: Timestamp::default(), last: Timestamp::default(), latest: None }
    }
}

impl<L> Delta<L> {
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.dropped == 0
    }

    /// How often something was told that is in here.
    pub fn told(&self) -> u64 {
        self.count + self.dropped
    }

    pub fn count(&mut self, at: Timestamp, latest: L) {
        self.first = if self.count == 0 { at } else { self.first.min(at) };
        self.last = self.last.max(at);
        self.count += 1;
        self.latest = Some(latest);
    }
}

/// A record as the server has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Known<S> {
    pub revision: Revision,
    pub status: S,
}

/// What a record is called: the same in every process, for the same topic and variant.
pub fn name(topic: &Topic, variant: &Variant) -> String {
    let object = &topic.object;
    let class = match variant {
        Variant::Class(class) => ["class", class],
        Variant::Others => ["others", ""],
    };
    let parts = [
        &*topic.component,
        &object.kind,
        &object.namespace,
        &object.name,
        object.uid.as_str(),
        &topic.reason,
        class[0],
        class[1],
    ];
    record_name(&object.name, &parts)
}

/// Bytes of the object's name that a record's begins with; with the hash it stays below what a name may have.
const PREFIX_BYTES_MAX: usize = 200;

/// The object's name, for those who look through a list, and a hash.
pub fn record_name(object: &str, parts: &[&str]) -> String {
    let begin = &object[..object.floor_char_boundary(PREFIX_BYTES_MAX)];
    let begin = begin.trim_end_matches(['-', '.']);
    if begin.is_empty() { digest(parts) } else { format!("{begin}.{}", digest(parts)) }
}

/// Messages that differ only in words with a digit in them (numbers, sizes, times, addresses, generated names) are of one class.
pub fn class_of(message: &str) -> String {
    let words = message.split(' ').map(|word| {
        let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
        if has_digit { "#" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use setpoint_types::names::check_dns_subdomain;

    use super::*;

    #[test]
    fn messages_of_one_class_differ_in_numbers_only() {
        assert_eq!(class_of("needs 500m cpu, a7 has 420m"), "needs # cpu, # has #");
        assert_ne!(class_of("image not found"), class_of("image not allowed"));
        assert_eq!(class_of(""), "");
    }

    #[test]
    fn a_records_name_says_its_object_and_tells_topics_and_variants_apart() {
        let topic = |reason: &str, name: &str| Topic {
            component: "scheduler".into(),
            object: ObjectReference { kind: "Workload".into(), name: name.into(), ..Default::default() },
            reason: reason.into(),
        };
        let class = |text: &str| Variant::Class(text.into());
        let names = [
            name(&topic("A", "web"), &class("x")),
            name(&topic("A", "web"), &class("y")),
            name(&topic("B", "web"), &class("x")),
            name(&topic("A", "web"), &Variant::Others),
            name(&topic("A", "api"), &class("x")),
        ];
        assert!(names[0].starts_with("web."), "{names:?}");
        let mut distinct = names.to_vec();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), names.len());
        for long in ["a".repeat(253), format!("{}-.{}", "a".repeat(198), "b".repeat(50)), String::new()] {
            assert_eq!(check_dns_subdomain(&name(&topic("A", &long), &Variant::Others)), Ok(()));
        }
    }

    #[test]
    fn a_delta_spans_all_its_times() {
        let mut delta = Delta::default();
        for at in [5, 3, 9] {
            delta.count(Timestamp(at), at);
        }
        assert_eq!((delta.count, delta.first, delta.last), (3, Timestamp(3), Timestamp(9)));
        assert_eq!(delta.latest, Some(9));
    }
}
