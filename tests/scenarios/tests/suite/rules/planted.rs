//! Each rule sees what it is for: a history that is right, made by hand, and the same with one thing wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use setpoint_testkit::{Book, Change, Entry, Held, History, Problem, Scenario, State, replay};
use setpoint_types::object::{Author, Fence, Object};
use setpoint_types::quantity::Amounts;
use setpoint_types::{Epoch, Generation, ObjectKey, Revision, Timestamp, Uid};

use super::{audit, nothing_is_left, serves};
use crate::whole::{create, workload};

/// A history in the making.
#[derive(Default)]
struct Tale {
    history: History,
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    author: Author,
}

fn object(kind: &str, name: &str, spec: Value, status: Value) -> Object {
    let mut object = Object::new(kind, if kind == "Node" { "" } else { "default" }, name);
    object.metadata.uid = Uid::new(format!("uid of {kind} {name}"));
    object.metadata.generation = Generation(1);
    (object.spec, object.status) = (spec, status);
    object
}

fn cpu(amount: i64) -> Amounts {
    [("cpu".to_owned(), amount)].into_iter().collect()
}

impl Tale {
    fn next(&mut self) -> Entry {
        let revision = Revision::new(self.history.entries().count() as u64 + 2);
        Entry { revision, ..Entry::default() }
    }

    fn change(&mut self, object: Object, goes: bool) -> Change {
        let key = object.key();
        let before = self.objects.get(&key).cloned();
        let after = (!goes).then(|| Arc::new(object));
        match &after {
            Some(it) => drop(self.objects.insert(key.clone(), it.clone())),
            None => drop(self.objects.remove(&key)),
        }
        Change { key, before, after, author: self.author.clone() }
    }

    /// Objects that are written at one revision.
    fn put(mut self, objects: impl IntoIterator<Item = Object>) -> Self {
        let mut entry = self.next();
        entry.changes = objects.into_iter().map(|it| self.change(it, false)).collect();
        self.history.push(entry);
        self
    }

    /// The same, with the ledger `node/n1` at so much.
    fn bind(mut self, binding: Object, used: i64) -> Self {
        let mut entry = self.next();
        entry.changes = vec![self.change(binding, false)];
        entry.ledgers.push(book(used));
        self.history.push(entry);
        self
    }

    fn hold(mut self, holder: &str, epoch: u64) -> Self {
        let mut entry = self.next();
        let held = Held { holder: holder.to_owned(), epoch: Epoch(epoch) };
        entry.holds.push((("default".to_owned(), "l".to_owned()), Some(held)));
        self.history.push(entry);
        self
    }

    fn by(mut self, author: Author) -> Self {
        self.author = author;
        self
    }

    fn passes(self) -> Self {
        assert_eq!(audit(&self.history), Ok(()));
        self
    }

    #[track_caller]
    fn caught_by(self, rule: &str) {
        let found = audit(&self.history).expect_err("it is passed over");
        assert!(found.invariant.starts_with(rule), "{found:?}");
        let last = self.history.entries().last().map(|it| it.revision);
        assert_eq!(Some(found.revision), last, "what was right before is passed: {found:?}");
    }
}

fn book(used: i64) -> (String, Option<Arc<Book>>) {
    let used = if used == 0 { Amounts::default() } else { cpu(used) };
    ("node/n1".to_owned(), Some(Arc::new(Book { limits: cpu(1_000), used })))
}

fn node(amount: &str) -> Object {
    object("Node", "n1", json!({"zone": "a", "capacity": {"cpu": amount}}), json!({}))
}

fn replica(name: &str, spec: Value, status: Value) -> Object {
    let mut full = json!({"workload": "web", "template": {"command": ["x"]}});
    full.as_object_mut().expect("an object").extend(spec.as_object().cloned().unwrap_or_default());
    object("Replica", name, full, status)
}

fn binding(name: &str, replica: &str, amount: &str, status: Value) -> Object {
    let reservations = if amount.is_empty() {
        json!([])
    } else {
        json!([{"ledger": "node/n1", "amounts": {"cpu": amount}}])
    };
    let spec = json!({
        "replica": replica, "replicaUid": format!("uid of Replica {replica}"),
        "node": "n1", "nodeUid": "uid of Node n1", "reservations": reservations,
    });
    object("Binding", name, spec, status)
}

#[test]
fn f1_an_epoch_that_has_two_holders_or_goes_back() {
    let tale = || Tale::default().hold("a", 1).hold("b", 2).passes();
    tale().hold("a", 2).caught_by("F1");
    tale().hold("a", 1).caught_by("F1");
    tale().hold("a", 4).caught_by("F1");
    let lease = object("Lease", "l", json!({}), json!({"holder": "a", "epoch": 2}));
    tale().put([lease]).caught_by("F1");
}

