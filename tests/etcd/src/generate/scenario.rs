//! Fixed sequences for what chance would hardly put together. Every campaign and corpus begins with them.
//!
//! Each has its number below [`FIRST_SEED`] in place of a seed, so that reports name it.

use super::{Maker, keys};
use crate::blob::Blob;
use crate::step::{
    CompareStep, DeleteStep, LeaseRef, Op, PutStep, RangeStep, Rev, Sequence, Step, StreamSlot, TxnStep,
    WatchStep,
};

/// Seeds of generated sequences start here by default; scenarios are numbered below.
pub const FIRST_SEED: u64 = 1000;

/// etcd's default limit on operations in a transaction.
const OPS_MAX: usize = 128;
/// Larger than one watch response of a catching-up watch may hold in revisions (1000).
const MANY_REVISIONS: u32 = 1100;
/// Seconds that a lease which is to expire lives: enough to attach keys to it on a machine that is busy with others.
const EXPIRY_TTL: i64 = 8;

/// Writes one scenario's steps.
type Scenario = fn(&mut Maker);

/// All scenarios, each resetting the store.
pub fn scenarios() -> Vec<Sequence> {
    let all: [(&str, Scenario); 14] = [
        ("empty store", empty_store),
        ("operation limit", operation_limit),
        ("duplicate keys", duplicate_keys),
        ("request too large", request_too_large),
        ("tombstone at the compaction", tombstone_at_compaction),
        ("watch over many revisions", watch_many_revisions),
        ("many watches on a stream", many_watches),
        ("fragments", fragments),
        ("lease expiry", lease_expiry),
        ("lease granted again", lease_again),
        ("id of a compacted watch", compacted_watch_id),
        ("order of checks", order_of_checks),
        ("alarm: no space", alarm_no_space),
        ("alarm: corrupt", alarm_corrupt),
    ];
    let made = all.into_iter().enumerate().map(|(number, (name, build))| {
        let seed = u64::try_from(number).unwrap_or(0);
        let mut maker = Maker::new(seed);
        build(&mut maker);
        maker.finish(seed, &format!("scenario: {name}"), true)
    });
    made.collect()
}

fn put(key: &'static [u8], value: Blob) -> Step {
    Step::Put(PutStep { key: Blob::fixed(key), value, ..PutStep::default() })
}

fn text(value: &'static [u8]) -> Blob {
    Blob::fixed(value)
}

fn all_keys() -> RangeStep {
    RangeStep { key: keys::first(), end: keys::first(), ..RangeStep::default() }
}

fn watch_all(stream: StreamSlot, start: Rev) -> WatchStep {
    WatchStep { stream, key: keys::first(), end: keys::first(), start, ..WatchStep::default() }
}

impl Maker {
    fn add(&mut self, steps: impl IntoIterator<Item = Step>) {
        for step in steps {
            if let Step::Watch(watch) = &step {
                self.streams.insert(watch.stream);
            }
            self.steps.push(step);
        }
    }
}

/// What a server answers before anything was written. Compaction of revision 0 is accepted once.
fn empty_store(maker: &mut Maker) {
    let read = |revision| Step::Range(RangeStep { revision, ..all_keys() });
    let compact = |revision| Step::Compact { revision, physical: false };
    maker.add([
        read(Rev::Unset),
        read(Rev::Exactly(1)),
        read(Rev::Exactly(2)),
        Step::HashKv { revision: Rev::Unset },
    ]);
    maker.add([
        Step::Delete(DeleteStep { key: keys::first(), end: keys::first(), prev_kv: true }),
        Step::Leases,
    ]);
    maker.add([compact(Rev::Exactly(0)), compact(Rev::Exactly(0)), compact(Rev::Exactly(2))]);
    maker.add([Step::Txn(TxnStep::default()), Step::Status, Step::MemberList { linearizable: true }]);
    maker.add([Step::Watch(watch_all(0, Rev::Exactly(1))), put(b"a", text(b"first")), Step::Settle]);
    maker.add([compact(Rev::Exactly(1)), compact(Rev::Exactly(1)), read(Rev::Exactly(1)), read(Rev::Unset)]);
}

