//! Golden scripts of reading objects, one property each, in `tests/objects/scripts`.
//!
//! Time is virtual: a watch is read until nothing more comes, and `wait` costs nothing. After a change of behaviour that is
//! meant, run with `UPDATE_GOLDENFILES=1` and read the difference.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt;
use goldenscript::{Argument, Context, Runner};
use prost::Message;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::read_at::At;
use setpoint_apiserver::objects::watch::WatchAnswers;
use setpoint_apiserver::objects::{ReadLimits, Refusal};
use setpoint_store::commit::Op;
use tokio::runtime::Runtime;

use crate::kit::{Draft, Node, small_limits};
use crate::render;

struct Script {
    runtime: Runtime,
    node: Node,
    watches: BTreeMap<String, Option<WatchAnswers>>,
    /// Where the last list goes on.
    token: String,
    /// Between `begin` and `end`.
    open: Option<Vec<Op>>,
}

impl Script {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let node = runtime.block_on(async { Node::new(1 << 20, small_limits()) });
        Self { runtime, node, watches: BTreeMap::new(), token: String::new(), open: None }
    }

    fn restart(&mut self, ring_bytes: usize, limits: ReadLimits) {
        self.node = self.runtime.block_on(async { Node::new(ring_bytes, limits) });
    }
}

/// The arguments of a command: words, and values by name.
struct Given {
    words: Vec<String>,
    named: HashMap<String, String>,
}

