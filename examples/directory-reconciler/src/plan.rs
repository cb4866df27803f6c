//! What is to be done about a folder: pure, from its files, the inventory and what the cluster has.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Serialize;
use setpoint_client::Typed;
use setpoint_types::object::{ManagedFields, WriteOperation};
use setpoint_types::{Metadata, Object, ObjectKey, Timestamp};
use sha2::{Digest, Sha256};

use crate::LABEL;
use crate::folder::Files;
use crate::kind::{Applied, Directory, ITEMS_MAX, Item, Problem};
use crate::scopes::Scopes;

/// Everything the plan is made from.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The manager of what this controller applies.
    pub manager: String,
    pub directory: Typed<Directory>,
    pub files: Files,
    pub(crate) scopes: Scopes,
    /// Of the objects that carry this Directory's label, those of the kinds that are in the files or the inventory.
    pub seen: BTreeMap<ObjectKey, Metadata>,
    pub now: Timestamp,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The inventory before anything is applied: whatever will be there is in it. None if it says so already.
    pub record: Option<Vec<Item>>,
    /// What is to be applied, kinds and namespaces before what needs them.
    pub apply: Vec<Wanted>,
    /// What is to go, in the opposite order.
    pub prune: Vec<Item>,
    /// What stays as it is.
    pub keep: Vec<Item>,
    pub problems: Vec<Problem>,
}

/// An object that is to be as its manifest says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wanted {
    pub object: Object,
    pub item: Item,
    pub digest: String,
    /// Whether fields are taken from others.
    pub force: bool,
}

/// Decides.
pub fn plan(observed: &Observed) -> Plan {
    let inventory = inventory(observed);
    let Desired { mut objects, problems, broken } = desired(observed);
    let (mut apply, mut keep) = (Vec::new(), Vec::new());
    objects.sort_by_key(|(_, object)| rank(&object.kind));
    let wanted_keys: BTreeSet<ObjectKey> = objects.iter().map(|(_, object)| object.key()).collect();
    for (file, object) in objects {
        let (key, digest) = (object.key(), digest(&object));
        let applied = inventory.get(&key).map(|item| item.applied.clone()).unwrap_or_default();
        let ObjectKey { kind, namespace, name } = key.clone();
        let item = Item { kind, namespace, name, file, applied };
        let seen = observed.seen.get(&key);
        if seen.is_some_and(|seen| is_applied(&item.applied, &digest, seen, &object.metadata)) {
            keep.push(item);
        } else {
            let drifted = seen.is_some_and(|seen| is_ours_alone(&item.applied, seen, &observed.manager));
            let force = observed.directory.spec.force || drifted;
            apply.push(Wanted { object, item, digest, force });
        }
    }
    let gone =
        inventory.iter().filter(|(key, _)| !wanted_keys.contains(key)).map(|(_, item)| (*item).clone());
    // What was in a file that is not understood now is perhaps still in it.
    let (held, mut prune): (Vec<Item>, Vec<Item>) = gone.partition(|item| broken.contains(&item.file));
    keep.extend(held);
    prune.sort_by_key(|item| std::cmp::Reverse(rank(&item.kind)));
    let record = record(&inventory, &apply, &prune, &keep);
    Plan { record, apply, prune, keep, problems }
}

/// What was applied so far, by key.
fn inventory(observed: &Observed) -> BTreeMap<ObjectKey, &Item> {
    let items = observed.directory.status.iter().flat_map(|status| &status.inventory);
    items.map(|item| (item.key(), item)).collect()
}

/// What the files say.
struct Desired {
    /// With their files.
    objects: Vec<(String, Object)>,
    problems: Vec<Problem>,
    /// Files that say more, or other things, than is known.
    broken: BTreeSet<String>,
}

fn desired(observed: &Observed) -> Desired {
    let mut desired = Desired { objects: Vec::new(), problems: Vec::new(), broken: BTreeSet::new() };
    let mut from: BTreeMap<ObjectKey, &str> = BTreeMap::new();
    for (file, read) in &observed.files {
        let mut wrong = |message: String| {
            desired.broken.insert(file.clone());
            let reason = "BadFile".to_owned();
            desired.problems.push(Problem { reason, file: file.clone(), message });
        };
        let manifests = match read {
            Ok(manifests) => manifests,
            Err(problem) => {
                wrong(problem.clone());
                continue;
            }
        };
        for manifest in manifests {
            let Some(object) = completed(observed, manifest) else {
                wrong(format!("{}: there is no such kind", manifest.key()));
                continue;
            };
            match from.insert(object.key(), file) {
                Some(other) => wrong(format!("{} is in {other}, too", object.key())),
                None if desired.objects.len() == ITEMS_MAX => {
                    wrong(format!("{} is one too many: {ITEMS_MAX} objects fit", object.key()));
                }
                None => desired.objects.push((file.clone(), object)),
            }
        }
    }
    desired
}