fn nested(depth: usize, mut ops: Vec<Op>) -> TxnStep {
    for _ in 1..depth {
        ops = vec![Op::Txn(TxnStep { success: ops, ..TxnStep::default() })];
    }
    TxnStep { success: ops, ..TxnStep::default() }
}

/// Exactly at and one above the limit, on each list and through nesting, where the inner budget is what the outer left.
fn operation_limit(maker: &mut Maker) {
    let reads = |count| vec![Op::Range(RangeStep { key: text(b"a"), ..RangeStep::default() }); count];
    let compares = |count| vec![CompareStep { key: text(b"a"), ..CompareStep::default() }; count];
    for count in [OPS_MAX, OPS_MAX + 1] {
        maker.add([
            Step::Txn(TxnStep { compare: compares(count), ..TxnStep::default() }),
            Step::Txn(TxnStep { success: reads(count), ..TxnStep::default() }),
            Step::Txn(TxnStep { failure: reads(count), ..TxnStep::default() }),
        ]);
    }
    // One operation outside leaves 127 inside; two levels leave 126.
    for (depth, count) in [(2, OPS_MAX - 1), (2, OPS_MAX), (3, OPS_MAX - 2), (3, OPS_MAX - 1)] {
        maker.add([Step::Txn(nested(depth, reads(count)))]);
    }
}

/// The duplicate rule within a branch, against deletes, through nesting and across the branches of a nested one.
fn duplicate_keys(maker: &mut Maker) {
    let put = |key: &'static [u8]| {
        Op::Put(PutStep { key: Blob::fixed(key), value: text(b"v"), ..PutStep::default() })
    };
    let delete = |key: &'static [u8], end: &'static [u8]| {
        Op::Delete(DeleteStep { key: Blob::fixed(key), end: Blob::fixed(end), prev_kv: true })
    };
    let inner =
        |success: Vec<Op>, failure: Vec<Op>| Op::Txn(TxnStep { success, failure, ..TxnStep::default() });
    let branches = [
        vec![put(b"a"), put(b"a")],
        vec![put(b"a"), delete(b"a", b"")],
        vec![delete(b"a", b""), put(b"a")],
        vec![delete(b"a", b"c"), put(b"b")],
        vec![delete(b"a", b"\0"), put(b"b")],
        vec![delete(b"a", b"c"), delete(b"b", b"\0")],
        vec![delete(b"b", b"c"), put(b"a")],
        vec![put(b"a"), inner(vec![put(b"a")], vec![])],
        vec![put(b"a"), inner(vec![], vec![put(b"a")])],
        vec![inner(vec![put(b"a")], vec![put(b"a")])],
        vec![inner(vec![put(b"a")], vec![]), inner(vec![put(b"a")], vec![])],
        vec![inner(vec![delete(b"a", b"c")], vec![]), put(b"b")],
        vec![inner(vec![delete(b"a", b"c")], vec![put(b"b")])],
        vec![inner(vec![inner(vec![put(b"a")], vec![])], vec![]), put(b"a")],
        vec![inner(vec![put(b"a")], vec![]), inner(vec![delete(b"a", b"b")], vec![])],
    ];
    for branch in branches {
        // Also in the branch that does not run: it is checked all the same.
        let failure = TxnStep { failure: branch.clone(), ..TxnStep::default() };
        maker.add([Step::Txn(TxnStep { success: branch, ..TxnStep::default() }), Step::Txn(failure)]);
        maker.add([Step::Range(all_keys())]);
    }
}

