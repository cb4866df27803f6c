//! Who waits for a node, and whose turn it is.
//!
//! Replicas wait in *lines*, one per class, in the order they came. A line is active, or blocked until something happens that could help
//! it ([`blocked`]). Whoever was refused by the server waits a while by itself ([`Backoff`]) and then joins its line again.
//!
//! Among active lines the priority decides, then who has waited longest; a line that had its turn goes to the end.

mod backoff;
mod blocked;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use backoff::{Backoff, Pause};
use blocked::Blocked;
pub use blocked::Fit;

use super::class::ClassIx;
use super::cluster::event::Event;
use super::cluster::node::NodeIx;
use super::cluster::topology::Domain;
use super::explain::Refusal;

/// Tells apart those who wait in a line; the lower came first.
pub type Ticket = u64;

#[derive(Clone, Debug)]
struct Line {
    priority: i32,
    waiting: BTreeMap<Ticket, Arc<str>>,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// Since this turn.
    Active(u64),
    /// Nobody is in it.
    Empty,
    Blocked(Box<Stop>),
}

/// Why a line does not move.
#[derive(Clone, Debug)]
pub struct Stop {
    pub refusal: Arc<Refusal>,
    pub since: u64,
}

/// All lines.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    lines: BTreeMap<ClassIx, Line>,
    active: BTreeSet<(Reverse<i32>, u64, ClassIx)>,
    blocked: Blocked,
    /// Since when, and who.
    stops: BTreeSet<(u64, ClassIx)>,
    turn: u64,
    ticket: Ticket,
}

impl Queue {
    /// A place at the end of all lines.
    pub fn ticket(&mut self) -> Ticket {
        self.ticket += 1;
        self.ticket
    }

    /// Somebody joins the line of its class. If that is blocked, so is it: the reason is the answer.
    pub fn join(
        &mut self,
        class: ClassIx,
        priority: i32,
        ticket: Ticket,
        replica: Arc<str>,
    ) -> Option<&Stop> {
        let line = self.lines.entry(class).or_insert_with(|| Line {
            priority,
            waiting: BTreeMap::new(),
            state: State::Empty,
        });
        line.waiting.insert(ticket, replica);
        if matches!(line.state, State::Empty) {
            self.activate(class);
        }
        self.stop(class)
    }

    /// Somebody leaves, whether it was in the line or not.
    pub fn leave(&mut self, class: ClassIx, ticket: Ticket) {
        let Some(line) = self.lines.get_mut(&class) else { return };
        line.waiting.remove(&ticket);
        if line.waiting.is_empty() {
            self.drop_line(class);
        }
    }

    fn drop_line(&mut self, class: ClassIx) {
        let Some(line) = self.lines.remove(&class) else { return };
        match line.state {
            State::Active(turn) => drop(self.active.remove(&(Reverse(line.priority), turn, class))),
            State::Blocked(stop) => {
                self.stops.remove(&(stop.since, class));
                self.blocked.remove(class, &stop.refusal.blockers);
            }
            State::Empty => {}
        }
    }

    fn activate(&mut self, class: ClassIx) {
        let Some(line) = self.lines.get_mut(&class) else { return };
        match std::mem::replace(&mut line.state, State::Empty) {
            State::Active(turn) => {
                line.state = State::Active(turn);
                return;
            }
            State::Blocked(stop) => {
                self.stops.remove(&(stop.since, class));
                self.blocked.remove(class, &stop.refusal.blockers);
            }
            State::Empty => {}
        }
        self.turn += 1;
        line.state = State::Active(self.turn);
        self.active.insert((Reverse(line.priority), self.turn, class));
    }

    /// Whose turn it is, without taking it.
    pub fn next(&self) -> Option<ClassIx> {
        self.active.first().map(|it| it.2)
    }

