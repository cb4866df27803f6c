//! Events: what happened to an object, for people.

use std::sync::Arc;

use setpoint_types::kinds::{Event, EventSpec, EventStatus, EventType};
use setpoint_types::object::ObjectReference;
use setpoint_types::{Generation, Revision, Timestamp};

use super::tally::{Delta, Tallied, Told, Topic, class_of};
use crate::conditions::cut;
use crate::trace::TraceContext;

/// What the kind's schema allows.
const MESSAGE_BYTES_MAX: usize = 1024;

/// Something to be told of an object. **Assumes** that the reason is one word in CamelCase: another one is refused by the server, and
/// counted as lost. What a note guarantees once it is told is the [`super::Recorder`]'s to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    spec: EventSpec,
    revision: Revision,
}

impl Note {
    /// All is well: `Note::normal(object.reference(), "Bound")`.
    pub fn normal(object: ObjectReference, reason: impl Into<String>) -> Self {
        Self::new(object, EventType::Normal, reason)
    }

    /// Somebody should look at it.
    pub fn warning(object: ObjectReference, reason: impl Into<String>) -> Self {
        Self::new(object, EventType::Warning, reason)
    }

    fn new(object: ObjectReference, kind: EventType, reason: impl Into<String>) -> Self {
        let spec = EventSpec { object, kind, reason: reason.into(), ..EventSpec::default() };
        Self { spec, revision: Revision::NONE }
    }

    /// For people. What is too long is cut.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.spec.message = cut(message.into(), MESSAGE_BYTES_MAX);
        self
    }

    /// Which state of the object it is about.
    #[must_use]
    pub fn about(mut self, generation: Generation, revision: Revision) -> Self {
        self.spec.generation = generation;
        self.revision = revision;
        self
    }

    /// Another object that has to do with it.
    #[must_use]
    pub fn related(mut self, object: ObjectReference) -> Self {
        self.spec.related = Some(object);
        self
    }

    /// The name of the Decision behind it.
    #[must_use]
    pub fn decision(mut self, name: impl Into<String>) -> Self {
        self.spec.decision = name.into();
        self
    }

    #[must_use]
    pub fn operation(mut self, operation: impl Into<String>) -> Self {
        self.spec.operation = operation.into();
        self
    }

    #[must_use]
    pub fn trace(mut self, trace: &TraceContext) -> Self {
        self.spec.trace = trace.trace.to_string();
        self
    }

    pub(super) fn told(self, component: &Arc<str>, cluster_namespace: &str, at: Timestamp) -> Told<Event> {
        let Self { mut spec, revision } = self;
        spec.component = component.to_string();
        let reason = format!("{:?} {}", spec.kind, spec.reason);
        let topic = Topic { component: component.clone(), object: spec.object.clone(), reason };
        let (class, namespace) = (class_of(&spec.message), home(&spec.object, cluster_namespace));
        Told { topic, class, namespace, spec, at, latest: revision }
    }
}

/// Where the records of an object are.
pub(super) fn home(object: &ObjectReference, cluster_namespace: &str) -> String {
    if object.namespace.is_empty() { cluster_namespace.to_owned() } else { object.namespace.clone() }
}

impl Tallied for Event {
    /// The revision of the object it was last about.
    type Latest = Revision;

    fn add(status: &mut EventStatus, delta: &Delta<Revision>) {
        if delta.count > 0 {
            status.first = if status.count == 0 { delta.first } else { status.first.min(delta.first) };
            status.last = status.last.max(delta.last);
        }
        status.count += delta.count;
        status.dropped += delta.dropped;
        status.revision = delta.latest.unwrap_or_default().max(status.revision);
    }

    fn together(spec: EventSpec) -> EventSpec {
        let message = cut(format!("several messages, such as: {}", spec.message), MESSAGE_BYTES_MAX);
        EventSpec { message, ..spec }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_added_to_what_is_there() {
        let mut status = EventStatus::default();
        let mut delta = Delta::default();
        delta.count(Timestamp(5), Revision::new(9));
        delta.count(Timestamp(7), Revision::new(8));
        delta.dropped = 2;
        Event::add(&mut status, &delta);
        Event::add(&mut status, &Delta { dropped: 1, ..Delta::default() });
        let expected = EventStatus {
            count: 2,
            first: Timestamp(5),
            last: Timestamp(7),
            revision: Revision::new(8),
            dropped: 3,
        };
        assert_eq!(status, expected);
    }

    #[test]
    fn a_note_knows_its_topic_its_class_and_its_home() {
        let node = ObjectReference { kind: "Node".into(), name: "a1".into(), ..Default::default() };
        let told = Note::warning(node, "Late").message("silent for 40 s").told(
            &"nodes".into(),
            "default",
            Timestamp(3),
        );
        assert_eq!((told.topic.reason.as_str(), told.class.as_str()), ("Warning Late", "silent for # s"));
        assert_eq!((told.namespace.as_str(), told.spec.component.as_str()), ("default", "nodes"));
    }
}
