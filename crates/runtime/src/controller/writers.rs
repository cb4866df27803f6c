//! Watches who writes the objects a controller is for, and finds out those who undo each other's work.
//!
//! Not here: what makes an oscillation (`oscillation.rs`).

use std::hash::{DefaultHasher, Hasher};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::oscillation::{Oscillation, Track, Turn};
use super::recent::Recent;
use super::standing;
use crate::cache::{Cause, Delta, Key};

/// Objects whose writers are remembered. Two who fight write often, so theirs is not the one that is forgotten.
const OBJECTS_MAX: usize = 16_384;

pub(super) struct Writers {
    objects: Mutex<Recent<Key, Tracks>>,
    start: Instant,
    window: Duration,
}

#[derive(Clone, Debug, Default)]
struct Tracks {
    spec: Track,
    status: Track,
}

impl Writers {
    pub fn new(window: Duration) -> Self {
        Self { objects: Mutex::new(Recent::new(OBJECTS_MAX)), start: Instant::now(), window }
    }

    /// Takes in a change of an object, and tells if an oscillation begins with it.
    pub fn note(&self, delta: &Delta) -> Option<Oscillation> {
        let (Cause::Event, Some(before), Some(after)) = (delta.cause, &delta.before, &delta.after) else {
            return None;
        };
        let manager = delta.author().map(|author| author.manager).filter(|manager| !manager.is_empty())?;
        let (before, after) = (before.parts().ok()?, after.parts().ok()?);
        let turn = |before: u64, after: u64| {
            let at = self.start.elapsed();
            (before != after).then(|| Turn { manager: manager.clone(), state: after, at })
        };
        let spec = turn(hash(&before.spec), hash(&after.spec));
        let status = turn(hash_of_status(&before.status), hash_of_status(&after.status));
        if spec.is_none() && status.is_none() {
            return None;
        }
        let mut objects = self.objects.lock();
        let mut tracks = objects.take(&delta.key).unwrap_or_default();
        let spec = spec.and_then(|turn| tracks.spec.note(turn, self.window));
        let status = status.and_then(|turn| tracks.status.note(turn, self.window));
        objects.put(delta.key.clone(), tracks);
        spec.or(status)
    }

    /// Who undoes each other's work on this object now.
    pub fn oscillation(&self, key: &Key) -> Option<Oscillation> {
        let objects = self.objects.lock();
        let tracks = objects.get(key)?;
        let now = self.start.elapsed();
        tracks.spec.goes_on(now, self.window).or_else(|| tracks.status.goes_on(now, self.window))
    }
}

/// Without the conditions that controllers' loops set: to show an oscillation must not look like the end of it.
fn hash_of_status(status: &[u8]) -> u64 {
    let Ok(mut status) = serde_json::from_slice::<Value>(status) else { return hash(status) };
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        conditions.retain(|it| !standing::TYPES.iter().any(|kind| it["type"] == *kind));
    }
    hash(status.to_string().as_bytes())
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
