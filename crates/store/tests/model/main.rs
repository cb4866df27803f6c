//! Random histories through the real store and through a model of it, on both engines.
//!
//! Three replicas get the same log in different chunks, with different proposers, collect at different times, crash,
//! restart and move to copies of themselves. Every verdict, change and answer must be the model's, and in the end, all
//! collected, the tables must hold the same rows, and exactly those the model says are still needed.

mod commits;
mod generate;
mod invariants;
mod model;
mod objects;
mod replica;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use setpoint_store::command::{Command, Proposal, ProposalId, Range, Txn};
use setpoint_store::encoding::{self, KeyVersion, MetaKey};
use setpoint_store::engine::Table;
use setpoint_store::{
    Body, Change, ChangeSet, Entry, LeaseName, PageMax, Position, ReadFailure, Record, RecordId, Rejection,
    StepMax, VersionsMax,
};
use setpoint_types::{KeyRange, NodeId, Revision, Timestamp};

use model::Model;
use replica::{Logged, Replica};

#[derive(Clone, Debug)]
enum Step {
    /// Entries to apply, and the sizes of the chunks in which each replica gets them.
    Log {
        entries: Vec<Content>,
        chunks: Vec<usize>,
    },
    Range(Range),
    ReadTxn(Txn),
    Pages {
        read: Range,
        keys_max: usize,
    },
    Changes {
        token: i64,
        bytes_max: usize,
    },
    Hash {
        token: i64,
    },
    Versions {
        key: Bytes,
        token: i64,
        count: usize,
    },
    /// Milliseconds before now.
    At(u64),
    Kept {
        ledger: String,
        lease: LeaseName,
    },
    Collect {
        replica: usize,
        records_max: usize,
    },
    Flush {
        replica: usize,
    },
    Restart {
        replica: usize,
        chunks: Vec<usize>,
    },
    Checkpoint {
        replica: usize,
    },
}

#[derive(Clone, Debug)]
enum Content {
    Blank,
    Membership(u8),
    /// How far the leader's clock has gone on, and commands with the node that proposed each.
    Commands(i64, Vec<(u64, Command)>),
}

const REPLICAS: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    let commands = vec((1u64..=2, generate::command()), 1..6);
    let clock = prop_oneof![8 => 0i64..700, 2 => Just(0), 1 => -5_000i64..0, 1 => Just(2_400_000)];
    let content = prop_oneof![
        1 => Just(Content::Blank),
        1 => any::<u8>().prop_map(Content::Membership),
        12 => (clock, commands).prop_map(|(clock, commands)| Content::Commands(clock, commands)),
    ];
    let chunks = || vec(1usize..4, 0..4);
    let replica = || 0..REPLICAS;
    prop_oneof![
        12 => (vec(content, 1..6), chunks()).prop_map(|(entries, chunks)| Step::Log { entries, chunks }),
        10 => generate::read().prop_map(Step::Range),
        4 => generate::read_only_txn().prop_map(Step::ReadTxn),
        3 => (generate::read(), 0usize..6).prop_map(|(read, keys_max)| Step::Pages { read, keys_max }),
        3 => (generate::token(), prop_oneof![Just(usize::MAX), Just(0), 1usize..200])
            .prop_map(|(token, bytes_max)| Step::Changes { token, bytes_max }),
        2 => generate::token().prop_map(|token| Step::Hash { token }),
        3 => (prop_oneof![generate::key(), commits::key()], generate::token(), 0usize..5)
            .prop_map(|(key, token, count)| Step::Versions { key, token, count }),
        2 => prop_oneof![3 => 0u64..4_000, 1 => 0u64..5_000_000].prop_map(Step::At),
        2 => (commits::ledger(), commits::lease_name())
            .prop_map(|(ledger, lease)| Step::Kept { ledger, lease }),
        4 => (replica(), 0usize..12).prop_map(|(replica, records_max)| Step::Collect { replica, records_max }),
        2 => replica().prop_map(|replica| Step::Flush { replica }),
        2 => (replica(), chunks()).prop_map(|(replica, chunks)| Step::Restart { replica, chunks }),
        1 => replica().prop_map(|replica| Step::Checkpoint { replica }),
    ]
}

/// As many cases as asked for with `PROPTEST_CASES`, or a number that takes some seconds. What failed once is kept in a
/// file here, and tried first from then on.
fn cases(default: u32) -> ProptestConfig {
    let cases =
        if std::env::var_os("PROPTEST_CASES").is_some() { ProptestConfig::default().cases } else { default };
    let kept = FileFailurePersistence::Direct("tests/model/regressions");
    ProptestConfig { cases, failure_persistence: Some(Box::new(kept)), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(120))]

    #[test]
    fn the_store_in_memory_does_what_the_model_does(steps in vec(step(), 1..60)) {
        check(steps, [Replica::in_memory(NodeId(1)), Replica::in_memory(NodeId(1)), Replica::in_memory(NodeId(2))]);
    }
}

