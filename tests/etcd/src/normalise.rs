//! The comparable form of an answer, and the complete list of what is taken out of it.
//!
//! An answer becomes a JSON value in which every field of the response occurs, except for the following. Each has
//! its reason; whatever is not listed is compared exactly. Fields at their protobuf default are left out, since the
//! wire does not distinguish them either.
//!
//! | what | becomes | why |
//! |---|---|---|
//! | `header.cluster_id`, `member_id`, `raft_term` | "all set" or "none set" | identities of a cluster; `raft_term` counts elections |
//! | lease ids picked by the server | the number of the grant, from [`CHOSEN_LEASE_FIRST`] | each server picks its own |
//! | remaining TTL of a long lease | "fresh" if at most [`TTL_DRIFT_SECONDS_MAX`] below the granted one | the clock runs while the test does |
//! | order of `LeaseLeases`, of `keys` in `LeaseTimeToLive` | sorted | ordered by expiry, which is a clock; a Go map |
//! | batching of watch events | one list per watch since the last look | how much a response holds is timing; `rules` says what is not free |
//! | header revision of watch events and of progress while waiting | only checked by `rules` | catch-up may report a later store revision |
//! | answers to repeated progress requests | the revision once | the harness repeats the request until it is answered |
//! | progress on a stream with a watch canceled by compaction | not asked for | etcd never reports progress there again |
//! | `Status` sizes, indices, version | plausibility (see [`status`]) | they describe the implementation |
//! | `Status.errors`, alarms: the member's own id | "self" | identity |
//! | hash of `Hash` and `HashKV` | "set", and "same twice" | computed over each implementation's own layout |
//! | `HashKV.compact_revision` of an explicit revision | left out | for a compacted revision etcd returns what that compaction had stored, if it is done |
//! | `HashKV.hash_revision` | left out | etcd 3.5 does not know it |
//! | `MemberList` members | count as configured, and plausibility (see [`members`]) | names, ids and addresses are identities |
//! | values above 256 bytes | length and CRC-32C | size of reports and of the stored corpus |

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};
use setpoint_api::{etcdserverpb as pb, mvccpb};

use crate::answer::{Answer, Arrived, Outcome, Received, Refusal};
use crate::blob::text;
use crate::rules::StreamRules;
use crate::step::{LeaseRef, Rev, Step, StreamSlot, WatchStep};
use crate::stream::is_progress;

/// Stand-in of the first lease id picked by a server; clients of this test choose smaller ones.
pub const CHOSEN_LEASE_FIRST: i64 = 1 << 62;

/// How far the remaining TTL may be below the granted one and still count as fresh. Leases whose TTL is compared
/// live for a single sequence, and are granted for at least ten times this.
pub const TTL_DRIFT_SECONDS_MAX: i64 = 60;

/// Turns the answers of one server into comparable values. Remembers the ids that server picked, and judges its
/// watch streams by `rules`.
#[derive(Debug, Default)]
pub struct Normaliser {
    chosen_leases: HashMap<i64, i64>,
    streams: BTreeMap<StreamSlot, StreamRules>,
    /// How many members the server's cluster was started with.
    members: usize,
}

impl Normaliser {
    pub fn new(members: usize) -> Self {
        Self { members, ..Self::default() }
    }

