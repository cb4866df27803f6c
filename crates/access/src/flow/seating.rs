//! The decision whose request runs, without a clock and without waiting.
//!
//! Time is a duration since some start, and comes in with every call. Two laws, checked by its tests: a level never lacks
//! its guaranteed seats because of another one, and never more seats are in use than there are (INVARIANT A5).

use std::time::Duration;

use super::key::FlowKey;
use super::lane::{Lane, Period, Waiting};
use super::level::{FlowOptions, LEVELS, Level, LevelCounts, Seats};

/// A request that was let in or waits. Whoever has it gives it back with [`Seating::finish`] or [`Seating::abandon`].
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket {
    number: u64,
    level: Level,
    key: FlowKey,
    cost: Seats,
    seated: Period,
}

impl Ticket {
    /// For one that waited: when its seats were taken.
    pub fn seated_in(&mut self, period: Period) {
        self.seated = period;
    }

    pub fn number(&self) -> u64 {
        self.number
    }
}

/// There is no place for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many requests; try again in {} ms", retry_after.as_millis())]
pub struct TooMany {
    /// An estimate of when there will be one; differs from request to request, so that not all return at once.
    pub retry_after: Duration,
}

/// What becomes of a new request.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival {
    Admitted(Ticket),
    /// An [`Outcome`] with its number will follow, here or from a later call.
    Waiting(Ticket),
    Refused(TooMany),
}

/// What became of a request that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// In this period, which its ticket has to be told.
    Admitted(Period),
    /// It waited too long, or a principal with fewer requests got its place.
    Refused(TooMany),
}

/// All levels. Every call that can end somebody's waiting adds to `outcomes`, by number.
#[derive(Debug)]
pub struct Seating {
    options: FlowOptions,
    lanes: [Lane; 4],
    counts: [LevelCounts; 4],
    /// How long requests have run of late, by level.
    service: [Duration; 4],
    numbers: u64,
    /// When the period began that it is now.
    period_began: Duration,
}

const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(10);
/// A request's weight in the mean time of service.
const SMOOTHING: u32 = 8;
/// Parts that retries are spread over.
const SPREAD: u32 = 16;

impl Seating {
    pub fn new(mut options: FlowOptions) -> Self {
        for level in &mut options.levels {
            level.guaranteed = level.guaranteed.max(1);
            level.flow_seats_max = level.flow_seats_max.max(1);
        }
        options.hold_max = options.hold_max.max(Duration::from_millis(1));
        let (service, period_began) = ([Duration::from_millis(10); 4], Duration::ZERO);
        let (lanes, counts) = Default::default();
        Self { options, lanes, counts, service, numbers: 0, period_began }
    }

    /// A request comes.
    pub fn arrive(
        &mut self,
        now: Duration,
        level: Level,
        key: FlowKey,
        cost: Seats,
        outcomes: &mut Vec<(u64, Outcome)>,
    ) -> Arrival {
        let options = self.options.levels[level as usize];
        let cost = Seats(cost.0.clamp(1, options.guaranteed.min(options.flow_seats_max)));
        self.numbers += 1;
        self.let_periods_pass(now);
        let mut ticket = Ticket { number: self.numbers, level, key, cost, seated: Period::default() };
        let lane = &self.lanes[level as usize];
        let first = lane.waiting_of(&ticket.key) == 0 && self.nobody_is_kept_waiting(level);
        if first && self.has_seats(level, &ticket.key, cost) {
            ticket.seated = self.seat(level, &ticket.key, cost);
            return Arrival::Admitted(ticket);
        }
        let lane = &self.lanes[level as usize];
        let own = lane.waiting_of(&ticket.key);
        if own >= options.flow_waiting_max || !self.make_place(level, own, outcomes) {
            self.counts[level as usize].refused += 1;
            return Arrival::Refused(self.too_many(level, ticket.number));
        }
        let waiting = Waiting { number: ticket.number, cost, deadline: now + options.patience };
        self.lanes[level as usize].push(&ticket.key, waiting);
        self.dispatch(now, outcomes);
        Arrival::Waiting(ticket)
    }

    /// A request that was admitted has ended, after it ran for `held`.
    pub fn finish(
        &mut self,
        now: Duration,
        ticket: &Ticket,
        held: Duration,
        outcomes: &mut Vec<(u64, Outcome)>,
    ) {
        let mean = &mut self.service[ticket.level as usize];
        *mean = (*mean * (SMOOTHING - 1) + held.min(RETRY_MAX)) / SMOOTHING;
        self.lanes[ticket.level as usize].give_back(&ticket.key, ticket.cost, ticket.seated);
        self.dispatch(now, outcomes);
    }

    /// Nobody waits for this request any more. False if it did not wait: then its outcome is already known.
    pub fn abandon(&mut self, now: Duration, ticket: &Ticket, outcomes: &mut Vec<(u64, Outcome)>) -> bool {
        let removed = self.lanes[ticket.level as usize].remove(&ticket.key, ticket.number);
        if removed.is_some() {
            self.counts[ticket.level as usize].given_up += 1;
            // It may have been the one that all waited for.
            self.dispatch(now, outcomes);
        }
        removed.is_some()
    }

