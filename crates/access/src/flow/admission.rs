//! Waiting for a seat.
//!
//! A request asks before its body is read, so that those who wait hold no memory but their place. A watch gives its permit
//! back once its initial state is sent: a stream that only waits for changes costs nothing. Whoever stops waiting, because
//! the client has gone away, leaves the queue at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::lane::FlowKey;
use super::level::{FlowOptions, Level, LevelCounts, Seats};
use super::seating::{Arrival, Outcome, Seating, Ticket, TooMany};

/// Lets requests in. Clones share the seats.
#[derive(Clone)]
pub struct Flow(Arc<Shared>);

struct Shared {
    start: Instant,
    patience: [Duration; 4],
    state: Mutex<State>,
}

struct State {
    seating: Seating,
    /// Those who wait, by number.
    waiters: HashMap<u64, oneshot::Sender<Outcome>>,
    /// Kept to be used again.
    outcomes: Vec<(u64, Outcome)>,
}

/// The seats of a request that runs. Given back when it is dropped.
pub struct Permit {
    flow: Flow,
    ticket: Ticket,
    since: Instant,
}

impl Flow {
    pub fn new(options: FlowOptions) -> Self {
        let seating = Seating::new(options);
        let state = State { seating, waiters: HashMap::new(), outcomes: Vec::new() };
        let patience = options.levels.map(|level| level.patience);
        Self(Arc::new(Shared { start: Instant::now(), patience, state: Mutex::new(state) }))
    }

    /// Waits for seats, not longer than the level's patience.
    pub async fn admit(&self, level: Level, key: FlowKey, cost: Seats) -> Result<Permit, TooMany> {
        let (ticket, outcome) = {
            let mut state = self.0.state.lock();
            let now = self.now();
            let State { seating, outcomes, .. } = &mut *state;
            match seating.arrive(now, level, key, cost, outcomes) {
                Arrival::Refused(refused) => return Err(refused),
                Arrival::Admitted(ticket) => return Ok(self.permit(ticket)),
                Arrival::Waiting(ticket) => {
                    let (tell, outcome) = oneshot::channel();
                    state.waiters.insert(ticket.number(), tell);
                    state.tell();
                    (ticket, outcome)
                }
            }
        };
        let mut waiter = Waiter { flow: self, ticket: Some(ticket), outcome };
        let told = tokio::time::timeout(self.0.patience[level as usize], &mut waiter.outcome).await;
        waiter.settle(level, told.ok().and_then(Result::ok))
    }

    pub fn counts(&self, level: Level) -> LevelCounts {
        self.0.state.lock().seating.counts(level)
    }

    fn now(&self) -> Duration {
        self.0.start.elapsed()
    }

    fn permit(&self, ticket: Ticket) -> Permit {
        Permit { flow: self.clone(), ticket, since: Instant::now() }
    }

    fn finish(&self, ticket: &Ticket, held: Duration) {
        let mut state = self.0.state.lock();
        let State { seating, outcomes, .. } = &mut *state;
        seating.finish(self.now(), ticket, held, outcomes);
        state.tell();
    }

    /// Leaves the queue, or, if the outcome came at the same moment, acts upon that.
    fn leave(&self, ticket: &Ticket, outcome: &mut oneshot::Receiver<Outcome>) {
        let mut state = self.0.state.lock();
        let State { seating, outcomes, waiters } = &mut *state;
        waiters.remove(&ticket.number());
        if !seating.abandon(self.now(), ticket, outcomes) && outcome.try_recv() == Ok(Outcome::Admitted) {
            seating.finish(self.now(), ticket, Duration::ZERO, outcomes);
        }
        state.tell();
    }
}

impl State {
    /// Tells those whose waiting has ended. One who is not there any more has left, and was given nothing.
    fn tell(&mut self) {
        for (number, outcome) in self.outcomes.drain(..) {
            if let Some(waiter) = self.waiters.remove(&number) {
                // A waiter takes itself out of the list, under the same lock, before its receiver goes.
                let _ = waiter.send(outcome);
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.flow.finish(&self.ticket, self.since.elapsed());
    }
}

/// Somebody who waits, and must not be forgotten in the queue.
struct Waiter<'f> {
    flow: &'f Flow,
    /// None once it is settled.
    ticket: Option<Ticket>,
    outcome: oneshot::Receiver<Outcome>,
}

impl Waiter<'_> {
    fn settle(mut self, level: Level, told: Option<Outcome>) -> Result<Permit, TooMany> {
        let refused = match told {
            Some(Outcome::Admitted) => {
                let ticket = self.ticket.take();
                return ticket.map(|ticket| self.flow.permit(ticket)).ok_or_else(|| self.refusal(level));
            }
            Some(Outcome::Refused(refused)) => {
                self.ticket = None;
                refused
            }
            // Out of patience: dropping leaves the queue.
            None => self.refusal(level),
        };
        Err(refused)
    }

    fn refusal(&self, level: Level) -> TooMany {
        let number = self.ticket.as_ref().map_or(0, Ticket::number);
        self.flow.0.state.lock().seating.too_many(level, number)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.flow.leave(&ticket, &mut self.outcome);
        }
    }
}
