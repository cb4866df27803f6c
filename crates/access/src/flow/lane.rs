//! The requests of one level: who runs, who waits, and who is next.
//!
//! Next is whoever has the fewest seats, and of those whoever has waited longest for one: so the seats are shared equally
//! among those who want them, however many requests each sends and however long these take. If the next request needs
//! more seats than are free, all wait for it; otherwise small ones would always slip in before it.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use super::key::FlowKey;
use super::level::Seats;

/// A request that waits.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    pub number: u64,
    pub cost: Seats,
    pub deadline: Duration,
}

#[derive(Debug, Default)]
pub struct Lane {
    used: u32,
    waiting: usize,
    waiting_cost: u64,
    flows: HashMap<FlowKey, Flow>,
    /// Those who wait, by seats in use and turn.
    next: BTreeMap<(u32, u64), FlowKey>,
    /// Those who wait, by how many requests.
    longest: BTreeSet<(usize, FlowKey)>,
    turns: u64,
    period: Period,
}

/// Which period of `hold_max` it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period(pub u64);

#[derive(Debug, Default)]
struct Flow {
    /// Seats taken in this period, and in the one before.
    recent: u32,
    older: u32,
    /// When it came, or was served last.
    turn: u64,
    waiting: VecDeque<Waiting>,
}

impl Flow {
    fn used(&self) -> u32 {
        self.recent + self.older
    }

    /// Gives back seats taken in a period, unless they count as free already.
    fn give_back(&mut self, cost: u32, taken: Period, now: Period) -> u32 {
        let place = match now.0 - taken.0 {
            0 => &mut self.recent,
            1 => &mut self.older,
            _ => return 0,
        };
        let given = cost.min(*place);
        *place -= given;
        given
    }
}

impl Lane {
    pub fn used(&self) -> u32 {
        self.used
    }

    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The seats that those who wait would take.
    pub fn waiting_cost(&self) -> u64 {
        self.waiting_cost
    }

    pub fn waiting_of(&self, key: &FlowKey) -> usize {
        self.flows.get(key).map_or(0, |flow| flow.waiting.len())
    }

    /// Seats that a principal has now.
    pub fn used_by(&self, key: &FlowKey) -> u32 {
        self.flows.get(key).map_or(0, Flow::used)
    }

    /// Who has most requests waiting, and how many.
    pub fn longest(&self) -> Option<(usize, FlowKey)> {
        self.longest.last().cloned()
    }

    /// The request whose turn it is.
    pub fn head(&self) -> Option<(FlowKey, Waiting)> {
        let key = self.next.values().next()?;
        let waiting = self.flows.get(key)?.waiting.front()?;
        Some((key.clone(), *waiting))
    }

    pub fn push(&mut self, key: &FlowKey, waiting: Waiting) {
        self.waiting += 1;
        self.waiting_cost += u64::from(waiting.cost.0);
        self.change(key, |flow, _| flow.waiting.push_back(waiting));
    }

    /// The head of a principal's queue waits no longer.
    pub fn pop_first(&mut self, key: &FlowKey) -> Option<Waiting> {
        let popped = self.change(key, |flow, _| flow.waiting.pop_front());
        self.waits_no_longer(popped)
    }

    /// The newest of a principal's requests waits no longer.
    pub fn pop_last(&mut self, key: &FlowKey) -> Option<Waiting> {
        let popped = self.change(key, |flow, _| flow.waiting.pop_back());
        self.waits_no_longer(popped)
    }

    /// This request waits no longer; none if it did not wait.
    pub fn remove(&mut self, key: &FlowKey, number: u64) -> Option<Waiting> {
        let removed = self.change(key, |flow, _| {
            let place = flow.waiting.iter().position(|waiting| waiting.number == number)?;
            flow.waiting.remove(place)
        });
        self.waits_no_longer(removed)
    }

    pub fn take(&mut self, key: &FlowKey, cost: Seats) -> Period {
        self.used += cost.0;
        // Without looking for its place among those who wait, since it has none: what every request passes through.
        match self.flows.entry(key.clone()) {
            Entry::Occupied(mut entry) if entry.get().waiting.is_empty() => {
                self.turns += 1;
                let flow = entry.get_mut();
                flow.recent += cost.0;
                flow.turn = self.turns;
            }
            Entry::Vacant(entry) => {
                self.turns += 1;
                entry.insert(Flow { recent: cost.0, turn: self.turns, ..Flow::default() });
            }
            Entry::Occupied(_) => self.change(key, |flow, turn| {
                flow.recent += cost.0;
                flow.turn = turn;
            }),
        }
        self.period
    }

    pub fn give_back(&mut self, key: &FlowKey, cost: Seats, taken: Period) {
        let now = self.period;
        let given = match self.flows.entry(key.clone()) {
            Entry::Occupied(mut entry) if entry.get().waiting.is_empty() => {
                let given = entry.get_mut().give_back(cost.0, taken, now);
                if entry.get().used() == 0 {
                    entry.remove();
                }
                given
            }
            Entry::Occupied(_) => self.change(key, |flow, _| flow.give_back(cost.0, taken, now)),
            Entry::Vacant(_) => 0,
        };
        self.used -= given;
    }

    /// Seats taken in the period before the one that ends now count as free.
    pub fn next_period(&mut self) {
        self.period.0 += 1;
        self.next.clear();
        for (key, flow) in &mut self.flows {
            self.used -= flow.older;
            flow.older = std::mem::take(&mut flow.recent);
            if !flow.waiting.is_empty() {
                self.next.insert((flow.used(), flow.turn), key.clone());
            }
        }
        self.flows.retain(|_, flow| flow.used() > 0 || !flow.waiting.is_empty());
    }

    fn waits_no_longer(&mut self, waiting: Option<Waiting>) -> Option<Waiting> {
        let waiting = waiting?;
        self.waiting -= 1;
        self.waiting_cost -= u64::from(waiting.cost.0);
        Some(waiting)
    }

    /// Changes a principal's state and keeps the orders true. Whoever neither runs nor waits is forgotten.
    fn change<R>(&mut self, key: &FlowKey, change: impl FnOnce(&mut Flow, u64) -> R) -> R {
        self.turns += 1;
        let mut flow = match self.flows.remove(key) {
            Some(flow) => {
                self.next.remove(&(flow.used(), flow.turn));
                self.longest.remove(&(flow.waiting.len(), key.clone()));
                flow
            }
            None => Flow { turn: self.turns, ..Flow::default() },
        };
        let result = change(&mut flow, self.turns);
        if !flow.waiting.is_empty() {
            self.next.insert((flow.used(), flow.turn), key.clone());
            self.longest.insert((flow.waiting.len(), key.clone()));
        }
        if flow.used() > 0 || !flow.waiting.is_empty() {
            self.flows.insert(key.clone(), flow);
        }
        result
    }
}
