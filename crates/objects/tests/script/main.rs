//! Golden scripts of what writes do to objects, one property each, in `tests/scripts`.
//!
//! A script lists commands, and behind `---` what they must answer. After a change of behaviour that is meant, run with
//! `UPDATE_GOLDENFILES=1` and read the difference.
//!
//! Every write happens a second after the one before. The kinds are in `kinds.rs`.

mod kinds;
mod print;

use std::collections::BTreeMap;
use std::error::Error;

use goldenscript::{Context as ScriptContext, Runner};
use serde_json::Value;
use setpoint_objects::deletion::{Dependent, Propagation, blockers};
use setpoint_objects::owners::VisibleOwner;
use setpoint_objects::patch::PatchKind;
use setpoint_objects::unknown::FieldValidation;
use setpoint_objects::write::{
    self, ApplyHow, Context, Delete, Fresh, Incoming, Kind, Outcome, Patch, Written, settle_key,
};
use setpoint_objects::{Metadata, Object, OwnerReference, Refusal, Subresource, Topology, metadata};

/// Kind, namespace, name.
type Key = (String, String, String);

struct Script {
    kinds: BTreeMap<String, (bool, Topology)>,
    objects: BTreeMap<Key, Object>,
    revision: u64,
    writes: u64,
}

impl Default for Script {
    fn default() -> Self {
        Self { kinds: kinds::all(), objects: BTreeMap::new(), revision: 0, writes: 0 }
    }
}

/// What a command says: the object, and words and options beside it.
#[derive(Default)]
struct Request {
    kind: String,
    metadata: Metadata,
    words: Vec<String>,
    options: BTreeMap<String, String>,
}

impl Request {
    fn option(&self, name: &str) -> &str {
        self.options.get(name).map_or("", String::as_str)
    }

    fn says(&self, word: &str) -> bool {
        self.words.iter().any(|it| it == word)
    }

    fn subresource(&self) -> Subresource {
        if self.says("status") { Subresource::Status } else { Subresource::Main }
    }

    fn revision(&self) -> u64 {
        self.option("revision").parse().unwrap_or_default()
    }

    fn validation(&self) -> FieldValidation {
        match () {
            () if self.says("warn") => FieldValidation::Warn,
            () if self.says("ignore") => FieldValidation::Ignore,
            () => FieldValidation::Strict,
        }
    }

    fn incoming(&self) -> Result<Incoming, Refusal> {
        let (spec, status) = (self.option("spec"), self.option("status"));
        Incoming::decode(&self.kind, self.metadata.clone(), spec.as_bytes(), status.as_bytes())
    }
}

impl Runner for Script {
    type Command = goldenscript::Command;

    fn run(&mut self, command: &goldenscript::Command, _: &ScriptContext) -> Result<String, Box<dyn Error>> {
        let request = read(command)?;
        match command.name.as_str() {
            "get" => Ok(self.objects.get(&self.key(&request)).map_or("none\n".to_owned(), print::object)),
            "blockers" => Ok(self.blockers(&request)),
            name => {
                self.writes += 1;
                Ok(match self.write(name, &request)? {
                    Ok(written) => self.commit(name, &written),
                    Err(refusal) => print::refusal(&refusal),
                })
            }
        }
    }
}

/// `VERB KIND/NAME WORD… OPTION=VALUE…`; without a kind it is a Workload.
fn read(command: &goldenscript::Command) -> Result<Request, Box<dyn Error>> {
    let mut request = Request::default();
    let mut words = Vec::new();
    for argument in &command.args {
        match argument {
            goldenscript::Argument::Positional(word) => words.push(word.clone()),
            goldenscript::Argument::KeyValue(key, value) => {
                drop(request.options.insert(key.clone(), value.clone()))
            }
            other => return Err(format!("unknown kind of argument: {other:?}").into()),
        }
    }
    if words.is_empty() {
        return Err("which object?".into());
    }
    let name = words.remove(0);
    let (kind, name) = name.split_once('/').unwrap_or(("Workload", &name));
    request.kind = kind.to_owned();
    request.words = words;
    if let Some(json) = request.options.get("metadata") {
        let json: Value = serde_json::from_str(json)?;
        request.metadata = metadata::from_json(&json).map_err(|problems| format!("{problems:?}"))?;
    }
    request.metadata.revision = request.revision();
    request.metadata.uid = request.option("uid").to_owned();
    match name.strip_suffix('*') {
        Some(prefix) => request.metadata.generate_name = prefix.to_owned(),
        None => request.metadata.name = name.to_owned(),
    }
    Ok(request)
}

impl Script {
    fn kind<'k>(&'k self, name: &'k str) -> Kind<'k> {
        let (namespaced, topology) = &self.kinds[name];
        Kind { name, namespaced: *namespaced, topology }
    }

    fn key(&self, request: &Request) -> Key {
        let mut metadata = request.metadata.clone();
        // A bad key finds nothing, and the write says what is wrong with it.
        drop(settle_key(&self.kind(&request.kind), &mut metadata, &self.suffix()));
        (request.kind.clone(), metadata.namespace, metadata.name)
    }

    fn suffix(&self) -> String {
        format!("x{}", self.writes)
    }

