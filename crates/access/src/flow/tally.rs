//! How many of something that lasts a client has: open streams, watches.
//!
//! Unlike seats they are not waited for: a stream may stay for weeks. Whoever has too many is refused.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;

use super::key::FlowKey;

/// How many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TallyOptions {
    /// Of one client.
    pub client_max: usize,
    /// Of all.
    pub max: usize,
}

/// No more may be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The client has so many, its most.
    Client(usize),
    /// There are so many, the node's most.
    Node(usize),
}

/// What there is now, and what was refused since the start. For metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TallyCounts {
    pub open: usize,
    pub refused: u64,
}

/// Counts by client. Clones count together.
#[derive(Clone)]
pub struct Tally(Arc<Shared>);

struct Shared {
    options: TallyOptions,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    counts: TallyCounts,
    /// Of those who have any.
    clients: HashMap<FlowKey, usize>,
}

impl Tally {
    pub fn new(options: TallyOptions) -> Self {
        Self(Arc::new(Shared { options, state: Mutex::default() }))
    }

    /// A share of a client that has nothing in it yet.
    pub fn share(&self, client: FlowKey) -> Share {
        Share { tally: self.clone(), client, has: 0 }
    }

    pub fn counts(&self) -> TallyCounts {
        self.0.state.lock().counts
    }

    fn add(&self, client: &FlowKey) -> Result<(), Full> {
        let mut state = self.0.state.lock();
        let State { counts, clients } = &mut *state;
        let has = clients.get(client).copied().unwrap_or(0);
        if has >= self.0.options.client_max || counts.open >= self.0.options.max {
            counts.refused += 1;
            let client = has >= self.0.options.client_max;
            return Err(if client { Full::Client(has) } else { Full::Node(counts.open) });
        }
        counts.open += 1;
        clients.insert(client.clone(), has + 1);
        Ok(())
    }

    fn subtract(&self, client: &FlowKey, count: usize) {
        let mut state = self.0.state.lock();
        state.counts.open -= count;
        if let Entry::Occupied(mut entry) = state.clients.entry(client.clone()) {
            *entry.get_mut() -= count;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

/// What a client has by way of one stream. Given back when it is dropped.
pub struct Share {
    tally: Tally,
    client: FlowKey,
    has: usize,
}

impl Share {
    /// One more.
    pub fn grow(&mut self) -> Result<(), Full> {
        self.tally.add(&self.client)?;
        self.has += 1;
        Ok(())
    }

    /// One less, if there was one.
    pub fn shrink(&mut self) {
        if self.has > 0 {
            self.has -= 1;
            self.tally.subtract(&self.client, 1);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.has > 0 {
            self.tally.subtract(&self.client, self.has);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn client(number: u8) -> FlowKey {
        FlowKey::Address(IpAddr::from([10, 0, 0, number]))
    }

    #[test]
    fn each_client_and_all_together_have_their_most_and_everything_is_given_back() {
        let tally = Tally::new(TallyOptions { client_max: 2, max: 3 });
        let (mut one, mut same, mut other) =
            (tally.share(client(1)), tally.share(client(1)), tally.share(client(2)));
        assert_eq!((one.grow(), same.grow()), (Ok(()), Ok(())));
        assert_eq!((one.grow(), same.grow()), (Err(Full::Client(2)), Err(Full::Client(2))));
        assert_eq!((other.grow(), other.grow()), (Ok(()), Err(Full::Node(3))));
        one.shrink();
        one.shrink();
        assert_eq!(other.grow(), Ok(()), "there is room for one more");
        drop((one, same, other));
        assert_eq!(tally.counts(), TallyCounts { open: 0, refused: 3 });
        assert!(tally.0.state.lock().clients.is_empty());
    }
}