    pub fn normalise(&mut self, step: &Step, answer: &Answer) -> Value {
        match answer {
            Answer::Range(outcome) => value(outcome, |response| self.range(response)),
            Answer::Put(outcome) => value(outcome, |response| self.put(response)),
            Answer::Delete(outcome) => value(outcome, |response| self.delete(response)),
            Answer::Txn(outcome) => value(outcome, |response| self.txn(response)),
            Answer::Compact(outcome) => value(outcome, |r| object([("header", header(&r.header))])),
            Answer::Grant(outcome) => self.grant(step, outcome),
            Answer::Revoke(outcome) => value(outcome, |r| object([("header", header(&r.header))])),
            Answer::GrantBriefly(granted, revoked) => {
                let grant = self.grant(step, granted);
                let revoke = revoked.as_ref();
                let revoke = revoke.map(|r| value(r, |r| object([("header", header(&r.header))])));
                json!({ "grant": grant, "revoke": revoke })
            }
            Answer::TimeToLive(outcome) => value(outcome, |response| self.time_to_live(response)),
            Answer::Leases(outcome) => value(outcome, |response| self.leases(response)),
            Answer::KeepAlive(outcome) => value(outcome, |r| {
                object([
                    ("header", header(&r.header)),
                    ("id", json!(self.lease(r.id))),
                    ("ttl", json!(r.ttl)),
                ])
            }),
            Answer::WatchCreated(response) => self.watch_created(step, response.as_ref()),
            Answer::WatchCanceled(response) => response.as_ref().map_or(Value::Null, watch_state),
            Answer::Progress(response) => response
                .as_ref()
                .map_or(Value::Null, |r| json!({ "header": header(&r.header), "id": r.watch_id })),
            Answer::Settled(streams) => self.settled(streams),
            Answer::Nothing => {
                if let Step::CloseStream { stream } = step {
                    self.streams.remove(stream);
                }
                Value::Null
            }
            Answer::Status(outcome) => value(outcome, status),
            Answer::Alarm(outcome) => value(outcome, alarms),
            Answer::Hash(outcome) => {
                value(outcome, |r| object([("header", header(&r.header)), ("hash_set", json!(r.hash != 0))]))
            }
            Answer::HashKv(first, second) => hash_kv(step, first, second),
            Answer::Defragment(outcome) => value(outcome, |r| json!({ "header": header(&r.header) })),
            Answer::MemberList(outcome) => value(outcome, |response| members(response, self.members)),
            Answer::Stray(outcome) => value(outcome, |()| json!("accepted")),
        }
    }

    fn lease(&self, id: i64) -> i64 {
        self.chosen_leases.get(&id).copied().unwrap_or(id)
    }

    fn kv(&self, kv: &mvccpb::KeyValue) -> Value {
        object([
            ("key", json!(text(&kv.key))),
            ("value", json!(text(&kv.value))),
            ("create", json!(kv.create_revision)),
            ("mod", json!(kv.mod_revision)),
            ("version", json!(kv.version)),
            ("lease", json!(self.lease(kv.lease))),
        ])
    }

    fn kvs(&self, kvs: &[mvccpb::KeyValue]) -> Value {
        kvs.iter().map(|kv| self.kv(kv)).collect()
    }

    fn optional_kv(&self, kv: Option<&mvccpb::KeyValue>) -> Value {
        // Present but empty is not the same as absent.
        kv.map_or(Value::Null, |kv| json!([self.kv(kv)]))
    }

    fn range(&self, response: &pb::RangeResponse) -> Value {
        object([
            ("header", header(&response.header)),
            ("kvs", self.kvs(&response.kvs)),
            ("more", json!(response.more)),
            ("count", json!(response.count)),
        ])
    }

    fn put(&self, response: &pb::PutResponse) -> Value {
        object([
            ("header", header(&response.header)),
            ("prev_kv", self.optional_kv(response.prev_kv.as_ref())),
        ])
    }

    fn delete(&self, response: &pb::DeleteRangeResponse) -> Value {
        object([
            ("header", header(&response.header)),
            ("deleted", json!(response.deleted)),
            ("prev_kvs", self.kvs(&response.prev_kvs)),
        ])
    }

    fn txn(&self, response: &pb::TxnResponse) -> Value {
        use pb::response_op::Response;
        let responses: Value = response
            .responses
            .iter()
            .map(|op| match &op.response {
                None => Value::Null,
                Some(Response::ResponseRange(response)) => json!({ "range": self.range(response) }),
                Some(Response::ResponsePut(response)) => json!({ "put": self.put(response) }),
                Some(Response::ResponseDeleteRange(response)) => json!({ "delete": self.delete(response) }),
                Some(Response::ResponseTxn(response)) => json!({ "txn": self.txn(response) }),
            })
            .collect();
        object([
            ("header", header(&response.header)),
            ("succeeded", json!(response.succeeded)),
            ("responses", responses),
        ])
    }

