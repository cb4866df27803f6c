//! A circuit breaker: an endpoint that keeps failing is left alone for a while, then tried by one request.
//!
//! Pure: time and randomness are arguments. Not here: which failures count (`attempt`) and who asks (`pool`).

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;

/// When an endpoint is left alone, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// So many failures in a row open it.
    pub failures_max: u32,
    /// How long it stays open; longer each time a trial fails.
    pub open: Backoff,
}

impl Default for BreakerSettings {
    /// The longest pause is a third of a usual lease: whoever holds one can renew it in time once the server is back.
    fn default() -> Self {
        let open = Backoff { first: Duration::from_millis(500), max: Duration::from_secs(5) };
        Self { failures_max: 3, open }
    }
}

/// The breaker of one endpoint.
///
/// **Guarantees**: while it is open nothing is sent; afterwards one request at a time is, until one succeeds.
/// **Assumes** that whoever was let through reports back, or says that it gave up.
#[derive(Clone, Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed {
        failures: u32,
    },
    Open {
        until: Instant,
        openings: u32,
    },
    /// One request finds out.
    Trying {
        openings: u32,
    },
}

impl Breaker {
    pub fn new(settings: BreakerSettings) -> Self {
        Self { settings, state: State::Closed { failures: 0 } }
    }

    /// Whether a request may be sent now.
    pub fn admits(&self, now: Instant) -> bool {
        match self.state {
            State::Closed { .. } => true,
            State::Open { until, .. } => now >= until,
            State::Trying { .. } => false,
        }
    }

    /// When it may be asked again, if it is open.
    pub fn opens_until(&self) -> Option<Instant> {
        match self.state {
            State::Open { until, .. } => Some(until),
            State::Closed { .. } | State::Trying { .. } => None,
        }
    }

    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed { .. })
    }

    /// A request that was admitted is being sent.
    pub fn sent(&mut self) {
        if let State::Open { openings, .. } = self.state {
            self.state = State::Trying { openings };
        }
    }

    /// The endpoint answered, whatever it said.
    pub fn succeeded(&mut self) {
        self.state = State::Closed { failures: 0 };
    }

    /// It could not be reached, or did not answer in time.
    pub fn failed(&mut self, now: Instant, fraction: f64) {
        let openings = match self.state {
            State::Closed { failures } if failures + 1 < self.settings.failures_max => {
                self.state = State::Closed { failures: failures + 1 };
                return;
            }
            State::Closed { .. } => 0,
            // Requests sent before it opened may fail after; they tell nothing new.
            State::Open { .. } => return,
            State::Trying { openings } => openings.saturating_add(1),
        };
        let until = now + self.settings.open.wait(openings, fraction);
        self.state = State::Open { until, openings };
    }

    /// The request was given up before anything was known: another one may try.
    pub fn given_up(&mut self, now: Instant) {
        if let State::Trying { openings } = self.state {
            self.state = State::Open { until: now, openings };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaker() -> (Breaker, Instant) {
        (Breaker::new(BreakerSettings::default()), Instant::now())
    }

    #[test]
    fn it_opens_after_failures_in_a_row_only() {
        let (mut breaker, now) = breaker();
        for _ in 0..10 {
            breaker.failed(now, 0.0);
            breaker.failed(now, 0.0);
            breaker.succeeded();
        }
        assert!(breaker.admits(now) && breaker.is_closed());
        for _ in 0..3 {
            breaker.failed(now, 0.0);
        }
        assert!(!breaker.admits(now));
    }

    #[test]
    fn an_open_one_lets_a_single_request_through_after_its_time() {
        let (mut breaker, now) = breaker();
        (0..3).for_each(|_| breaker.failed(now, 1.0));
        let until = breaker.opens_until().unwrap();
        assert!(!breaker.admits(now) && breaker.admits(until));
        breaker.sent();
        assert!(!breaker.admits(until), "one trial at a time");
        breaker.failed(until, 1.0);
        let longer = breaker.opens_until().unwrap();
        assert!(longer - until > until - now, "each failed trial makes it wait longer");
        breaker.sent();
        breaker.given_up(longer);
        assert!(breaker.admits(longer), "a trial that was given up is not a verdict");
        breaker.sent();
        breaker.succeeded();
        assert!(breaker.is_closed());
    }

    #[test]
    fn late_failures_of_requests_sent_before_do_not_lengthen_it() {
        let (mut breaker, now) = breaker();
        (0..20).for_each(|_| breaker.failed(now, 0.0));
        assert!(breaker.opens_until().unwrap() - now < Duration::from_secs(1));
    }
}
