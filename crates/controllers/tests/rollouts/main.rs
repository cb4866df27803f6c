//! Rollouts as a property: whatever becomes ready or fails, and however the workload is changed meanwhile, no decision breaks a limit,
//! and once nothing changes any more the workload is what its spec says.
//!
//! The workload controller's own plan decides; what the replica controller and agents make of it is a model (`model`).

mod model;

use model::Model;
use proptest::prelude::*;
use setpoint_types::kinds::RolloutStrategy;

/// Something that happens.
#[derive(Clone, Debug)]
enum Event {
    /// The workload controller looks.
    Plan,
    /// The replica controller brings one set to its number, and tells of it.
    Keep(usize),
    /// Some replicas of a set become ready.
    Ready(usize, u32),
    /// Some replicas of a set are ready no more.
    Unready(usize, u32),
    /// What is being stopped is gone.
    Stopped(usize),
    Pass(u32),
    Template(u8),
    Replicas(u32),
    Pause(bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => Just(Event::Plan),
        8 => (0_usize..4).prop_map(Event::Keep),
        6 => (0_usize..4, 1_u32..5).prop_map(|(set, count)| Event::Ready(set, count)),
        2 => (0_usize..4, 1_u32..3).prop_map(|(set, count)| Event::Unready(set, count)),
        4 => (0_usize..4).prop_map(Event::Stopped),
        1 => (1_u32..900).prop_map(Event::Pass),
        1 => (0_u8..4).prop_map(Event::Template),
        1 => (0_u32..12).prop_map(Event::Replicas),
        1 => any::<bool>().prop_map(Event::Pause),
    ]
}

fn play(model: &mut Model, event: &Event) -> Result<(), String> {
    match event {
        Event::Plan => return model.plan(),
        Event::Keep(set) => model.keep(*set),
        Event::Ready(set, count) => model.ready(*set, *count),
        Event::Unready(set, count) => model.unready(*set, *count),
        Event::Stopped(set) => model.stopped(*set),
        Event::Pass(seconds) => model.pass(*seconds),
        Event::Template(number) => model.template(*number),
        Event::Replicas(count) => model.replicas(*count),
        Event::Pause(paused) => model.pause(*paused),
    }
    Ok(())
}

/// Everybody does their part, and nobody changes anything.
fn settle(model: &mut Model) -> Result<(), String> {
    model.pause(false);
    for _ in 0..200 {
        model.plan()?;
        for set in 0..model.sets() {
            model.stopped(set);
            model.keep(set);
            model.ready(set, u32::MAX);
            model.keep(set);
        }
    }
    model.check_settled()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn limits_hold_and_the_end_is_what_was_asked_for(
        replicas in 1_u32..10,
        surge in 0_u32..4,
        unavailable in 0_u32..4,
        recreate in prop::bool::weighted(0.15),
        events in prop::collection::vec(event(), 1..120),
    ) {
        let strategy = if recreate { RolloutStrategy::Recreate } else { RolloutStrategy::Rolling };
        // One that could never change anything is not admitted.
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        let mut model = Model::new(replicas, strategy, surge, unavailable);
        for event in &events {
            play(&mut model, event).map_err(TestCaseError::fail)?;
        }
        settle(&mut model).map_err(TestCaseError::fail)?;
    }
}

/// A revision that never becomes ready is given up for the one before, and stays so until the template changes.
#[test]
fn a_revision_that_does_not_work_is_rolled_back_once() {
    let mut model = Model::new(4, RolloutStrategy::Rolling, 1, 1);
    settle(&mut model).expect("the first revision");
    model.template(1);
    for _ in 0..50 {
        model.plan().expect("within limits");
        for set in 0..model.sets() {
            model.stopped(set);
            model.keep(set);
        }
        model.ready(0, u32::MAX);
        model.keep(0);
    }
    assert_eq!(model.phase(), "Progressing");
    model.pass(601);
    for _ in 0..50 {
        model.plan().expect("within limits");
        for set in 0..model.sets() {
            model.stopped(set);
            model.keep(set);
        }
        model.ready(0, u32::MAX);
        model.keep(0);
    }
    assert_eq!(model.phase(), "RolledBack");
    assert_eq!(model.wanted(), [4, 0]);
    model.template(2);
    settle(&mut model).expect("another template is tried");
    assert_eq!(model.phase(), "Complete");
}
