//! What an informer makes of a watch: a copy of everything selected, and whether the watch could be right at all.
//!
//! Not here: where the answers come from (`informer`).

use std::collections::BTreeMap;

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::watch_event::Type;

/// Objects by namespace and name, as they were sent.
pub type State = BTreeMap<(String, String), pb::Object>;

/// Folds answers. An `Err` is a broken promise (O1 to O3).
#[derive(Debug, Default)]
pub struct Fold {
    /// Everything up to here is in `state`; 0 while the initial state is still coming.
    pub at: u64,
    pub state: State,
    /// The highest `at` ever, also over a new beginning: nobody is taken back in time.
    floor: u64,
}

impl Fold {
    /// The whole initial state is here.
    pub fn is_loaded(&self) -> bool {
        self.at > 0
    }

    /// Forgets everything: what comes next is an initial state.
    pub fn restart(&mut self) {
        self.at = 0;
        self.state.clear();
    }

    /// Takes one answer. The error is what the stream ended with, if it did.
    pub fn take(&mut self, answer: pb::WatchResponse) -> Result<Option<pb::Error>, String> {
        let mut begun = None;
        for event in answer.events {
            if event.r#type() == Type::Error {
                return Ok(Some(event.error.unwrap_or_default()));
            }
            self.event(event, &mut begun)?;
        }
        Ok(None)
    }

    fn event(&mut self, event: pb::WatchEvent, begun: &mut Option<u64>) -> Result<(), String> {
        let (kind, revision, at) = (event.r#type(), event.revision, self.at);
        if kind == Type::Bookmark {
            return self.bookmark(revision, event.initial_state_end);
        }
        let Some(object) = event.object else { return Err(format!("{kind:?} at {revision} has no object")) };
        let name = object.metadata.clone().map(|it| (it.namespace, it.name)).unwrap_or_default();
        let last = object.metadata.as_ref().map_or(0, |it| it.revision);
        if last != revision {
            return Err(format!("{kind:?} at {revision} has an object of {last}"));
        }
        if !self.is_loaded() {
            let came_twice = self.state.insert(name.clone(), object).is_some();
            return match kind {
                Type::Added if !came_twice => Ok(()),
                _ => Err(format!("{kind:?} of {name:?} in the initial state, twice: {came_twice}")),
            };
        }
        if begun.replace(revision) != Some(revision) && revision <= at {
            return Err(format!("O3: revision {revision} after {at}"));
        }
        self.advance(revision);
        let before = match kind {
            Type::Added | Type::Modified => self.state.insert(name.clone(), object),
            _ => self.state.remove(&name),
        };
        if before.is_some() == (kind == Type::Added) {
            return Err(format!("O1: {kind:?} of {name:?} at {revision}, which was {before:?}"));
        }
        Ok(())
    }

    fn bookmark(&mut self, revision: u64, ends_state: bool) -> Result<(), String> {
        if ends_state == self.is_loaded() {
            return Err(format!("a bookmark at {revision} that ends the initial state: {ends_state}"));
        }
        if revision < self.at || (ends_state && revision < self.floor) {
            return Err(format!("O2: {revision} after {} and {}", self.at, self.floor));
        }
        self.advance(revision);
        Ok(())
    }

    fn advance(&mut self, revision: u64) {
        self.at = revision;
        self.floor = self.floor.max(revision);
    }

    /// Holds the copy against a list of the same revision.
    pub fn compare(&self, listed: Vec<pb::Object>) -> Result<(), String> {
        let name = |object: &pb::Object| {
            object.metadata.as_ref().map(|it| (it.namespace.clone(), it.name.clone())).unwrap_or_default()
        };
        let count = listed.len();
        let listed: State = listed.into_iter().map(|object| (name(&object), object)).collect();
        if listed.len() != count {
            return Err(format!("O4: the list at {} has an object twice", self.at));
        }
        if listed != self.state {
            let names = listed.keys().chain(self.state.keys());
            let differs = names.filter(|name| listed.get(*name) != self.state.get(*name));
            let shown: Vec<String> = differs
                .map(|name| format!("{name:?}: {:?}, listed {:?}", self.state.get(name), listed.get(name)))
                .collect();
            return Err(format!("O1: at {} differs {}", self.at, shown.join("; ")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, revision: u64) -> pb::Object {
        let metadata = pb::Metadata { name: name.into(), revision, ..Default::default() };
        pb::Object { metadata: Some(metadata), ..Default::default() }
    }

    fn event(kind: Type, name: &str, revision: u64) -> pb::WatchEvent {
        pb::WatchEvent {
            r#type: kind.into(),
            object: Some(object(name, revision)),
            revision,
            ..Default::default()
        }
    }

    fn bookmark(revision: u64, initial_state_end: bool) -> pb::WatchEvent {
        pb::WatchEvent { r#type: Type::Bookmark.into(), revision, initial_state_end, ..Default::default() }
    }

    /// Two objects; one changes and a third comes at one revision; one goes; nothing more happens.
    fn right() -> Vec<Vec<pb::WatchEvent>> {
        vec![
            vec![event(Type::Added, "a", 2), event(Type::Added, "b", 3)],
            vec![bookmark(4, true)],
            vec![event(Type::Modified, "a", 5), event(Type::Added, "c", 5)],
            vec![event(Type::Deleted, "b", 6)],
            vec![bookmark(7, false)],
        ]
    }

    fn folded(answers: Vec<Vec<pb::WatchEvent>>) -> Result<Fold, String> {
        let mut fold = Fold::default();
        for events in answers {
            assert_eq!(fold.take(pb::WatchResponse { events })?, None);
        }
        fold.compare(vec![object("a", 5), object("c", 5)])?;
        Ok(fold)
    }

    #[test]
    fn what_is_right_passes() {
        assert_eq!(folded(right()).map(|fold| fold.at), Ok(7));
    }

    #[test]
    fn whatever_is_lost_is_found() {
        for (answer, event) in [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (3, 0)] {
            let mut answers = right();
            answers[answer].remove(event);
            assert!(folded(answers).is_err(), "without {answer}, {event}");
        }
    }

    #[test]
    fn whatever_comes_twice_or_torn_or_late_is_found() {
        for answer in 0..4 {
            let mut answers = right();
            answers.insert(answer, answers[answer].clone());
            assert!(folded(answers).is_err(), "twice: {answer}");
        }
        let mut torn = right();
        let half = torn[2].split_off(1);
        torn.insert(3, half);
        assert!(folded(torn).is_err(), "one revision in two answers");
        let mut early = right();
        early.swap(2, 4);
        assert!(folded(early).is_err(), "a bookmark before what it promises");
    }

    #[test]
    fn nobody_is_taken_back_in_time() {
        let mut fold = folded(right()).expect("right");
        fold.restart();
        let back = pb::WatchResponse { events: vec![bookmark(6, true)] };
        assert!(fold.take(back).is_err());
    }
}
