//! Golden scripts of leases, one property each, in `tests/coordination/scripts`.
//!
//! After a change of behaviour that is meant, run with `UPDATE_GOLDENFILES=1` and read the difference.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::sync::atomic::Ordering;

use goldenscript::{Argument, Command, Context, Runner};
use prost::Message;
use setpoint_api::setpoint::v1 as pb;
use setpoint_apiserver::access::Caller;
use setpoint_apiserver::objects::Refusal;
use setpoint_apiserver::objects::key::ObjectName;
use setpoint_objects::Subresource;
use setpoint_store::{Version, VersionsMax};
use setpoint_types::Revision;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::kit::{Node, settle};

struct Script {
    runtime: Runtime,
    node: Node,
    /// Requests that wait, by the name of who asked.
    waiting: BTreeMap<String, JoinHandle<String>>,
}

/// The arguments of a command.
struct Given {
    words: Vec<String>,
    named: HashMap<String, String>,
}

impl Given {
    fn of(command: &Command) -> Self {
        let (mut words, mut named) = (Vec::new(), HashMap::new());
        for argument in &command.args {
            match argument {
                Argument::Positional(word) => words.push(word.clone()),
                Argument::KeyValue(key, value) => drop(named.insert(key.clone(), value.clone())),
                other => panic!("unknown kind of argument: {other:?}"),
            }
        }
        Self { words, named }
    }

    fn word(&self, place: usize) -> String {
        self.words.get(place).cloned().unwrap_or_default()
    }

    fn text(&self, name: &str) -> String {
        self.named.get(name).cloned().unwrap_or_default()
    }

    fn number(&self, name: &str, or: u64) -> u64 {
        self.named.get(name).map_or(or, |text| text.parse().expect("a number"))
    }

    /// `LEASE@EPOCH`
    fn held(&self, place: usize) -> (String, u64) {
        let text = self.word(place);
        let (lease, epoch) = text.split_once('@').expect("LEASE@EPOCH");
        (lease.to_owned(), epoch.parse().expect("an epoch"))
    }
}

impl Runner for Script {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Result<String, Box<dyn Error>> {
        let given = Given::of(command);
        let said = match command.name.as_str() {
            "acquire" => self.acquire(&given),
            "keep" => self.keep(&given),
            "release" => self.release(&given),
            "holders" => self.holders(&given),
            "pass" => {
                let millis = given.word(0).parse()?;
                self.runtime.block_on(self.node.advance(millis));
                String::new()
            }
            "leave" => {
                self.waiting.remove(&given.word(0)).expect("somebody who waits").abort();
                String::new()
            }
            "plain-expiry" => {
                self.node.local.plain_expiry.store(true, Ordering::Relaxed);
                String::new()
            }
            "write" => self.write(&given),
            "get" => self.get(&given.word(0)),
            "revisions" => self.revisions(&given.word(0)),
            "delete" => self.delete(&given.word(0)),
            "create" => self.create(&given, "Lease"),
            "policy" => self.create(&given, "AdmissionPolicy"),
            "status" => self.status(&given),
            other => panic!("unknown command: {other}"),
        };
        self.runtime.block_on(settle());
        let lines: Vec<String> = std::iter::once(said).chain(self.answered()).collect();
        Ok(lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n"))
    }
}

impl Script {
    fn new() -> Self {
        let runtime =
            Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let node = runtime.block_on(async { Node::new() });
        Self { runtime, node, waiting: BTreeMap::new() }
    }

    /// What those who waited were told meanwhile.
    fn answered(&mut self) -> Vec<String> {
        let done: Vec<String> = self
            .waiting
            .iter()
            .filter(|(_, task)| task.is_finished())
            .map(|(name, _)| name.clone())
            .collect();
        let mut lines = Vec::new();
        for name in done {
            let task = self.waiting.remove(&name).expect("it is there");
            let said = self.runtime.block_on(task).expect("no panic");
            lines.push(format!("{name} is told: {said}"));
        }
        lines
    }

    /// `acquire LEASE HOLDER [ttl=] [wait=] [prefers=] [op=]`; with `wait` it goes on by itself.
    fn acquire(&mut self, given: &Given) -> String {
        let wait_ms = given.number("wait", 0) as u32;
        let request = pb::AcquireRequest {
            lease: given.word(0),
            holder: given.word(1),
            ttl_seconds: given.number("ttl", 10) as u32,
            wait_ms,
            preferred_holder: given.text("prefers"),
            operation: given.text("op"),
            namespace: given.text("in"),
        };
        let coordinator = self.node.coordinator.clone();
        let ask = async move { print(coordinator.acquire(request, &Caller::default()).await, acquired) };
        if wait_ms == 0 {
            return self.runtime.block_on(ask);
        }
        let task = self.runtime.spawn(ask);
        self.waiting.insert(given.word(1), task);
        String::new()
    }

    /// `revisions LEASE`: every version of its object, and which operation it is of.
    fn revisions(&self, lease: &str) -> String {
        let key = ObjectName { kind: "Lease", namespace: "default", name: lease }.key();
        let max = VersionsMax { count: 100, bytes: 1 << 20 };
        let kept = self.node.local.store.versions(&key, Revision::NONE, max).expect("nothing is compacted");
        let line = |it: &Version| {
            let operation = it.record.author.as_deref().map(|it| it.operation.as_str()).unwrap_or_default();
            format!("@{} of {}", it.id.revision, if operation.is_empty() { "none" } else { operation })
        };
        kept.versions.iter().rev().map(line).collect::<Vec<_>>().join("\n")
    }

