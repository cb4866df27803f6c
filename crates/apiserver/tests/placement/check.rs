//! What must hold of placement at every revision of a history, from what is stored alone (invariants P1 to P5).

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;
use setpoint_api::setpoint::v1 as pb;
use setpoint_apiserver::placement::{FINALIZER, books, node_lease};
use setpoint_store::command::Range;
use setpoint_store::{Amounts, Hold, Ledger, LedgerKey, Store};
use setpoint_types::kinds::{
    BindingSpec, BindingState, BindingStatus, NodeSpec, NodeStatus, QuotaSpec, ReplicaStatus,
};
use setpoint_types::{KeyRange, Revision};

/// Everything placement is about, at one revision.
#[derive(Default)]
pub struct Snapshot {
    bindings: BTreeMap<String, Binding>,
    replicas: BTreeMap<String, Replica>,
    nodes: BTreeMap<String, (NodeSpec, NodeStatus)>,
    quotas: Vec<QuotaSpec>,
    ledgers: BTreeMap<String, Ledger>,
    /// At which epochs leases of nodes are held.
    held: BTreeMap<String, u64>,
}

struct Binding {
    uid: String,
    spec: BindingSpec,
    status: BindingStatus,
}

struct Replica {
    uid: String,
    finalizers: Vec<String>,
    status: ReplicaStatus,
}

fn parsed<T: serde::de::DeserializeOwned + Default>(json: &[u8]) -> T {
    if json.is_empty() {
        T::default()
    } else {
        serde_json::from_slice(json).expect("what was stored can be read")
    }
}

impl Snapshot {
    fn at(store: &Store, revision: u64) -> Self {
        let everything = KeyRange::Span { start: "/setpoint.".into(), end: "/setpoint/".into() };
        let read = Range { revision: revision as i64, ..Range::latest(everything) };
        let mut seen = Self::default();
        for kv in store.range(&read).expect("nothing is compacted").kvs {
            if let Some(LedgerKey::Ledger(name)) = LedgerKey::parse(&kv.key) {
                seen.ledgers.insert(name, Ledger::decode(kv.value).expect("a ledger"));
            } else if let Some(lease) = setpoint_store::LeaseName::of_hold_key(&kv.key) {
                seen.held.insert(lease.name, Hold::decode(kv.value).expect("a hold").epoch.0);
            } else if kv.key.starts_with(b"/setpoint.v1/") {
                seen.add(pb::Object::decode(kv.value).expect("an object"));
            }
        }
        seen
    }

    fn add(&mut self, object: pb::Object) {
        let metadata = object.metadata.unwrap_or_default();
        let (name, uid) = (metadata.name, metadata.uid);
        match object.kind.as_str() {
            "Binding" => {
                let (spec, status) =
                    (serde_json::from_slice(&object.spec).expect("a binding"), parsed(&object.status));
                self.bindings.insert(name, Binding { uid, spec, status });
            }
            "Replica" => {
                let (status, finalizers) = (parsed(&object.status), metadata.finalizers);
                self.replicas.insert(name, Replica { uid, finalizers, status });
            }
            "Node" => {
                let spec = serde_json::from_slice(&object.spec).expect("a node");
                self.nodes.insert(name, (spec, parsed(&object.status)));
            }
            "Quota" => self.quotas.push(serde_json::from_slice(&object.spec).expect("a quota")),
            _ => {}
        }
    }

