//! The mirror through every fault: whatever goes wrong, the cluster ends as the files say, and only what came from them is pruned.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use directory_reconciler::kind::Directory;
use directory_reconciler::{LABEL, Settings, run};
use serde_json::json;
use setpoint_client::{Client, DeleteOptions, Error, Patch, PatchOptions, Scope, WriteOptions};
use setpoint_testkit::{Limits, Moment, Scenario, State, sweep};
use setpoint_types::Object;

const KIND: &str = r"
kind: KindDefinition
metadata: {name: widgets}
spec:
  names: {kind: Widget, plural: widgets}
  schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}
";

/// What the scenario has done to the folder, and what should come of it.
struct Author {
    folder: tempfile::TempDir,
    wanted: Mutex<Wanted>,
}

#[derive(Clone, Default)]
struct Wanted {
    /// The sizes of all widgets.
    widgets: BTreeMap<String, u64>,
    /// What the Directory shows.
    ready: &'static str,
}

impl Author {
    fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.path().join(file), text).expect("the folder can be written");
    }

    fn widget(&self, file: &str, name: &str, size: u64) {
        self.write(
            file,
            &format!("kind: Widget\nmetadata: {{name: {name}, namespace: team}}\nspec: {{size: {size}}}\n"),
        );
    }

    fn remove(&self, file: &str) {
        fs::remove_file(self.folder.path().join(file)).expect("the file was there");
    }

    fn want(&self, widgets: &[(&str, u64)], ready: &'static str) {
        let widgets = widgets.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect();
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = Wanted { widgets, ready };
    }

    fn begin(&self) {
        for entry in fs::read_dir(self.folder.path()).expect("the folder is there") {
            fs::remove_file(entry.expect("an entry").path()).expect("a file");
        }
        // Named so that what others need comes last: the order is not that of the files.
        self.write("z-kind.yaml", KIND);
        self.write("y-team.json", r#"{"kind": "Namespace", "metadata": {"name": "team"}}"#);
        self.widget("a.yaml", "a", 1);
        self.want(&[("a", 1)], "Applied");
    }

    fn converged(&self, state: &State) -> Result<(), String> {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let size = |it: &Object| (it.metadata.name.clone(), it.spec["size"].as_u64().unwrap_or_default());
        let widgets: BTreeMap<String, u64> = state.of_kind("Widget").map(size).collect();
        if widgets != wanted.widgets {
            return Err(format!("widgets are {widgets:?}, not {:?}", wanted.widgets));
        }
        let Some(directory) = state.one::<Directory>("", "main") else { return Err("no Directory".into()) };
        let status = directory.status.unwrap_or_default();
        let is_told = status.conditions.iter().any(|it| it.kind == "Ready" && it.reason == wanted.ready);
        if is_told { Ok(()) } else { Err(format!("it shows {:?}", status.conditions)) }
    }
}

async fn patch(client: Client, name: &str, size: u64) -> Result<(), Error> {
    let api = client.with_manager("jane").dynamic("Widget", Scope::namespace("team"));
    let patch = Patch::Merge(json!({"spec": {"size": size}}));
    match api.patch(name, &patch, &PatchOptions::default()).await {
        // Where steps follow each other without waiting, it may not be there.
        Err(error) if error.is_not_found() => Ok(()),
        done => done.map(drop),
    }
}

async fn delete(client: Client, name: &str) -> Result<(), Error> {
    let api = client.dynamic("Widget", Scope::namespace("team"));
    match api.delete(name, &DeleteOptions::default()).await {
        Err(error) if error.is_not_found() => Ok(()),
        done => done.map(drop),
    }
}

async fn apply_as_jane(client: Client, name: &str, size: u64) -> Result<(), Error> {
    let widget = Object::new("Widget", "team", name).with_spec(&json!({"size": size}));
    let api = client.with_manager("jane").dynamic("Widget", Scope::namespace("team"));
    api.apply(&widget, false, &WriteOptions::default()).await.map(drop)
}

async fn force(client: Client) -> Result<(), Error> {
    let patch = Patch::Merge(json!({"spec": {"force": true}}));
    client.api::<Directory>().patch("main", &patch, &PatchOptions::default()).await.map(drop)
}