#[test]
fn f2_a_write_of_an_epoch_that_is_over() {
    let fenced = |epoch| {
        let fence = Fence { namespace: "default".to_owned(), lease: "l".to_owned(), epoch: Epoch(epoch) };
        Author { fence: Some(fence), ..Author::default() }
    };
    let write = || [object("ReplicaSet", "web-1", json!({}), json!({}))];
    let tale = || Tale::default().hold("a", 1).by(fenced(1)).put(write()).passes().hold("b", 2);
    tale().put(write()).caught_by("F2");
    tale().by(fenced(2)).put(write()).passes();
}

#[test]
fn f3_a_replica_that_is_given_another_node_or_two_bindings() {
    let tale = || {
        Tale::default()
            .put([replica("r", json!({}), json!({}))])
            .put([replica("r", json!({}), json!({"node": "n1"})), binding("r", "r", "", json!({}))])
            .passes()
    };
    tale().put([replica("r", json!({}), json!({"node": "n2"}))]).caught_by("F3");
    tale().put([replica("r", json!({}), json!({}))]).caught_by("F3");
    tale().put([binding("other", "r", "", json!({}))]).caught_by("F3");
}

#[test]
fn f4_f5_a_bind_beyond_the_capacity_and_a_ledger_that_says_something_else() {
    let tale = || {
        Tale::default()
            .put([node("1")])
            .put([replica("r", json!({}), json!({})), replica("s", json!({}), json!({}))])
            .bind(binding("r", "r", "600m", json!({})), 600)
            .passes()
    };
    tale().bind(binding("s", "s", "600m", json!({})), 1_200).caught_by("F4");
    tale().bind(binding("s", "s", "300m", json!({})), 600).caught_by("F5");
    // Lowered below its use it may shrink, and not grow.
    let lowered = || {
        let mut less = node("500m");
        less.metadata.generation = Generation(2);
        tale().put([less]).passes()
    };
    lowered().bind(binding("s", "s", "100m", json!({})), 700).caught_by("F4");
    let stopped = json!({"stoppedMs": 5});
    let released = json!({"stoppedMs": 5, "state": "Released"});
    lowered().put([binding("r", "r", "600m", stopped)]).bind(binding("r", "r", "600m", released), 0).passes();
}

#[test]
fn f7_a_release_too_early_and_a_replacement_before_it() {
    let tale = || {
        Tale::default()
            .put([replica("r", json!({}), json!({})), binding("r", "r", "", json!({}))])
            .put([binding("r", "r", "", json!({"state": "Unknown"}))])
            .passes()
    };
    let released = || binding("r", "r", "", json!({"state": "Released"}));
    tale().put([released()]).caught_by("F7");
    let replacement = || replica("r2", json!({"replaces": "r"}), json!({}));
    tale().put([replacement()]).caught_by("F7");
    let asked = tale().put([binding("r", "r", "", json!({"state": "ReleaseRequested"}))]).passes();
    asked.put([released()]).put([replacement()]).passes();
}

/// Controllers that do nothing break no other rule: only that nothing comes of what was asked for tells of them.
#[test]
fn f8_a_workload_that_nobody_does_anything_for() {
    let idle = Scenario::new(|_, stop| async move { stop.cancelled().await })
        .step("a workload", |client| async move { create(&client, &workload("web", 1, "x")).await })
        .converged(|state| serves(state, "web"));
    let outcome = replay(&super::watched(idle), "no faults");
    let Some(Problem::NotConverged { after, why }) = &outcome.problem else {
        panic!("it is passed over: {:?}", outcome.problem)
    };
    assert_eq!((after.as_str(), why.as_str()), ("step `a workload`", "web has no set for its template"));
}

#[test]
fn f9_what_is_left_when_everything_is_quiet() {
    let state = |tale: &Tale| {
        tale.history.entries().fold(State::default(), |mut state, entry| {
            state.apply(entry);
            state
        })
    };
    let good = Tale::default().put([replica("r", json!({}), json!({})), binding("r", "r", "", json!({}))]);
    assert_eq!(nothing_is_left(&state(&good)), Ok(()));
    let alone = Tale::default().put([binding("r", "r", "", json!({}))]);
    assert!(nothing_is_left(&state(&alone)).is_err_and(|it| it.contains("for nobody")));
    let mut going = replica("r", json!({}), json!({}));
    going.metadata.deleted = Some(Timestamp(1));
    assert!(nothing_is_left(&state(&Tale::default().put([going]))).is_err_and(|it| it.contains("waits")));
    let mut orphan = replica("r", json!({}), json!({}));
    orphan.metadata.owners.push(object("ReplicaSet", "gone", json!({}), json!({})).as_controller());
    assert!(
        nothing_is_left(&state(&Tale::default().put([orphan]))).is_err_and(|it| it.contains("is left by"))
    );
    let mut leak = Tale::default();
    let mut entry = leak.next();
    let owner = ("node/n1".to_owned(), "default/r/some uid".to_owned());
    entry.reservations.push((owner, Some(Arc::new(cpu(1)))));
    leak.history.push(entry);
    assert!(nothing_is_left(&state(&leak)).is_err_and(|it| it.contains("is gone")));
    let lease = object("Lease", "l", json!({}), json!({"holder": "a", "epoch": 1, "ttlSeconds": 15}));
    assert!(nothing_is_left(&state(&Tale::default().put([lease]))).is_err_and(|it| it.contains("holds it")));
}