proptest! {
    #![proptest_config(cases(20))]

    #[test]
    fn the_store_on_disk_does_what_the_model_does(steps in vec(step(), 1..60)) {
        check(steps, [Replica::on_disk(NodeId(1)), Replica::on_disk(NodeId(2)), Replica::in_memory(NodeId(1))]);
    }
}

fn check(steps: Vec<Step>, replicas: [Replica; REPLICAS]) {
    let (model, clock, log, membership) = (Model::default(), 10_000, Vec::new(), None);
    let mut scenario = Scenario { model, clock, log, membership, replicas: replicas.into() };
    for step in steps {
        scenario.step(step);
    }
    scenario.finish();
}

struct Scenario {
    model: Model,
    /// The leader's, which may go back.
    clock: u64,
    log: Vec<Logged>,
    membership: Option<Bytes>,
    replicas: Vec<Replica>,
}

impl Scenario {
    fn step(&mut self, step: Step) {
        match step {
            Step::Log { entries, chunks } => {
                entries.into_iter().for_each(|content| self.append(content));
                for (number, replica) in self.replicas.iter().enumerate() {
                    // The last gets every entry alone, the others chunks of different sizes.
                    let single = vec![1; self.log.len()];
                    let chunks = chunks.get(number..).unwrap_or(&[]);
                    replica.catch_up(&self.log, if number + 1 == REPLICAS { &single } else { chunks });
                }
                self.check_small_tables();
            }
            Step::Range(mut read) => {
                generate::resolve_read(&self.model, &mut read);
                self.check_range(&read);
            }
            Step::ReadTxn(mut txn) => {
                generate::resolve_txn(&self.model, &mut txn);
                for replica in &self.replicas {
                    let answer = rejected(replica.store.read_txn(&txn));
                    assert_eq!(answer, self.model.read_txn(&txn), "{txn:?}");
                }
            }
            Step::Pages { mut read, keys_max } => {
                generate::resolve_read(&self.model, &mut read);
                let natural =
                    Range { revision: read.revision, limit: read.limit, ..Range::latest(read.range) };
                let (keys_only, count_only) = (read.keys_only, read.count_only);
                self.check_pages(&Range { keys_only, count_only, ..natural }, keys_max);
            }
            Step::Changes { token, bytes_max } => {
                let from = generate::revision(&self.model, token).max(0) as u64;
                self.check_changes(Revision::new(from), bytes_max);
            }
            Step::Versions { key, token, count } => {
                let before = generate::revision(&self.model, token).max(0) as u64;
                self.check_versions(&key, Revision::new(before), count);
            }
            Step::At(ago) => self.check_time(Timestamp(self.clock.saturating_sub(ago))),
            Step::Kept { ledger, lease } => {
                for Replica { store, .. } in &self.replicas {
                    assert_eq!(rejected(store.ledger(&ledger)), Ok(self.model.ledger(&ledger)));
                    assert_eq!(rejected(store.lease_state(&lease)), Ok(self.model.lease_state(&lease)));
                }
            }
            Step::Hash { token } => self.check_hash(generate::revision(&self.model, token)),
            Step::Collect { replica, records_max } => {
                self.replicas[replica]
                    .store
                    .collect(StepMax::records(records_max))
                    .expect("the collection goes on");
            }
            Step::Flush { replica } => {
                let store = &self.replicas[replica].store;
                assert_eq!(store.flush().expect("the flush succeeds"), store.applied());
            }
            Step::Restart { replica: number, chunks } => {
                let replica = self.replicas.remove(number).restarted();
                replica.catch_up(&self.log, &chunks);
                self.replicas.insert(number, replica);
                self.check_small_tables();
                self.check_range(&Range::latest(KeyRange::From(Bytes::new())));
            }
            Step::Checkpoint { replica } => self.replicas[replica].move_to_checkpoint(),
        }
    }

    /// Decides with the model what an entry must lead to.
    fn append(&mut self, content: Content) {
        let index = self.log.len() as u64 + 1;
        let term = index / 7;
        let (mut verdicts, known) = (Vec::new(), self.model.all_changes().len());
        let body = match content {
            Content::Blank => Body::Blank,
            Content::Membership(record) => {
                self.membership = Some(vec![record].into());
                Body::Membership(vec![record].into())
            }
            Content::Commands(passed, commands) => {
                self.clock = self.clock.saturating_add_signed(passed);
                self.model.stamp = self.model.stamp.max(Timestamp(self.clock));
                let mut encoded = Vec::new();
                for (sequence, (node, command)) in commands.into_iter().enumerate() {
                    let id = ProposalId { node: NodeId(node), sequence: index * 100 + sequence as u64 };
                    let command = generate::resolve(&self.model, command, term);
                    verdicts.push((id, self.model.apply(&command, term)));
                    encoded.push(Proposal { id, command }.encode());
                }
                Body::Commands { stamp: Timestamp(self.clock), commands: encoded }
            }
        };
        let changes = self.model.all_changes()[known..].to_vec();
        let entry = Entry { position: Position { term, index }, body };
        self.log.push(Logged { entry, verdicts, changes });
    }

