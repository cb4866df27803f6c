//! Whose turn it is: properties of the decision under any sequence of events, and the waiting around it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use setpoint_access::{
    Arrival, Flow, FlowKey, FlowOptions, LEVELS, Level, LevelOptions, Outcome, Seating, Seats, Ticket,
};

const PATIENCE: Duration = Duration::from_secs(30);

fn options() -> FlowOptions {
    let level = |guaranteed, borrowed_max| LevelOptions {
        guaranteed,
        borrowed_max,
        flow_seats_max: 100,
        waiting_max: 8,
        flow_waiting_max: 5,
        patience: Duration::from_secs(10),
    };
    let levels = [level(2, 3), level(4, 3), level(3, 1), level(1, 0)];
    FlowOptions { common: 3, levels, hold_max: Duration::from_secs(3600) }
}

fn key(name: impl ToString) -> FlowKey {
    FlowKey::Principal(name.to_string().into())
}

/// Plays requests against the decision and keeps its own books.
struct Play {
    seating: Seating,
    options: FlowOptions,
    now: Duration,
    running: Vec<(Level, u32, Ticket)>,
    waiting: BTreeMap<u64, (Level, u32, Ticket)>,
    outcomes: Vec<(u64, Outcome)>,
}

impl Play {
    fn new(options: FlowOptions) -> Self {
        let (running, waiting, outcomes) = (Vec::new(), BTreeMap::new(), Vec::new());
        Self { seating: Seating::new(options), options, now: Duration::ZERO, running, waiting, outcomes }
    }

    /// Whether it was let in at once.
    fn arrive(&mut self, level: Level, flow: &FlowKey, cost: u32) -> Option<bool> {
        let arrival = self.seating.arrive(self.now, level, flow.clone(), Seats(cost), &mut self.outcomes);
        let cost = cost.clamp(1, self.options.levels[level as usize].guaranteed);
        let admitted = match arrival {
            Arrival::Admitted(ticket) => {
                self.running.push((level, cost, ticket));
                Some(true)
            }
            Arrival::Waiting(ticket) => {
                let number = ticket.number();
                self.waiting.insert(number, (level, cost, ticket));
                self.settle();
                Some(self.running.iter().any(|(_, _, ticket)| ticket.number() == number))
            }
            Arrival::Refused(_) => None,
        };
        self.check();
        admitted
    }

    fn finish(&mut self, place: usize) {
        let (_, _, ticket) = self.running.remove(place);
        self.seating.finish(self.now, &ticket, Duration::from_millis(5), &mut self.outcomes);
        self.settle();
        self.check();
    }

    fn abandon(&mut self, number: u64) {
        let (_, _, ticket) = self.waiting.remove(&number).expect("it waits");
        assert!(self.seating.abandon(self.now, &ticket, &mut self.outcomes), "it waited");
        assert!(!self.seating.abandon(self.now, &ticket, &mut self.outcomes), "it waits no more");
        self.settle();
        self.check();
    }

    /// Each outcome belongs to one that waits, and to one only.
    fn settle(&mut self) {
        for (number, outcome) in self.outcomes.drain(..) {
            let mut waited = self.waiting.remove(&number).expect("an outcome for nobody, or a second one");
            if let Outcome::Admitted(period) = outcome {
                waited.2.seated_in(period);
                self.running.push(waited);
            }
        }
    }

    /// INVARIANT A5, and that the books agree.
    fn check(&self) {
        let mut common = 0;
        for level in LEVELS {
            let (counts, options) = (self.seating.counts(level), self.options.levels[level as usize]);
            let used: u32 = self.running.iter().filter(|it| it.0 == level).map(|it| it.1).sum();
            let waiting = self.waiting.values().filter(|it| it.0 == level).count();
            assert_eq!((counts.seats_used, counts.waiting), (used, waiting), "{level:?}");
            assert!(waiting <= options.waiting_max, "{level:?} has {waiting} waiting");
            let borrowed = used.saturating_sub(options.guaranteed);
            assert!(borrowed <= options.borrowed_max, "{level:?} has borrowed {borrowed}");
            common += borrowed;
            // A level that nobody runs in has its guaranteed seats free, and no request costs more.
            assert!(used > 0 || waiting == 0, "{level:?}: somebody waits for nothing");
        }
        assert!(common <= self.options.common, "{common} of the common seats in use");
    }
}