#[test]
fn f10_a_status_of_a_generation_that_there_is_not_or_of_an_earlier_one() {
    let set = |generation, spec: Value, status: Value| {
        let mut set = object("ReplicaSet", "web-1", spec, status);
        set.metadata.generation = Generation(generation);
        set
    };
    let (one, two) = (json!({"replicas": 1}), json!({"replicas": 2}));
    let tale = || {
        Tale::default()
            .put([set(1, one.clone(), json!({"observedGeneration": 1}))])
            .put([set(2, two.clone(), json!({"observedGeneration": 1}))])
            .put([set(
                2,
                two.clone(),
                json!({"observedGeneration": 2, "conditions": [{"type": "A", "lastTransitionMs": 5}]}),
            )])
            .passes()
    };
    tale().put([set(2, two.clone(), json!({"observedGeneration": 3}))]).caught_by("F10");
    tale().put([set(2, two.clone(), json!({"observedGeneration": 1}))]).caught_by("F10");
    tale().put([set(2, one.clone(), json!({"observedGeneration": 2}))]).caught_by("F10");
    tale().put([set(3, two.clone(), json!({"observedGeneration": 2}))]).caught_by("F10");
    let condition = |time, generation| json!({"observedGeneration": 2, "conditions": [{"type": "A", "lastTransitionMs": time, "observedGeneration": generation}]});
    tale().put([set(2, two.clone(), condition(4, 2))]).caught_by("F10");
    tale().put([set(2, two.clone(), condition(6, 3))]).caught_by("F10");
    tale().put([set(2, two.clone(), condition(6, 2))]).passes();
}

#[test]
fn f11_an_operation_that_is_done_twice() {
    let author = Author { operation: Some("op".to_owned()), ..Author::default() };
    let write = || [object("ReplicaSet", "web-1", json!({}), json!({}))];
    let tale = || Tale::default().by(author.clone()).put(write()).passes();
    tale().put(write()).caught_by("F11");
    tale().put([object("Lease", "l", json!({}), json!({}))]).caught_by("F11");
}

#[test]
fn f12_a_decision_by_less_than_was_seen_before() {
    let decision = |name: &str, revision: u64| {
        let spec = json!({
            "object": {"kind": "Workload", "namespace": "default", "name": "web", "uid": "u"},
            "action": "Scale", "component": "workload", "operation": name,
            "cacheRevisions": {"ReplicaSet": revision}, "verdict": {"outcome": "Accepted"},
        });
        object("Decision", name, spec, json!({}))
    };
    let tale = || {
        let first = object("ReplicaSet", "web-1", json!({}), json!({}));
        Tale::default().put([first]).put([decision("a", 2)]).passes()
    };
    tale().put([decision("b", 3)]).passes();
    tale().put([decision("b", 1)]).caught_by("F12");
    tale().put([decision("b", 9)]).caught_by("F12");
}

#[test]
fn f14_more_replicas_than_a_rollout_may_have_and_one_taken_that_is_needed() {
    let controller = Author { principal: "user:controller".to_owned(), ..Author::default() };
    let workload = || {
        let rollout = json!({"maxSurge": 1, "maxUnavailable": 0});
        object(
            "Workload",
            "web",
            json!({"replicas": 1, "template": {"command": ["x"]}, "rollout": rollout}),
            json!({}),
        )
    };
    let of = |set: &str| json!({"replicaSet": set});
    let serving = || json!({"stage": "serving", "node": "n1"});
    let tale = || {
        Tale::default()
            .put([workload()])
            .by(controller.clone())
            .put([replica("old", of("web-1"), serving())])
            .put([replica("new", of("web-2"), json!({}))])
            .passes()
    };
    tale().put([replica("newer", of("web-2"), json!({}))]).caught_by("F14");
    let mut going = replica("old", of("web-1"), serving());
    going.metadata.deleted = Some(Timestamp(1));
    going.metadata.generation = Generation(2);
    tale().put([going]).caught_by("F14");
    let twice = tale().put([replica("old", of("web-1"), serving())]).passes();
    drop(twice);
}
