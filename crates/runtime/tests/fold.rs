//! Whatever the network does to an informer's streams, its cache is at every moment what the store was at the cache's revision
//! (invariant R1), whoever is told of changes has been told the last state of every key (R2), and once the network is well
//! again the cache catches up.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use proptest::prelude::*;
use prost::Message;
use setpoint_api::raw::ReceivedEvent;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::watch_event::Type;
use setpoint_runtime::cache::{Delta, Index, Key, Store};
use setpoint_runtime::informer::InformerSettings;
use setpoint_runtime::informer::machine::{Effect, End, Input, Machine, Start, StreamId};
use setpoint_types::Revision;
use tokio::time::Instant;

/// What the server keeps: every change, and from where on it still tells.
#[derive(Default)]
struct Server {
    /// In order; several keys may share a revision.
    log: Vec<(u64, u8, Option<u16>)>,
    compacted: u64,
    head: u64,
}

type Content = BTreeMap<String, (u64, u16)>;

impl Server {
    fn write(&mut self, changes: &[(u8, Option<u16>)]) {
        self.head += 1;
        let mut written = BTreeMap::new();
        for (key, value) in changes {
            if value.is_some() || self.state(self.head - 1).contains_key(&name(*key)) {
                written.insert(*key, *value);
            }
        }
        self.log.extend(written.into_iter().map(|(key, value)| (self.head, key, value)));
    }

    fn state(&self, at: u64) -> Content {
        let mut content = Content::new();
        for (revision, key, value) in self.log.iter().filter(|change| change.0 <= at) {
            match value {
                Some(value) => drop(content.insert(name(*key), (*revision, *value))),
                None => drop(content.remove(&name(*key))),
            }
        }
        content
    }

    /// The last value before a revision.
    fn before(&self, key: u8, revision: u64) -> u16 {
        self.state(revision - 1).get(&name(key)).map_or(0, |(_, value)| *value)
    }

    fn events(&self, after: u64, until: u64) -> Vec<pb::WatchEvent> {
        let within = self.log.iter().filter(|change| change.0 > after && change.0 <= until);
        within
            .map(|(revision, key, value)| match value {
                Some(value) => event(Type::Modified, *revision, *key, *value),
                None => event(Type::Deleted, *revision, *key, self.before(*key, *revision)),
            })
            .collect()
    }
}

fn name(key: u8) -> String {
    format!("k{key}")
}