impl Given {
    fn of(command: &goldenscript::Command) -> Self {
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

    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|it| it == word)
    }

    fn text(&self, name: &str) -> String {
        self.named.get(name).cloned().unwrap_or_default()
    }

    fn number(&self, name: &str) -> u64 {
        self.named.get(name).map_or(0, |text| text.parse().expect("a number"))
    }

    fn at(&self) -> Option<pb::ReadAt> {
        let at = match (self.text("at").as_str(), self.number("rev")) {
            ("", _) => return None,
            ("latest", _) => At::Latest(true),
            ("cached", _) => At::Cached(true),
            ("exact", revision) => At::Exact(revision),
            ("not_older_than", revision) => At::NotOlderThan(revision),
            ("time", time) => At::TimeMs(time),
            (other, _) => panic!("unknown: {other}"),
        };
        Some(pb::ReadAt { at: Some(at) })
    }

    /// `KIND NAMESPACE/NAME`, or `KIND NAME`.
    fn key(&self) -> pb::ObjectKey {
        let place = self.word(1);
        let (namespace, name) = place.split_once('/').unwrap_or(("", &place));
        pb::ObjectKey { kind: self.word(0), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn draft(&self) -> Draft {
        let pb::ObjectKey { kind, namespace, name } = self.key();
        let labels = self.text("labels");
        let pairs = labels.split(',').filter_map(|pair| pair.split_once('='));
        let json = |field: &str, given: &str| match self.named.get(given) {
            Some(value) => format!("{{\"{field}\":\"{value}\"}}"),
            None => String::new(),
        };
        Draft {
            kind,
            namespace,
            name,
            labels: pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            spec: json("nodeName", "node"),
            status: json("stage", "stage"),
        }
    }

    fn list(&self) -> pb::ListRequest {
        pb::ListRequest {
            kind: self.word(0),
            namespace: self.text("ns"),
            label_selector: self.text("labels"),
            field_selector: self.text("fields"),
            at: self.at(),
            metadata_only: self.has("metadata_only"),
            limit: self.number("limit") as u32,
            r#continue: self.text("continue"),
        }
    }

    fn watch(&self) -> pb::WatchRequest {
        pb::WatchRequest {
            kind: self.word(1),
            namespace: self.text("ns"),
            label_selector: self.text("labels"),
            field_selector: self.text("fields"),
            from_revision: self.number("from"),
            initial_state: self.has("initial"),
            at: self.at(),
            metadata_only: self.has("metadata_only"),
            bookmark_interval_ms: self.number("bookmarks") as u32,
            timeout_ms: self.number("timeout") as u32,
        }
    }
}

impl Runner for Script {
    type Command = goldenscript::Command;

    fn run(&mut self, command: &goldenscript::Command, _: &Context) -> Result<String, Box<dyn Error>> {
        let given = Given::of(command);
        match command.name.as_str() {
            "put" => Ok(self.write(given.draft().put())),
            "del" => Ok(self.write(given.draft().delete())),
            "begin" => {
                self.open = Some(Vec::new());
                Ok(String::new())
            }
            "end" => {
                let ops = self.open.take().unwrap_or_default();
                Ok(format!("@{}", self.node.commit(ops)))
            }
            "compact" => {
                self.node.compact(given.word(0).parse()?);
                Ok(String::new())
            }
            "clock" => {
                self.node.now = given.word(0).parse()?;
                Ok(String::new())
            }
            "restart" => {
                let defaults = small_limits();
                let or = |name: &str, usual| match given.number(name) {
                    0 => usual,
                    number => number as usize,
                };
                let limits = ReadLimits {
                    page_bytes: or("page_bytes", defaults.page_bytes),
                    page_objects: or("page_objects", defaults.page_objects),
                    scanned_objects: or("scanned", defaults.scanned_objects),
                    response_bytes: or("response_bytes", defaults.response_bytes),
                    ..defaults
                };
                self.restart(or("ring", 1 << 20), limits);
                Ok(String::new())
            }
            "leader" => {
                self.node.led.store(given.word(0) != "lost", Ordering::Relaxed);
                Ok(String::new())
            }
            "wait" => {
                let millis = Duration::from_millis(given.word(0).parse()?);
                self.runtime.block_on(async { tokio::time::sleep(millis).await });
                Ok(String::new())
            }
            name => Ok(self.read(name, &given)),
        }
    }
}

impl Script {
    fn write(&mut self, op: Op) -> String {
        match &mut self.open {
            Some(ops) => {
                ops.push(op);
                String::new()
            }
            None => format!("@{}", self.node.commit(vec![op])),
        }
    }

    fn read(&mut self, name: &str, given: &Given) -> String {
        let answer = match name {
            "get" => self.get(given),
            "list" => self.list(given.list()),
            "more" => self.list(pb::ListRequest { r#continue: self.token.clone(), ..given.list() }),
            "history" => self.history(given),
            "kinds" => {
                let request = pb::KindsRequest { kind: given.word(0) };
                let line =
                    |kind: &pb::KindInfo| format!("{} {}\n", kind.kind, kind.selectable_fields.join(" "));
                let answer = self.runtime.block_on(self.node.reader.kinds(&request));
                answer.map(|answer| answer.kinds.iter().map(line).collect())
            }
            "watch" => self.watch(given),
            "next" => Ok(self.next(&given.word(0))),
            other => panic!("unknown command: {other}"),
        };
        answer.unwrap_or_else(|refusal| render::error(refusal.error()))
    }

    fn get(&mut self, given: &Given) -> Result<String, Refusal> {
        let (key, at, metadata_only) = (Some(given.key()), given.at(), given.has("metadata_only"));
        let answer =
            self.runtime.block_on(self.node.reader.get(pb::GetRequest { key, at, metadata_only }))?;
        let answer = decoded::<pb::GetResponse>(&answer);
        Ok(format!("{} at {}", render::object(&answer.object.unwrap_or_default()), answer.revision))
    }

    fn list(&mut self, request: pb::ListRequest) -> Result<String, Refusal> {
        let answer = self.runtime.block_on(self.node.reader.list(request))?;
        let answer = decoded::<pb::ListResponse>(&answer);
        let mut text: String = answer.objects.iter().map(|it| render::object(it) + "\n").collect();
        text += &format!("at {}", answer.revision);
        if let Some(remaining) = answer.remaining {
            text += &format!(", {remaining} left");
        }
        if !answer.r#continue.is_empty() {
            text += ", more";
        }
        self.token = answer.r#continue;
        Ok(text)
    }

    fn history(&mut self, given: &Given) -> Result<String, Refusal> {
        let (limit, before) = (given.number("limit") as u32, given.number("before"));
        let request = pb::HistoryRequest { key: Some(given.key()), limit, before };
        let answer = self.runtime.block_on(self.node.reader.history(request))?;
        let answer = decoded::<pb::HistoryResponse>(&answer);
        let lines: String = answer.versions.iter().map(|it| render::version(it) + "\n").collect();
        Ok(format!("{lines}oldest {}{}", answer.oldest_kept, if answer.more { ", more" } else { "" }))
    }

    fn watch(&mut self, given: &Given) -> Result<String, Refusal> {
        let answers = self.runtime.block_on(self.node.reader.watch(given.watch()))?;
        self.watches.insert(given.word(0), Some(answers));
        Ok(String::new())
    }

    /// All that a watch sends without further writes or time.
    fn next(&mut self, name: &str) -> String {
        let watch = self.watches.get_mut(name).expect("an open watch");
        let mut text = String::new();
        while let Some(answers) = watch {
            // Virtual time moves only when nothing else can: then there is nothing to read.
            let next = async { tokio::time::timeout(Duration::from_millis(1), answers.next()).await };
            match self.runtime.block_on(next) {
                Ok(Some(answer)) => {
                    text += &(render::response(&decoded::<pb::WatchResponse>(&answer)) + "\n")
                }
                Ok(None) => {
                    text += "ended\n";
                    *watch = None;
                }
                Err(_) => break,
            }
        }
        text
    }
}

/// What an ordinary client reads.
pub fn decoded<M: Message + Default>(sent: &impl Message) -> M {
    M::decode(&sent.encode_to_vec()[..]).expect("what is sent can be read")
}

/// One test per script, and one that no script is forgotten.
macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        const LISTED: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() -> std::io::Result<()> {
                goldenscript::run(&mut Script::new(), concat!("tests/objects/scripts/", stringify!($name)))
            }
        )*
    };
}

scripts! {
    bookmarks,
    compaction,
    freshness,
    get,
    history,
    initial_state,
    list_by_selector,
    list_pages,
    refused_requests,
    revisions_stay_whole,
    selector_transitions,
    slow_watch,
    tokens,
    watch_from,
}

#[test]
fn every_script_is_run_and_opens_with_its_property() {
    for file in std::fs::read_dir("tests/objects/scripts").expect("the scripts") {
        let path = file.expect("a script").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        assert!(LISTED.contains(&name.as_str()), "{name} is not run");
        let text = std::fs::read_to_string(&path).expect("a script");
        let property: String = text.lines().take_while(|line| line.starts_with('#')).collect();
        assert!(property.ends_with('.'), "{name} does not open with its property");
    }
}
