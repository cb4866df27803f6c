//! What the queue promises of each key, written down without any of what makes it fast.

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_runtime::queue::core::{Backoff, Core, Next, Ticket};
use setpoint_runtime::queue::{
    Added, Ask, Drain, LEVELS, Moment, Offered, Outcome, Priority, Refusal, Settings, Tenant, TenantOf,
};

pub const KEYS: usize = 24;
pub const TENANTS: usize = 4;

/// A queue and what is to be true of it.
pub struct Model {
    core: Core<usize>,
    backoff: Backoff,
    settings: Settings,
    now: Moment,
    keys: BTreeMap<usize, Known>,
    tickets: Vec<Ticket<usize>>,
    dropped: bool,
    /// When each run began, by gets.
    starts: Vec<Moment>,
}

/// A key that somebody wants a run of, or that runs.
#[derive(Default)]
struct Known {
    /// Adds that no run has answered, by their time.
    owed: Vec<Moment>,
    /// Which of them is answered on time: the first, and after that the last.
    on_time: Option<Moment>,
    /// What the last run wished for.
    wish: Option<Moment>,
    running: Option<Run>,
    failures: u32,
    delay: Duration,
    retry_at: Moment,
    calm_until: Moment,
    /// The count of gets when it became ready or changed its level, as far as this model has looked.
    ready_at_get: Option<u64>,
}

struct Run {
    early: bool,
}

impl Known {
    /// When it may run. A run before that has no reason.
    fn due(&self) -> Option<Moment> {
        let owed = self.on_time.map(|owed| if self.failures > 0 { owed.max(self.calm_until) } else { owed });
        owed.into_iter().chain(self.wish).min()
    }

    fn is_known(&self) -> bool {
        self.running.is_some() || self.due().is_some() || !self.owed.is_empty()
    }
}

impl Model {
    pub fn new(settings: Settings) -> Self {
        let options = settings.clone().check().expect("settings within bounds");
        let tenants = TenantOf::new(|key: &usize| Tenant::named(&(key % TENANTS)));
        Self {
            backoff: Backoff::new(&options),
            core: Core::new(options, tenants),
            settings,
            now: Moment::default(),
            keys: BTreeMap::new(),
            tickets: Vec::new(),
            dropped: false,
            starts: Vec::new(),
        }
    }

    pub fn add(&mut self, key: usize, priority: Priority, delay: Duration) {
        match self.core.add(self.now, key, Ask::after(delay, priority)) {
            Ok(added) => self.added(key, delay, added),
            Err(refused) => {
                assert_eq!((refused.key, refused.reason), (key, Refusal::Full));
                self.assert_no_room(key, priority);
            }
        }
        self.compare();
    }

    pub fn offer(&mut self, key: usize, priority: Priority) {
        match self.core.offer(self.now, key, priority.into()) {
            Offered::Added(added) => self.added(key, Duration::ZERO, added),
            Offered::Overflowed => {
                self.assert_no_room(key, priority);
                self.dropped = true;
            }
            Offered::ShutDown => panic!("nobody shut it down"),
        }
        self.compare();
    }

    fn added(&mut self, key: usize, delay: Duration, added: Added) {
        let due = self.now.after(delay);
        let was_known = self.keys.contains_key(&key);
        assert_eq!(added == Added::Queued, !was_known, "Q1: {added:?}");
        let known = self.keys.entry(key).or_default();
        known.owed.push(due);
        known.on_time = Some(known.on_time.map_or(due, |first| first.min(due)));
        if added == Added::Moved {
            known.ready_at_get = None;
        }
        self.note_ready();
    }

    fn assert_no_room(&self, key: usize, priority: Priority) {
        assert!(!self.keys.contains_key(&key), "Q7: a key that is known is never refused");
        let percent = if priority == Priority::Bulk { self.settings.bulk_percent_max as usize } else { 100 };
        assert!(self.keys.len() >= (self.settings.keys_max * percent / 100).max(1), "Q7: there was room");
    }