    fn check_small_tables(&self) {
        for Replica { store, .. } in &self.replicas {
            assert_eq!(store.revision(), self.model.revision());
            assert_eq!(store.compacted(), self.model.compacted);
            assert_eq!(store.applied().position, self.log.last().map(|logged| logged.entry.position));
            assert_eq!(store.applied().membership, self.membership);
            assert_eq!(store.alarms(), self.model.alarms.iter().copied().collect::<Vec<_>>());
            assert_eq!(store.members(), self.model.members);
            assert_eq!(store.expected_voters(), self.model.expected_voters);
            assert!((0..5).map(NodeId).all(|id| store.was_removed(id) == self.model.removed.contains(&id)));
            assert_eq!(store.key_count(), self.model.now().len());
            let lease = |id| store.lease(id).map(|lease| (lease.ttl, lease.keys));
            let leases: BTreeMap<_, _> = store
                .leases()
                .into_iter()
                .map(|(id, ttl)| (id, lease(id).expect("a listed lease is there"), ttl))
                .inspect(|(_, lease, ttl)| assert_eq!(lease.0, *ttl))
                .map(|(id, lease, _)| (id, lease))
                .collect();
            assert_eq!(leases, self.model.leases());
            assert_eq!(store.lease_count(), leases.len());
        }
    }

    fn check_range(&self, read: &Range) {
        let expected = self.model.range(read);
        for Replica { store, .. } in &self.replicas {
            assert_eq!(rejected(store.range(read)), expected, "{read:?}");
        }
    }

    /// Read in pieces, a range is what it is as a whole.
    fn check_pages(&self, read: &Range, keys_max: usize) {
        // So few bytes that they are the bound of some pages and the keys that of others.
        let max = PageMax { keys: keys_max, bytes: keys_max * 8 };
        for Replica { store, .. } in &self.replicas {
            let pages = rejected(store.open_pages(read)).map(|mut pages| {
                let mut whole = pages.whole().clone();
                loop {
                    let page = rejected(store.next_page(&mut pages, max)).expect("nothing is compacted");
                    assert!(page.kvs.len() <= keys_max.max(1));
                    whole.kvs.extend(page.kvs);
                    if page.last {
                        return whole;
                    }
                }
            });
            assert_eq!(pages, self.model.range(read), "{read:?}");
        }
    }

    fn check_changes(&self, from: Revision, bytes_max: usize) {
        let expected = self.model.changes(from);
        for replica in &self.replicas {
            let found = rejected(replica.store.changes(from, bytes_max));
            let found = found.map(|sets| sets.iter().map(|set| (**set).clone()).collect::<Vec<_>>());
            match (&found, &expected) {
                (Ok(found), Ok(expected)) => {
                    let enough = if bytes_max == usize::MAX { expected.len() } else { 1 };
                    assert!(found.len() >= enough.min(expected.len()), "too little from {from}");
                    assert_eq!(found[..], expected[..found.len()], "from {from}");
                    found.iter().for_each(|set| self.check_previous(replica, set));
                }
                _ => assert_eq!(found.as_deref(), expected.as_deref(), "from {from}"),
            }
        }
    }

    /// Whatever an event replaced can be fetched for as long as the event can.
    fn check_previous(&self, replica: &Replica, set: &ChangeSet) {
        for record in &set.records {
            let Some(replaced) = record.replaced else { continue };
            let stored = replica.store.record(replaced).expect("the record is read");
            let sets = self.model.all_changes();
            let expected = &sets[replaced.revision.get() as usize - 2].records[replaced.sub as usize];
            assert_eq!(stored.as_ref(), Some(expected), "replaced by {record:?} at {}", set.revision);
        }
    }

    fn check_versions(&self, key: &Bytes, before: Revision, count: usize) {
        let expected = self.model.versions(key, before, count.max(1));
        for Replica { store, .. } in &self.replicas {
            let max = VersionsMax { count, bytes: usize::MAX };
            assert_eq!(rejected(store.versions(key, before, max)), Ok(expected.clone()), "{key:?} {before}");
            let one = rejected(store.versions(key, before, VersionsMax { count, bytes: 0 }));
            assert_eq!(one.expect("it is read").versions.first(), expected.versions.first());
        }
    }

    fn check_time(&self, time: Timestamp) {
        let expected = self.model.revision_at(time);
        for Replica { store, .. } in &self.replicas {
            assert_eq!(rejected(store.revision_at(time)), expected, "{time:?}");
        }
    }