/// With its namespace and our label; none if nobody knows its kind.
fn completed(observed: &Observed, manifest: &Object) -> Option<Object> {
    let mut object = manifest.clone();
    let metadata = &mut object.metadata;
    match observed.scopes.is_namespaced(&object.kind)? {
        true if metadata.namespace.is_empty() => metadata.namespace = "default".to_owned(),
        true => {}
        false => metadata.namespace.clear(),
    }
    metadata.labels.insert(LABEL.to_owned(), observed.directory.metadata.name.clone());
    Some(object)
}

/// What others need comes first.
fn rank(kind: &str) -> u8 {
    match kind {
        "Namespace" => 0,
        "KindDefinition" => 1,
        _ => 2,
    }
}

/// Whether what was applied last is what is wanted, and is still so. A changed spec has another generation; labels and annotations have
/// none, and are compared.
fn is_applied(applied: &Applied, digest: &str, seen: &Metadata, wanted: &Metadata) -> bool {
    let has = |seen: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>| {
        wanted.iter().all(|(key, value)| seen.get(key) == Some(value))
    };
    applied.digest == digest
        && applied.uid == seen.uid
        && applied.generation == seen.generation
        && has(&seen.labels, &wanted.labels)
        && has(&seen.annotations, &wanted.annotations)
}

/// Whether this controller has applied the object before, and nobody else applies it. What an update or a patch has changed of it is then
/// drift, and undone. What another manager applies is a decision, and a conflict.
fn is_ours_alone(applied: &Applied, seen: &Metadata, manager: &str) -> bool {
    let applies = |entry: &ManagedFields| {
        entry.operation == WriteOperation::Apply && entry.subresource.is_empty() && entry.manager != manager
    };
    applied.uid == seen.uid && !seen.managed_fields.iter().any(applies)
}

/// Of the manifest as it is applied. JSON objects are ordered, so that the same manifest has the same.
fn digest(object: &Object) -> String {
    let text = serde_json::to_vec(object).expect("an object is always JSON");
    Sha256::digest(text).iter().take(16).fold(String::new(), |mut hex, byte| {
        // Writing to a string does not fail.
        write!(hex, "{byte:02x}").ok();
        hex
    })
}

/// The inventory with everything that is about to be applied, if that is not in it yet.
fn record(
    inventory: &BTreeMap<ObjectKey, &Item>,
    apply: &[Wanted],
    prune: &[Item],
    keep: &[Item],
) -> Option<Vec<Item>> {
    let is_new = |wanted: &&Wanted| !inventory.contains_key(&wanted.item.key());
    apply.iter().find(is_new)?;
    let all = apply.iter().map(|wanted| &wanted.item).chain(prune).chain(keep);
    Some(sorted(all.cloned().collect()))
}

/// By key, so that the same inventory is the same list.
pub(crate) fn sorted(mut items: Vec<Item>) -> Vec<Item> {
    items.sort_by_key(Item::key);
    items
}

#[cfg(test)]
mod tests {
    use setpoint_types::{Generation, Uid};

    use super::*;
    use crate::kind::{DirectorySpec, DirectoryStatus};
    use crate::manifest::{Format, parse};

    const CONFIG: &str = "kind: Quota\nmetadata: {name: q, namespace: a}\nspec: {x: 1}\n";
    const BOTH: &str =
        "kind: Quota\nmetadata: {name: q, namespace: a}\n---\nkind: Namespace\nmetadata: {name: a}\n";

    /// Files as they are read; `!` is one that cannot be.
    fn files(files: &[(&str, &str)]) -> Files {
        let read = |text: &str| match text {
            "!" => Err("it is broken".to_owned()),
            text => Ok(parse(Format::Yaml, text).unwrap()),
        };
        files.iter().map(|(name, text)| ((*name).to_owned(), read(text))).collect()
    }

    fn observed(inventory: Vec<Item>, read: Files) -> Observed {
        let mut directory = Typed::<Directory>::new("main", DirectorySpec::default());
        directory.status = Some(DirectoryStatus { inventory, ..DirectoryStatus::default() });
        let mut scopes = Scopes::default();
        read.values().flatten().flatten().for_each(|manifest| scopes.add_manifest(manifest));
        let manager = "directory-main".to_owned();
        Observed { manager, directory, files: read, scopes, seen: BTreeMap::new(), now: Timestamp(9) }
    }

    /// As it is after everything in the files was applied.
    fn settled(read: Files) -> Observed {
        let mut observed = observed(Vec::new(), read);
        let mut inventory = Vec::new();
        for Wanted { object, mut item, digest, .. } in plan(&observed).apply {
            let uid = Uid::new(format!("uid of {}", object.key()));
            item.applied = Applied { uid: uid.clone(), generation: Generation(1), digest };
            inventory.push(item);
            let seen = Metadata { uid, generation: Generation(1), ..object.metadata.clone() };
            observed.seen.insert(object.key(), seen);
        }
        observed.directory.status = Some(DirectoryStatus { inventory, ..DirectoryStatus::default() });
        observed
    }