    /// Takes up to so many out of a line, in their order. The line goes behind others of its priority, or ends.
    pub fn take(&mut self, class: ClassIx, most: usize) -> Vec<(Ticket, Arc<str>)> {
        let Some(line) = self.lines.get_mut(&class) else { return Vec::new() };
        let mut taken = Vec::with_capacity(most.min(line.waiting.len()));
        while taken.len() < most
            && let Some(first) = line.waiting.pop_first()
        {
            taken.push(first);
        }
        if let State::Active(turn) = line.state {
            self.active.remove(&(Reverse(line.priority), turn, class));
            line.state = State::Empty;
        }
        if line.waiting.is_empty() {
            self.drop_line(class);
        } else if matches!(line.state, State::Empty) {
            self.activate(class);
        }
        taken
    }

    pub fn waiting(&self, class: ClassIx) -> usize {
        self.lines.get(&class).map_or(0, |line| line.waiting.len())
    }

    /// Everybody in a line.
    pub fn line(&self, class: ClassIx) -> impl Iterator<Item = &Arc<str>> {
        self.lines.get(&class).into_iter().flat_map(|line| line.waiting.values())
    }

    /// A line does not move until something helps it. Those given back keep their places.
    pub fn block(
        &mut self,
        class: ClassIx,
        priority: i32,
        back: Vec<(Ticket, Arc<str>)>,
        refusal: Arc<Refusal>,
        now: u64,
    ) {
        for (ticket, replica) in back {
            self.join(class, priority, ticket, replica);
        }
        let Some(line) = self.lines.get_mut(&class) else { return };
        match std::mem::replace(&mut line.state, State::Empty) {
            State::Active(turn) => drop(self.active.remove(&(Reverse(line.priority), turn, class))),
            State::Blocked(stop) => {
                self.stops.remove(&(stop.since, class));
                self.blocked.remove(class, &stop.refusal.blockers);
            }
            State::Empty => {}
        }
        self.blocked.insert(class, &refusal.blockers);
        self.stops.insert((now, class));
        line.state = State::Blocked(Box::new(Stop { refusal, since: now }));
    }

    /// Why a line does not move, if it does not.
    pub fn stop(&self, class: ClassIx) -> Option<&Stop> {
        match &self.lines.get(&class)?.state {
            State::Blocked(stop) => Some(stop),
            _ => None,
        }
    }

    /// Something happened: those it can help are active again. `fit` says what a node is to a class now.
    pub fn wake(
        &mut self,
        event: &Event,
        zone_of: impl Fn(NodeIx) -> Option<Domain>,
        fit: impl Fn(ClassIx, NodeIx) -> Fit,
    ) -> usize {
        let woken: Vec<ClassIx> = self.blocked.helped_by(event, zone_of, fit);
        woken.iter().for_each(|class| self.activate(*class));
        woken.len()
    }

    /// A line is active again, whatever it waits for.
    pub fn wake_class(&mut self, class: ClassIx) {
        if self.stop(class).is_some() {
            self.activate(class);
        }
    }

    /// Wakes those who were blocked for so long: should an event that helps ever be overlooked, this is how long it matters.
    pub fn flush(&mut self, now: u64, after: u64) -> usize {
        let due = self.stops.iter().take_while(|it| it.0.saturating_add(after) <= now);
        let due: Vec<ClassIx> = due.map(|it| it.1).collect();
        due.iter().for_each(|class| self.activate(*class));
        due.len()
    }

    /// When [`Queue::flush`] has something to do.
    pub fn flush_due(&self, after: u64) -> Option<u64> {
        self.stops.first().map(|it| it.0.saturating_add(after))
    }

    /// How many wait in active lines, and in blocked ones.
    pub fn depths(&self) -> (usize, usize) {
        let sum = |is_blocked: bool| {
            let lines = self.lines.values().filter(|it| matches!(it.state, State::Blocked(_)) == is_blocked);
            lines.map(|it| it.waiting.len()).sum()
        };
        (sum(false), sum(true))
    }

    pub fn has_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }
}