#[derive(Clone, Debug)]
enum Event {
    Arrive { level: usize, flow: u8, cost: u32 },
    Finish(prop::sample::Index),
    Abandon(prop::sample::Index),
    Pass(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        5 => (0..4_usize, 0..4_u8, 0..6_u32).prop_map(|(level, flow, cost)| Event::Arrive { level, flow, cost }),
        3 => any::<prop::sample::Index>().prop_map(Event::Finish),
        1 => any::<prop::sample::Index>().prop_map(Event::Abandon),
        1 => (0..6_u64).prop_map(Event::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn bounds_hold_and_every_request_has_one_outcome(events in proptest::collection::vec(event(), 0..200)) {
        let mut play = Play::new(options());
        for event in events {
            match event {
                Event::Arrive { level, flow, cost } => {
                    play.arrive(LEVELS[level], &key(flow), cost);
                }
                Event::Finish(place) if !play.running.is_empty() => play.finish(place.index(play.running.len())),
                Event::Abandon(place) if !play.waiting.is_empty() => {
                    let place = place.index(play.waiting.len());
                    let number = *play.waiting.keys().nth(place).expect("in range");
                    play.abandon(number);
                }
                Event::Finish(_) | Event::Abandon(_) => {}
                Event::Pass(seconds) => play.now += Duration::from_secs(seconds),
            }
        }
        // Whoever waits is served, or has waited too long, once those who run have ended.
        while !play.running.is_empty() {
            play.finish(0);
        }
        prop_assert!(play.waiting.is_empty(), "{:?} starve", play.waiting.keys());
    }

    #[test]
    fn a_level_has_its_seats_whatever_the_others_do(
        events in proptest::collection::vec((1..4_usize, 0..4_u8, 0..6_u32), 0..100)
    ) {
        let mut play = Play::new(options());
        for (level, flow, cost) in events {
            play.arrive(LEVELS[level], &key(flow), cost);
        }
        for lease in 0..options().levels[0].guaranteed {
            prop_assert_eq!(play.arrive(Level::System, &key(lease), 1), Some(true));
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Seats are shared equally among those who always want more, whoever came first and in whatever order requests end.
    #[test]
    fn seats_are_shared_equally(
        flows in 2..6_usize,
        seats in 4..24_u32,
        ends in proptest::collection::vec(any::<prop::sample::Index>(), 100..200),
    ) {
        let mut options = options();
        options.levels[2] = LevelOptions {
            guaranteed: seats, borrowed_max: 0, waiting_max: 100, flow_waiting_max: 4, ..options.levels[2]
        };
        let mut play = Play::new(options);
        let keys: Vec<FlowKey> = (0..flows).map(key).collect();
        let refill = |play: &mut Play| {
            for key in &keys {
                while play.arrive(Level::Users, key, 1).is_some() {}
            }
        };
        // The first one takes everything before the others come.
        refill(&mut play);
        for _ in 0..seats {
            play.finish(0);
            refill(&mut play);
        }
        for end in ends {
            let has: Vec<u32> = keys.iter().map(|key| play.seating.seats_of(Level::Users, key)).collect();
            let (least, most) = (has.iter().min().copied(), has.iter().max().copied());
            prop_assert!(most.unwrap_or(0) - least.unwrap_or(0) <= 1, "{has:?}");
            let place = end.index(play.running.len());
            play.finish(place);
            refill(&mut play);
        }
    }
}

#[test]
fn a_flood_delays_the_request_of_another_by_one_request_only() {
    let mut play = Play::new(options());
    let (flood, modest) = (key("flood"), key("modest"));
    while play.arrive(Level::Users, &flood, 1).is_some() {}
    for _ in 0..20 {
        assert_eq!(play.arrive(Level::Users, &modest, 1), Some(false), "there is a place to wait");
        play.finish(0);
        let mine = play.running.len() - 1;
        assert_eq!(play.seating.seats_of(Level::Users, &modest), 1, "the next seat is for who has none");
        play.finish(mine);
        while play.arrive(Level::Users, &flood, 1).is_some() {}
    }
}

#[test]
fn where_no_more_may_wait_the_one_with_most_waiting_makes_place() {
    let mut play = Play::new(options());
    let (flood, other) = (key("flood"), key("other"));
    while play.arrive(Level::Users, &flood, 1).is_some() {}
    while play.arrive(Level::Users, &other, 1).is_some() {}
    let before = play.seating.counts(Level::Users);
    assert_eq!((before.waiting, before.given_up), (8, 1), "they share the places equally");
    assert_eq!(play.arrive(Level::Users, &key("modest"), 1), Some(false), "one of them lost a place");
    let after = play.seating.counts(Level::Users);
    assert_eq!((after.waiting, after.given_up), (8, 2));
}

#[test]
fn a_costly_request_is_not_passed_by_cheap_ones_for_ever() {
    let mut play = Play::new(options());
    for flow in 0..4 {
        play.arrive(Level::Users, &key(flow), 1);
    }
    assert_eq!(play.arrive(Level::Users, &key("costly"), 3), Some(false));
    for round in 0..4 {
        play.arrive(Level::Users, &key(format!("late {round}")), 1);
        play.finish(0);
    }
    assert_eq!(play.seating.seats_of(Level::Users, &key("costly")), 3);
}

#[test]
fn the_hint_grows_with_the_queue_and_differs_between_requests() {
    let mut play = Play::new(options());
    while play.arrive(Level::Bulk, &key("a"), 1).is_some() {}
    let hints: Vec<Duration> = (0..16).map(|it| play.seating.too_many(Level::Bulk, it).retry_after).collect();
    assert!(hints.windows(2).all(|pair| pair[0] < pair[1]), "{hints:?}");
    assert!(hints.iter().all(|hint| *hint >= Duration::from_millis(100) && *hint <= Duration::from_secs(15)));
}

#[test]
fn one_principal_cannot_have_all_seats_and_those_it_has_count_as_free_in_the_end() {
    let (mut options, seconds) = (options(), Duration::from_secs(10));
    options.hold_max = seconds;
    options.levels[2].flow_seats_max = 2;
    let mut play = Play::new(options);
    let (hoarder, other) = (key("hoarder"), key("other"));
    assert_eq!(play.arrive(Level::Users, &hoarder, 1), Some(true));
    assert_eq!(play.arrive(Level::Users, &hoarder, 9), Some(false), "it costs two, and one is left");
    play.now += Duration::from_secs(1);
    assert_eq!(play.arrive(Level::Users, &hoarder, 1), Some(false));
    for _ in 0..2 {
        assert_eq!(play.arrive(Level::Users, &other, 1), Some(true), "those who wait have their share");
    }
    play.now += seconds;
    assert_eq!(play.arrive(Level::Users, &other, 1), Some(false), "it has two as well");
    assert_eq!(play.seating.seats_of(Level::Users, &hoarder), 1);
}

#[test]
fn a_seat_that_is_not_given_back_counts_as_free_after_two_periods_and_only_once() {
    let mut options = options();
    options.hold_max = Duration::from_secs(30);
    let mut seating = Seating::new(options);
    let arrive = |seating: &mut Seating, seconds| {
        let (at, mut outcomes) = (Duration::from_secs(seconds), Vec::new());
        match seating.arrive(at, Level::Bulk, key("a"), Seats(1), &mut outcomes) {
            Arrival::Admitted(ticket) => Some(ticket),
            Arrival::Waiting(ticket) => {
                assert!(seating.abandon(at, &ticket, &mut outcomes));
                None
            }
            Arrival::Refused(_) => None,
        }
    };
    let stuck = arrive(&mut seating, 29).expect("there is a seat");
    assert!(arrive(&mut seating, 31).is_none(), "it is two seconds old");
    let next = arrive(&mut seating, 61).expect("now it is free");
    assert_eq!(seating.counts(Level::Bulk).seats_used, 1);
    let mut outcomes = Vec::new();
    seating.finish(Duration::from_secs(62), &stuck, Duration::ZERO, &mut outcomes);
    assert_eq!(seating.counts(Level::Bulk).seats_used, 1, "the seat of another is not given back");
    seating.finish(Duration::from_secs(63), &next, Duration::ZERO, &mut outcomes);
    assert_eq!(seating.counts(Level::Bulk).seats_used, 0);
}

fn one_seat(patience: Duration) -> Flow {
    let level = LevelOptions {
        guaranteed: 1,
        borrowed_max: 0,
        flow_seats_max: 1,
        waiting_max: 64,
        flow_waiting_max: 64,
        patience,
    };
    Flow::new(FlowOptions { common: 0, levels: [level; 4], hold_max: PATIENCE })
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_permit_that_is_dropped_lets_the_next_one_in() {
    let flow = one_seat(PATIENCE);
    let first = flow.admit(Level::Users, key("a"), Seats(1)).await.expect("a seat");
    let waiting = tokio::spawn({
        let flow = flow.clone();
        async move { flow.admit(Level::Users, key("b"), Seats(1)).await.is_ok() }
    });
    until("it waits", || flow.counts(Level::Users).waiting == 1).await;
    drop(first);
    assert!(waiting.await.expect("it ends"));
    assert_eq!(flow.counts(Level::Users).seats_used, 0);
    assert_eq!(flow.counts(Level::Users).admitted, 2);
}

#[tokio::test]
async fn whoever_runs_out_of_patience_is_told_when_to_return() {
    let flow = one_seat(Duration::from_millis(5));
    let _first = flow.admit(Level::Users, key("a"), Seats(1)).await.expect("a seat");
    let Err(refused) = flow.admit(Level::Users, key("b"), Seats(1)).await else { panic!("there is no seat") };
    assert!(refused.retry_after >= Duration::from_millis(100), "{refused}");
    let counts = flow.counts(Level::Users);
    assert_eq!((counts.waiting, counts.given_up, counts.seats_used), (0, 1, 1));
}

#[tokio::test]
async fn whoever_stops_waiting_leaves_the_queue() {
    let flow = one_seat(PATIENCE);
    let first = flow.admit(Level::Users, key("a"), Seats(1)).await.expect("a seat");
    let waiting = tokio::spawn({
        let flow = flow.clone();
        async move { flow.admit(Level::Users, key("b"), Seats(1)).await.is_ok() }
    });
    until("it waits", || flow.counts(Level::Users).waiting == 1).await;
    waiting.abort();
    until("it is gone", || flow.counts(Level::Users).waiting == 0).await;
    drop(first);
    assert!(flow.admit(Level::Users, key("c"), Seats(1)).await.is_ok(), "the seat was not lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_seat_is_lost_however_requests_end() {
    let flow = one_seat(Duration::from_millis(2));
    let tasks = (0..400_u32).map(|number| {
        let flow = flow.clone();
        tokio::spawn(async move {
            let admitted = flow.admit(Level::Users, key(number % 7), Seats(1));
            // Some clients go away while they wait, some just as they are let in.
            let within = Duration::from_micros(u64::from(number % 50) * 40);
            if let Ok(Ok(permit)) = tokio::time::timeout(within, admitted).await {
                tokio::task::yield_now().await;
                drop(permit);
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
    let counts = flow.counts(Level::Users);
    assert_eq!((counts.seats_used, counts.waiting), (0, 0));
    assert!(flow.admit(Level::Users, key("last"), Seats(1)).await.is_ok());
}