    /// P2: what a ledger uses is what the bindings say that are not released, and its limits are what nodes and quotas say.
    fn check_ledgers(&self, revision: u64) {
        let mut summed: BTreeMap<String, Amounts> = BTreeMap::new();
        for binding in self.bindings.values().filter(|it| it.status.state != BindingState::Released) {
            for taken in &binding.spec.reservations {
                let sums = summed.entry(taken.ledger.clone()).or_default();
                for (name, amount) in taken.amounts.iter() {
                    *sums.entry(name.to_owned()).or_default() += amount as u64;
                }
            }
        }
        let used = self.ledgers.iter().filter(|(_, it)| !it.used.is_empty());
        let used: BTreeMap<_, _> = used.map(|(name, it)| (name.clone(), it.used.clone())).collect();
        assert_eq!(used, summed, "P2 at {revision}");
        let mut limits: BTreeMap<String, Amounts> = BTreeMap::new();
        for (name, (spec, _)) in &self.nodes {
            limits.insert(books::node(name), books::node_limits(spec));
            limits.insert(books::ports(name), books::port_limits());
        }
        for (zone, said) in books::quota_limits(&self.quotas) {
            let ledger =
                if zone.is_empty() { books::quota("default") } else { books::zone_quota("default", &zone) };
            limits.insert(ledger, said);
        }
        let said = self.ledgers.iter().filter(|(_, it)| !it.limits.is_empty());
        let said: BTreeMap<_, _> = said.map(|(name, it)| (name.clone(), it.limits.clone())).collect();
        assert_eq!(said, limits, "P2 at {revision}");
    }

    /// P1: a binding that is not released is its replica's own, which cannot vanish.
    fn check_replicas(&self, revision: u64) {
        for (name, binding) in
            self.bindings.iter().filter(|(_, it)| it.status.state != BindingState::Released)
        {
            let replica =
                self.replicas.get(name).unwrap_or_else(|| panic!("P1 at {revision}: {name} is gone"));
            assert_eq!(replica.uid, binding.spec.replica_uid.as_str(), "P1 at {revision}");
            assert_eq!(replica.status.node, binding.spec.node, "P1 at {revision}");
            assert!(replica.finalizers.iter().any(|it| it == FINALIZER), "P1 at {revision}");
        }
    }
}

/// Checks a whole history. `skew` is that of every rule of spreading in it.
pub fn check(store: &Store, skew: u64) {
    let mut before = Snapshot::default();
    let mut nodes: BTreeMap<String, String> = BTreeMap::new();
    for revision in 1..=store.revision().get() {
        let now = Snapshot::at(store, revision);
        now.check_ledgers(revision);
        now.check_replicas(revision);
        once(&now, &mut nodes, revision);
        no_more(&before, &now, revision);
        even(&before, &now, skew, revision);
        released(&before, &now, revision);
        before = now;
    }
}

/// P1: a replica is given one node, once.
fn once(now: &Snapshot, nodes: &mut BTreeMap<String, String>, revision: u64) {
    for replica in now.replicas.values().filter(|it| !it.status.node.is_empty()) {
        let node = nodes.entry(replica.uid.clone()).or_insert_with(|| replica.status.node.clone());
        assert_eq!(*node, replica.status.node, "P1 at {revision}: {} was given another node", replica.uid);
    }
}

/// P3: nothing is taken from a ledger that has too little.
fn no_more(before: &Snapshot, now: &Snapshot, revision: u64) {
    for (name, ledger) in now.ledgers.iter().filter(|(_, it)| !it.limits.is_empty()) {
        for (dimension, used) in ledger.used.iter().filter(|(name, used)| **used > ledger.limit(name)) {
            let earlier =
                before.ledgers.get(name).and_then(|it| it.used.get(dimension)).copied().unwrap_or(0);
            assert!(
                *used <= earlier,
                "P3 at {revision}: {name} has {used} of {dimension}, and had {earlier}"
            );
        }
    }
}

/// P4: where one was added, its place is not too far above any other in which some are.
fn even(before: &Snapshot, now: &Snapshot, skew: u64, revision: u64) {
    for (name, ledger) in now.ledgers.iter().filter(|(name, _)| name.starts_with("spread/")) {
        let least = ZONES.iter().map(|zone| ledger.used.get(*zone).copied().unwrap_or(0)).min().unwrap_or(0);
        let earlier = before.ledgers.get(name).map(|it| it.used.clone()).unwrap_or_default();
        for (domain, used) in &ledger.used {
            let grown = *used > earlier.get(domain).copied().unwrap_or(0);
            assert!(!grown || *used <= least + skew, "P4 at {revision}: {name} has {:?}", ledger.used);
        }
    }
}

