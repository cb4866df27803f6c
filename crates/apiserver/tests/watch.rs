//! Watch streams over a real store: nothing is skipped, repeated or promised too early, whatever the interleaving.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use proptest::prelude::*;
use setpoint_apiserver::watch::{Command, Filters, Hub, Output, StreamOptions, WatchSpec, WatchStream};
use setpoint_store::command::{Command as StoreCommand, DeleteRange, Proposal, ProposalId, Put};
use setpoint_store::{Body, Entry, MemoryEngine, Position, StepMax, Store};
use setpoint_types::{KeyRange, NodeId, Revision, Timestamp};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// A store and a hub, fed as apply feeds them.
struct Node {
    store: Arc<Store>,
    hub: Arc<Hub>,
    index: u64,
}

impl Node {
    fn new(ring_bytes: usize) -> Self {
        let store = Arc::new(Store::open(Arc::new(MemoryEngine::new())).expect("an empty store opens"));
        let hub = Arc::new(Hub::new(store.revision(), ring_bytes));
        Self { store, hub, index: 0 }
    }

    fn apply(&mut self, commands: Vec<StoreCommand>) {
        let id = ProposalId { node: NodeId(1), sequence: 0 };
        let commands = commands.into_iter().map(|command| Proposal { id, command }.encode()).collect();
        self.index += 1;
        let position = Position { term: 1, index: self.index };
        let entry = Entry { position, body: Body::Commands { stamp: Timestamp(0), commands } };
        let outcome = self.store.apply(&[entry], NodeId(9)).expect("applies");
        self.hub.publish(outcome.changes);
    }

    fn put(&mut self, key: &str, value: &str) {
        self.apply(vec![put(key, value)]);
    }

    fn compact(&mut self, revision: i64) {
        self.apply(vec![StoreCommand::Compact { revision }]);
        while !self.store.collect(StepMax::records(3)).expect("collects").done() {}
    }

    fn open(&self) -> Client {
        self.open_with(StreamOptions {
            progress_interval: Duration::from_secs(10),
            response_bytes: 1 << 20,
            watches_max: 10,
        })
    }

    fn open_with(&self, options: StreamOptions) -> Client {
        let (requests, commands) = mpsc::channel(16);
        let (output, responses) = mpsc::channel(1);
        let stream = WatchStream::new(self.hub.clone(), self.store.clone(), options, output);
        let task = tokio::spawn(stream.run(ReceiverStream::new(commands).map_ok()));
        Client { requests, responses, _task: task }
    }
}

/// `ReceiverStream` yields commands; a stream of requests may also fail.
trait MapOk: futures::Stream<Item = Command> + Sized {
    fn map_ok(self) -> impl futures::Stream<Item = Result<Command, ()>> {
        futures::StreamExt::map(self, Ok)
    }
}

impl<S: futures::Stream<Item = Command>> MapOk for S {}

struct Client {
    requests: mpsc::Sender<Command>,
    responses: mpsc::Receiver<Output>,
    _task: tokio::task::JoinHandle<setpoint_apiserver::watch::StreamEnd>,
}

impl Client {
    async fn send(&self, command: Command) {
        self.requests.send(command).await.expect("the stream listens");
    }

    async fn next(&mut self) -> Output {
        let next = tokio::time::timeout(Duration::from_secs(5), self.responses.recv());
        next.await.expect("an answer in time").expect("the stream lives")
    }

    /// The events of the next response, as text.
    async fn events(&mut self) -> String {
        match self.next().await {
            Output::Events { events, .. } => render(&events),
            other => panic!("expected events, got {other:?}"),
        }
    }

    async fn silent(&mut self) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(self.responses.recv().now_or_never().is_none(), "nothing was expected");
    }
}

fn render(events: &[setpoint_apiserver::watch::Event]) -> String {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let event = |event: &setpoint_apiserver::watch::Event| {
        let previous = event.previous.as_ref().map_or(String::new(), |kv| format!("<{}", text(&kv.value)));
        let sign = if event.deleted { "-".to_owned() } else { format!("={}", text(&event.current.value)) };
        format!("{}{sign}@{}{previous}", text(&event.current.key), event.current.modified)
    };
    events.iter().map(event).collect::<Vec<_>>().join(" ")
}