/// Just under the limit of 1.5 MiB, and above it, alone and as the sum of a transaction; and above that of a message.
fn request_too_large(maker: &mut Maker) {
    let half = || Op::Put(PutStep { key: text(b"a"), value: Blob::filled(800_000, 1), ..PutStep::default() });
    let other =
        || Op::Put(PutStep { key: text(b"b"), value: Blob::filled(800_000, 2), ..PutStep::default() });
    maker.add([put(b"a", Blob::filled(1_500_000, b'x')), put(b"a", Blob::filled(1_600_000, b'y'))]);
    maker.add([Step::Txn(TxnStep { success: vec![half(), other()], ..TxnStep::default() })]);
    maker.add([put(b"a", Blob::filled(2_500_000, b'z')), Step::Range(all_keys())]);
}

/// A delete at exactly the compacted revision is still delivered and readable; one below it is gone.
fn tombstone_at_compaction(maker: &mut Maker) {
    let delete =
        |key: &'static [u8]| Step::Delete(DeleteStep { key: Blob::fixed(key), ..DeleteStep::default() });
    maker.add([put(b"a", text(b"1")), put(b"b", text(b"1")), delete(b"b"), delete(b"a")]);
    maker.add([Step::Compact { revision: Rev::Now(0), physical: true }]);
    let from_compaction = WatchStep { prev_kv: true, ..watch_all(0, Rev::Compacted(0)) };
    maker.add([Step::Watch(from_compaction), Step::Watch(watch_all(1, Rev::Compacted(-1))), Step::Settle]);
    maker.add([put(b"c", text(b"1")), Step::Compact { revision: Rev::Now(0), physical: true }]);
    maker.add([Step::Watch(watch_all(2, Rev::Compacted(-1))), Step::Range(all_keys())]);
    maker.add([Step::Range(RangeStep { revision: Rev::Compacted(0), ..all_keys() })]);
    maker.add([Step::Range(RangeStep { revision: Rev::Compacted(-1), ..all_keys() })]);
}

fn watch_many_revisions(maker: &mut Maker) {
    let from = -i64::from(MANY_REVISIONS) + 1;
    maker.add([Step::PutMany { key: text(b"a"), count: MANY_REVISIONS }]);
    maker.add([Step::Watch(watch_all(0, Rev::Now(from))), Step::Watch(watch_all(1, Rev::Now(from / 2)))]);
    maker.add([
        put(b"a", text(b"last")),
        put(b"b", text(b"last")),
        Step::Settle,
        Step::Progress { stream: 0 },
    ]);
}

/// Two hundred watches on one stream, of which the key belongs to some, replayed and live.
fn many_watches(maker: &mut Maker) {
    maker.add([put(b"a", text(b"1")), put(b"b", text(b"1"))]);
    for number in 0..200_i64 {
        let key = if number % 2 == 0 { text(b"a") } else { text(b"b") };
        let start = if number % 5 == 0 { Rev::Now(-1) } else { Rev::Unset };
        maker.add([Step::Watch(WatchStep { key, start, ..WatchStep::default() })]);
    }
    maker.add([put(b"a", text(b"2")), put(b"b", text(b"2")), put(b"c", text(b"2"))]);
    maker.add([Step::CancelWatch { stream: 0, id: 100 }, put(b"a", text(b"3"))]);
}