    fn grant(&mut self, step: &Step, outcome: &Outcome<pb::LeaseGrantResponse>) -> Value {
        let slot = matches!(
            step,
            Step::Grant { lease: LeaseRef::Slot(_) | LeaseRef::None, .. }
                | Step::GrantBriefly { lease: LeaseRef::Slot(_) | LeaseRef::None, .. }
        );
        if let Ok(response) = outcome
            && slot
            && response.id > 0
        {
            let next = CHOSEN_LEASE_FIRST + i64::try_from(self.chosen_leases.len()).unwrap_or(i64::MAX >> 2);
            self.chosen_leases.entry(response.id).or_insert(next);
        }
        value(outcome, |response| {
            object([
                ("header", header(&response.header)),
                ("id", json!(self.lease(response.id))),
                ("ttl", json!(response.ttl)),
                ("error", json!(response.error)),
            ])
        })
    }

    fn time_to_live(&self, response: &pb::LeaseTimeToLiveResponse) -> Value {
        let long = response.granted_ttl >= 10 * TTL_DRIFT_SECONDS_MAX;
        let fresh =
            (response.granted_ttl - TTL_DRIFT_SECONDS_MAX..=response.granted_ttl).contains(&response.ttl);
        let mut keys: Vec<String> = response.keys.iter().map(|key| text(key)).collect();
        keys.sort();
        object([
            ("header", header(&response.header)),
            ("id", json!(self.lease(response.id))),
            ("ttl", if long && fresh { json!("fresh") } else { json!(response.ttl) }),
            ("granted_ttl", json!(response.granted_ttl)),
            ("keys", json!(keys)),
        ])
    }

    fn leases(&self, response: &pb::LeaseLeasesResponse) -> Value {
        let mut leases: Vec<i64> = response.leases.iter().map(|lease| self.lease(lease.id)).collect();
        leases.sort_unstable();
        object([("header", header(&response.header)), ("leases", json!(leases))])
    }

    fn watch_created(&mut self, step: &Step, response: Option<&pb::WatchResponse>) -> Value {
        let Some(response) = response else { return Value::Null };
        if let Step::Watch(WatchStep { stream, fragment, progress_notify, .. }) = step {
            self.streams.entry(*stream).or_default().asked(*fragment, *progress_notify);
        }
        watch_state(response)
    }

    fn settled(&mut self, streams: &[(StreamSlot, Received)]) -> Value {
        let mut out = Map::new();
        for (slot, received) in streams {
            let mut complaints = received.complaints.clone();
            complaints.extend(self.streams.entry(*slot).or_default().judge(&received.responses));
            let watches = self.watches(&received.responses);
            let stream = object([
                ("watches", watches),
                ("complaints", json!(complaints)),
                ("ended", received.ended.as_ref().map_or(Value::Null, |end| value(end, |()| json!("ok")))),
            ]);
            if stream.as_object().is_some_and(|stream| !stream.is_empty()) {
                out.insert(slot.to_string(), stream);
            }
        }
        Value::Object(out)
    }

    /// What each watch delivered: its events in order, and how it ended.
    fn watches(&self, responses: &[Arrived]) -> Value {
        let mut watches: BTreeMap<i64, (Vec<Value>, Vec<Value>)> = BTreeMap::new();
        let unreported =
            responses.iter().filter(|arrived| !arrived.reported).map(|arrived| &arrived.response);
        for response in unreported.filter(|response| !is_progress(response)) {
            let (events, states) = watches.entry(response.watch_id).or_default();
            events.extend(response.events.iter().map(|event| self.event(event)));
            if response.created || response.canceled {
                states.push(watch_state(response));
            }
        }
        let named = watches.into_iter().map(|(id, (events, states))| {
            (id.to_string(), object([("events", json!(events)), ("states", json!(states))]))
        });
        Value::Object(named.collect())
    }

    fn event(&self, event: &mvccpb::Event) -> Value {
        let kind = match event.r#type {
            0 => "put".to_owned(),
            1 => "delete".to_owned(),
            other => format!("type {other}"),
        };
        let kv = event.kv.as_ref().map_or(Value::Null, |kv| self.kv(kv));
        let mut out = Map::new();
        out.insert(kind, kv);
        if let Some(previous) = &event.prev_kv {
            out.insert("previous".to_owned(), self.kv(previous));
        }
        Value::Object(out)
    }
}

/// A created or canceled response without its events.
fn watch_state(response: &pb::WatchResponse) -> Value {
    object([
        ("header", header(&response.header)),
        ("id", json!(response.watch_id)),
        ("created", json!(response.created)),
        ("canceled", json!(response.canceled)),
        ("compact_revision", json!(response.compact_revision)),
        ("cancel_reason", json!(response.cancel_reason)),
        ("fragment", json!(response.fragment)),
    ])
}