fn put(key: &str, value: &str) -> StoreCommand {
    let (key, value) = (Bytes::copy_from_slice(key.as_bytes()), Bytes::copy_from_slice(value.as_bytes()));
    StoreCommand::Put(Put { key, value, ..Put::default() })
}

fn delete(key: &str) -> StoreCommand {
    let range = KeyRange::Single(Bytes::copy_from_slice(key.as_bytes()));
    StoreCommand::DeleteRange(DeleteRange { range, want_previous: false })
}

fn spec(start: Option<u64>) -> WatchSpec {
    WatchSpec {
        range: KeyRange::From(Bytes::new()),
        start: start.map(Revision::new),
        filters: Filters::default(),
        previous: false,
        progress: false,
        fragment: false,
    }
}

fn create(spec: WatchSpec) -> Command {
    Command::Create { id: None, spec }
}

#[tokio::test]
async fn a_watch_from_now_sees_what_comes_after_and_created_comes_first() {
    let mut node = Node::new(1 << 20);
    node.put("a", "old");
    let mut client = node.open();
    client.send(create(spec(None))).await;
    assert!(
        matches!(client.next().await, Output::Created { id: 0, revision } if revision == Revision::new(2))
    );
    node.apply(vec![put("a", "1"), put("b", "2"), delete("a")]);
    assert_eq!(client.events().await, "a=1@3 b=2@4 a-@5");
    client.silent().await;
}

#[tokio::test]
async fn a_watch_from_the_past_replays_history_also_behind_the_ring() {
    for ring_bytes in [0, 1 << 20] {
        let mut node = Node::new(ring_bytes);
        for n in 0..5 {
            node.put("k", &n.to_string());
        }
        let mut client = node.open();
        client.send(create(WatchSpec { previous: true, ..spec(Some(4)) })).await;
        assert!(matches!(client.next().await, Output::Created { .. }));
        let mut seen = client.events().await;
        while seen.matches('@').count() < 3 {
            seen = format!("{seen} {}", client.events().await);
        }
        assert_eq!(seen, "k=2@4<1 k=3@5<2 k=4@6<3", "ring of {ring_bytes}");
        node.put("k", "5");
        assert_eq!(client.events().await, "k=5@7<4");
    }
}

#[tokio::test]
async fn a_watch_from_the_future_is_silent_until_then() {
    let mut node = Node::new(1 << 20);
    let mut client = node.open();
    client.send(create(WatchSpec { progress: true, ..spec(Some(4)) })).await;
    assert!(matches!(client.next().await, Output::Created { .. }));
    node.put("a", "2");
    client.send(Command::Progress).await;
    node.put("a", "3");
    client.silent().await;
    node.put("a", "4");
    assert_eq!(client.events().await, "a=4@4");
    client.send(Command::Progress).await;
    assert!(
        matches!(client.next().await, Output::Progress { id: None, revision } if revision == Revision::new(4))
    );
}

#[tokio::test]
async fn below_the_compacted_revision_a_watch_is_cancelled_and_at_it_a_delete_is_seen_with_its_value() {
    let mut node = Node::new(0);
    node.put("a", "1");
    node.apply(vec![delete("a")]);
    node.put("b", "2");
    node.compact(3);
    let mut client = node.open();
    client.send(create(spec(Some(2)))).await;
    assert!(matches!(client.next().await, Output::Created { id: 0, .. }));
    assert!(
        matches!(client.next().await, Output::Compacted { id: 0, compacted } if compacted == Revision::new(3))
    );
    client.send(create(WatchSpec { previous: true, ..spec(Some(3)) })).await;
    assert!(matches!(client.next().await, Output::Created { id: 1, .. }));
    assert_eq!(client.events().await, "a-@3<1 b=2@4");
}

