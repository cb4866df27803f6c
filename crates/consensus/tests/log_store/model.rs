//! Random histories against a plain `Vec`, with kills, power losses and failing disks at random points.
//!
//! After each restart the log must be what it was after *some* prefix of the operations, one that includes
//! everything confirmed. Before it, readers must see every operation at once.

use std::sync::atomic::Ordering;

use futures::StreamExt;
use futures::executor::block_on;
use openraft::RaftLogReader;
use proptest::prelude::*;
use setpoint_consensus::log::{Entry, LogId, LogOptions, MemoryFs, Vote};

use crate::kit::{Ack, Log, entry, id, tiny};

/// Batches are small, so that restarts find part of what was queued done.
fn options() -> LogOptions {
    LogOptions { batch_operations_max: 3, batch_bytes_max: 1500, ..tiny() }
}

#[derive(Clone, Debug)]
enum Action {
    Append {
        count: u64,
        size: usize,
        new_term: bool,
    },
    Truncate {
        back: u64,
    },
    Purge {
        ahead: u64,
    },
    Vote,
    Commit {
        back: u64,
    },
    /// One batch reaches the disk.
    Step,
    Read {
        from: u64,
        count: u64,
    },
    Kill,
    PowerLoss {
        seed: u64,
    },
    FailSyncs {
        after: u64,
    },
    FailWrites {
        after: u64,
    },
}

fn action() -> impl Strategy<Value = Action> {
    let size = prop_oneof![8 => 0..200usize, 1 => 1000..3000usize];
    prop_oneof![
        12 => (0..6u64, size, any::<bool>()).prop_map(|(count, size, new_term)| Action::Append { count, size, new_term }),
        3 => (0..6u64).prop_map(|back| Action::Truncate { back }),
        3 => (0..12u64).prop_map(|ahead| Action::Purge { ahead }),
        2 => Just(Action::Vote),
        3 => (0..4u64).prop_map(|back| Action::Commit { back }),
        10 => Just(Action::Step),
        4 => (0..20u64, 0..10u64).prop_map(|(from, count)| Action::Read { from, count }),
        1 => Just(Action::Kill),
        2 => any::<u64>().prop_map(|seed| Action::PowerLoss { seed }),
        1 => (0..4u64).prop_map(|after| Action::FailSyncs { after }),
        1 => (0..4u64).prop_map(|after| Action::FailWrites { after }),
    ]
}

/// The log as it should be.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    entries: Vec<Entry>,
    purged: Option<LogId>,
    vote: Option<Vote>,
}

impl Model {
    fn last(&self) -> Option<LogId> {
        self.entries.last().map(|entry| entry.log_id).or(self.purged)
    }

    fn next_index(&self) -> u64 {
        self.last().map_or(0, |last| last.index + 1)
    }

    fn purge(&mut self, upto: LogId) {
        self.entries.retain(|entry| entry.log_id.index > upto.index);
        self.purged = Some(upto);
    }
}

struct Run {
    log: Log,
    model: Model,
    term: u64,
    /// The model after each operation since the last start; the first is what was found then.
    history: Vec<Model>,
    /// How many of them are confirmed.
    confirmed: usize,
    /// Appends not yet known to be confirmed, each with the length of the history that it would confirm.
    pending: Vec<(usize, Ack)>,
    committed: Vec<Option<LogId>>,
}

impl Run {
    fn new() -> Self {
        let log = Log::open(&MemoryFs::default(), options()).expect("an empty disk opens");
        let model = Model::default();
        let history = vec![model.clone()];
        Self { log, model, term: 1, history, confirmed: 0, pending: Vec::new(), committed: vec![None] }
    }

    fn act(&mut self, action: &Action) {
        match *action {
            Action::Append { count, size, new_term } => self.append(count, size, new_term),
            Action::Truncate { back } => {
                let committed = self.committed.iter().flatten().map(|log_id| log_id.index).max();
                let uncommitted = |entry: &&Entry| Some(entry.log_id.index) > committed;
                let back =
                    self.model.entries.iter().rev().take_while(uncommitted).take(back as usize).count();
                self.model.entries.truncate(self.model.entries.len() - back);
                // A truncated index only comes back in another term, as Raft has it.
                self.term += 1;
                self.log.truncate_after(self.model.last());
                self.history.push(self.model.clone());
            }
            Action::Purge { ahead } => {
                let Some(last) = self.model.last() else { return };
                let first = self.model.entries.first().map_or(last.index, |entry| entry.log_id.index);
                let upto = id(self.term, first + ahead);
                let known = self.model.entries.iter().find(|entry| entry.log_id.index == upto.index);
                let upto = known.map_or(upto, |entry| entry.log_id);
                if self.model.purged.is_some_and(|purged| purged.index >= upto.index) {
                    return;
                }
                self.model.purge(upto);
                self.log.purge(upto);
                self.history.push(self.model.clone());
            }
            Action::Vote => self.vote(),
            Action::Commit { back } => {
                let Some(last) = self.model.last() else { return };
                let committed = id(*last.leader_id, last.index.saturating_sub(back));
                self.log.commit(committed);
                self.committed.push(Some(committed));
            }
            Action::Step => {
                self.log.writer.step();
            }
            Action::Read { from, count } => self.read(from, count),
            Action::Kill => self.restart(|_| {}),
            Action::PowerLoss { seed } => self.restart(|fs| fs.power_loss(coin(seed))),
            Action::FailSyncs { after } => self.log.fs.fail_syncs_after(Some(after)),
            Action::FailWrites { after } => self.log.fs.fail_writes_after(Some(after)),
        }
        self.note_confirmations();
        if self.log.watch.failed.load(Ordering::SeqCst) {
            self.check_failed();
            self.restart(|fs| {
                fs.fail_syncs_after(None);
                fs.fail_writes_after(None);
            });
        }
        self.check_view();
    }

