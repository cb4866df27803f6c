//! Whether what is placed quickly is placed well: beside a search that looks at every node for every replica.

mod figures;
mod generator;

use figures::{Figures, measure, place_all};
use generator::{Size, World};
use setpoint_scheduler::core::engine::{Engine, Options};
use setpoint_scheduler::core::place::Search;

fn place(world: &World, search: Search, batch: usize) -> Figures {
    let mut engine = Engine::new(Options { search, batch, ..Options::default() }, 1);
    world.show(&mut engine, 0..world.nodes.len());
    place_all(&mut engine, batch);
    measure(&engine, world)
}

/// Both are asked the same. What the quick one places, and on how many nodes, is at most a fiftieth worse.
fn check(size: Size, seed: u64) {
    let world = World::make(size, seed);
    let exact = place(&world, Search::EXHAUSTIVE, 512);
    let quick = place(&world, Search::default(), 512);
    let about = format!("{size:?} with {seed}: {quick:?} beside {exact:?}");
    assert!(quick.placed as f64 >= 0.98 * exact.placed as f64, "{about}");
    assert!(quick.stranded <= exact.stranded + 20, "{about}");
    // Neither fills nodes one after the other.
    assert!(quick.used as f64 >= 0.98 * exact.used as f64, "{about}");
    assert!(quick.deviation <= exact.deviation + 20.0, "{about}");
    assert!(quick.skew <= 1 && exact.skew <= 1, "{about}");
    assert!(exact.placed_share() > 0.9, "{about}");
}

#[test]
fn large_classes_are_placed_as_well_as_by_looking_at_every_node() {
    for seed in 0..3 {
        check(Size { nodes: 120, replicas: 1500, workload: 40, load: 90 }, seed);
    }
}

#[test]
fn small_classes_are_placed_as_well_as_by_looking_at_every_node() {
    for seed in 10..13 {
        check(Size { nodes: 300, replicas: 1500, workload: 2, load: 90 }, seed);
    }
}

#[test]
fn at_half_load_everything_has_a_place() {
    for seed in 20..23 {
        let world = World::make(Size { nodes: 100, replicas: 1500, workload: 20, load: 60 }, seed);
        let figures = place(&world, Search::default(), 512);
        assert_eq!(figures.placed, figures.asked, "{figures:?} with {seed}");
    }
}