#[tokio::test]
async fn ids_are_assigned_upwards_and_a_second_use_is_refused() {
    let node = Node::new(1 << 20);
    let mut client = node.open();
    client.send(Command::Create { id: Some(1), spec: spec(None) }).await;
    client.send(create(spec(None))).await;
    client.send(create(spec(None))).await;
    client.send(Command::Create { id: Some(2), spec: spec(None) }).await;
    client.send(Command::Cancel { id: 77 }).await;
    client.send(Command::Cancel { id: 2 }).await;
    assert!(matches!(client.next().await, Output::Created { id: 1, .. }));
    assert!(matches!(client.next().await, Output::Created { id: 0, .. }));
    assert!(matches!(client.next().await, Output::Created { id: 2, .. }));
    assert!(
        matches!(client.next().await, Output::Refused { reason, .. } if reason.contains("duplicate watch ID"))
    );
    assert!(matches!(client.next().await, Output::Canceled { id: 2, .. }));
}

#[tokio::test]
async fn a_watch_ended_by_compaction_keeps_its_id_until_the_client_cancels_it() {
    let mut node = Node::new(1 << 20);
    node.put("a", "1");
    node.put("a", "2");
    node.compact(3);
    let mut client = node.open();
    let old = |id| Command::Create { id: Some(id), spec: spec(Some(2)) };
    client.send(old(5)).await;
    assert!(matches!(client.next().await, Output::Created { id: 5, .. }));
    assert!(matches!(client.next().await, Output::Compacted { id: 5, .. }));
    client.send(old(5)).await;
    assert!(matches!(client.next().await, Output::Refused { reason, .. } if reason.contains("duplicate")));
    client.send(Command::Cancel { id: 5 }).await;
    assert!(matches!(client.next().await, Output::Canceled { id: 5, .. }));
    client.send(Command::Create { id: Some(5), spec: spec(None) }).await;
    assert!(matches!(client.next().await, Output::Created { id: 5, .. }));

    // What is remembered of them is bounded, by forgetting.
    for id in 100..130 {
        client.send(old(id)).await;
        assert!(matches!(client.next().await, Output::Created { .. }));
        assert!(matches!(client.next().await, Output::Compacted { .. }));
    }
    client.send(old(100)).await;
    assert!(matches!(client.next().await, Output::Created { id: 100, .. }));
}

#[tokio::test]
async fn more_watches_than_a_stream_may_have_are_refused() {
    let node = Node::new(1 << 20);
    let mut client = node.open();
    for _ in 0..11 {
        client.send(create(spec(None))).await;
    }
    for _ in 0..10 {
        assert!(matches!(client.next().await, Output::Created { .. }));
    }
    assert!(matches!(client.next().await, Output::Refused { .. }));
}

#[tokio::test(start_paused = true)]
async fn quiet_watches_that_asked_are_told_how_far_they_have_come() {
    let mut node = Node::new(1 << 20);
    let mut client = node.open();
    client
        .send(create(WatchSpec { progress: true, range: KeyRange::Single("x".into()), ..spec(None) }))
        .await;
    client.send(create(spec(None))).await;
    assert!(matches!(client.next().await, Output::Created { id: 0, .. }));
    assert!(matches!(client.next().await, Output::Created { id: 1, .. }));
    node.put("other", "1");
    assert!(matches!(client.next().await, Output::Events { id: 1, .. }));
    tokio::time::advance(Duration::from_secs(11)).await;
    assert!(
        matches!(client.next().await, Output::Progress { id: Some(0), revision } if revision == Revision::new(2))
    );
}

#[tokio::test]
async fn a_replaced_state_is_caught_up_with_from_history() {
    let mut node = Node::new(1 << 20);
    let mut client = node.open();
    client.send(create(spec(None))).await;
    assert!(matches!(client.next().await, Output::Created { .. }));
    // A snapshot arrives: the store jumps ahead and the hub has not seen the changes between.
    let id = ProposalId { node: NodeId(1), sequence: 0 };
    let commands = ["1", "2"].map(|value| Proposal { id, command: put("s", value) }.encode()).to_vec();
    let entry = Entry {
        position: Position { term: 1, index: 1 },
        body: Body::Commands { stamp: Timestamp(0), commands },
    };
    node.index = 1;
    node.store.apply(&[entry], NodeId(9)).expect("applies");
    node.hub.reset(node.store.revision());
    assert_eq!(client.events().await, "s=1@2 s=2@3");
    node.put("s", "3");
    assert_eq!(client.events().await, "s=3@4");
}

