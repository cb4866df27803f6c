//! Wrong answers to Range, Put and DeleteRange, and wrong headers.

use setpoint_api::mvccpb::KeyValue;
use setpoint_etcd_tests::answer::Answer;

use super::{Entry, change, delete, header, put, raise_revision, range};

pub const PLANTS: &[Entry] = &[
    ("range: header revision", |a| raise_revision(a, |a| matches!(a, Answer::Range(_)))),
    ("put: header revision", |a| raise_revision(a, |a| matches!(a, Answer::Put(_)))),
    ("delete: header revision", |a| raise_revision(a, |a| matches!(a, Answer::Delete(_)))),
    ("compact: header revision", |a| raise_revision(a, |a| matches!(a, Answer::Compact(_)))),
    ("header missing", |a| change(header(a).filter(|h| h.is_some()), |h| *h = None)),
    ("header without member", |a| change(header(a).and_then(Option::as_mut), |h| h.member_id = 0)),
    ("header without cluster", |a| change(header(a).and_then(Option::as_mut), |h| h.cluster_id = 0)),
    ("header without term", |a| change(header(a).and_then(Option::as_mut), |h| h.raft_term = 0)),
    ("range: key", |a| change(first(a), |kv| kv.key = b"elsewhere".to_vec().into())),
    ("range: value", |a| change(first(a), |kv| kv.value = b"wrong".to_vec().into())),
    ("range: create revision", |a| change(first(a), |kv| kv.create_revision -= 1)),
    ("range: mod revision", |a| change(first(a), |kv| kv.mod_revision -= 1)),
    ("range: version", |a| change(first(a), |kv| kv.version += 1)),
    ("range: lease", |a| change(first(a), |kv| kv.lease += 1)),
    ("range: attached lease lost", |a| change(attached(a), |kv| kv.lease = 0)),
    ("range: count", |a| change(range(a), |r| r.count += 1)),
    ("range: more", |a| change(range(a), |r| r.more = !r.more)),
    ("range: order", |a| change(range(a).filter(|r| r.kvs.len() > 1), |r| r.kvs.swap(0, 1))),
    ("range: last key missing", |a| change(range(a).filter(|r| !r.kvs.is_empty()), |r| drop(r.kvs.pop()))),
    ("range: key twice", |a| {
        change(range(a).filter(|r| !r.kvs.is_empty()), |r| r.kvs.push(r.kvs[0].clone()))
    }),
    ("put: previous lost", |a| change(put(a).filter(|r| r.prev_kv.is_some()), |r| r.prev_kv = None)),
    ("put: previous invented", |a| {
        change(put(a).filter(|r| r.prev_kv.is_none()), |r| r.prev_kv = Some(KeyValue::default()))
    }),
    ("put: previous version", |a| change(put(a).and_then(|r| r.prev_kv.as_mut()), |kv| kv.version += 1)),
    ("delete: count", |a| change(delete(a), |r| r.deleted += 1)),
    ("delete: previous lost", |a| {
        change(delete(a).filter(|r| !r.prev_kvs.is_empty()), |r| r.prev_kvs.clear())
    }),
    ("delete: order of previous", |a| {
        change(delete(a).filter(|r| r.prev_kvs.len() > 1), |r| r.prev_kvs.reverse())
    }),
];

fn first(answer: &mut Answer) -> Option<&mut KeyValue> {
    range(answer)?.kvs.first_mut()
}

fn attached(answer: &mut Answer) -> Option<&mut KeyValue> {
    range(answer)?.kvs.iter_mut().find(|kv| kv.lease != 0)
}
