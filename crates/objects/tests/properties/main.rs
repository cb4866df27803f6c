//! What must hold of ownership whatever is written in whatever order.
//!
//! Random configurations over one kind; the checks know the notation of paths, not how they came about.

mod generate;
mod notation;
mod world;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use setpoint_objects::Reason;
use setpoint_objects::write::Outcome;

use generate::{Config, Step, config, half, steps};
use world::World;

proptest! {
    // The same cases every time, so that whoever breaks one knows that it was them. For others: PROPTEST_RNG_SEED, PROPTEST_CASES.
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::default()
    })]

    /// INVARIANTS W1, W2, W4.
    #[test]
    fn every_managed_path_exists_and_every_applied_path_is_owned(steps in steps()) {
        let mut world = World::default();
        for step in &steps {
            let _ = world.perform(step);
            world.check();
            if let (Step::Apply { manager, config, status: false, .. }, true) = (step, world.accepted) {
                world.check_owns_all(manager, config);
            }
        }
    }

    /// INVARIANT W3.
    #[test]
    fn an_apply_done_again_changes_nothing(steps in steps(), config in config(), force: bool, status: bool) {
        let mut world = World::default();
        for step in &steps {
            let _ = world.perform(step);
        }
        let step = Step::Apply { manager: "again".to_owned(), config, force, status };
        if let Ok(written) = world.perform(&step) {
            let before = world.object.clone();
            prop_assert!(!matches!(written.outcome, Outcome::Gone(_)));
            let again = world.perform(&step).expect("it was done before");
            prop_assert!(matches!(again.outcome, Outcome::Unchanged(_)), "{again:?}");
            prop_assert!(again.taken.is_empty());
            prop_assert_eq!(before, world.object);
        }
    }

    #[test]
    fn applies_of_different_fields_commute(base in steps(), left in half(0), right in half(1)) {
        let mut one = World::default();
        for step in &base {
            let _ = one.perform(step);
        }
        // A world in which somebody else owns what these two want tells nothing.
        let mut two = one.clone();
        let apply = |manager: &str, config: &Config| Step::Apply {
            manager: manager.to_owned(), config: config.clone(), force: true, status: false,
        };
        let (left, right) = (apply("left", &left), apply("right", &right));
        for (world, order) in [(&mut one, [&left, &right]), (&mut two, [&right, &left])] {
            for step in order {
                world.perform(step).expect("a forced apply");
            }
        }
        prop_assert_eq!(one.without_order_and_time(), two.without_order_and_time());
    }

    #[test]
    fn conflicts_are_the_same_from_both_sides(left in config(), right in config()) {
        let seen = |first: &Config, second: &Config| {
            let mut world = World::default();
            let apply = |config: &Config| Step::Apply {
                manager: format!("m{}", u8::from(std::ptr::eq(config, first))),
                config: config.clone(), force: false, status: false,
            };
            world.perform(&apply(first)).expect("nobody is there to disagree");
            match world.perform(&apply(second)) {
                Ok(_) => Vec::new(),
                Err(refusal) => {
                    assert_eq!(refusal.reason, Reason::Conflict, "{refusal}");
                    assert!(refusal.conflicts.iter().all(|it| it.manager == "m1"), "{refusal:?}");
                    refusal.conflicts.into_iter().map(|conflict| conflict.path).collect()
                }
            }
        };
        prop_assert_eq!(seen(&left, &right), seen(&right, &left));
    }

    #[test]
    fn a_set_of_paths_is_read_as_it_was_written(paths in notation::paths()) {
        notation::check_round_trip(&paths);
    }

    #[test]
    fn sets_of_paths_obey_the_laws_of_sets(left in notation::paths(), right in notation::paths()) {
        notation::check_laws(&left, &right);
    }
}