/// A watch from revision 1 of an empty store finds no history. What is published between its looking and its going on
/// belongs to it.
#[test]
fn what_is_published_while_a_watch_reads_history_is_not_skipped() {
    // One thread for all reads: what is queued behind a read runs after it. And one for the rest, which this test holds
    // while it publishes, so that the stream cannot go on before.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().expect("a runtime");
    runtime.block_on(async {
        let mut node = Node::new(1 << 20);
        let (open, gate) = std::sync::mpsc::channel();
        let first = tokio::task::spawn_blocking(move || gate.recv());
        let mut client = node.open();
        client.send(create(spec(Some(1)))).await;
        assert!(matches!(client.next().await, Output::Created { .. }));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let (done, read) = std::sync::mpsc::channel();
        let last = tokio::task::spawn_blocking(move || done.send(()));
        open.send(()).expect("the gate waits");
        read.recv().expect("the history was read");
        node.put("a", "1");
        assert_eq!(client.events().await, "a=1@2");
        first.await.expect("opened").expect("once");
        last.await.expect("queued").expect("behind the read");
    });
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8),
    Delete(u8),
    Batch(Vec<u8>),
    Read,
    Progress,
    Yield,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u8..6).prop_map(Step::Put),
        2 => (0u8..6).prop_map(Step::Delete),
        2 => prop::collection::vec(0u8..6, 1..20).prop_map(Step::Batch),
        4 => Just(Step::Read),
        1 => Just(Step::Progress),
        3 => Just(Step::Yield),
    ]
}

/// What one watch must have seen: every change to its keys from its start on.
fn expected(node: &Node, range: &KeyRange, from: Revision) -> Vec<String> {
    let sets = node.store.changes(from, usize::MAX).expect("nothing was compacted");
    let of_set = |set: &Arc<setpoint_store::ChangeSet>| {
        let records = set.records.iter().filter(|record| range.contains(&record.key));
        records.map(|record| format!("{:?}@{}", record.key, set.revision)).collect::<Vec<_>>()
    };
    sets.iter().flat_map(of_set).collect()
}

/// S9 and S10: whatever the client's pace and the ring's size, each watch sees exactly the changes to its keys, in order,
/// and progress is never ahead of them.
async fn check(steps: Vec<Step>, ring_bytes: usize, response_bytes: usize, starts: Vec<Option<u64>>) {
    let mut node = Node::new(ring_bytes);
    for n in 0..5 {
        node.put(&format!("k{n}"), "before");
    }
    let options =
        StreamOptions { progress_interval: Duration::from_secs(600), response_bytes, watches_max: 10 };
    let mut client = node.open_with(options);
    let ranges: Vec<KeyRange> = (0..starts.len())
        .map(|at| match at % 4 {
            0 => KeyRange::From(Bytes::new()),
            1 => KeyRange::Single("k1".into()),
            2 => KeyRange::Span { start: "k".into(), end: "l".into() },
            _ => KeyRange::Span { start: "k2".into(), end: "k5".into() },
        })
        .collect();
    for (range, start) in ranges.iter().zip(&starts) {
        client.send(create(WatchSpec { range: range.clone(), ..spec(*start) })).await;
    }
    let from = starts.iter().map(|start| Revision::new(start.unwrap_or(0))).collect();
    let mut log = Log { seen: vec![Vec::new(); starts.len()], from, promised: Revision::NONE };
    for step in steps {
        match step {
            Step::Put(n) => node.put(&format!("k{n}"), "x"),
            Step::Delete(n) => node.apply(vec![delete(&format!("k{n}"))]),
            Step::Batch(keys) => node.apply(keys.iter().map(|n| put(&format!("k{n}"), "y")).collect()),
            Step::Read => {
                if let Some(Some(output)) = client.responses.recv().now_or_never() {
                    log.note(output);
                }
            }
            Step::Progress => drop(client.requests.try_send(Command::Progress)),
            Step::Yield => tokio::task::yield_now().await,
        }
    }
    // Quiescence: a last change that every watch sees, then everything up to it, then silence.
    node.apply(vec![put("k1", "end"), put("k2", "end")]);
    let last = |log: &Log, at: usize| expected(&node, &ranges[at], log.from[at]).last().cloned();
    while !(0..ranges.len()).all(|at| log.started(at) && log.seen[at].last() == last(&log, at).as_ref()) {
        log.note(client.next().await);
    }
    tokio::task::yield_now().await;
    while let Some(Some(output)) = client.responses.recv().now_or_never() {
        log.note(output);
    }
    for (at, range) in ranges.iter().enumerate() {
        assert_eq!(
            log.seen[at],
            expected(&node, range, log.from[at]),
            "S9: watch {at} from {}",
            log.from[at]
        );
    }
}