    fn owner(&self, namespace: &str, reference: &OwnerReference) -> Option<VisibleOwner> {
        let namespaced = self.kinds.get(&reference.kind)?.0;
        let namespace = if namespaced { namespace } else { "" };
        // What is in no namespace names owners of the default one, to show that it may not.
        let namespace = if namespaced && namespace.is_empty() { "default" } else { namespace };
        let key = (reference.kind.clone(), namespace.to_owned(), reference.name.clone());
        let owner = self.objects.get(&key)?;
        Some(VisibleOwner {
            uid: owner.metadata.uid.clone(),
            namespaced,
            owners: owner.metadata.owners.clone(),
        })
    }

    fn write(&self, name: &str, request: &Request) -> Result<Result<Written, Refusal>, String> {
        let kind = self.kind(&request.kind);
        let key = self.key(request);
        let stored = self.objects.get(&key);
        let (uid, suffix) = (format!("u{}", self.writes), self.suffix());
        let fresh = Fresh { uid: &uid, suffix: &suffix };
        let owners = |reference: &OwnerReference| self.owner(&key.1, reference);
        let context = Context {
            manager: request.option("by"),
            time_ms: self.writes * 1000,
            validation: request.validation(),
            owners: &owners,
        };
        let incoming = match request.incoming() {
            Ok(incoming) => incoming,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let draft = match name {
            "create" => write::create(&kind, stored, incoming, fresh, &context),
            "update" if request.says("status") => write::update_status(&kind, stored, incoming, &context),
            "update" => write::update(&kind, stored, incoming, &context),
            "apply" => {
                let how = ApplyHow { force: request.says("force"), subresource: request.subresource() };
                write::apply(&kind, stored, incoming, how, fresh, &context)
            }
            "merge" | "patch" => {
                let patch = Patch {
                    kind: if name == "merge" { PatchKind::Merge } else { PatchKind::Json },
                    patch: request.words.last().ok_or("what patch?")?.as_bytes(),
                    uid: request.option("uid"),
                    revision: request.revision(),
                    subresource: request.subresource(),
                };
                write::patch(&kind, stored, &request.metadata, &patch, &context)
            }
            "delete" => {
                let propagation = match () {
                    () if request.says("foreground") => Propagation::Foreground,
                    () if request.says("orphan") => Propagation::Orphan,
                    () => Propagation::Background,
                };
                let delete = Delete { uid: request.option("uid"), revision: request.revision(), propagation };
                let outcome = write::delete(&kind, stored, &request.metadata, &delete, &context);
                return Ok(outcome.map(|outcome| Written { outcome, warnings: vec![], taken: vec![] }));
            }
            other => return Err(format!("unknown command: {other}")),
        };
        Ok(draft.and_then(|mut draft| {
            if let Some(image) = request.options.get("policy_image") {
                draft
                    .mutate(&["images".to_owned()], |object| object.spec["image"] = image.as_str().into())?;
            }
            if let Some(spec) = request.options.get("policy_spec") {
                let spec: Value = serde_json::from_str(spec).expect("JSON");
                draft.mutate(&["specs".to_owned()], |object| object.spec = spec)?;
            }
            draft.finish()
        }))
    }

    fn commit(&mut self, name: &str, written: &Written) -> String {
        let object = written.outcome.object();
        let metadata = &object.metadata;
        let key = (object.kind.clone(), metadata.namespace.clone(), metadata.name.clone());
        let line = match &written.outcome {
            Outcome::Put(object) => {
                self.revision += 1;
                let mut object = object.clone();
                object.metadata.revision = self.revision;
                let line = format!("@{} {} g{}", self.revision, metadata.name, metadata.generation);
                self.objects.insert(key, object);
                line
            }
            Outcome::Gone(_) => {
                self.revision += 1;
                self.objects.remove(&key);
                format!("@{} {} gone", self.revision, metadata.name)
            }
            Outcome::Unchanged(_) => {
                assert_eq!(self.objects.get(&key), Some(object), "{name} says that it changes nothing");
                format!("@{} {} unchanged", metadata.revision, metadata.name)
            }
        };
        print::written(&line, written)
    }

    fn blockers(&self, request: &Request) -> String {
        let Some(object) = self.objects.get(&self.key(request)) else { return "none\n".to_owned() };
        let parts: Vec<Dependent> =
            self.objects.values().filter_map(|part| Dependent::of(object, part)).collect();
        print::blockers(&blockers(object, &parts))
    }
}

/// One test per script, and one that no script is forgotten.
macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        const LISTED: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() -> std::io::Result<()> {
                goldenscript::run(&mut Script::default(), concat!("tests/scripts/", stringify!($name)))
            }
        )*
    };
}

scripts! {
    apply_atomic,
    apply_conflict,
    apply_creates,
    apply_force,
    apply_hand_over,
    apply_list_maps,
    apply_metadata,
    apply_nothing,
    apply_refused,
    apply_removes,
    apply_sets,
    apply_shares,
    apply_status,
    conditions,
    create,
    defaults,
    delete_background,
    delete_finalizers,
    delete_foreground,
    delete_orphan,
    generate_name,
    generation,
    immutable_fields,
    managers_bounded,
    nothing_to_do,
    owners,
    patch_json,
    patch_merge,
    policies,
    replicas_fight,
    status_apart,
    unknown_fields,
    update_moves,
}

#[test]
fn every_script_is_run_and_opens_with_its_property() {
    for file in std::fs::read_dir("tests/scripts").expect("the scripts") {
        let path = file.expect("a script").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        assert!(LISTED.contains(&name.as_str()), "{name} is not run");
        let text = std::fs::read_to_string(&path).expect("a script");
        let property: String = text.lines().take_while(|line| line.starts_with('#')).collect();
        assert!(property.ends_with('.'), "{name} does not open with its property");
    }
}