    /// Takes a key if there is one, and says so.
    pub fn next(&mut self) -> bool {
        match self.core.next(self.now) {
            Next::Run(ticket) => {
                self.start(&ticket);
                self.tickets.push(ticket);
                self.compare();
                true
            }
            Next::Wait(at) => {
                self.assert_idle(at);
                false
            }
            Next::Closed => panic!("nobody shut it down"),
        }
    }

    fn start(&mut self, ticket: &Ticket<usize>) {
        let bound = self.bound();
        self.starts.push(self.now);
        let gets = self.gets();
        self.assert_limits(*ticket.key % TENANTS);
        let known = self.keys.get_mut(&*ticket.key).expect("Q1: a key that nobody added ran");
        assert!(known.running.is_none(), "Q2: it runs already");
        assert!(known.due().is_some_and(|due| due <= self.now), "Q3: it had no reason to run now");
        assert_eq!(ticket.failures, known.failures, "Q4");
        if let Some(since) = known.ready_at_get.take() {
            assert!(gets - since <= bound, "Q5: waited for {} gets of {bound}", gets - since);
        }
        known.owed.retain(|due| *due > self.now);
        if known.on_time.is_some_and(|first| first <= self.now) {
            known.on_time = known.owed.iter().max().copied();
        }
        known.wish = None;
        known.running = Some(Run { early: known.failures > 0 && self.now < known.retry_at });
    }

    fn gets(&self) -> u64 {
        self.starts.len() as u64
    }

    /// Another run of this tenant has begun.
    fn assert_limits(&self, tenant: usize) {
        let of_tenant =
            self.keys.iter().filter(|(key, known)| *key % TENANTS == tenant && known.running.is_some());
        let most = self.settings.tenant_running_max as usize;
        assert!(most == 0 || of_tenant.count() < most, "Q6: the tenant is at its limit");
        let rate = f64::from(self.settings.starts_per_second);
        for (index, start) in self.starts.iter().enumerate().filter(|_| rate > 0.0) {
            let most = f64::from(self.settings.starts_burst) + rate * self.now.since(*start).as_secs_f64();
            let begun = (self.starts.len() - index) as f64;
            // A token comes back after a whole number of nanoseconds.
            assert!(begun <= most + 0.01, "Q8: {begun} runs began where {most} may");
        }
    }

    /// Of gets. Tenants at their limit have none.
    fn bound(&self) -> u64 {
        let keys_of_a_tenant = KEYS.div_ceil(TENANTS);
        match self.settings.tenant_running_max {
            0 => (keys_of_a_tenant * TENANTS * (self.settings.ageing_gets as usize + LEVELS)) as u64,
            _ => u64::MAX,
        }
    }

    /// Nothing was handed out: nothing may run, or a limit is in the way.
    fn assert_idle(&self, at: Option<Moment>) {
        let limited = self.settings.starts_per_second > 0 || self.settings.tenant_running_max > 0;
        assert!(at.is_none_or(|at| at > self.now), "waiting for the past");
        let due = self.keys.values().filter(|known| known.running.is_none()).filter_map(Known::due).min();
        if at.is_none() {
            assert!(!self.tickets.is_empty() || due.is_none(), "Q1: a key is waited for by nobody");
        }
        if !limited {
            assert!(due.is_none_or(|due| due > self.now), "Q1: a key is due and not handed out");
            assert_eq!(at, due, "the next key is not waited for");
        }
    }

    pub fn finish(&mut self, which: usize, outcome: Outcome, random: u64) {
        if self.tickets.is_empty() {
            return;
        }
        let ticket = self.tickets.remove(which % self.tickets.len());
        let key = *ticket.key;
        self.core.finish(self.now, ticket, outcome, random);
        self.finished(key, outcome, random);
        self.compare();
    }

