//! Whatever a watch sends, taken together, is what a list says at that revision: across selectors, slow and broken
//! streams, small rings and compactions (invariants O1 to O3).

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use proptest::prelude::*;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::read_at::At;
use setpoint_api::setpoint::v1::watch_event::Type;
use setpoint_apiserver::objects::ReadLimits;
use setpoint_apiserver::objects::watch::WatchAnswers;

use crate::kit::{Draft, Node, small_limits};
use crate::script::decoded;

const SELECTORS: [(&str, &str); 6] = [
    ("", ""),
    ("app=x", ""),
    ("app!=x", ""),
    ("app in (x,y),tier", ""),
    ("", "spec.nodeName=n1"),
    ("!tier", "spec.nodeName!=n1,metadata.namespace=a"),
];

#[derive(Clone, Debug)]
enum Step {
    /// Each: which object, and what becomes of it.
    Commit(Vec<(u8, Option<Look>)>),
    Compact(u8),
    /// A client reads all there is.
    Read(u8),
    /// A client reads one answer.
    ReadOne(u8),
    /// A client loses its connection and goes on from where it was.
    Reconnect(u8),
    /// A client forgets all and begins with the initial state.
    Restart(u8),
}

#[derive(Clone, Debug)]
struct Look {
    app: u8,
    tier: bool,
    node: u8,
}

fn step() -> impl Strategy<Value = Step> {
    let look = (0..3u8, any::<bool>(), 0..3u8).prop_map(|(app, tier, node)| Look { app, tier, node });
    let write = (0..8u8, prop::option::weighted(0.75, look));
    prop_oneof![
        8 => prop::collection::vec(write, 1..4).prop_map(Step::Commit),
        1 => any::<u8>().prop_map(Step::Compact),
        4 => any::<u8>().prop_map(Step::Read),
        4 => any::<u8>().prop_map(Step::ReadOne),
        2 => any::<u8>().prop_map(Step::Reconnect),
        1 => any::<u8>().prop_map(Step::Restart),
    ]
}