/// Whatever the controller deletes came from the folder, and was in the inventory until it was gone.
fn prunes_only_its_own(moment: &Moment) -> Result<(), String> {
    let deleted = moment.changes.iter().filter(|it| it.after.is_none() && it.key.kind == "Widget");
    for change in deleted.filter(|it| it.author.principal == "user:controller") {
        let was_ours = change.before.as_ref().is_some_and(|it| it.metadata.labels.contains_key(LABEL));
        let directory = moment.state.one::<Directory>("", "main").and_then(|it| it.status);
        let listed = directory.is_some_and(|it| it.inventory.iter().any(|item| item.key() == change.key));
        if !was_ours || !listed {
            return Err(format!("{} was pruned: ours {was_ours}, listed {listed}", change.key));
        }
    }
    Ok(())
}

/// What carries the label is in the inventory: no crash loses sight of an object.
fn nothing_is_lost_sight_of(moment: &Moment) -> Result<(), String> {
    let status = moment.state.one::<Directory>("", "main").and_then(|it| it.status).unwrap_or_default();
    let is_listed = |it: &Object| status.inventory.iter().any(|item| item.key() == it.key());
    let lost = moment.state.iter().find(|it| it.metadata.labels.contains_key(LABEL) && !is_listed(it));
    lost.map_or(Ok(()), |it| Err(format!("{} is not in the inventory", it.key())))
}

fn settings(folder: &Path) -> Settings {
    Settings { name: "main".to_owned(), folder: folder.to_owned(), poll: Duration::from_secs(10) }
}

#[test]
fn the_cluster_ends_as_the_files_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let author = Arc::new(Author { folder, wanted: Mutex::default() });
    let step = |deed: fn(&Author)| {
        let author = author.clone();
        move || deed(&author)
    };
    let begin = step(Author::begin);
    let edit = step(|it| (it.widget("a.yaml", "a", 2), it.want(&[("a", 2)], "Applied")).1);
    let more = step(|it| {
        it.write("broken.yaml", "kind: [");
        it.widget("b.yaml", "b", 1);
        it.want(&[("a", 2), ("b", 1)], "BadFile");
    });
    let conflict = step(|it| {
        it.remove("broken.yaml");
        it.widget("c.yaml", "c", 6);
        it.want(&[("a", 2), ("b", 1), ("c", 5)], "Conflict");
    });
    let forced = step(|it| it.want(&[("a", 2), ("b", 1), ("c", 6)], "Applied"));
    let fewer = step(|it| (it.remove("a.yaml"), it.want(&[("b", 1), ("c", 6)], "Applied")).1);
    let program = author.clone();
    let scenario = Scenario::new(move |client, stop| {
        let settings = settings(program.folder.path());
        async move {
            run(client, settings, stop.cancelled_owned()).await.expect("it runs until it is stopped");
        }
    })
    .setup(move |_| {
        begin();
        async { Ok(()) }
    })
    .step("a file is edited", move |_| {
        edit();
        async { Ok(()) }
    })
    .step("an object is edited", |client| patch(client, "a", 9))
    .step("an object is deleted", |client| delete(client, "a"))
    .step("a broken file comes, and a good one", move |_| {
        more();
        async { Ok(()) }
    })
    .step("a file contradicts somebody else", move |client| {
        let conflict = conflict.clone();
        async move {
            apply_as_jane(client, "c", 5).await?;
            conflict();
            Ok(())
        }
    })
    .step("and wins", move |client| {
        forced();
        force(client)
    })
    .step("a file goes", move |_| {
        fewer();
        async { Ok(()) }
    })
    .converged({
        let author = author.clone();
        move |state| author.converged(state)
    })
    .invariant("only what came from the folder is pruned", prunes_only_its_own)
    .invariant("nothing is lost sight of", nothing_is_lost_sight_of)
    // It looks every ten seconds, whatever happens, which makes its runs long: the first places, where things begin, tell the most.
    .limits(Limits { places_max: 8, drawn: 8, ..Limits::default() });
    sweep(&scenario);
}
