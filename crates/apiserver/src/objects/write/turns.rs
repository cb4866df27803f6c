//! Taking turns: writes of one object through this node are made one after the other.
//!
//! Each decides on the outcome of the one before, so at most one of several at once could be committed; the others would have
//! to decide again, and a busy object would wear out their patience. Only a courtesy: the commit's guards prove what was
//! read, whoever writes, also through other nodes. So turns may be shared by objects that have nothing to do with each other,
//! and whoever has waited too long goes without.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};

use super::intent::Intent;

/// Objects are told apart by so many numbers.
const LINES: usize = 1024;
/// While there is no leader, those ahead wait for theirs.
const PATIENCE: Duration = Duration::from_secs(2);

pub struct Turns {
    lines: Vec<Mutex<()>>,
    seed: u64,
}

impl Turns {
    /// A seed that nobody can guess keeps others from choosing names that stand in somebody's line.
    pub fn new(seed: u64) -> Self {
        Self { lines: std::iter::repeat_with(Mutex::default).take(LINES).collect(), seed }
    }

    /// Waits until nobody else writes these objects. The turn ends with what is returned.
    pub async fn take(&self, intents: &[Intent]) -> Vec<MutexGuard<'_, ()>> {
        // In one order for all, so that no two wait for each other.
        let lines: BTreeSet<usize> = intents.iter().filter_map(|it| self.line(it)).collect();
        let free = lines.iter().map_while(|line| self.lines[*line].try_lock().ok()).collect::<Vec<_>>();
        if free.len() == lines.len() {
            return free;
        }
        drop(free);
        let wait = async {
            let mut turn = Vec::with_capacity(lines.len());
            for line in &lines {
                turn.push(self.lines[*line].lock().await);
            }
            turn
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap_or_default()
    }

    /// None for an object whose name is yet to be drawn: nobody else writes it.
    fn line(&self, intent: &Intent) -> Option<usize> {
        let (namespace, name) = intent.names();
        // Both name the same namespace, or none.
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        let mut hasher = DefaultHasher::new();
        (self.seed, intent.kind(), namespace, name).hash(&mut hasher);
        (!name.is_empty()).then_some((hasher.finish() % LINES as u64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use setpoint_objects::Metadata;
    use setpoint_objects::deletion::Propagation;

    use super::*;
    use crate::objects::write::intent::{DeleteRequest, Target};

    fn writes(names: &[&str]) -> Vec<Intent> {
        let write = |name: &&str| {
            let key = Metadata { name: (*name).to_owned(), ..Metadata::default() };
            let request =
                DeleteRequest { uid: String::new(), revision: 0, propagation: Propagation::Background };
            Intent::Delete(Target { kind: "Thing".to_owned(), key }, request)
        };
        names.iter().map(write).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn one_writes_an_object_at_a_time_and_nobody_waits_for_ever() {
        let turns = Turns::new(1);
        let (both, a, b, generated) =
            (writes(&["a", "b"]), writes(&["a"]), writes(&["b", "a"]), writes(&["", ""]));
        let first = turns.take(&both).await;
        assert_eq!(first.len(), 2);
        assert!(turns.take(&generated).await.is_empty());
        let (other, ()) = tokio::join!(turns.take(&b), async { drop(first) });
        assert_eq!(other.len(), 2, "it was its turn when the first was done");
        assert!(turns.take(&a).await.is_empty(), "it went without");
        drop(other);
        assert_eq!(turns.take(&a).await.len(), 1);
    }
}