fn draft(object: u8, look: &Look) -> Draft {
    let name = |letters: &[&str], at: u8| letters[at as usize % letters.len()].to_owned();
    let mut labels = Vec::new();
    if look.app < 2 {
        labels.push(("app".to_owned(), name(&["x", "y"], look.app)));
    }
    if look.tier {
        labels.push(("tier".to_owned(), "t".to_owned()));
    }
    let spec = if look.node == 2 { String::new() } else { format!(r#"{{"nodeName":"n{}"}}"#, look.node) };
    let (namespace, name) = (name(&["a", "a-b", "b"], object), format!("o{object}"));
    Draft { kind: "Replica".into(), namespace, name, labels, spec, status: String::new() }
}

struct Client {
    labels: &'static str,
    fields: &'static str,
    answers: Option<WatchAnswers>,
    /// Everything up to here is in `state`.
    at: u64,
    /// The initial state is still coming.
    loading: bool,
    /// By namespace and name: the revision of each object.
    state: BTreeMap<(String, String), u64>,
}

impl Client {
    fn request(&self, from_revision: u64) -> pb::WatchRequest {
        pb::WatchRequest {
            kind: "Replica".into(),
            label_selector: self.labels.into(),
            field_selector: self.fields.into(),
            from_revision,
            initial_state: from_revision == 0,
            bookmark_interval_ms: 1000,
            ..Default::default()
        }
    }

    async fn restart(&mut self, node: &Node) {
        (self.at, self.loading) = (0, true);
        self.state.clear();
        self.answers = Some(node.reader.watch(self.request(0)).await.expect("a watch"));
    }

    async fn reconnect(&mut self, node: &Node) {
        if self.loading {
            return self.restart(node).await;
        }
        self.answers = Some(node.reader.watch(self.request(self.at)).await.expect("a watch"));
    }

    /// Reads one answer, if there is one; false if nothing came. Virtual time moves only when nothing else can.
    async fn read_one(&mut self, node: &Node) -> bool {
        let Some(answers) = &mut self.answers else { return false };
        let Ok(answer) = tokio::time::timeout(Duration::from_millis(1), answers.next()).await else {
            return false;
        };
        let answer: pb::WatchResponse = decoded(&answer.expect("a watch ends with an error or by its time"));
        let mut torn = None;
        for event in answer.events {
            if self.take(event, &mut torn) {
                self.restart(node).await;
                return true;
            }
        }
        self.check(node).await;
        true
    }

    /// True if the watch ended.
    fn take(&mut self, event: pb::WatchEvent, torn: &mut Option<u64>) -> bool {
        let kind = event.r#type();
        if kind == Type::Error {
            let reason = event.error.expect("an error has one").reason();
            assert!(matches!(reason, pb::Reason::Expired | pb::Reason::TooSlow), "{reason:?}");
            return true;
        }
        let metadata = event.object.and_then(|object| object.metadata).unwrap_or_default();
        let name = (metadata.namespace, metadata.name);
        if kind == Type::Bookmark {
            assert!(event.revision >= self.at, "O2: progress goes back");
            assert_eq!(event.initial_state_end, self.loading);
            (self.at, self.loading) = (event.revision, false);
            return false;
        }
        assert_eq!(metadata.revision, event.revision);
        if self.loading {
            assert_eq!(kind, Type::Added);
            assert_eq!(self.state.insert(name, event.revision), None, "an object came twice");
            return false;
        }
        let first_of_answer = torn.replace(event.revision) != Some(event.revision);
        if first_of_answer {
            assert!(event.revision > self.at, "O3: a revision in two answers, or one that goes back");
        }
        self.at = event.revision;
        match kind {
            Type::Added => assert_eq!(self.state.insert(name, event.revision), None, "O1: ADDED was there"),
            Type::Modified => {
                assert!(self.state.insert(name, event.revision).is_some(), "O1: MODIFIED was not there");
            }
            _ => assert!(self.state.remove(&name).is_some(), "O1: DELETED was not there"),
        }
        false
    }

    /// What it holds is what a list says, while that revision can be listed.
    async fn check(&self, node: &Node) {
        if self.loading || (self.at as i64) < node.reader.store.compacted() {
            return;
        }
        let (mut listed, mut token) = (BTreeMap::new(), String::new());
        loop {
            let request = pb::ListRequest {
                kind: "Replica".into(),
                label_selector: self.labels.into(),
                field_selector: self.fields.into(),
                at: Some(pb::ReadAt { at: Some(At::Exact(self.at)) }),
                limit: 3,
                r#continue: token,
                ..Default::default()
            };
            let answer: pb::ListResponse = decoded(&node.reader.list(request).await.expect("a list"));
            assert_eq!(answer.revision, self.at);
            for object in answer.objects {
                let metadata = object.metadata.expect("metadata");
                listed.insert((metadata.namespace, metadata.name), metadata.revision);
            }
            token = answer.r#continue;
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(self.state, listed, "O1: at {} by {:?}", self.at, (self.labels, self.fields));
    }
}

async fn run(steps: Vec<Step>, ring_bytes: usize, response_bytes: usize) {
    let mut node = Node::new(ring_bytes, ReadLimits { response_bytes, ..small_limits() });
    let mut clients = Vec::new();
    for (labels, fields) in SELECTORS {
        let (answers, at, loading, state) = (None, 0, true, BTreeMap::new());
        let mut client = Client { labels, fields, answers, at, loading, state };
        client.restart(&node).await;
        clients.push(client);
    }
    for step in steps {
        let chosen = |client: u8| client as usize % SELECTORS.len();
        match step {
            Step::Commit(writes) => {
                // One commit changes an object once.
                let writes: BTreeMap<u8, Option<Look>> = writes.into_iter().collect();
                let ops = writes.into_iter().map(|(object, look)| match look {
                    Some(look) => draft(object, &look).put(),
                    None => draft(object, &Look { app: 0, tier: false, node: 0 }).delete(),
                });
                node.commit(ops.collect());
            }
            Step::Compact(share) => {
                let newest = node.reader.store.revision().get();
                let target = newest * u64::from(share) / 255;
                if target as i64 > node.reader.store.compacted() {
                    node.compact(target);
                }
            }
            Step::Read(client) => while clients[chosen(client)].read_one(&node).await {},
            Step::ReadOne(client) => drop(clients[chosen(client)].read_one(&node).await),
            Step::Reconnect(client) => clients[chosen(client)].reconnect(&node).await,
            Step::Restart(client) => clients[chosen(client)].restart(&node).await,
        }
    }
    // In the end everybody comes to the newest revision, and is told so.
    for client in &mut clients {
        while client.read_one(&node).await {}
        tokio::time::sleep(Duration::from_secs(1)).await;
        while client.read_one(&node).await {}
        assert_eq!(client.at, node.reader.store.revision().get());
        client.check(&node).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_fold_of_any_watch_equals_the_list_at_its_revision(
        steps in prop::collection::vec(step(), 1..60),
        ring_bytes in prop::sample::select(vec![1, 400, 1 << 20]),
        response_bytes in prop::sample::select(vec![1, 200, 1 << 20]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(run(steps, ring_bytes, response_bytes));
    }
}
