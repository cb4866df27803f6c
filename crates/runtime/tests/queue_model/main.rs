//! The queue against a model: any sequence of adds, runs and times keeps what it promises.
//!
//! The model is what a reader of the promises would write down: for each key, which adds no run has answered, and what its
//! last run wished for. It knows no lists, levels or timers, and does not say which key comes next, only which may. What it
//! cannot see, order, is checked by counting gets against the bound.

mod model;

use std::time::Duration;

use model::{KEYS, Model, TENANTS};
use proptest::prelude::*;
use setpoint_runtime::queue::{Outcome, PRIORITIES, Priority, Settings};

/// One thing that happens to a queue.
#[derive(Clone, Debug)]
enum Step {
    Add { key: usize, priority: Priority, delay_ms: u64 },
    Offer { key: usize, priority: Priority },
    Next,
    Finish { which: usize, outcome: Outcome, random: u64 },
    Pass { ms: u64 },
    Overflow,
}

fn priority() -> impl Strategy<Value = Priority> {
    (0..PRIORITIES.len()).prop_map(|level| PRIORITIES[level])
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        3 => Just(Outcome::Done),
        3 => Just(Outcome::Failed),
        1 => (0u64..5_000).prop_map(|ms| Outcome::FailedFor(Duration::from_millis(ms))),
        1 => (0u64..500).prop_map(|ms| Outcome::After(Duration::from_millis(ms))),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let delay = prop_oneof![4 => Just(0), 1 => 0u64..400];
    prop_oneof![
        6 => (0..KEYS, priority(), delay).prop_map(|(key, priority, delay_ms)| Step::Add { key, priority, delay_ms }),
        1 => (0..KEYS, priority()).prop_map(|(key, priority)| Step::Offer { key, priority }),
        6 => Just(Step::Next),
        5 => (0usize..8, outcome(), any::<u64>())
            .prop_map(|(which, outcome, random)| Step::Finish { which, outcome, random }),
        4 => (0u64..120).prop_map(|ms| Step::Pass { ms }),
        1 => Just(Step::Overflow),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    let bounds = (1usize..=KEYS + 2, 50u32..=100, 0u32..=99);
    let backoff = (1u64..60, 1u32..4, 100u64..2000, 0u32..=100, 0u32..=100);
    let others = (prop_oneof![Just(0u32), 20u32..200], 1u32..5, 1u32..6, 0u32..4);
    (bounds, backoff, others).prop_map(|(bounds, backoff, others)| Settings {
        keys_max: bounds.0,
        bulk_percent_max: bounds.1,
        resync_percent: bounds.2,
        backoff_first_ms: backoff.0,
        backoff_factor: backoff.1,
        backoff_max_ms: backoff.2,
        backoff_jitter_percent: backoff.3,
        event_wait_percent: backoff.4,
        starts_per_second: others.0,
        starts_burst: others.1,
        ageing_gets: others.2,
        tenant_running_max: others.3,
    })
}

fn play(model: &mut Model, step: Step) {
    match step {
        Step::Add { key, priority, delay_ms } => model.add(key, priority, Duration::from_millis(delay_ms)),
        Step::Offer { key, priority } => model.offer(key, priority),
        Step::Next => drop(model.next()),
        Step::Finish { which, outcome, random } => model.finish(which, outcome, random),
        Step::Pass { ms } => model.pass(Duration::from_millis(ms)),
        Step::Overflow => model.overflow(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_key_is_lost_and_none_runs_twice_at_a_time_or_for_no_reason(
        settings in settings(),
        steps in prop::collection::vec(step(), 0..250),
    ) {
        let mut model = Model::new(settings);
        for step in steps {
            play(&mut model, step);
        }
        model.run_out();
    }
}

proptest! {
    // Each case is long enough for a level that starves to be noticed.
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_key_waits_longer_than_the_bound_while_urgent_ones_come_without_end(
        ageing_gets in 1u32..8,
        adds in prop::collection::vec(0..KEYS, 300..400),
    ) {
        let settings = Settings { ageing_gets, starts_per_second: 0, ..Settings::default() };
        let mut model = Model::new(settings);
        let level = |key: usize| PRIORITIES[key % PRIORITIES.len()];
        for added in adds {
            for key in (0..KEYS).filter(|key| *key == added || level(*key) == Priority::Urgent) {
                model.add(key, level(key), Duration::ZERO);
            }
            model.next();
            model.finish(0, Outcome::Done, 0);
        }
        model.run_out();
    }
}

#[test]
fn a_flood_of_bulk_delays_a_new_key_by_one_get_at_most() {
    let mut model = Model::new(Settings { ageing_gets: 4, starts_per_second: 0, ..Settings::default() });
    for key in 0..KEYS - 1 {
        model.add(key, Priority::Bulk, Duration::ZERO);
    }
    assert!(model.next());
    model.add(KEYS - 1, Priority::Normal, Duration::ZERO);
    assert!(model.next());
    assert!(model.runs(KEYS - 1));
}

#[test]
fn a_tenant_with_one_key_waits_for_one_key_of_each_of_the_others() {
    let mut model = Model::new(Settings { starts_per_second: 0, ..Settings::default() });
    // Keys go round the tenants: the last is the only one of its tenant that is added.
    let lonely = KEYS - 1;
    for key in (0..KEYS).filter(|key| key % TENANTS != lonely % TENANTS) {
        model.add(key, Priority::Normal, Duration::ZERO);
    }
    model.add(lonely, Priority::Normal, Duration::ZERO);
    let gets = (1..).find(|_| model.next() && model.runs(lonely)).expect("it is there");
    assert!(gets <= TENANTS, "{gets}");
}