    fn keep(&self, given: &Given) -> String {
        let (lease, epoch) = given.held(0);
        let observed = given.text("observed");
        let pairs = observed.split(',').filter_map(|pair| pair.split_once(':'));
        let observed = pairs.map(|(kind, at)| (kind.to_owned(), at.parse().expect("a revision"))).collect();
        let request =
            pb::KeepAliveRequest { namespace: String::new(), lease, holder: given.word(1), epoch, observed };
        let before = self.node.local.store.revision();
        let kept = self.runtime.block_on(self.node.coordinator.keep_alive(request));
        assert_eq!(self.node.local.store.revision(), before, "a keep-alive costs no write");
        print(kept, |it| {
            let word = if it.held { "held" } else { "lost" };
            format!("{word} epoch={} ttl={}", it.epoch, it.ttl_seconds)
        })
    }

    fn release(&self, given: &Given) -> String {
        let (lease, epoch) = given.held(0);
        let request = pb::ReleaseRequest { namespace: String::new(), lease, holder: given.word(1), epoch };
        let released = self.runtime.block_on(self.node.coordinator.release(request, &Caller::default()));
        print(
            released,
            |it| if it.released { format!("released @{}", it.revision) } else { "not held".into() },
        )
    }

    fn holders(&self, given: &Given) -> String {
        let request = pb::HoldersRequest { namespace: given.word(0) };
        print(self.runtime.block_on(self.node.coordinator.holders(request)), |it| {
            let line = |it: &pb::Holder| {
                let observed: BTreeMap<_, _> = it.observed.iter().collect();
                let pb::Holder { namespace, lease, holder, epoch, remaining_ms, .. } = it;
                format!("{namespace}/{lease} {holder}@{epoch} {remaining_ms} ms left, has seen {observed:?}")
            };
            it.holders.iter().map(line).collect::<Vec<_>>().join("\n")
        })
    }

    /// `write NAME LEASE@EPOCH`: a write with a fence.
    fn write(&self, given: &Given) -> String {
        let (lease, epoch) = given.held(1);
        let metadata = pb::Metadata { name: given.word(0), ..pb::Metadata::default() };
        let object = pb::Object {
            kind: "Namespace".into(),
            metadata: Some(metadata),
            spec: "{}".into(),
            ..Default::default()
        };
        let fence = Some(pb::Fence { namespace: String::new(), lease, epoch });
        let options = Some(pb::WriteOptions { fence, ..Default::default() });
        let request = pb::CreateRequest { object: Some(object), options };
        let written = self.runtime.block_on(self.node.writer.create(request, &Caller::default()));
        print(written, |it| format!("written @{}", it.revision))
    }

    fn get(&self, name: &str) -> String {
        let request = pb::GetRequest { key: Some(lease(name)), ..pb::GetRequest::default() };
        print(self.runtime.block_on(self.node.writer.reader.get(request)), |it| {
            let bytes = it.object.unwrap_or_default().encode_to_vec();
            let object = pb::Object::decode(&bytes[..]).expect("an object");
            let text = |json: &[u8]| String::from_utf8_lossy(json).into_owned();
            let metadata = object.metadata.unwrap_or_default();
            format!(
                "@{} gen={} spec={} status={}",
                metadata.revision,
                metadata.generation,
                text(&object.spec),
                text(&object.status)
            )
        })
    }

    fn delete(&self, name: &str) -> String {
        let request = pb::DeleteRequest { key: Some(lease(name)), ..pb::DeleteRequest::default() };
        let deleted = self.runtime.block_on(self.node.writer.delete(request, &Caller::default()));
        print(deleted, |it| if it.gone { "gone".to_owned() } else { "waits".to_owned() })
    }

    fn object(given: &Given) -> pb::Object {
        let finalizers = given.named.get("finalizer").cloned().into_iter().collect();
        let metadata = pb::Metadata { name: given.word(0), finalizers, ..pb::Metadata::default() };
        let (spec, status) = (given.text("spec").into(), given.text("status").into());
        pb::Object { kind: "Lease".into(), metadata: Some(metadata), spec, status }
    }

    fn create(&self, given: &Given, kind: &str) -> String {
        let object = pb::Object { kind: kind.to_owned(), ..Self::object(given) };
        let request = pb::CreateRequest { object: Some(object), options: None };
        let created = self.runtime.block_on(self.node.writer.create(request, &Caller::default()));
        print(created, |it| format!("created @{}", it.revision))
    }

    fn status(&self, given: &Given) -> String {
        let request = pb::UpdateRequest { object: Some(Self::object(given)), options: None };
        let (writer, caller) = (&self.node.writer, Caller::default());
        let written = self.runtime.block_on(writer.update(request, Subresource::Status, &caller));
        print(written, |it| format!("written @{}", it.revision))
    }
}

fn lease(name: &str) -> pb::ObjectKey {
    pb::ObjectKey { kind: "Lease".into(), namespace: String::new(), name: name.to_owned() }
}

fn acquired(it: pb::AcquireResponse) -> String {
    let word = if it.acquired { "acquired" } else { "not acquired" };
    let holder = if it.holder.is_empty() { "nobody" } else { &it.holder };
    format!("{word}: {holder} epoch={} ttl={} @{}", it.epoch, it.ttl_seconds, it.revision)
}

fn print<T>(outcome: Result<T, Refusal>, print: impl FnOnce(T) -> String) -> String {
    match outcome {
        Ok(answer) => print(answer),
        Err(refusal) => refusal.to_string(),
    }
}

macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() -> std::io::Result<()> {
                goldenscript::run(&mut Script::new(), concat!("tests/coordination/scripts/", stringify!($name)))
            }
        )*
    };
}

scripts! {
    acquire,
    deletion,
    expiry,
    fences,
    keep_alive,
    operations,
    policies,
    preferred,
    queue,
    refusals,
    release,
}
