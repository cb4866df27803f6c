//! Many writes of Workloads of 2 KiB, for a profiler: what a write costs its node, from the request's bytes to the answer's,
//! without log and network; and beside it what a put of as many bytes costs there.
//!
//! `cargo test --release -p setpoint-apiserver --test writes -- --ignored --nocapture many_writes`

#![allow(clippy::print_stdout, reason = "it prints what it measures")]

use std::collections::BTreeMap;
use std::time::Duration;

use prost::Message;
use setpoint_api::setpoint::v1 as pb;
use setpoint_apiserver::access::Caller;
use setpoint_objects::Subresource;
use setpoint_store::command::{Command, Put};
use tokio::runtime::Builder;

use crate::kit::Node;

/// As many arguments of as many bytes as fill an object of 2 KiB.
const ARGUMENTS: usize = 12;
const COUNT: usize = 10_000;
/// Objects there are.
const OBJECTS: usize = 1_000;

#[test]
#[ignore = "it measures, and says nothing about what is right"]
fn many_writes() {
    let only = std::env::var("VERB").ok();
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    for verb in ["put", "create", "update", "apply"] {
        if only.as_deref().is_none_or(|only| only == verb) {
            runtime.block_on(measure(verb));
        }
    }
}

async fn measure(verb: &str) {
    let node = Node::new();
    for number in 0..OBJECTS {
        write(&node, "create", create(number, 0)).await;
    }
    let request = |number: usize| match verb {
        "create" => create(OBJECTS + number, number),
        "update" => {
            pb::UpdateRequest { object: object(number % OBJECTS, number), options: options() }.encode_to_vec()
        }
        "apply" => pb::ApplyRequest {
            object: object(number % OBJECTS, number),
            options: options(),
            force: true,
            status: false,
        }
        .encode_to_vec(),
        _ => vec![b'v'; 2_048],
    };
    // Made before, so that only writing is measured.
    let requests: Vec<Vec<u8>> = (1..=COUNT).map(request).collect();
    let start = processor_time();
    let mut bytes = 0;
    for request in requests {
        bytes += write(&node, verb, request).await;
    }
    let spent = processor_time().saturating_sub(start);
    println!("{verb}: {:?} each, answers of {} bytes", spent / COUNT as u32, bytes / COUNT);
}

/// The length of the answer.
async fn write(node: &Node, verb: &str, request: Vec<u8>) -> usize {
    let (writer, caller, request) = (&node.writer, Caller::default(), bytes::Bytes::from(request));
    match verb {
        "create" => {
            let request = pb::CreateRequest::decode(request).expect("a request");
            writer.create(request, &caller).await.expect("created").encode_to_vec().len()
        }
        "update" => {
            let request = pb::UpdateRequest::decode(request).expect("a request");
            let updated = writer.update(request, Subresource::Main, &caller).await;
            updated.expect("updated").encode_to_vec().len()
        }
        "apply" => {
            let request = pb::ApplyRequest::decode(request).expect("a request");
            writer.apply(request, &caller).await.expect("applied").encode_to_vec().len()
        }
        _ => {
            let put = Put { key: "/registry/workloads/web".into(), value: request, ..Put::default() };
            node.local.apply(Command::Put(put)).expect("put");
            0
        }
    }
}

fn create(number: usize, version: usize) -> Vec<u8> {
    pb::CreateRequest { object: object(number, version), options: options() }.encode_to_vec()
}

fn options() -> Option<pb::WriteOptions> {
    Some(pb::WriteOptions { manager: "bench".to_owned(), ..pb::WriteOptions::default() })
}

fn object(number: usize, version: usize) -> Option<pb::Object> {
    let labels = [("app", "web-001"), ("group", "g-00001"), ("tier", "front")];
    let metadata = pb::Metadata {
        namespace: "default".to_owned(),
        name: format!("web-1b2c3d4e-{number:07}"),
        labels: BTreeMap::from(labels.map(|(key, value)| (key.to_owned(), value.to_owned()))),
        ..pb::Metadata::default()
    };
    let argument = |at: usize| format!(",\"--upstream-addresses=web-{at:016x}.7b-{:016x}\"", at * 77);
    let arguments: String = (0..ARGUMENTS).map(argument).collect();
    let spec = format!(
        "{{\"replicas\":3,\"template\":{{\"args\":[\"--id=00112233445566\"{arguments}],\
         \"env\":[{{\"name\":\"REGION\",\"value\":\"eu-07\"}},{{\"name\":\"RELEASED\",\"value\":\"{version:016x}\"}}],\
         \"image\":\"registry.example.com/shop/web:{version:016x}\",\
         \"ports\":[{{\"name\":\"http\",\"port\":8080}}],\
         \"resources\":{{\"cpu\":\"500m\",\"memory\":\"256Mi\"}}}}}}"
    );
    Some(pb::Object {
        kind: "Workload".to_owned(),
        metadata: Some(metadata),
        spec: spec.into(),
        ..Default::default()
    })
}

/// What this process has used of the processor.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a kernel that counts");
    let nanoseconds = stat.split(' ').next().and_then(|count| count.parse().ok());
    Duration::from_nanos(nanoseconds.expect("a number"))
}
