//! How fast a cache takes in events, and what it costs to keep them.
//!
//! `cargo run --release -p setpoint-runtime --example ingest -- [OBJECTS] [BYTES]` fills a cache with so many objects of that size
//! (100,000 of 2 KiB), changes each a few times, and prints events per second on one core and memory beside the size of the
//! encoded objects. The network is not part of it: answers come as the client hands them over.

#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::time::Instant;

use bytes::Bytes;
use prost::Message;
use setpoint_api::raw::{ReceivedEvent, ReceivedEvents};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::watch_event::Type;
use setpoint_runtime::cache::{Index, Store};
use setpoint_types::Revision;

/// Events in one answer.
const ANSWER: usize = 64;

fn event(kind: Type, number: usize, revision: u64, bytes: usize) -> pb::WatchEvent {
    let metadata = pb::Metadata {
        namespace: format!("tenant-{}", number % 100),
        name: format!("object-{number}"),
        uid: format!("00000000-0000-4000-8000-{number:012}"),
        revision,
        generation: 1,
        labels: [("app".to_owned(), format!("a{}", number % 50))].into(),
        owners: vec![pb::OwnerReference {
            kind: "Workload".into(),
            uid: format!("{}", number / 10),
            ..Default::default()
        }],
        ..Default::default()
    };
    let filler = "x".repeat(bytes.saturating_sub(200));
    let spec = format!(r#"{{"node":"n{}","filler":"{filler}"}}"#, number % 1000);
    let object = pb::Object {
        kind: "Replica".into(),
        metadata: Some(metadata),
        spec: spec.into(),
        ..Default::default()
    };
    let author = pb::Author {
        principal: "user:jane".into(),
        operation: "0123456789abcdef".into(),
        ..Default::default()
    };
    pb::WatchEvent {
        r#type: kind.into(),
        object: Some(object),
        revision,
        author: Some(author),
        ..Default::default()
    }
}

/// As it comes over the wire.
fn answer(kind: Type, numbers: &[usize], first: u64, bytes: usize) -> Bytes {
    let events = numbers.iter().zip(first..).map(|(number, revision)| event(kind, *number, revision, bytes));
    pb::WatchResponse { events: events.collect() }.encode_to_vec().into()
}

fn received(answer: Bytes) -> Vec<ReceivedEvent> {
    let answer = ReceivedEvents::decode(answer).expect("encoded above");
    answer.events.iter().map(|event| ReceivedEvent::read(event).expect("encoded above")).collect()
}

fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|it| it.parse::<usize>().ok()).unwrap_or(0);
    pages * 4096
}

fn measure(name: &str, indexes: Vec<Index>, objects: usize, bytes: usize) {
    let mut store = Store::new(None);
    indexes.into_iter().for_each(|index| store.add_index(index));
    let before = resident_bytes();
    store.begin();
    let numbers: Vec<usize> = (0..objects).collect();
    let mut revision = 2;
    for part in numbers.chunks(ANSWER) {
        store.stage(&received(answer(Type::Added, part, revision, bytes))).expect("good events");
        revision += part.len() as u64;
    }
    store.finish(Revision::new(revision));
    let grown = resident_bytes().saturating_sub(before);
    let ratio = grown as f64 / store.encoded_bytes() as f64;

    // Encoded beforehand: that is the server's work.
    let answers: Vec<Bytes> = numbers
        .chunks(ANSWER)
        .map(|part| {
            let answer = answer(Type::Modified, part, revision + 1, bytes);
            revision += part.len() as u64;
            answer
        })
        .collect();
    let begun = Instant::now();
    let mut events = 0;
    for answer in answers {
        let received = received(answer);
        events += received.len();
        let last = Revision::new(received.last().map_or(0, |event| event.revision));
        store.apply(&received, last, last).expect("good events");
    }
    let rate = events as f64 / begun.elapsed().as_secs_f64();
    println!("{name}: {rate:.0} events/s, memory {ratio:.2} x encoded ({} MiB)", store.encoded_bytes() >> 20);
}

fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let objects = numbers.first().copied().unwrap_or(100_000);
    let bytes = numbers.get(1).copied().unwrap_or(2048);
    measure("no index", Vec::new(), objects, bytes);
    measure("by owner", vec![Index::owner()], objects, bytes);
    measure("by a field of the spec", vec![Index::spec("node", "/node")], objects, bytes);
}