    fn append(&mut self, count: u64, size: usize, new_term: bool) {
        self.term += u64::from(new_term);
        let next = self.model.next_index();
        let entries: Vec<Entry> = (next..next + count).map(|index| entry(self.term, index, size)).collect();
        let ack = self.log.append(entries.clone()).expect("the entries follow");
        for entry in entries {
            self.model.entries.push(entry);
            self.history.push(self.model.clone());
        }
        self.pending.push((self.history.len(), ack));
    }

    fn vote(&mut self) {
        self.term += 1;
        let vote = Vote::new(self.term, 1);
        self.model.vote = Some(vote);
        self.history.push(self.model.clone());
        match self.log.save_vote(vote) {
            Ok(()) => self.confirmed = self.history.len(),
            Err(_) => {
                assert!(self.log.watch.failed.load(Ordering::SeqCst), "a vote failed on a working disk")
            }
        }
    }

    fn note_confirmations(&mut self) {
        self.pending.retain_mut(|(length, ack)| match ack.outcome() {
            Some(Ok(())) => {
                self.confirmed = self.confirmed.max(*length);
                false
            }
            Some(Err(_)) => false,
            None => true,
        });
    }

    fn check_failed(&mut self) {
        self.pending.clear();
        let next = self.model.next_index();
        assert!(self.log.append(vec![entry(self.term, next, 1)]).is_err(), "a failed log took an entry");
    }

    fn check_view(&mut self) {
        assert_eq!(self.log.entries(), self.model.entries);
        assert_eq!(self.log.bounds(), (self.model.purged, self.model.last()));
        assert_eq!(self.log.vote(), self.model.vote);
        if let [first, .., last] = &self.model.entries[..] {
            let ids = block_on(self.log.store.reader().get_key_log_ids(first.log_id..=last.log_id));
            let mut expected: Vec<LogId> = self.model.entries.iter().map(|entry| entry.log_id).collect();
            expected.reverse();
            expected.dedup_by_key(|log_id| log_id.leader_id);
            expected.reverse();
            assert_eq!(ids.expect("log ids are in memory"), expected);
        }
    }

    fn read(&mut self, from: u64, count: u64) {
        let from = self.model.purged.map_or(0, |purged| purged.index) + from;
        let wanted = |entry: &&Entry| (from..from + count).contains(&entry.log_id.index);
        let expected: Vec<Entry> = self.model.entries.iter().filter(wanted).cloned().collect();
        let mut reader = self.log.store.reader();
        let all = block_on(reader.try_get_log_entries(from..from + count)).expect("the entries are readable");
        assert_eq!(all, expected);
        let limited =
            block_on(reader.limited_get_log_entries(from, from + count)).expect("the entries are readable");
        assert_eq!(limited, expected[..limited.len()]);
        assert_eq!(limited.is_empty(), expected.is_empty());
        let streamed = block_on(async {
            reader
                .entries_stream(from..from + count)
                .await
                .map(|entry| entry.expect("readable"))
                .collect::<Vec<_>>()
                .await
        });
        assert_eq!(streamed, expected);
    }

    fn restart(&mut self, disk: impl FnOnce(&MemoryFs)) {
        let fs = self.log.fs.clone();
        fs.fail_syncs_after(None);
        fs.fail_writes_after(None);
        disk(&fs);
        self.log = Log::open(&fs, options()).expect("what was confirmed is not damaged");
        let found = Model { entries: self.log.entries(), purged: self.log.bounds().0, vote: self.log.vote() };
        // Its position in the history is not unique: a purge may have removed what told two states apart.
        let position = self.history.iter().rposition(|state| *state == found);
        let position = position.unwrap_or_else(|| panic!("no prefix of the history gives {found:#?}"));
        assert!(
            position + 1 >= self.confirmed,
            "of {} confirmed operations {} survived",
            self.confirmed,
            position + 1
        );
        let committed = self.log.committed();
        assert!(self.committed.contains(&committed), "{committed:?} was never committed");
        let last = found.last().map(|last| last.index);
        assert!(
            committed.map(|log_id| log_id.index) <= last,
            "{committed:?} is committed, but {last:?} is the last"
        );
        self.committed = vec![committed];
        self.model = found;
        self.term += 1;
        self.history = vec![self.model.clone()];
        self.confirmed = 0;
        self.pending.clear();
    }
}

fn coin(mut seed: u64) -> impl FnMut() -> bool {
    // One seed in four loses everything unsynced, one keeps everything, the others tear.
    let mode = seed % 4;
    move || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        match mode {
            0 => false,
            1 => true,
            _ => seed >> 63 == 1,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, max_shrink_iters: 4000, ..ProptestConfig::default() })]

    #[test]
    fn the_log_is_a_prefix_of_its_history(actions in prop::collection::vec(action(), 1..80)) {
        let mut run = Run::new();
        for action in &actions {
            run.act(action);
        }
        run.restart(|fs| fs.power_loss(|| false));
    }
}
