//! A bounded queue of commands: filled by whoever submits, emptied by the one task that sends them on, several at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::yield_now;

use super::budget::{Budget, Lease};
use crate::config::Limits;
use crate::host::Refusal;

/// A command, where it came from, and the room it takes until this value is dropped.
pub struct Queued<O> {
    pub command: Bytes,
    pub origin: O,
    pub lease: Lease,
}

pub struct CommandQueue<O> {
    /// None once nothing is taken any more.
    queue: Mutex<Option<VecDeque<Queued<O>>>>,
    filled: Notify,
    budget: Arc<Budget>,
}

impl<O> CommandQueue<O> {
    pub fn new(limits: &Limits) -> Self {
        let budget = Budget::new(limits.pending_commands, limits.pending_bytes);
        Self { queue: Mutex::new(Some(VecDeque::new())), filled: Notify::new(), budget }
    }

    pub fn submit(&self, command: Bytes, origin: O) -> Result<(), Refusal> {
        let lease = self.budget.take(command.len()).ok_or(Refusal::Overloaded)?;
        match &mut *self.queue.lock() {
            Some(queue) => queue.push_back(Queued { command, origin, lease }),
            None => return Err(Refusal::ShuttingDown),
        }
        self.filled.notify_one();
        Ok(())
    }

    /// Returns when there is something to pick, and whoever is about to submit has had the chance to: sending costs the
    /// same for one and for many.
    pub async fn filled(&self) {
        while self.queue.lock().as_ref().is_none_or(VecDeque::is_empty) {
            self.filled.notified().await;
        }
        yield_now().await;
    }

    /// Takes commands in order, until one more would exceed `bytes_max`; at least one if there is any, whatever its size.
    pub fn pick(&self, bytes_max: usize) -> Vec<Queued<O>> {
        let mut queue = self.queue.lock();
        let Some(queue) = &mut *queue else { return Vec::new() };
        let mut bytes = 0;
        let fits = |queued: &&Queued<O>| {
            bytes += queued.command.len();
            bytes <= bytes_max
        };
        let count = queue.iter().take_while(fits).count().max(1).min(queue.len());
        queue.drain(..count).collect()
    }

    /// Takes nothing any more; returns what was left.
    pub fn close(&self) -> VecDeque<Queued<O>> {
        self.queue.lock().take().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submit(queue: &CommandQueue<()>, length: usize) -> Result<(), Refusal> {
        queue.submit(Bytes::from(vec![0; length]), ())
    }

    fn lengths(picked: &[Queued<()>]) -> Vec<usize> {
        picked.iter().map(|queued| queued.command.len()).collect()
    }

    #[test]
    fn as_many_are_picked_as_fit_and_at_least_one() {
        let queue = CommandQueue::new(&Limits::default());
        for length in [40, 50, 20, 500, 1] {
            submit(&queue, length).expect("there is room");
        }
        assert_eq!(lengths(&queue.pick(100)), [40, 50]);
        assert_eq!(lengths(&queue.pick(100)), [20]);
        assert_eq!(lengths(&queue.pick(100)), [500], "larger than all that may go together, but alone");
        assert_eq!(lengths(&queue.pick(100)), [1]);
        assert!(queue.pick(100).is_empty());
    }

    #[test]
    fn what_is_picked_counts_until_it_is_dropped() {
        let queue = CommandQueue::new(&Limits { pending_commands: 2, ..Limits::default() });
        submit(&queue, 1).expect("room for the first");
        submit(&queue, 1).expect("room for the second");
        let picked = queue.pick(100);
        assert_eq!(submit(&queue, 1), Err(Refusal::Overloaded));
        drop(picked);
        assert_eq!(submit(&queue, 1), Ok(()));
        queue.close();
        assert_eq!(submit(&queue, 1), Err(Refusal::ShuttingDown));
    }

    #[tokio::test]
    async fn those_about_to_submit_are_waited_for() {
        let queue = Arc::new(CommandQueue::new(&Limits::default()));
        let waiting = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move {
                queue.filled().await;
                queue.pick(1000).len()
            }
        });
        yield_now().await;
        for _ in 0..5 {
            let queue = Arc::clone(&queue);
            tokio::spawn(async move { submit(&queue, 1) });
        }
        assert_eq!(waiting.await.expect("it does not panic"), 5);
    }
}
