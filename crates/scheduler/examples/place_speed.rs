//! How fast replicas are placed on one core, in how much memory, and how well: 100,000 on 10,000 nodes. No server, no network: only the
//! decision.
//!
//! ```sh
//! cargo run --release -p setpoint-scheduler --example place_speed
//! ```

#![allow(clippy::print_stdout, reason = "its output is what it is for")]

#[path = "../tests/quality/figures.rs"]
mod figures;
#[path = "../tests/quality/generator.rs"]
mod generator;

use std::time::Instant;

use figures::{Figures, measure, place_all};
use generator::{Numbers, Size, World};
use setpoint_scheduler::core::engine::{Engine, Options};
use setpoint_scheduler::core::place::Search;

fn main() {
    let large = Size { nodes: 10_000, replicas: 100_000, workload: 200, load: 67 };
    let sizes = [
        ("mixed, 67 % load", large),
        ("mixed, 95 % load", Size { load: 95, ..large }),
        ("tiny workloads", Size { workload: 1, ..large }),
    ];
    for (name, size) in sizes {
        let world = World::make(size, 42);
        let resident = resident_bytes();
        let (engine, figures, seconds) = place(&world, Search::default());
        let per_replica = resident_bytes().saturating_sub(resident) / world.replicas.len() as u64;
        println!("{name}: {:.0} placements/s", figures.placed as f64 / seconds);
        println!("  memory per replica: {per_replica} bytes, with nodes and what waits");
        print(&figures);
        drop(engine);
    }
    let size = Size { nodes: 2000, replicas: 20_000, workload: 40, load: 95 };
    compare("2,000 nodes, 20,000 replicas, 95 % load", &World::make(size, 42));
    let size = Size { workload: 1, ..size };
    compare("the same in workloads of one or two", &World::make(size, 42));
    let size = Size { nodes: 500, replicas: 5_000, workload: 40, load: 67 };
    let world = World::make(size, 42);
    let [quick, exact] = SEARCHES.map(|(name, search)| {
        let share = compaction(&world, search);
        println!("cell compaction, 500 nodes, 67 % load, {name}: {share:.1} % of the nodes are enough");
        share
    });
    println!("  gap: {:.2} %", (quick - exact) / exact * 100.0);
}

const SEARCHES: [(&str, Search); 2] =
    [("quick", Search { sample: 100, explains: false }), ("every node", Search::EXHAUSTIVE)];

/// The quick search beside one that looks at every node for every replica, on the same input.
fn compare(name: &str, world: &World) {
    println!("{name}");
    let [quick, exact] = SEARCHES.map(|(name, search)| {
        let (_, figures, seconds) = place(world, search);
        println!("  {name}: {:.0} placements/s", figures.placed as f64 / seconds);
        print(&figures);
        figures
    });
    let gap = (exact.placed_share() - quick.placed_share()) / exact.placed_share() * 100.0;
    println!(
        "  gap: {gap:.2} % fewer placed, {} of a thousand more stranded",
        quick.stranded - exact.stranded
    );
}

fn print(figures: &Figures) {
    println!(
        "  placed {:.2} %, nodes used {}, stranded {:.1} %, largest skew {}, deviation of use {:.1} %",
        figures.placed_share() * 100.0,
        figures.used,
        figures.stranded as f64 / 10.0,
        figures.skew,
        figures.deviation / 10.0,
    );
}

fn place(world: &World, search: Search) -> (Engine, Figures, f64) {
    let mut engine = Engine::new(Options { search, ..Options::default() }, 1);
    world.show(&mut engine, 0..world.nodes.len());
    let begin = Instant::now();
    place_all(&mut engine, 512);
    let seconds = begin.elapsed().as_secs_f64();
    let figures = measure(&engine, world);
    (engine, figures, seconds)
}

/// The least share of the nodes that everything fits on, the worst of three orders of taking nodes away.
fn compaction(world: &World, search: Search) -> f64 {
    let trial = |seed: u64| {
        let mut numbers = Numbers(seed);
        let mut order: Vec<usize> = (0..world.nodes.len()).collect();
        for index in (1..order.len()).rev() {
            order.swap(index, numbers.below(index as u64 + 1) as usize);
        }
        let fits = |count: usize| {
            let mut engine = Engine::new(Options { search, ..Options::default() }, seed);
            world.show(&mut engine, order[..count].iter().copied());
            place_all(&mut engine, 512) == world.replicas.len()
        };
        let (mut least, mut enough) = (0, order.len());
        while enough - least > 5 {
            let middle = (least + enough) / 2;
            if fits(middle) { enough = middle } else { least = middle }
        }
        enough as f64 * 100.0 / order.len() as f64
    };
    (0..3).map(trial).fold(0.0, f64::max)
}

/// What the kernel says this process has in memory.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = status.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
    pages * 4096
}
