//! What a cache costs beside the objects in it. A test of its own, so that nothing else is in the process's memory.

use prost::Message;
use setpoint_api::raw::ReceivedEvent;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::watch_event::Type;
use setpoint_runtime::cache::Store;
use setpoint_types::Revision;

const OBJECTS: u64 = 100_000;

fn event(number: u64) -> ReceivedEvent {
    let metadata = pb::Metadata {
        namespace: format!("tenant-{}", number % 100),
        name: format!("object-{number}"),
        ..Default::default()
    };
    let object = pb::Object { metadata: Some(metadata), spec: vec![b'x'; 2000].into(), ..Default::default() };
    let event = pb::WatchEvent {
        r#type: Type::Added.into(),
        object: Some(object),
        revision: number + 2,
        ..Default::default()
    };
    ReceivedEvent::read(&event.encode_to_vec().into()).expect("as the test made it")
}

fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("as the test made it");
    text.split(' ').nth(1).expect("as the test made it").parse::<usize>().expect("as the test made it") * 4096
}

#[test]
fn a_cache_of_100000_objects_of_2_kib_costs_at_most_1_3_times_their_encoding() {
    let before = resident_bytes();
    let mut store = Store::new(None);
    store.begin();
    for first in (0..OBJECTS).step_by(100) {
        let events: Vec<ReceivedEvent> = (first..first + 100).map(event).collect();
        store.stage(&events).expect("as the test made it");
    }
    // What observers are told is not kept.
    drop(store.finish(Revision::new(OBJECTS + 2)));
    let grown = resident_bytes() - before;
    let encoded = store.encoded_bytes();
    assert_eq!(store.len() as u64, OBJECTS);
    assert!(encoded > 200_000_000, "{encoded}");
    let ratio = grown as f64 / encoded as f64;
    assert!(ratio <= 1.3, "{grown} bytes for {encoded}: {ratio:.2}");
}