/// More history than fits one response, with and without leave to split it; and one revision that is too large itself.
fn fragments(maker: &mut Maker) {
    for byte in 1..=7 {
        maker.add([put(b"a", Blob::filled(600_000, byte))]);
    }
    for stream in 0..2 {
        let watch = WatchStep { fragment: stream == 0, prev_kv: true, ..watch_all(stream, Rev::Now(-6)) };
        maker.add([Step::Watch(watch)]);
    }
    maker.add([Step::Settle]);
    // Seven events of one revision that carry 2.8 MB with the previous values.
    let puts = |byte: u8| {
        let keys: [&'static [u8]; 7] = [b"a", b"b", b"c", b"d", b"e", b"f", b"g"];
        let put = |key| {
            Op::Put(PutStep {
                key: Blob::fixed(key),
                value: Blob::filled(200_000, byte),
                ..PutStep::default()
            })
        };
        Step::Txn(TxnStep { success: keys.into_iter().map(put).collect(), ..TxnStep::default() })
    };
    maker.add([puts(1), puts(2), puts(3), Step::Settle]);
    maker.add([Step::Watch(WatchStep { fragment: true, prev_kv: true, ..watch_all(2, Rev::Now(-2)) })]);
}

/// A lease that expires takes its keys with it in one revision; one without keys leaves no trace; one that is kept
/// alive stays. One lease at a time: which of two ends first would depend on the machine.
fn lease_expiry(maker: &mut Maker) {
    let (first, second, empty, kept) =
        (LeaseRef::Slot(1), LeaseRef::Id(9), LeaseRef::Slot(2), LeaseRef::Slot(3));
    let attached = |key: &'static [u8], lease| {
        Step::Put(PutStep { key: Blob::fixed(key), value: text(b"v"), lease, ..PutStep::default() })
    };
    let gone = |key: &'static [u8]| Step::AwaitGone { key: Blob::fixed(key), end: Blob::default() };
    maker.add([Step::Grant { lease: empty, ttl: 1 }, Step::Grant { lease: kept, ttl: 1000 }]);
    maker.add([attached(b"e", kept), Step::Watch(watch_all(0, Rev::Unset))]);
    maker.add([Step::Grant { lease: first, ttl: EXPIRY_TTL }]);
    maker.add([attached(b"c", first), attached(b"a", first), attached(b"b", first)]);
    maker.add([gone(b"a"), Step::Range(all_keys()), Step::Settle]);
    maker.add([Step::Grant { lease: second, ttl: EXPIRY_TTL }, attached(b"d", second)]);
    maker.add([gone(b"d"), Step::Range(all_keys()), Step::Settle, Step::Leases]);
    maker.add([Step::TimeToLive { lease: first, keys: true }, Step::KeepAlive { lease: second }]);
    maker.add([Step::TimeToLive { lease: kept, keys: true }, Step::Revoke { lease: first }]);
    maker.leases.push(kept);
}

/// A lease granted again under its id, and one revoked and granted anew, has the time of the last grant.
fn lease_again(maker: &mut Maker) {
    let lease = LeaseRef::Id(77);
    let grant = |ttl| Step::Grant { lease, ttl };
    let look = || [Step::TimeToLive { lease, keys: true }, Step::KeepAlive { lease }];
    maker.add([grant(700)]);
    maker.add(look());
    maker.add([grant(900)]);
    maker.add(look());
    maker.add([Step::Revoke { lease }, grant(5000)]);
    maker.add(look());
    maker.add([Step::Put(PutStep { key: text(b"a"), value: text(b"v"), lease, ..PutStep::default() })]);
    maker.add([Step::Revoke { lease }, grant(800)]);
    maker.add(look());
    // Nobody can have the lease without a number.
    let none = LeaseRef::None;
    maker.add([Step::Revoke { lease: none }, Step::KeepAlive { lease: none }]);
    maker.add([Step::TimeToLive { lease: none, keys: true }]);
    maker.leases.push(lease);
}

/// A watch that a compaction ends keeps its id until the client cancels it.
fn compacted_watch_id(maker: &mut Maker) {
    let below = |id| Step::Watch(WatchStep { id, ..watch_all(0, Rev::Compacted(-1)) });
    let now = |id| Step::Watch(WatchStep { id, ..watch_all(0, Rev::Unset) });
    maker.add([put(b"a", text(b"1")), put(b"a", text(b"2"))]);
    maker.add([Step::Compact { revision: Rev::Now(0), physical: false }]);
    maker.add([below(5), Step::Settle, now(5), now(0), below(0), Step::Settle, now(0)]);
    maker.add([Step::CancelWatch { stream: 0, id: 5 }, now(5), Step::CancelWatch { stream: 0, id: 5 }]);
    maker.add([Step::CancelWatch { stream: 0, id: 5 }, put(b"a", text(b"3")), Step::Settle]);
}