/// What a client received.
struct Log {
    seen: Vec<Vec<String>>,
    /// The first revision each watch is owed; none until it was created.
    from: Vec<Revision>,
    promised: Revision,
}

impl Log {
    fn started(&self, at: usize) -> bool {
        !self.from[at].is_none()
    }

    fn note(&mut self, output: Output) {
        match output {
            Output::Created { id, revision } => {
                let from = &mut self.from[id as usize];
                *from = if from.is_none() { revision.successor() } else { *from };
            }
            Output::Events { id, revision, events, .. } => {
                for event in events {
                    assert!(
                        event.current.modified > self.promised,
                        "S10: an event came after progress past it"
                    );
                    assert!(event.current.modified <= revision, "the header is behind its events");
                    self.seen[id as usize]
                        .push(format!("{:?}@{}", event.current.key, event.current.modified));
                }
            }
            Output::Progress { revision, .. } => self.promised = self.promised.max(revision),
            other => panic!("unexpected {other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_watch_sees_exactly_the_changes_to_its_keys(
        steps in prop::collection::vec(step(), 1..120),
        ring_bytes in prop_oneof![Just(0usize), Just(600), Just(1 << 20)],
        response_bytes in prop_oneof![Just(1usize), Just(200), Just(1 << 20)],
        starts in prop::collection::vec(prop::option::of(1u64..15), 1..10),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(check(steps, ring_bytes, response_bytes, starts));
    }
}

/// What many watches of single keys on one stream cost, in CPU time:
/// `cargo test -p setpoint-apiserver --test watch -- --ignored --nocapture`.
#[test]
#[ignore = "measures, and asserts nothing about time"]
fn cost_of_many_watches_on_one_stream() {
    const WATCHES: usize = 20_000;
    const PUTS: usize = 2_000;
    /// Of this thread, in milliseconds.
    fn cpu() -> f64 {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
        stat.split(' ').next().and_then(|spent| spent.parse::<f64>().ok()).expect("a number") / 1e6
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut node = Node::new(1 << 20);
        let mut client = node.open_with(StreamOptions {
            progress_interval: Duration::from_secs(600),
            response_bytes: 1 << 20,
            watches_max: WATCHES,
        });
        let before = cpu();
        for n in 0..WATCHES {
            let range = KeyRange::Single(format!("k{n}").into());
            client.send(create(WatchSpec { range, ..spec(None) })).await;
            assert!(matches!(client.next().await, Output::Created { .. }));
        }
        let created = cpu();
        for n in 0..PUTS {
            node.put(&format!("k{}", n * 7), "x");
            assert!(matches!(client.next().await, Output::Events { .. }));
        }
        let (creating, putting) = (created - before, cpu() - created);
        println!("{WATCHES} watches: {creating:.0} ms; {PUTS} puts: {:.3} ms each", putting / PUTS as f64);
    });
}
