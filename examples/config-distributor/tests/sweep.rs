//! The distributor through every fault: whatever goes wrong, every namespace ends with what it should have, and nobody else's config is touched.

use config_distributor::kind::{Config, ConfigSpec};
use config_distributor::mark::{DISTRIBUTE, SOURCE};
use config_distributor::{NAME, run};
use serde_json::{Value, json};
use setpoint_client::{Client, DeleteOptions, Error, Patch, PatchOptions, Typed, WriteOptions};
use setpoint_testkit::{Limits, Moment, Scenario, State, sweep};
use setpoint_types::kinds::{KindDefinition, KindDefinitionSpec, Namespace, NamespaceSpec};

const HOME: &str = "base";
const NAMESPACES: [(&str, &str); 4] = [(HOME, "gold"), ("a", "gold"), ("b", "tin"), ("taken", "tin")];

async fn set_up(client: Client) -> Result<(), Error> {
    let once = WriteOptions::default();
    let definition = KindDefinitionSpec::of::<Config>();
    let definition = Typed::<KindDefinition>::new(definition.names.plural.clone(), definition);
    client.with_manager(NAME).api::<KindDefinition>().apply(&definition, true, &once).await?;
    for (name, tier) in NAMESPACES {
        client.api::<Namespace>().create(&namespace(name, tier), &once).await?;
    }
    let mine = config("taken", &[("mine", "yes")]);
    client.api::<Config>().namespace("taken").create(&mine, &once).await.map(drop)
}

fn namespace(name: &str, tier: &str) -> Typed<Namespace> {
    let mut namespace = Typed::<Namespace>::new(name, NamespaceSpec::default());
    namespace.metadata.labels.insert("tier".to_owned(), tier.to_owned());
    namespace
}

fn config(namespace: &str, data: &[(&str, &str)]) -> Typed<Config> {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let spec = ConfigSpec { data, namespaces: "tier=gold".to_owned() };
    Typed::<Config>::new("limits", spec).in_namespace(namespace)
}

async fn create_source(client: Client) -> Result<(), Error> {
    let mut source = config(HOME, &[("timeout", "30s")]);
    source.metadata.labels.insert(DISTRIBUTE.to_owned(), "true".to_owned());
    client.api::<Config>().namespace(HOME).create(&source, &WriteOptions::default()).await.map(drop)
}

async fn patch_config(client: Client, namespace: &str, patch: Value) -> Result<(), Error> {
    let api = client.with_manager("jane").api::<Config>().namespace(namespace);
    match api.patch("limits", &Patch::Merge(patch), &PatchOptions::default()).await {
        // Where steps follow each other without waiting, there may be no copy yet.
        Err(error) if error.is_not_found() => Ok(()),
        done => done.map(drop),
    }
}

async fn tier(client: Client, name: &str, tier: &str) -> Result<(), Error> {
    let patch = Patch::Merge(json!({"metadata": {"labels": {"tier": tier}}}));
    client.api::<Namespace>().patch(name, &patch, &PatchOptions::default()).await.map(drop)
}

fn is_gold(namespace: &Typed<Namespace>) -> bool {
    namespace.metadata.labels.get("tier").is_some_and(|tier| tier == "gold")
}

/// Every namespace has what it should have, and the source says so.
fn converged(state: &State) -> Result<(), String> {
    let source = state.one::<Config>(HOME, "limits");
    let asked = source.as_ref().is_some_and(|it| it.metadata.labels.contains_key(DISTRIBUTE));
    for namespace in state.all::<Namespace>() {
        let name = &namespace.metadata.name;
        let wanted = asked && name != HOME && is_gold(&namespace);
        let found = state.one::<Config>(name, "limits").filter(|_| name != HOME && name != "taken");
        let data = source.as_ref().map(|source| &source.spec.data);
        match (wanted && name != "taken", &found) {
            (true, Some(copy)) if Some(&copy.spec.data) == data => {}
            (false, None) => {}
            (wanted, found) => return Err(format!("{name}: wanted is {wanted}, found is {found:?}")),
        }
    }
    let Some(source) = source.filter(|_| asked) else { return Ok(()) };
    let status = source.status.unwrap_or_default();
    let taken = state.one::<Namespace>("", "taken").is_some_and(|it| is_gold(&it));
    let expected = if taken { "NameTaken" } else { "AllCopied" };
    let is_told = status
        .conditions
        .iter()
        .any(|it| it.reason == expected && it.observed_generation == source.metadata.generation);
    if is_told { Ok(()) } else { Err(format!("the source shows {:?}", status.conditions)) }
}

/// The controller writes copies and the status of sources, and nothing else.
fn touches_only_its_own(moment: &Moment) -> Result<(), String> {
    let by_controller = moment.changes.iter().filter(|it| it.author.principal == "user:controller");
    for change in by_controller.filter(|it| it.key.kind == "Config" && it.key.namespace != HOME) {
        let is_copy = |object: &setpoint_types::Object| object.metadata.labels.contains_key(SOURCE);
        let before = change.before.as_ref().is_none_or(|object| is_copy(object));
        let after = change.after.as_ref().is_none_or(|object| is_copy(object));
        if !before || !after {
            return Err(format!("{} is somebody else's", change.key));
        }
    }
    Ok(())
}

#[test]
fn every_namespace_ends_with_what_it_should_have() {
    let once = DeleteOptions::default;
    let scenario = Scenario::new(|client, stop| async move {
        run(client, HOME, stop.cancelled_owned()).await.expect("it runs until it is stopped");
    })
    .setup(set_up)
    .step("a source comes", create_source)
    .step("it changes", |client| patch_config(client, HOME, json!({"spec": {"data": {"timeout": "40s"}}})))
    .step("a copy is edited", |client| patch_config(client, "a", json!({"spec": {"data": {"more": "x"}}})))
    .step("a namespace is selected", |client| tier(client, "b", "gold"))
    .step("one whose name is taken, too", |client| tier(client, "taken", "gold"))
    .step("another no longer", |client| tier(client, "a", "tin"))
    .step("the label goes", |client| {
        patch_config(client, HOME, json!({"metadata": {"labels": {DISTRIBUTE: null}}}))
    })
    .step("and comes back", |client| {
        patch_config(client, HOME, json!({"metadata": {"labels": {DISTRIBUTE: "true"}}}))
    })
    .step("the source goes", move |client| async move {
        client.api::<Config>().namespace(HOME).delete("limits", &once()).await.map(drop)
    })
    .converged(converged)
    .invariant("only copies are touched", touches_only_its_own)
    // Nine steps make many places: the first writes and events of each sort are enough for a test that runs with every change.
    .limits(Limits { places_max: 8, drawn: 8, ..Limits::default() });
    sweep(&scenario);
}