/// The places that count in these histories.
pub const ZONES: [&str; 2] = ["a", "b"];

/// P5: a release is committed only after the stop was confirmed, or once the release was asked for and nobody acts for the node.
fn released(before: &Snapshot, now: &Snapshot, revision: u64) {
    let is_released = |it: &&Binding| it.status.state == BindingState::Released;
    let earlier: BTreeSet<&String> = before.bindings.values().filter(is_released).map(|it| &it.uid).collect();
    for binding in now.bindings.values().filter(is_released).filter(|it| !earlier.contains(&it.uid)) {
        assert_eq!(binding.status.released_revision, Revision::new(revision), "P5");
        let was = before.bindings.values().find(|it| it.uid == binding.uid).expect("it was bound before");
        let spec = &binding.spec;
        let held = before.held.get(&node_lease(&spec.node).name);
        let restarted = before.nodes.get(&spec.node).is_some_and(|(_, status)| {
            status.epoch.0 > spec.node_epoch.0
                && status.agent.as_ref().is_some_and(|it| it.boot_id != spec.boot_id)
        });
        let asked = was.status.state == BindingState::ReleaseRequested;
        let stopped = was.status.stopped.is_some();
        assert!(stopped || (asked && (held.is_none() || restarted)), "P5 at {revision}: {}", spec.replica);
    }
}

#[test]
#[should_panic(expected = "P2 at 1")]
fn a_reservation_without_a_binding_is_found() {
    let mut seen = Snapshot::default();
    let used = Amounts::from([("cpu".to_owned(), 1)]);
    seen.ledgers.insert("node/a".into(), Ledger { used, ..Ledger::default() });
    seen.check_ledgers(1);
}

#[test]
#[should_panic(expected = "P1 at 2")]
fn another_node_is_found() {
    let with = |node: &str| {
        let status = ReplicaStatus { node: node.into(), ..ReplicaStatus::default() };
        let replica = Replica { uid: "u".into(), finalizers: Vec::new(), status };
        Snapshot { replicas: BTreeMap::from([("r".to_owned(), replica)]), ..Snapshot::default() }
    };
    let mut nodes = BTreeMap::new();
    once(&with("a"), &mut nodes, 1);
    once(&with("b"), &mut nodes, 2);
}

#[test]
#[should_panic(expected = "P3 at 2")]
fn what_exceeds_its_limits_is_found() {
    let with = |used: u64| {
        let amounts = |amount| Amounts::from([("cpu".to_owned(), amount)]);
        let ledger = Ledger { limits: amounts(1), used: amounts(used) };
        Snapshot { ledgers: BTreeMap::from([("node/a".to_owned(), ledger)]), ..Snapshot::default() }
    };
    no_more(&with(3), &with(2), 1);
    no_more(&with(2), &with(3), 2);
}

#[test]
#[should_panic(expected = "P4 at 1")]
fn an_uneven_bind_is_found() {
    let used = Amounts::from([("a".to_owned(), 2)]);
    let ledgers =
        BTreeMap::from([("spread/default/w/zone".to_owned(), Ledger { used, ..Ledger::default() })]);
    even(&Snapshot::default(), &Snapshot { ledgers, ..Snapshot::default() }, 1, 1);
}

#[test]
#[should_panic(expected = "P5 at 7")]
fn a_release_too_early_is_found() {
    let with = |state| {
        let released_revision = Revision::new(7);
        let status = BindingStatus { state, released_revision, ..BindingStatus::default() };
        let binding = Binding { uid: "u".into(), spec: BindingSpec::default(), status };
        Snapshot { bindings: BTreeMap::from([("r".to_owned(), binding)]), ..Snapshot::default() }
    };
    released(&with(BindingState::Unknown), &with(BindingState::Released), 7);
}
