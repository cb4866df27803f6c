//! What all lessons play with: a Pool wants so many Parts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use setpoint_client::{Client, DeleteOptions, Error, ListOptions, Patch, Typed, WriteOptions};
use setpoint_testkit::{Limits, Moment, Problem, Scenario, State, replay};
use setpoint_types::kinds::{KindDefinition, KindDefinitionSpec};
use setpoint_types::object::Condition;
use setpoint_types::{Column, KindInfo, KindType};
use tokio_util::sync::CancellationToken;

/// Slots above this are refused by the server.
pub const SLOT_MAX: u32 = 9;

pub enum Pool {}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolSpec {
    pub size: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolStatus {
    #[serde(default)]
    pub ready: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

pub enum Part {}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartSpec {
    pub pool: String,
    #[schemars(range(max = 9))]
    pub slot: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PartStatus {
    /// When its agent last said that it is well.
    #[serde(default)]
    pub beat_ms: u64,
}

const fn info(name: &'static str, plural: &'static str, singular: &'static str) -> KindInfo {
    KindInfo {
        name,
        plural,
        singular,
        short_names: &[],
        namespaced: true,
        columns: &[Column::AGE],
        selectable_fields: &[],
    }
}

impl KindType for Pool {
    const INFO: KindInfo = info("Pool", "pools", "pool");
    type Spec = PoolSpec;
    type Status = PoolStatus;
}

impl KindType for Part {
    const INFO: KindInfo = info("Part", "parts", "part");
    type Spec = PartSpec;
    type Status = PartStatus;
}

pub fn part(name: impl Into<String>, pool: &Typed<Pool>, slot: u32) -> Typed<Part> {
    let mut part = Typed::new(name, PartSpec { pool: pool.metadata.name.clone(), slot });
    part.metadata.owners.push(pool.as_controller());
    part
}

pub async fn define(client: Client) -> Result<(), Error> {
    let definitions = client.api::<KindDefinition>();
    for (name, spec) in
        [("pools", KindDefinitionSpec::of::<Pool>()), ("parts", KindDefinitionSpec::of::<Part>())]
    {
        definitions.create(&Typed::new(name, spec), &WriteOptions::default()).await?;
    }
    Ok(())
}

pub async fn make(client: Client, name: &str, size: u32) -> Result<(), Error> {
    client
        .api::<Pool>()
        .create(&Typed::new(name, PoolSpec { size }), &WriteOptions::default())
        .await
        .map(drop)
}

pub async fn resize(client: Client, name: &str, size: u32) -> Result<(), Error> {
    let patch = Patch::Merge(serde_json::json!({"spec": {"size": size}}));
    client.api::<Pool>().patch(name, &patch, &Default::default()).await.map(drop)
}

pub async fn delete(client: Client, name: &str) -> Result<(), Error> {
    client.api::<Pool>().delete(name, &DeleteOptions::default()).await.map(drop)
}

/// All pools with their parts, as the server has them.
pub async fn look(client: &Client) -> Result<Vec<(Typed<Pool>, Vec<Typed<Part>>)>, Error> {
    let (pools, _) = client.api::<Pool>().list_all(&ListOptions::default()).await?;
    let (parts, _) = client.api::<Part>().list_all(&ListOptions::default()).await?;
    let of = |pool: &Typed<Pool>| {
        parts.iter().filter(|part| part.spec.pool == pool.metadata.name).cloned().collect()
    };
    Ok(pools.into_iter().map(|pool| (pool.clone(), of(&pool))).collect())
}

/// Every pool has as many parts as it wants and says so, and there are no others.
pub fn as_wanted(state: &State) -> Result<(), String> {
    let (pools, parts) = (state.all::<Pool>(), state.all::<Part>());
    for pool in &pools {
        let name = &pool.metadata.name;
        let found = parts.iter().filter(|part| part.spec.pool == *name).count() as u32;
        if found != pool.spec.size {
            return Err(format!("{name} has {found} parts, and wants {}", pool.spec.size));
        }
        let said = pool.status.as_ref().map_or(0, |status| status.ready);
        if said != found {
            return Err(format!("{name} says that {said} are ready, not {found}"));
        }
    }
    let lost = parts.iter().find(|part| !pools.iter().any(|pool| pool.metadata.name == part.spec.pool));
    lost.map_or(Ok(()), |part| Err(format!("{} is nobody's", part.metadata.name)))
}

/// No slot of a pool has two parts at a time.
pub fn one_part_a_slot(moment: &Moment) -> Result<(), String> {
    let mut slots: Vec<(String, u32)> =
        moment.state.all::<Part>().into_iter().map(|part| (part.spec.pool, part.spec.slot)).collect();
    slots.sort();
    let double = slots.windows(2).find(|pair| pair[0] == pair[1]);
    double.map_or(Ok(()), |pair| Err(format!("slot {} of {} has two parts", pair[0].1, pair[0].0)))
}

/// A pool that grows and shrinks.
pub fn scenario<F, Run>(program: F) -> Scenario
where
    F: Fn(Client, CancellationToken) -> Run + Send + Sync + 'static,
    Run: Future<Output = ()> + Send + 'static,
{
    Scenario::new(program)
        .setup(define)
        .setup(|client| async move { make(client, "web", 2).await })
        .step("grow", |client| async move { resize(client, "web", 4).await })
        .step("shrink", |client| async move { resize(client, "web", 1).await })
        .converged(as_wanted)
        .invariant("one part a slot", one_part_a_slot)
        .limits(Limits { quiet: std::time::Duration::from_secs(300), ..Limits::default() })
}

/// What a plan shows to be wrong.
pub fn wrong(scenario: &Scenario, plan: &str) -> Option<Problem> {
    replay(scenario, plan).problem
}

/// The weak variant fails by a plan that ours survives.
pub fn check(plan: &str, weak: &Scenario, ours: &Scenario) {
    let caught = wrong(weak, plan);
    assert!(caught.is_some(), "the weak variant survived {plan}");
    let outcome = replay(ours, plan);
    let tale = outcome.tale();
    assert_eq!(outcome.problem, None, "ours did not survive {plan}; the weak one: {caught:?}\n{tale}");
}

/// The same, for a weak variant that is right as long as nothing goes wrong.
pub fn check_only_by_fault(plan: &str, weak: &Scenario, ours: &Scenario) {
    assert_eq!(wrong(weak, "no faults"), None, "the weak variant has yet another weakness");
    check(plan, weak, ours);
}