/// Of several faults a transaction is refused for that of a put, wherever it stands.
fn order_of_checks(maker: &mut Maker) {
    let future = || Op::Range(RangeStep { revision: Rev::Now(5), ..all_keys() });
    let compacted = || Op::Range(RangeStep { revision: Rev::Compacted(-1), ..all_keys() });
    let orphan = || Op::Put(PutStep { key: text(b"a"), lease: LeaseRef::Id(424_242), ..PutStep::default() });
    let absent = || Op::Put(PutStep { key: text(b"zz"), ignore_value: true, ..PutStep::default() });
    let both = || {
        let lease = LeaseRef::Id(424_242);
        Op::Put(PutStep { key: text(b"zz"), ignore_value: true, lease, ..PutStep::default() })
    };
    let inner = |ops: Vec<Op>| Op::Txn(TxnStep { success: ops, ..TxnStep::default() });
    maker.add([put(b"a", text(b"1")), put(b"b", text(b"1"))]);
    maker.add([Step::Compact { revision: Rev::Now(0), physical: false }, put(b"c", text(b"1"))]);
    for ops in [
        vec![future(), orphan()],
        vec![orphan(), future()],
        vec![compacted(), absent()],
        vec![future(), compacted()],
        vec![compacted(), future()],
        vec![future(), inner(vec![orphan()])],
        vec![inner(vec![future()]), absent()],
        vec![inner(vec![future()]), inner(vec![absent(), orphan()])],
        vec![both()],
    ] {
        maker.add([Step::Txn(TxnStep { success: ops, ..TxnStep::default() })]);
    }
    let Op::Put(alone) = both() else { return };
    maker.add([Step::Put(alone), Step::Range(all_keys())]);
}

fn with_alarm(maker: &mut Maker, alarm: i32) {
    let mixed = TxnStep {
        success: vec![
            Op::Put(PutStep { key: text(b"b"), value: text(b"v"), ..PutStep::default() }),
            Op::Range(all_keys()),
        ],
        ..TxnStep::default()
    };
    let reads = TxnStep { success: vec![Op::Range(all_keys())], ..TxnStep::default() };
    let deletes = TxnStep {
        success: vec![Op::Delete(DeleteStep { key: text(b"a"), ..DeleteStep::default() })],
        ..TxnStep::default()
    };
    maker.add([put(b"a", text(b"before")), Step::Grant { lease: LeaseRef::Id(1), ttl: 1000 }]);
    maker.add([
        Step::Alarm { action: 1, alarm },
        Step::Alarm { action: 1, alarm },
        Step::AlarmGet,
        Step::Status,
    ]);
    maker.add([put(b"a", text(b"during")), Step::Grant { lease: LeaseRef::Id(2), ttl: 1000 }]);
    maker.add([Step::Txn(mixed.clone()), Step::Txn(reads), Step::Range(all_keys())]);
    maker.add([
        Step::Range(RangeStep { serializable: true, ..all_keys() }),
        Step::KeepAlive { lease: LeaseRef::Id(1) },
    ]);
    maker.add([Step::Txn(deletes), Step::Delete(DeleteStep { key: text(b"a"), ..DeleteStep::default() })]);
    maker.add([
        Step::Compact { revision: Rev::Now(0), physical: false },
        Step::Revoke { lease: LeaseRef::Id(1) },
    ]);
    maker.add([
        Step::Alarm { action: 2, alarm },
        Step::Alarm { action: 2, alarm },
        Step::AlarmGet,
        Step::Status,
    ]);
    maker.add([put(b"a", text(b"after")), Step::Txn(mixed), Step::Range(all_keys())]);
    maker.leases.extend([LeaseRef::Id(1), LeaseRef::Id(2)]);
}

fn alarm_no_space(maker: &mut Maker) {
    with_alarm(maker, 1);
}

fn alarm_corrupt(maker: &mut Maker) {
    with_alarm(maker, 2);
}
