//! Processes come and go, are paused and cut off, and the network does what it likes. What must never be is checked by the
//! world after every event; here, that all is well again afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use setpoint_runtime::election::ShardId;
use setpoint_runtime::election::view::Part;

use crate::world::{CALM, Network, Process, World};

#[derive(Clone, Copy, Debug)]
enum Act {
    Start,
    /// One that was told another number of shards.
    StartOther,
    Stop(usize),
    Kill(usize),
    Pause(usize, u64),
    Cut(usize, u64),
    Fenced(usize, u32),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => Just(Act::Start),
        1 => Just(Act::StartOther),
        1 => (0usize..8).prop_map(Act::Stop),
        1 => (0usize..8).prop_map(Act::Kill),
        3 => (0usize..8, 1u64..60_000).prop_map(|(process, ms)| Act::Pause(process, ms)),
        3 => (0usize..8, 1u64..60_000).prop_map(|(process, ms)| Act::Cut(process, ms)),
        1 => (0usize..8, 0u32..6).prop_map(|(process, shard)| Act::Fenced(process, shard)),
    ]
}

fn perform(world: &mut World, act: Act, shards: u32) {
    let count = world.processes.len();
    match act {
        Act::Start => drop(world.start("a", shards)),
        Act::StartOther => drop(world.start("b", shards + 1)),
        _ if count == 0 => {}
        Act::Stop(process) => world.stop(process % count),
        Act::Kill(process) => world.kill(process % count),
        Act::Pause(process, ms) => world.pause(process % count, Duration::from_millis(ms)),
        Act::Cut(process, ms) => world.cut(process % count, Duration::from_millis(ms)),
        Act::Fenced(process, shard) => world.fenced(process % count, ShardId(shard)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn no_shard_has_two_and_in_the_end_each_has_one(
        seed in any::<u64>(),
        shards in 1u32..6,
        network in (0u64..20, 0u64..4_000, 0u64..40),
        run_ms_max in 0u64..15_000,
        acts in prop::collection::vec((act(), 0u64..20_000), 1..24),
    ) {
        let (delay_ms_min, spread, lost_percent) = network;
        let network = Network { delay_ms_min, delay_ms_max: delay_ms_min + spread, lost_percent };
        let mut world = World::new(seed, network);
        world.run_ms_max = run_ms_max;
        for (act, ms) in acts {
            perform(&mut world, act, shards);
            world.pass(Duration::from_millis(ms));
        }
        // Everybody is back, and one more comes, so that somebody is there.
        world.network = CALM;
        world.start("a", shards);
        world.pass(Duration::from_secs(300));

        let standing_by = |process: &&Process| matches!(process.part, Part::StandBy(_));
        let alive: Vec<&Process> = world.processes.iter().filter(|it| it.alive && !standing_by(it)).collect();
        let valid = world.valid();
        let working = valid.first().map(|(process, ..)| world.processes[*process].shards);
        let working = working.expect("somebody works");
        prop_assert_eq!(valid.len() as u32, working, "every shard is held");
        let mut counts: BTreeMap<&str, u32> =
            alive.iter().map(|it| (it.name.as_str(), 0)).collect();
        for (process, ..) in &valid {
            *counts.get_mut(world.processes[*process].name.as_str()).expect("it is alive") += 1;
        }
        let (least, most) = (counts.values().min().expect("one"), counts.values().max().expect("one"));
        prop_assert!(most - least <= 1, "{:?}", counts);
        // And it stays so.
        let (moves, log) = (world.moves, world.log.len());
        world.pass(Duration::from_secs(120));
        prop_assert_eq!((world.moves, world.log.len()), (moves, log));
    }
}