/// The revision alone if cluster, member and term are set; marked if they are not.
fn header(header: &Option<pb::ResponseHeader>) -> Value {
    let Some(header) = header else { return Value::Null };
    match (header.cluster_id != 0, header.member_id != 0, header.raft_term != 0) {
        (true, true, true) => json!(header.revision),
        (false, false, false) => json!(format!("{} without ids", header.revision)),
        (cluster, member, term) => {
            json!(format!("{} cluster={cluster} member={member} term={term}", header.revision))
        }
    }
}

/// The store revision a normalised answer reports, if it reports one.
pub fn reported_revision(answer: &Value) -> Option<i64> {
    answer.get("header").and_then(Value::as_i64).filter(|revision| *revision > 0)
}

/// Sizes must be positive and consistent, the version a dotted triple, the leader known, indices not ahead of
/// each other.
fn status(response: &pb::StatusResponse) -> Value {
    let own_id = response.header.as_ref().map_or(0, |header| header.member_id).to_string();
    let term = response.header.as_ref().map_or(0, |header| header.raft_term);
    let version_parts = response.version.split('.').filter(|part| part.parse::<u32>().is_ok()).count();
    let errors: Vec<String> = response.errors.iter().map(|error| error.replace(&own_id, "self")).collect();
    object([
        ("header", header(&response.header)),
        ("version_is_triple", json!(version_parts == 3)),
        ("size_plausible", json!(response.db_size > 0 && response.db_size_in_use <= response.db_size)),
        ("leader_known", json!(response.leader != 0)),
        ("term_matches_header", json!(response.raft_term == term)),
        ("applied_plausible", json!((1..=response.raft_index).contains(&response.raft_applied_index))),
        ("learner", json!(response.is_learner)),
        ("errors", json!(errors)),
    ])
}

fn alarms(response: &pb::AlarmResponse) -> Value {
    let own_id = response.header.as_ref().map_or(0, |header| header.member_id);
    let alarm = |alarm: &pb::AlarmMember| json!({ "self": alarm.member_id == own_id, "alarm": alarm.alarm });
    object([("header", header(&response.header)), ("alarms", response.alarms.iter().map(alarm).collect())])
}

fn hash_kv(step: &Step, first: &Outcome<pb::HashKvResponse>, second: &Outcome<pb::HashKvResponse>) -> Value {
    let latest = matches!(step, Step::HashKv { revision: Rev::Unset });
    let hash = |outcome: &Outcome<pb::HashKvResponse>| outcome.as_ref().map(|response| response.hash).ok();
    value(first, |response| {
        object([
            ("header", header(&response.header)),
            ("compact_revision", if latest { json!(response.compact_revision) } else { Value::Null }),
            ("hash_set", json!(response.hash != 0)),
            ("same_twice", json!(hash(first) == hash(second))),
        ])
    })
}

/// Every member has an id, a name and addresses, and the answering member is among them.
fn members(response: &pb::MemberListResponse, configured: usize) -> Value {
    let own_id = response.header.as_ref().map_or(0, |header| header.member_id);
    let members = &response.members;
    let complete = |member: &pb::Member| {
        member.id != 0
            && !member.name.is_empty()
            && !member.peer_urls.is_empty()
            && !member.client_urls.is_empty()
    };
    object([
        ("header", header(&response.header)),
        ("count_as_configured", json!(members.len() == configured)),
        ("complete", json!(members.iter().all(complete))),
        ("self_listed", json!(members.iter().any(|member| member.id == own_id))),
        ("learners", json!(members.iter().filter(|member| member.is_learner).count())),
    ])
}

fn value<T>(outcome: &Outcome<T>, accepted: impl FnOnce(&T) -> Value) -> Value {
    match outcome {
        Ok(response) => accepted(response),
        Err(Refusal { code, message }) => json!({ "refused": format!("{code:?}"), "message": message }),
    }
}

/// An object without the fields that are at their default.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let kept = fields.into_iter().filter(|(name, value)| *name == "header" || !is_default(value));
    Value::Object(kept.map(|(name, value)| (name.to_owned(), value)).collect())
}

fn is_default(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}
