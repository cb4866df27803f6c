//! Deleting in the background what compactions have left behind, in small steps with pauses between.
//!
//! A step is small, so that a write that comes in its way waits for a moment only; the pause after it follows from how
//! long it took, so that collecting takes a small share of one processor, whatever the disk, the values or the load are.
//!
//! Not here: what may be deleted (`store/src/collect.rs`).

use std::sync::Arc;
use std::time::Duration;

use setpoint_store::{EngineFailure, Progress, StepMax, Store};
use setpoint_types::Revision;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::replica::Halt;

/// A step: about a millisecond of one processor.
const STEP: StepMax = StepMax { records: 128, bytes: 128 << 10 };
/// A pause is so many times as long as the step before it, which leaves collecting a sixteenth of one processor: several
/// nodes on one small machine still leave nine tenths of it to their clients.
const PAUSE_PER_STEP: u32 = 15;
/// So many times while more than `FAR_BEHIND` revisions wait. Collecting must not fall behind for ever, however fast
/// history is written and compacted.
const PAUSE_PER_STEP_FAR_BEHIND: u32 = 2;
const FAR_BEHIND: u64 = 1_000_000;
/// Shorter pauses would be lost among the timers; longer ones would let one slow step delay all the others.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// Between looks at whether something was compacted.
const IDLE: Duration = Duration::from_millis(100);

pub struct Collector {
    store: Arc<Store>,
    halt: Halt,
    collected: watch::Sender<Revision>,
}

impl Collector {
    pub fn new(store: Arc<Store>, halt: Halt) -> Arc<Self> {
        Arc::new(Self { store, halt, collected: watch::Sender::new(Revision::NONE) })
    }

    /// The revision below which everything superfluous is gone.
    pub fn progress(&self) -> watch::Receiver<Revision> {
        self.collected.subscribe()
    }

    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let store = self.store.clone();
            let step = tokio::task::spawn_blocking(move || timed_step(&store));
            let pause = match step.await {
                Ok(Ok((progress, took))) => {
                    self.collected.send_if_modified(|at| {
                        std::mem::replace(at, progress.collected) != progress.collected
                    });
                    pause_after(took, &progress)
                }
                Ok(Err(failure)) => return self.halt.because(&failure),
                Err(_stopping) => return,
            };
            if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return;
            }
        }
    }
}

fn timed_step(store: &Store) -> Result<(Progress, Duration), EngineFailure> {
    let start = Instant::now();
    let progress = store.collect(STEP)?;
    Ok((progress, start.elapsed()))
}

/// How long to leave the machine to others.
fn pause_after(took: Duration, progress: &Progress) -> Duration {
    if progress.done() {
        return IDLE;
    }
    let per_step = if progress.behind() > FAR_BEHIND { PAUSE_PER_STEP_FAR_BEHIND } else { PAUSE_PER_STEP };
    (took * per_step).clamp(PAUSE_MIN, PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use setpoint_store::command::{Command, Proposal, ProposalId, Put};
    use setpoint_store::{Body, Entry, MemoryEngine, Position};
    use setpoint_types::{LeaseId, NodeId, Timestamp};

    use super::*;

    fn progress(collected: u64, compacted: u64) -> Progress {
        Progress { collected: Revision::new(collected), deleted: 0, compacted: Revision::new(compacted) }
    }

    #[test]
    fn a_step_takes_less_than_a_tenth_of_the_time_unless_history_piles_up() {
        let near = progress(10, 1_000);
        for micros in [1, 100, 500, 1_000, 5_000] {
            let took = Duration::from_micros(micros);
            let pause = pause_after(took, &near);
            assert!(took * 10 <= took + pause, "{took:?} and then {pause:?}");
        }
        let took = Duration::from_millis(4);
        assert!(pause_after(took, &progress(1, 10_000_000)) < pause_after(took, &near), "it hurries");
        assert_eq!(pause_after(Duration::ZERO, &near), PAUSE_MIN);
        assert_eq!(pause_after(Duration::from_secs(9), &near), PAUSE_MAX, "one slow step does not end it");
        assert_eq!(pause_after(took, &progress(7, 7)), IDLE);
    }

    fn apply(store: &Store, index: u64, command: Command) {
        let proposal = Proposal { id: ProposalId { node: NodeId(1), sequence: index }, command };
        let body = Body::Commands { stamp: Timestamp(0), commands: vec![proposal.encode()] };
        let entry = Entry { position: Position { term: 1, index }, body };
        store.apply(&[entry], NodeId(1)).expect("applied");
    }

    fn put(value: usize) -> Command {
        Command::Put(Put {
            key: Bytes::from_static(b"k"),
            value: Bytes::from(vec![0; value]),
            lease: LeaseId::NONE,
            want_previous: false,
            keep_value: false,
            keep_lease: false,
        })
    }

    #[test]
    fn a_step_is_bounded_by_records_and_by_bytes() {
        for (value, steps_min) in [(1, 1_000 / STEP.records), (64 << 10, 400)] {
            let store = Store::open(Arc::new(MemoryEngine::new())).expect("opens");
            (1..=1_000).for_each(|index| apply(&store, index, put(value)));
            apply(&store, 1_001, Command::Compact { revision: 1_000 });
            let mut steps = 0;
            while !store.collect(STEP).expect("collects").done() {
                steps += 1;
            }
            assert!(steps >= steps_min, "{steps} steps with values of {value} bytes");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn collecting_ends_while_history_is_compacted_on_and_on() {
        let store = Arc::new(Store::open(Arc::new(MemoryEngine::new())).expect("opens"));
        let collector = Collector::new(store.clone(), Halt::new(CancellationToken::new()));
        let stop = CancellationToken::new();
        let running = tokio::spawn(collector.clone().run(stop.clone()));
        let mut collected = collector.progress();
        let mut index = 0;
        for _ in 0..20 {
            for _ in 0..300 {
                index += 1;
                apply(&store, index, put(1));
            }
            index += 1;
            let compacted = store.revision();
            apply(&store, index, Command::Compact { revision: compacted.wire() });
            collected.wait_for(|at| *at >= compacted).await.expect("it runs");
        }
        stop.cancel();
        running.await.expect("it ends when it is told to");
    }
}