    /// `record; apply Namespace a, Quota a/q; prune …; keep 3; BadFile b.yaml`
    fn told(plan: &Plan) -> String {
        let mut told: Vec<String> = plan.record.iter().map(|_| "record".to_owned()).collect();
        let mut tell = |what: &str, keys: Vec<String>| {
            if !keys.is_empty() {
                told.push(format!("{what} {}", keys.join(", ")));
            }
        };
        tell("apply", plan.apply.iter().map(|wanted| wanted.item.key().to_string()).collect());
        tell("prune", plan.prune.iter().map(|item| item.key().to_string()).collect());
        tell("keep", plan.keep.iter().map(|item| item.key().to_string()).collect());
        tell("BadFile", plan.problems.iter().map(|problem| problem.file.clone()).collect());
        told.join("; ")
    }

    fn check(what: &str, observed: &Observed, expected: &str) {
        assert_eq!(told(&plan(observed)), expected, "{what}");
    }

    #[test]
    fn files_are_applied_in_order_and_recorded_before() {
        check("new", &observed(vec![], files(&[("a.yaml", BOTH)])), "record; apply Namespace a, Quota a/q");
        let definition = "kind: Thing\nmetadata: {name: t}\n---\nkind: KindDefinition\nmetadata: {name: things}\n\
                          spec: {names: {kind: Thing, plural: things}, schema: {}}\n";
        let own_kind = observed(vec![], files(&[("a.yaml", definition)]));
        check(
            "a kind of the folder's own",
            &own_kind,
            "record; apply KindDefinition things, Thing default/t",
        );
        let unknown =
            observed(vec![], files(&[("a.yaml", "kind: Thing\nmetadata: {name: t}\n"), ("b.yaml", CONFIG)]));
        check("a kind that nobody knows", &unknown, "record; apply Quota a/q; BadFile a.yaml");
        let twice = observed(vec![], files(&[("a.yaml", CONFIG), ("b.yaml", CONFIG)]));
        check("the same twice", &twice, "record; apply Quota a/q; BadFile b.yaml");
    }

    #[test]
    fn what_is_as_it_should_be_is_left_alone_and_drift_is_not() {
        let good = settled(files(&[("a.yaml", BOTH)]));
        check("all is well", &good, "keep Namespace a, Quota a/q");
        let key = ObjectKey::new("Quota", "a", "q");
        let drift = |what: &str, change: &dyn Fn(&mut Metadata)| {
            let mut drifted = good.clone();
            change(drifted.seen.get_mut(&key).expect("it was seen"));
            check(what, &drifted, "apply Quota a/q; keep Namespace a");
        };
        drift("its spec was changed", &|seen| seen.generation = Generation(2));
        drift("it was made anew", &|seen| seen.uid = Uid::new("other"));
        drift("its label was changed", &|seen| drop(seen.labels.insert(LABEL.into(), "x".into())));
        let mut gone = good.clone();
        gone.seen.remove(&key);
        check("it is gone", &gone, "apply Quota a/q; keep Namespace a");
        let mut edited = good.clone();
        edited.files = files(&[("a.yaml", &BOTH.replace("name: q,", "labels: {x: y}, name: q,"))]);
        check("the file was edited", &edited, "apply Quota a/q; keep Namespace a");
    }

    #[test]
    fn an_edit_is_undone_and_a_decision_of_another_manager_is_not() {
        let mut drifted = settled(files(&[("a.yaml", CONFIG)]));
        let key = ObjectKey::new("Quota", "a", "q");
        let forced = |observed: &Observed| plan(observed).apply.iter().map(|it| it.force).collect::<Vec<_>>();
        let seen = drifted.seen.get_mut(&key).expect("it was seen");
        seen.generation = Generation(2);
        let by = |manager: &str, operation| ManagedFields {
            manager: manager.to_owned(),
            operation,
            ..ManagedFields::default()
        };
        seen.managed_fields =
            vec![by("directory-main", WriteOperation::Apply), by("jane", WriteOperation::Update)];
        assert_eq!(forced(&drifted), [true]);
        let mut applied = drifted.clone();
        let seen = applied.seen.get_mut(&key).expect("it was seen");
        seen.managed_fields.push(by("autoscaler", WriteOperation::Apply));
        assert_eq!(forced(&applied), [false]);
        applied.directory.spec.force = true;
        assert_eq!(forced(&applied), [true]);
        drifted.directory.status = None;
        assert_eq!(forced(&drifted), [false], "never applied by this controller");
    }

    #[test]
    fn only_what_no_file_says_any_more_is_pruned() {
        let good = settled(files(&[("a.yaml", BOTH), ("b.yaml", "kind: Quota\nmetadata: {name: r}\n")]));
        let now = |read: &[(&str, &str)]| Observed { files: files(read), ..good.clone() };
        check("all files went", &now(&[]), "prune Quota a/q, Quota default/r, Namespace a");
        check(
            "one file went",
            &now(&[("a.yaml", BOTH)]),
            "prune Quota default/r; keep Namespace a, Quota a/q",
        );
        check(
            "a file broke",
            &now(&[("a.yaml", "!")]),
            "prune Quota default/r; keep Namespace a, Quota a/q; BadFile a.yaml",
        );
        check(
            "an object moved to another file",
            &now(&[("c.yaml", BOTH), ("b.yaml", "kind: Quota\nmetadata: {name: r}\n")]),
            "keep Namespace a, Quota default/r, Quota a/q",
        );
    }
}
