//! How much may be pending: a number of commands and a number of bytes, taken and given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug)]
pub struct Budget {
    commands: AtomicUsize,
    bytes: AtomicUsize,
    commands_max: usize,
    bytes_max: usize,
}

impl Budget {
    pub fn new(commands_max: usize, bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { commands: AtomicUsize::new(0), bytes: AtomicUsize::new(0), commands_max, bytes_max })
    }

    /// Takes room for one command. A command larger than all bytes together fits when nothing else is pending.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Option<Lease> {
        // Given back when it turns out to be too much, so others may be refused that would just have fitted: harmless.
        let lease = Lease { budget: Arc::clone(self), commands: 1, bytes };
        let commands_before = self.commands.fetch_add(1, Ordering::Relaxed);
        let bytes_before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = commands_before < self.commands_max
            && (bytes_before == 0 || bytes_before.saturating_add(bytes) <= self.bytes_max);
        fits.then_some(lease)
    }
}

/// Room that is taken until this value is dropped.
#[derive(Debug)]
pub struct Lease {
    budget: Arc<Budget>,
    commands: usize,
    bytes: usize,
}

impl Lease {
    /// Takes over the room of `other`, of the same budget.
    pub fn merge(&mut self, mut other: Lease) {
        debug_assert!(Arc::ptr_eq(&self.budget, &other.budget), "leases of different budgets");
        self.commands += std::mem::take(&mut other.commands);
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.budget.commands.fetch_sub(self.commands, Ordering::Relaxed);
        self.budget.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_refused_beyond_either_limit_and_comes_back() {
        let budget = Budget::new(3, 10);
        let mut first = budget.take(4).expect("room for the first");
        first.merge(budget.take(4).expect("room for the second"));
        assert!(budget.take(4).is_none(), "too many bytes");
        let third = budget.take(1).expect("room for a small one");
        assert!(budget.take(1).is_none(), "too many commands");
        drop(first);
        drop(third);
        let all = budget.take(50).expect("a large one alone");
        assert!(budget.take(1).is_none());
        drop(all);
        assert!(budget.take(10).is_some());
    }
}