fn event(kind: Type, revision: u64, key: u8, value: u16) -> pb::WatchEvent {
    let metadata = pb::Metadata {
        namespace: "default".into(),
        name: name(key),
        uid: format!("u{key}"),
        revision,
        labels: [("parity".to_owned(), (value % 2).to_string())].into(),
        ..Default::default()
    };
    let spec = format!(r#"{{"value":{value}}}"#).into();
    let object = pb::Object { kind: "Thing".into(), metadata: Some(metadata), spec, ..Default::default() };
    pb::WatchEvent { r#type: kind.into(), object: Some(object), revision, ..Default::default() }
}

fn bookmark(revision: u64, initial_state_end: bool) -> pb::WatchEvent {
    pb::WatchEvent { r#type: Type::Bookmark.into(), revision, initial_state_end, ..Default::default() }
}

fn received(events: Vec<pb::WatchEvent>) -> Vec<ReceivedEvent> {
    events
        .iter()
        .map(|event| ReceivedEvent::read(&event.encode_to_vec().into()).expect("as the test made it"))
        .collect()
}

/// The server's end of a stream.
struct Sending {
    stream: StreamId,
    /// What is left of the whole state.
    initial: Option<(u64, VecDeque<pb::WatchEvent>)>,
    after: u64,
}

/// An informer, and what is under way to it.
struct World {
    server: Server,
    machine: Machine,
    store: Store,
    now: Instant,
    sending: Option<Sending>,
    /// Not yet delivered, oldest first.
    under_way: VecDeque<(StreamId, Vec<ReceivedEvent>)>,
    delivered: Vec<(StreamId, Vec<ReceivedEvent>)>,
    /// Put together from what observers are told.
    told: Content,
    finished: u32,
}

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<(u8, Option<u16>)>),
    Compact(u8),
    Send(u8),
    Bookmark,
    Deliver,
    /// One that was delivered before, of this stream or another.
    Repeat(u8),
    /// One that is under way, before its time if it is of a stream that was given up.
    Overtake(u8),
    Cut,
    Silence,
    Time,
}

impl World {
    fn new() -> Self {
        let now = Instant::now();
        let mut store = Store::new(None);
        store.add_index(Index::label("parity", "parity"));
        Self {
            server: Server { head: 1, ..Server::default() },
            machine: Machine::new(InformerSettings::default(), now),
            store,
            now,
            sending: None,
            under_way: VecDeque::new(),
            delivered: Vec::new(),
            told: Content::new(),
            finished: 0,
        }
    }

    fn input(&mut self, input: Input) {
        let effects = self.machine.step(input, self.now, 0.5);
        for effect in effects {
            match effect {
                Effect::Open(stream, start) => self.open(stream, start),
                Effect::Close { .. } => self.sending = None,
                Effect::Stage(events) => self.store.stage(&events).expect("as the test made it"),
                Effect::Finish(at) => {
                    self.finished += 1;
                    let deltas = self.store.finish(at);
                    self.taken(&deltas);
                }
                Effect::Apply(events, position) => {
                    let deltas = self.store.apply(&events, position, position).expect("as the test made it");
                    self.taken(&deltas);
                }
            }
        }
    }

    fn open(&mut self, stream: StreamId, start: Start) {
        self.store.begin();
        let end = match start {
            Start::After(after) if after.get() < self.server.compacted => Some(End::Expired),
            Start::After(after) => {
                self.sending = Some(Sending { stream, initial: None, after: after.get() });
                None
            }
            Start::State(_) => {
                let at = self.server.head;
                let state = self.server.state(at);
                let object = |(name, (revision, value)): (&String, &(u64, u16))| {
                    let key = name[1..].parse().expect("as the test made it");
                    event(Type::Added, *revision, key, *value)
                };
                let initial = state.iter().map(object).collect();
                self.sending = Some(Sending { stream, initial: Some((at, initial)), after: at });
                None
            }
        };
        match end {
            Some(end) => self.input(Input::Ended(stream, end)),
            None => self.input(Input::Opened(stream)),
        }
    }

    /// R1 and R2, after everything that changes the cache.
    fn taken(&mut self, deltas: &[Delta]) {
        for delta in deltas {
            let key = delta.key.name().to_owned();
            let before = delta.before.as_ref().map(|entry| entry.revision().get());
            assert_eq!(
                before,
                self.told.get(&key).map(|(revision, _)| *revision),
                "R2: what was told before"
            );
            match &delta.after {
                Some(entry) => {
                    let spec: serde_json::Value =
                        entry.parts().expect("as the test made it").spec().expect("as the test made it");
                    let value = spec["value"].as_u64().expect("as the test made it") as u16;
                    self.told.insert(key, (entry.revision().get(), value));
                }
                None => drop(self.told.remove(&key)),
            }
        }
        self.check();
    }

    fn check(&self) {
        let Some(position) = self.store.position() else { return };
        let expected = self.server.state(position.get());
        let mut found = Content::new();
        let snapshot = self.store.snapshot(position).expect("the state of now");
        for entry in snapshot.iter() {
            let spec: serde_json::Value =
                entry.parts().expect("as the test made it").spec().expect("as the test made it");
            let value = spec["value"].as_u64().expect("as the test made it") as u16;
            found.insert(entry.key().name().to_owned(), (entry.revision().get(), value));
            assert_eq!(self.store.get(entry.key()).as_ref(), Some(&entry));
        }
        assert_eq!(found, expected, "R1: the state at {position}");
        assert_eq!(self.told, expected, "R2: what observers were told up to {position}");
        let even: Vec<String> =
            snapshot.find("parity", "0").iter().map(|entry| entry.key().name().to_owned()).collect();
        let expected: Vec<String> =
            expected.into_iter().filter(|(_, (_, value))| value % 2 == 0).map(|(name, _)| name).collect();
        assert_eq!(even, expected, "the index at {position}");
    }

    /// The server sends the next answer: some of the whole state, or some revisions.
    fn send(&mut self, count: usize) {
        let Some(sending) = &mut self.sending else { return };
        let events = match &mut sending.initial {
            Some((at, left)) => {
                let mut part: Vec<_> = left.drain(..count.min(left.len())).collect();
                if left.is_empty() {
                    part.push(bookmark(*at, true));
                    sending.initial = None;
                }
                part
            }
            None => {
                if sending.after < self.server.compacted {
                    let stream = sending.stream;
                    return self.input(Input::Ended(stream, End::Expired));
                }
                let until = self.server.head.min(sending.after + count as u64);
                let events = self.server.events(sending.after, until);
                sending.after = until;
                events
            }
        };
        if !events.is_empty() {
            let stream = sending.stream;
            self.under_way.push_back((stream, received(events)));
        }
    }

    fn bookmark(&mut self) {
        let Some(sending) = &self.sending else { return };
        if sending.initial.is_none() {
            self.under_way.push_back((sending.stream, received(vec![bookmark(sending.after, false)])));
        }
    }

    fn deliver(&mut self) {
        let Some((stream, events)) = self.under_way.pop_front() else { return };
        self.delivered.push((stream, events.clone()));
        self.input(Input::Answer(stream, events));
    }

    /// Answers of one stream come in order, as TCP has it. Those of one that was given up may come whenever they like.
    fn overtake(&mut self, place: usize) {
        let current = self.sending.as_ref().map(|sending| sending.stream);
        let old: Vec<usize> =
            (0..self.under_way.len()).filter(|place| Some(self.under_way[*place].0) != current).collect();
        if let Some(place) = old.get(place % old.len().max(1))
            && let Some((stream, events)) = self.under_way.remove(*place)
        {
            self.input(Input::Answer(stream, events));
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Write(changes) => self.server.write(&changes),
            Step::Compact(back) => {
                let to = self.server.head.saturating_sub(back.into());
                self.server.compacted = self.server.compacted.max(to);
            }
            Step::Send(count) => self.send(count.into()),
            Step::Bookmark => self.bookmark(),
            Step::Deliver => self.deliver(),
            Step::Repeat(place) => {
                if let Some((stream, events)) = self.delivered.iter().rev().nth(place.into()).cloned() {
                    self.input(Input::Answer(stream, events));
                }
            }
            Step::Overtake(place) => self.overtake(place.into()),
            Step::Cut => {
                if let Some(sending) = &self.sending {
                    let stream = sending.stream;
                    self.input(Input::Ended(stream, End::Failed));
                }
            }
            Step::Silence => {
                self.now += InformerSettings::default().stalled_after;
                self.input(Input::Tick);
            }
            Step::Time => {
                self.now = self.now.max(self.machine.wake_at());
                self.input(Input::Tick);
            }
        }
        self.check();
    }

    /// The network is well, and nobody writes.
    fn settle(&mut self) {
        for _ in 0..200 {
            if self.sending.is_none() {
                self.step(Step::Time);
            }
            self.step(Step::Send(50));
            self.step(Step::Bookmark);
            while !self.under_way.is_empty() {
                self.step(Step::Deliver);
            }
            if self.store.position() == Some(Revision::new(self.server.head)) {
                return;
            }
        }
        panic!("the cache at {:?} does not reach {}", self.store.position(), self.server.head);
    }
}

fn step() -> impl Strategy<Value = Step> {
    let change = (0u8..12, proptest::option::weighted(0.7, any::<u16>()));
    prop_oneof![
        6 => proptest::collection::vec(change, 1..4).prop_map(Step::Write),
        1 => (0u8..6).prop_map(Step::Compact),
        8 => (1u8..8).prop_map(Step::Send),
        2 => Just(Step::Bookmark),
        8 => Just(Step::Deliver),
        2 => (0u8..8).prop_map(Step::Repeat),
        2 => (0u8..8).prop_map(Step::Overtake),
        1 => Just(Step::Cut),
        1 => Just(Step::Silence),
        3 => Just(Step::Time),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_cache_is_the_store_at_its_revision_whatever_the_network_does(
        steps in proptest::collection::vec(step(), 1..150)
    ) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.settle();
    }
}

#[test]
fn a_broken_stream_is_resumed_and_the_whole_state_is_asked_for_only_when_it_expired() {
    let mut world = World::new();
    world.step(Step::Write(vec![(1, Some(1)), (2, Some(2))]));
    world.settle();
    for round in 0..10 {
        world.step(Step::Write(vec![(3, Some(round))]));
        world.step(Step::Cut);
        world.settle();
    }
    assert_eq!(world.finished, 1, "one whole state is enough");
    world.step(Step::Cut);
    world.step(Step::Write(vec![(1, None)]));
    world.step(Step::Write(vec![(4, Some(4))]));
    world.step(Step::Compact(0));
    world.settle();
    assert_eq!(world.finished, 2, "what came next was no longer kept");
    assert!(!world.told.contains_key("k1"), "it was told that it is gone");
}

#[test]
fn a_stalled_stream_is_given_up_and_gone_on_with() {
    let mut world = World::new();
    world.settle();
    world.step(Step::Write(vec![(1, Some(1))]));
    world.step(Step::Silence);
    assert!(world.sending.is_none());
    // Its wait is over, and the next stream begins where the first came to.
    world.settle();
    assert_eq!(world.finished, 1);
    assert!(world.told.contains_key("k1"));
}

#[test]
fn a_cluster_that_was_restored_to_an_earlier_state_is_followed_after_some_patience() {
    let mut world = World::new();
    for value in 0..20 {
        world.step(Step::Write(vec![(1, Some(value))]));
    }
    world.settle();
    let mut tries = 0;
    loop {
        let now = world.now.max(world.machine.wake_at()) + Duration::from_secs(1);
        let effects = world.machine.step(Input::Tick, now, 0.5);
        world.now = now;
        match effects.as_slice() {
            [Effect::Close { .. }] => {}
            [Effect::Open(_, Start::State(_))] => break,
            [Effect::Open(stream, Start::After(_))] => {
                tries += 1;
                assert!(tries < 50, "it never gives up");
                let end = End::NotReached(Revision::new(3));
                world.machine.step(Input::Ended(*stream, end), now, 0.5);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(tries > 3, "one node that is behind is no reason");
}

#[test]
fn an_object_that_was_made_again_while_nobody_looked_is_two_objects() {
    let mut store = Store::new(None);
    store.begin();
    store.stage(&received(vec![event(Type::Added, 2, 1, 1)])).expect("as the test made it");
    store.finish(Revision::new(2));
    let mut other = event(Type::Added, 5, 1, 1);
    other.object.as_mut().expect("as the test made it").metadata.as_mut().expect("as the test made it").uid =
        "another".into();
    store.begin();
    store.stage(&received(vec![other])).expect("as the test made it");
    let deltas = store.finish(Revision::new(6));
    let shape: Vec<(bool, bool)> =
        deltas.iter().map(|it| (it.before.is_some(), it.after.is_some())).collect();
    assert_eq!(shape, [(true, false), (false, true)]);
    assert!(deltas[0].last.is_none(), "nobody has seen its end");
    assert_eq!(store.get(&Key::new("default", "k1")).expect("as the test made it").uid().as_str(), "another");
}

#[test]
fn what_cannot_be_read_is_refused_and_changes_nothing() {
    let mut store = Store::new(None);
    store.begin();
    store.finish(Revision::new(2));
    let mut nameless = event(Type::Modified, 3, 1, 1);
    nameless.object.as_mut().expect("as the test made it").metadata = None;
    assert!(store.apply(&received(vec![nameless]), Revision::new(3), Revision::new(3)).is_err());
    let empty = pb::WatchEvent { r#type: Type::Modified.into(), revision: 4, ..Default::default() };
    assert!(store.apply(&received(vec![empty]), Revision::new(4), Revision::new(4)).is_err());
    assert_eq!((store.position(), store.len()), (Some(Revision::new(2)), 0));
}
