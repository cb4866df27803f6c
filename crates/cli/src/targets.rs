//! Which objects a command is about: `KIND NAME…`, `KIND/NAME…`, `KIND,KIND`, with selectors.

use std::sync::Arc;

use clap::Args;
use setpoint_client::{Api, Client, Dynamic, Error, ListOptions, Partial, ReadAt, Scope};
use setpoint_types::object::Object;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::kinds::{KindEntry, Kinds};
use crate::near;

/// Among which objects.
#[derive(Args, Clone, Debug, Default)]
pub struct Selection {
    /// In all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Only objects with these labels: `app=web,tier in (a,b),!legacy`
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    pub selector: String,
    /// Only objects with these fields: `status.node=a1`. `setpoint explain KIND` says which there are
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    pub field_selector: String,
}

impl Selection {
    pub fn is_everything(&self) -> bool {
        self.selector.is_empty() && self.field_selector.is_empty()
    }

    pub fn scope(&self, client: &Client) -> Scope {
        if self.all_namespaces { Scope::AllNamespaces } else { client.home() }
    }

    pub fn list(&self, at: ReadAt) -> ListOptions {
        ListOptions { labels: self.selector.clone(), fields: self.field_selector.clone(), at, page: 500 }
    }
}

/// A kind, and one of its objects or all of them.
#[derive(Clone, Debug)]
pub struct Target {
    pub kind: Arc<KindEntry>,
    /// None: all that are selected.
    pub name: Option<String>,
}

impl Target {
    /// `workload/web`
    pub fn label(&self) -> String {
        format!("{}/{}", self.kind.singular, self.name.as_deref().unwrap_or("*"))
    }

    pub fn api(&self, client: &Client, namespace: &Scope) -> Api<Dynamic> {
        client.dynamic(&self.kind.name, self.kind.scope(namespace))
    }
}

/// `workload/web`, as results call an object.
pub fn label(kind: &KindEntry, object: &Object) -> String {
    format!("{}/{}", kind.singular, object.metadata.name)
}

/// The words of kubectl's users for what makes up an application.
const ALL: &str = "all";
const ALL_KINDS: [&str; 3] = ["workloads", "replicasets", "replicas"];

/// What the words of a command line mean. No words are no targets.
pub async fn parse(words: &[String], kinds: &mut Kinds) -> Result<Vec<Target>, Failure> {
    let Some(first) = words.first() else { return Ok(Vec::new()) };
    if words.iter().any(|word| word.contains('/')) {
        return pairs(words, kinds).await;
    }
    let mut targets = Vec::new();
    for word in first.split(',').filter(|word| !word.is_empty()) {
        let expanded = if word == ALL { &ALL_KINDS[..] } else { &[word][..] };
        for word in expanded {
            let kind = kinds.find(word).await?;
            match &words[1..] {
                [] => targets.push(Target { kind, name: None }),
                names => targets
                    .extend(names.iter().map(|name| Target { kind: kind.clone(), name: Some(name.clone()) })),
            }
        }
    }
    Ok(targets)
}

async fn pairs(words: &[String], kinds: &mut Kinds) -> Result<Vec<Target>, Failure> {
    let mut targets = Vec::new();
    for word in words {
        let pair = word.split_once('/').filter(|(kind, name)| !kind.is_empty() && !name.is_empty());
        let Some((kind, name)) = pair.filter(|(_, name)| !name.contains('/')) else {
            let text =
                format!("{word:?} is not KIND/NAME; write all objects as KIND/NAME, or KIND and then names");
            return Err(Failure::usage(text));
        };
        targets.push(Target { kind: kinds.find(kind).await?, name: Some(name.to_owned()) });
    }
    Ok(targets)
}

/// The targets of a command that is about single objects.
pub async fn parse_named(words: &[String], kinds: &mut Kinds) -> Result<Vec<Target>, Failure> {
    let targets = parse(words, kinds).await?;
    match targets.iter().find(|target| target.name.is_none()) {
        Some(target) => {
            let kind = &target.kind.singular;
            Err(Failure::usage(format!("which {kind}? Name it: `{kind} NAME` or `{kind}/NAME`")))
        }
        None if targets.is_empty() => Err(Failure::usage("name an object: `KIND NAME` or `KIND/NAME`")),
        None => Ok(targets),
    }
}

/// The one object that a command is about.
pub async fn parse_one(words: &[String], kinds: &mut Kinds) -> Result<Target, Failure> {
    let mut targets = parse_named(words, kinds).await?;
    match targets.len() {
        1 => Ok(targets.remove(0)),
        _ => Err(Failure::usage("name one object: `KIND NAME` or `KIND/NAME`")),
    }
}

/// What is said of an object that is not there, with the name that may have been meant.
pub async fn missing(error: Error, target: &Target, client: &Client, scope: &Scope) -> Failure {
    let name = target.name.as_deref().unwrap_or_default();
    let options = ListOptions { page: 500, ..ListOptions::default() };
    let known =
        client.shaped::<Partial<()>>(&target.kind.name, target.kind.scope(scope)).list(&options).await;
    // Who may not list is told only that it is not there.
    let names: Vec<String> =
        known.map(|page| page.objects.into_iter().map(|it| it.name).collect()).unwrap_or_default();
    // It is there now, and was asked for as it was at another time.
    let hint = match names.iter().any(|it| it == name) {
        true => " at that time".to_owned(),
        false => near::hint(name, names.iter().map(String::as_str)),
    };
    Failure::new(Exit::NotFound, format!("{}{hint}", Failure::from(error)))
}

/// The objects that are meant: those with names, and all that are selected. In the order of the targets.
pub async fn resolve(
    targets: &[Target],
    selection: &Selection,
    client: &Client,
) -> Result<Vec<(Arc<KindEntry>, Object)>, Failure> {
    let mut found = Vec::new();
    for target in targets {
        let api = target.api(client, &selection.scope(client));
        match &target.name {
            Some(name) => match api.get(name).await {
                Ok(object) => found.push((target.kind.clone(), object)),
                Err(error) if error.is_not_found() => {
                    return Err(missing(error, target, client, &selection.scope(client)).await);
                }
                Err(error) => return Err(error.into()),
            },
            None => {
                let (objects, _) = api.list_all(&selection.list(ReadAt::Latest)).await?;
                found.extend(objects.into_iter().map(|object| (target.kind.clone(), object)));
            }
        }
    }
    Ok(found)
}