    pub fn counts(&self, level: Level) -> LevelCounts {
        let lane = &self.lanes[level as usize];
        LevelCounts { seats_used: lane.used(), waiting: lane.waiting(), ..self.counts[level as usize] }
    }

    /// The seats of one principal.
    pub fn seats_of(&self, level: Level, key: &FlowKey) -> u32 {
        self.lanes[level as usize].used_by(key)
    }

    /// What a level that was refused is told; `number` spreads the answers.
    pub fn too_many(&self, level: Level, number: u64) -> TooMany {
        let place = level as usize;
        let rounds = self.lanes[place].waiting_cost() / u64::from(self.options.levels[place].guaranteed) + 1;
        let wait = self.service[place].saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX));
        let wait = wait.clamp(RETRY_MIN, RETRY_MAX);
        let part = u32::try_from(number % u64::from(SPREAD)).unwrap_or(0);
        TooMany { retry_after: wait + wait * part / (2 * SPREAD) }
    }

    /// Lets in everybody whose turn it is, the most urgent levels first.
    fn dispatch(&mut self, now: Duration, outcomes: &mut Vec<(u64, Outcome)>) {
        self.let_periods_pass(now);
        for level in LEVELS {
            while let Some((key, waiting)) = self.lanes[level as usize].head() {
                if waiting.deadline <= now {
                    self.lanes[level as usize].pop_first(&key);
                    self.counts[level as usize].given_up += 1;
                    outcomes.push((waiting.number, Outcome::Refused(self.too_many(level, waiting.number))));
                } else if self.has_seats(level, &key, waiting.cost) {
                    self.lanes[level as usize].pop_first(&key);
                    let period = self.seat(level, &key, waiting.cost);
                    outcomes.push((waiting.number, Outcome::Admitted(period)));
                } else {
                    break;
                }
            }
        }
    }

    /// Seats that were taken long ago count as free, see [`FlowOptions::hold_max`].
    fn let_periods_pass(&mut self, now: Duration) {
        // After two, all of them do: there is nothing left to be counted after more.
        for _ in 0..2 {
            if now.saturating_sub(self.period_began) < self.options.hold_max {
                return;
            }
            self.period_began += self.options.hold_max;
            self.lanes.iter_mut().for_each(Lane::next_period);
        }
        self.period_began = now;
    }

    fn seat(&mut self, level: Level, key: &FlowKey, cost: Seats) -> Period {
        let period = self.lanes[level as usize].take(key, cost);
        self.counts[level as usize].admitted += 1;
        assert!(self.common_used() <= self.options.common, "INVARIANT A5: more seats in use than there are");
        period
    }

    /// Whether a level has so many seats left for this principal, of its own or of the common ones.
    fn has_seats(&self, level: Level, key: &FlowKey, cost: Seats) -> bool {
        let borrowed = self.borrowed(level);
        let options = &self.options.levels[level as usize];
        if self.lanes[level as usize].used_by(key) + cost.0 > options.flow_seats_max {
            return false;
        }
        let then = (self.lanes[level as usize].used() + cost.0).saturating_sub(options.guaranteed);
        then <= options.borrowed_max && self.common_used() - borrowed + then <= self.options.common
    }

    /// Whether those who wait, if any do, wait only because they have all that one principal may have.
    fn nobody_is_kept_waiting(&self, level: Level) -> bool {
        let (lane, options) = (&self.lanes[level as usize], &self.options.levels[level as usize]);
        // Next is whoever has the fewest, so that all others have no less.
        let kept =
            |(key, next): (FlowKey, Waiting)| lane.used_by(&key) + next.cost.0 <= options.flow_seats_max;
        lane.waiting() == 0 || !lane.head().is_some_and(kept)
    }

    fn borrowed(&self, level: Level) -> u32 {
        self.lanes[level as usize].used().saturating_sub(self.options.levels[level as usize].guaranteed)
    }

    fn common_used(&self) -> u32 {
        LEVELS.iter().map(|level| self.borrowed(*level)).sum()
    }

    /// Whether one more may wait; where none may, the one with the most requests waiting loses its newest, unless that
    /// would only turn the two around.
    fn make_place(&mut self, level: Level, own: usize, outcomes: &mut Vec<(u64, Outcome)>) -> bool {
        let place = level as usize;
        if self.lanes[place].waiting() < self.options.levels[place].waiting_max {
            return true;
        }
        let Some((length, longest)) = self.lanes[place].longest() else { return false };
        if length <= own + 1 {
            return false;
        }
        let Some(evicted) = self.lanes[place].pop_last(&longest) else { return false };
        self.counts[place].given_up += 1;
        outcomes.push((evicted.number, Outcome::Refused(self.too_many(level, evicted.number))));
        true
    }
}