    fn finished(&mut self, key: usize, outcome: Outcome, random: u64) {
        let now = self.now;
        let known = self.keys.get_mut(&key).expect("it ran");
        let run = known.running.take().expect("it ran");
        match outcome {
            Outcome::Failed => self.failed(key, run, random, Duration::ZERO),
            Outcome::FailedFor(least) => self.failed(key, run, random, least),
            Outcome::Done | Outcome::After(_) => {
                let (owed, on_time) = (std::mem::take(&mut known.owed), known.on_time);
                let wish = match outcome {
                    Outcome::After(delay) => Some(now.after(delay)),
                    _ => None,
                };
                *known = Known { owed, on_time, wish, ..Known::default() };
            }
        }
        if !self.keys[&key].is_known() {
            self.keys.remove(&key);
        }
        self.note_ready();
    }

    /// The wait follows from the random number; it is checked against what it may be.
    fn failed(&mut self, key: usize, run: Run, random: u64, least: Duration) {
        let settings = &self.settings;
        let known = self.keys.get_mut(&key).expect("it ran");
        if !run.early {
            known.failures += 1;
            known.delay = self.backoff.delay(known.failures, random);
            known.retry_at = self.now.after(known.delay);
            let factor = u64::from(settings.backoff_factor).saturating_pow(known.failures - 1);
            let full = settings.backoff_first_ms.saturating_mul(factor).min(settings.backoff_max_ms);
            let full = Duration::from_millis(full);
            let shortest = full * (100 - settings.backoff_jitter_percent) / 100;
            assert!(known.delay <= full && known.delay >= shortest, "Q4: {:?} of {full:?}", known.delay);
        }
        let calm = known.delay.as_nanos() as u64 * u64::from(settings.event_wait_percent) / 100;
        known.calm_until = self.now.after(Duration::from_nanos(calm).max(least));
        known.retry_at = known.retry_at.max(self.now.after(least));
        known.wish = Some(known.retry_at);
    }

    pub fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.note_ready();
    }

    pub fn overflow(&mut self) {
        let room = self.settings.keys_max * self.settings.resync_percent as usize / 100;
        let expected = self.dropped && self.keys.len() <= room;
        assert_eq!(self.core.take_overflow(), expected, "Q7");
        self.dropped &= !expected;
    }

    pub fn runs(&self, key: usize) -> bool {
        self.keys.get(&key).is_some_and(|known| known.running.is_some())
    }

    /// Whoever is ready waits from now on, as far as the bound is concerned.
    fn note_ready(&mut self) {
        let gets = self.gets();
        for known in self.keys.values_mut() {
            let ready = known.running.is_none() && known.due().is_some_and(|due| due <= self.now);
            if ready && known.ready_at_get.is_none() {
                known.ready_at_get = Some(gets);
            }
        }
    }

    fn compare(&mut self) {
        let snapshot = self.core.snapshot(self.now);
        let running = self.keys.values().filter(|known| known.running.is_some()).count();
        assert_eq!(snapshot.running, running, "Q2");
        assert_eq!(snapshot.keys(), self.keys.len(), "Q1");
        assert!(snapshot.keys() <= self.settings.keys_max, "Q7");
        let ready = self.keys.values().filter(|known| known.ready_at_get.is_some()).count();
        assert_eq!(snapshot.ready.iter().sum::<usize>(), ready, "Q3");
        assert_eq!(snapshot.overflowed, self.dropped);
    }

    /// Everything succeeds from now on: what is owed is answered, and the queue is empty in the end.
    pub fn run_out(&mut self) {
        for _ in 0..100_000 {
            while self.next() {}
            match self.tickets.is_empty() {
                false => self.finish(0, Outcome::Done, 0),
                true if self.keys.is_empty() => break,
                true => self.pass(Duration::from_millis(50)),
            }
        }
        assert!(self.keys.is_empty(), "Q1: {:?} never ran", self.keys.keys());
        assert_eq!(self.core.snapshot(self.now).tenants, 0);
        self.core.shut_down(Drain::Ready);
        assert!(self.core.is_drained());
    }
}
