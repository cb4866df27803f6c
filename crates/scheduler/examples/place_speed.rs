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
    let small = Size { nodes: 1000, replicas: 10_000, workload: 40, load: 95 };
    let world = World::make(small, 42);
    println!("1,000 nodes, 10,000 replicas, 95 % load");
    for (name, search) in [("quick", Search::default()), ("every node", Search::EXHAUSTIVE)] {
        let (_, figures, seconds) = place(&world, search);
        println!("  {name}: {:.0} placements/s", figures.placed as f64 / seconds);
        print(&figures);
    }
    println!(
        "cell compaction, 67 % load: {:.1} % of the nodes are enough",
        compaction(&World::make(Size { nodes: 1000, replicas: 10_000, workload: 40, load: 67 }, 42,))
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
fn compaction(world: &World) -> f64 {
    let trial = |seed: u64| {
        let mut numbers = Numbers(seed);
        let mut order: Vec<usize> = (0..world.nodes.len()).collect();
        for index in (1..order.len()).rev() {
            order.swap(index, numbers.below(index as u64 + 1) as usize);
        }
        let fits = |count: usize| {
            let mut engine = Engine::new(Options::default(), seed);
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