    fn check_hash(&self, revision: i64) {
        let hashes: Vec<_> =
            self.replicas.iter().map(|replica| rejected(replica.store.hash(revision))).collect();
        assert!(hashes.iter().all(|hash| *hash == hashes[0]), "at {revision}: {hashes:?}");
        let whole = Range { revision, ..Range::latest(KeyRange::From(Bytes::new())) };
        assert_eq!(hashes[0].as_ref().err(), self.model.range(&whole).as_ref().err());
    }

    /// Collects everything on every replica and looks at the tables themselves.
    fn finish(&mut self) {
        self.check_everything();
        invariants::check(&self.model);
        self.replicas.iter().for_each(Replica::collect_all);
        self.check_everything();
        for replica in &self.replicas {
            self.check_rows(&replica.rows());
            assert_eq!(replica.rows(), self.replicas[0].rows(), "{:?}", replica.local);
        }
        self.replicas.iter_mut().for_each(Replica::move_to_checkpoint);
        self.check_everything();
    }

    fn check_everything(&self) {
        self.check_small_tables();
        let (oldest, newest) = (self.model.compacted.max(1), self.model.revision().wire());
        for revision in oldest - 2..=newest + 1 {
            self.check_range(&Range { revision, ..Range::latest(KeyRange::From(Bytes::new())) });
        }
        let records = self.model.all_changes().iter().flat_map(|set| &set.records);
        for key in records.map(|record| &record.key).collect::<BTreeSet<_>>() {
            self.check_versions(key, Revision::NONE, usize::MAX);
        }
        for stamp in &self.model.stamps {
            self.check_time(*stamp);
        }
        for revision in [oldest - 1, oldest, oldest + 1, newest] {
            self.check_changes(Revision::new(revision as u64), usize::MAX);
            self.check_hash(revision);
        }
    }

    /// The tables hold every row the model needs, and not one more.
    fn check_rows(&self, rows: &[(Table, Vec<u8>, Bytes)]) {
        let mut expected = Vec::new();
        for (id, record) in self.model.kept() {
            expected.push((Table::Records, id.encode().to_vec()));
            expected.push((Table::Keys, encoding::key_version(&record.key, id)));
        }
        expected.extend(self.meta_rows().into_iter().map(|key| (Table::Meta, key.encode())));
        expected.sort();
        let found: Vec<_> = rows.iter().map(|(table, key, _)| (*table, key.clone())).collect();
        assert_eq!(found, expected);
        let kept = self.model.kept();
        for (_, key, value) in rows.iter().filter(|(table, ..)| *table == Table::Keys) {
            check_key_row(&kept, key, value);
        }
    }

    fn meta_rows(&self) -> Vec<MetaKey> {
        let model = &self.model;
        let mut keys = Vec::new();
        if !self.log.is_empty() {
            keys.extend([MetaKey::Applied, MetaKey::Revision]);
        }
        keys.extend(self.membership.as_ref().map(|_| MetaKey::Membership));
        keys.extend((model.compacted >= 0).then_some(MetaKey::Compacted));
        keys.extend((model.compacted >= 1).then_some(MetaKey::Collected));
        keys.extend(model.alarms.iter().map(|alarm| MetaKey::Alarm(alarm.member, alarm.kind as u8)));
        keys.extend(model.leases().into_keys().map(MetaKey::Lease));
        keys.extend(model.members.keys().copied().map(MetaKey::Member));
        keys.extend(model.removed.iter().copied().map(MetaKey::Removed));
        keys.extend(model.expected_voters.iter().copied().map(MetaKey::Expected));
        keys.extend(model.objects.rows.iter().map(|(place, _)| MetaKey::Operation(*place)));
        keys.extend(model.seconds().into_iter().map(MetaKey::Second));
        keys
    }
}

/// A row of the key table says what its record says.
fn check_key_row(kept: &BTreeMap<RecordId, Record>, key: &[u8], value: &[u8]) {
    let (escaped, id) = encoding::split_key_version(key).expect("a key row");
    let row = KeyVersion::decode(id, value).expect("a key version");
    let record = kept.get(&id).expect("every key row points to a kept record");
    assert_eq!(record.key, encoding::unescape(escaped));
    match record.change {
        Change::Delete => assert!(row.deleted),
        Change::Put { created, version, lease, .. } => {
            let state = row.state;
            assert_eq!((state.created, state.version, state.lease), (created, version, lease));
        }
    }
}

/// Leaves what a client may see. Anything else is a failure of the store.
fn rejected<T>(answer: Result<T, ReadFailure>) -> Result<T, Rejection> {
    answer.map_err(|failure| match failure {
        ReadFailure::Rejected(rejection) => rejection,
        other => panic!("{other}"),
    })
}
