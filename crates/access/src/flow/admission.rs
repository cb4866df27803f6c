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

use super::key::FlowKey;
use super::lane::Period;
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
        match self.ask(level, key, cost) {
            Admission::Granted(permit) => Ok(permit),
            Admission::Waiting(waiter) => waiter.wait().await,
            Admission::Refused(refused) => Err(refused),
        }
    }

    /// Asks for seats without waiting for them: usually they are there.
    pub fn ask(&self, level: Level, key: FlowKey, cost: Seats) -> Admission {
        let since = Instant::now();
        let now = since - self.0.start;
        let mut state = self.0.state.lock();
        let State { seating, outcomes, .. } = &mut *state;
        match seating.arrive(now, level, key, cost, outcomes) {
            Arrival::Refused(refused) => {
                state.tell();
                Admission::Refused(refused)
            }
            Arrival::Admitted(ticket) => {
                state.tell();
                Admission::Granted(Permit { flow: self.clone(), ticket, since })
            }
            Arrival::Waiting(ticket) => {
                let (tell, outcome) = oneshot::channel();
                state.waiters.insert(ticket.number(), tell);
                state.tell();
                Admission::Waiting(Waiter { flow: self.clone(), level, ticket: Some(ticket), outcome })
            }
        }
    }

    pub fn counts(&self, level: Level) -> LevelCounts {
        self.0.state.lock().seating.counts(level)
    }

    fn now(&self) -> Duration {
        self.0.start.elapsed()
    }

    fn finish(&self, ticket: &Ticket, since: Instant) {
        let end = Instant::now();
        let mut state = self.0.state.lock();
        let State { seating, outcomes, .. } = &mut *state;
        seating.finish(end - self.0.start, ticket, end - since, outcomes);
        state.tell();
    }

    /// Leaves the queue, or, if the outcome came at the same moment, acts upon that.
    fn leave(&self, mut ticket: Ticket, outcome: &mut oneshot::Receiver<Outcome>) {
        let mut state = self.0.state.lock();
        let State { seating, outcomes, waiters } = &mut *state;
        waiters.remove(&ticket.number());
        if !seating.abandon(self.now(), &ticket, outcomes)
            && let Ok(Outcome::Admitted(period)) = outcome.try_recv()
        {
            ticket.seated_in(period);
            seating.finish(self.now(), &ticket, Duration::ZERO, outcomes);
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
        self.flow.finish(&self.ticket, self.since);
    }
}

/// What becomes of a request that asks for seats.
pub enum Admission {
    Granted(Permit),
    Waiting(Waiter),
    Refused(TooMany),
}

/// Somebody who waits, and must not be forgotten in the queue: dropped, it leaves.
pub struct Waiter {
    flow: Flow,
    level: Level,
    /// None once it is settled.
    ticket: Option<Ticket>,
    outcome: oneshot::Receiver<Outcome>,
}

impl Waiter {
    /// Not longer than the level's patience.
    pub async fn wait(mut self) -> Result<Permit, TooMany> {
        let patience = self.flow.0.patience[self.level as usize];
        let told = tokio::time::timeout(patience, &mut self.outcome).await;
        match told {
            Ok(Ok(Outcome::Admitted(period))) => self.seated(period),
            Ok(Ok(Outcome::Refused(refused))) => {
                self.ticket = None;
                Err(refused)
            }
            // Out of patience: dropping leaves the queue.
            Ok(Err(_)) | Err(_) => Err(self.refusal()),
        }
    }

    fn seated(&mut self, period: Period) -> Result<Permit, TooMany> {
        let Some(mut ticket) = self.ticket.take() else { return Err(self.refusal()) };
        ticket.seated_in(period);
        Ok(Permit { flow: self.flow.clone(), ticket, since: Instant::now() })
    }

    fn refusal(&self) -> TooMany {
        let number = self.ticket.as_ref().map_or(0, Ticket::number);
        self.flow.0.state.lock().seating.too_many(self.level, number)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.flow.clone().leave(ticket, &mut self.outcome);
        }
    }
}
