//! What it costs to decide a write of a Workload of 2 KiB: decoding, the rules of writes, and the checks of the kind.
//!
//! `cargo run --release -p setpoint-objects --example write_speed -- [create|update|apply] [count]`. Counted is the time on the
//! processor. Under `valgrind --tool=callgrind` the same run counts instructions, which a busy machine does not change.
//!
//! Not here: the wire, the store and the commit, which `make bench` measures with the rest.

#![allow(clippy::print_stdout, reason = "it prints what it measures")]

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_objects::unknown::FieldValidation;
use setpoint_objects::write::{self, ApplyHow, Context, Draft, Fresh, Incoming, Kind, Outcome};
use setpoint_objects::{Metadata, Object, Refusal, Subresource, Topology};

/// As many arguments of as many bytes as fill an object of 2 KiB.
const ARGUMENTS: usize = 12;
const COUNT: usize = 20_000;
/// Different specs, one after the other.
const VERSIONS: usize = 64;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let verb = arguments.next();
    let count = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(COUNT);
    let kind = setpoint_types::registry::kind("Workload").expect("a built-in kind");
    let topology = Topology::of_kind(kind.schema()).expect("a good schema");
    let rules = Kind { name: kind.info.name, namespaced: true, topology: &topology };
    for known in ["create", "update", "apply"] {
        if verb.as_deref().is_none_or(|verb| verb == known) {
            run(known, &rules, count);
        }
    }
}

fn run(verb: &str, kind: &Kind<'_>, count: usize) {
    let stored = decided(kind, None, "create", 0, &spec(0));
    let stored = Object { metadata: Metadata { revision: 7, ..stored.metadata }, ..stored };
    let before = (verb != "create").then_some(&stored);
    // Made before, so that only deciding is measured.
    let specs: Vec<String> = (1..=VERSIONS).map(spec).collect();
    let start = processor_time();
    let mut bytes = 0;
    for (version, spec) in (1..=count).zip(specs.iter().cycle()) {
        bytes += decided(kind, before, verb, version, spec).metadata.managed_fields.len();
    }
    let spent = processor_time().saturating_sub(start);
    println!("{verb}: {:?} each ({bytes} entries)", spent / count as u32);
}

/// The object that a write comes to, and whether its kind allows it.
fn decided(kind: &Kind<'_>, stored: Option<&Object>, verb: &str, version: usize, spec: &str) -> Object {
    let incoming = Incoming::decode(kind.name, metadata(), spec.as_bytes(), b"").expect("JSON");
    let context = Context {
        manager: "bench",
        time_ms: version as u64,
        validation: FieldValidation::Strict,
        owners: &|_| None,
    };
    let draft = draft(kind, stored, verb, incoming, &context).expect("a good write");
    let object = match draft.finish().expect("a good object").outcome {
        Outcome::Put(object) | Outcome::Unchanged(object) | Outcome::Gone(object) => object,
    };
    let rules = setpoint_types::registry::kind(kind.name).expect("a built-in kind");
    assert!(rules.validate_parts(stored.map(parts), parts(&object)).is_empty());
    object
}

fn parts(object: &Object) -> setpoint_types::Parts<'_> {
    let metadata = setpoint_types::object::Checked {
        namespace: &object.metadata.namespace,
        name: &object.metadata.name,
        generate_name: &object.metadata.generate_name,
        uid: &object.metadata.uid,
        deleted: None,
        labels: &object.metadata.labels,
        annotations: &object.metadata.annotations,
    };
    setpoint_types::Parts { metadata, spec: &object.spec, status: &object.status }
}

fn draft<'a>(
    kind: &Kind<'a>,
    stored: Option<&'a Object>,
    verb: &str,
    incoming: Incoming,
    context: &Context<'a>,
) -> Result<Draft<'a>, Refusal> {
    let fresh = Fresh { uid: "2f1c7a9e-0000-4000-8000-000000000001", suffix: "x7k2p" };
    match verb {
        "create" => write::create(kind, stored, incoming, fresh, context),
        "update" => write::update(kind, stored, incoming, context),
        _ => {
            let how = ApplyHow { force: true, subresource: Subresource::Main };
            write::apply(kind, stored, incoming, how, fresh, context)
        }
    }
}

fn metadata() -> Metadata {
    let labels = [("app", "web-001"), ("group", "g-00001"), ("tier", "front")];
    Metadata {
        namespace: "default".to_owned(),
        name: "web-1b2c3d4e-0000123".to_owned(),
        labels: BTreeMap::from(labels.map(|(key, value)| (key.to_owned(), value.to_owned()))),
        ..Metadata::default()
    }
}

fn spec(version: usize) -> String {
    let argument = |at: usize| format!(",\"--upstream-addresses=web-{at:016x}.7b-{:016x}\"", at * 77);
    let arguments: String = (0..ARGUMENTS).map(argument).collect();
    format!(
        "{{\"replicas\":3,\"template\":{{\"args\":[\"--id=00112233445566\"{arguments}],\
         \"env\":[{{\"name\":\"REGION\",\"value\":\"eu-07\"}},{{\"name\":\"RELEASED\",\"value\":\"{version:016x}\"}}],\
         \"image\":\"registry.example.com/shop/web:{version:016x}\",\
         \"ports\":[{{\"name\":\"http\",\"port\":8080}}],\
         \"resources\":{{\"cpu\":\"500m\",\"memory\":\"256Mi\"}}}}}}"
    )
}

/// What this process has used of the processor.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/schedstat").expect("a kernel that counts");
    let nanoseconds = stat.split(' ').next().and_then(|count| count.parse().ok());
    Duration::from_nanos(nanoseconds.expect("a number"))
}
