//! The quota controller through every fault: what a quota shows is what its ledgers say, and a leak is named.

use setpoint_client::{Client, Error, Typed, WriteOptions};
use setpoint_controllers::quota::NAME;
use setpoint_controllers::settings::Settings;
use setpoint_testkit::{Limits, Scenario, State, sweep};
use setpoint_types::Uid;
use setpoint_types::kinds::{Binding, BindingSpec, Quota, QuotaSpec, Reservation, ZoneLimits};
use setpoint_types::quantity::Amounts;

use crate::stage::{condition, run};

fn cpu(amount: i64) -> Amounts {
    [("cpu".to_owned(), amount)].into_iter().collect()
}

/// The ledgers with their limits, as the server keeps them in step with the quota.
async fn set_up(client: Client) -> Result<(), Error> {
    let zones = vec![ZoneLimits { zone: "a".to_owned(), limits: cpu(500) }];
    let quota = Typed::<Quota>::new("team", QuotaSpec { limits: cpu(1_000), zones });
    client.api::<Quota>().create(&quota, &WriteOptions::default()).await?;
    let transaction = client.transaction().limits("quota/default/team", &cpu(1_000));
    transaction.limits("quota/default/team/a", &cpu(500)).commit(&WriteOptions::default()).await.map(drop)
}

/// A binding with its reservations, as Bind makes it; or the reservation alone, as no bind should.
async fn reserve(client: Client, name: &str, amount: i64, with_binding: bool) -> Result<(), Error> {
    let ledgers = ["quota/default/team", "quota/default/team/a"];
    let reservation = |ledger: &str| Reservation { ledger: ledger.to_owned(), amounts: cpu(amount) };
    let spec = BindingSpec {
        replica: name.to_owned(),
        replica_uid: Uid::new(name),
        node: "a1".to_owned(),
        node_uid: Uid::new("a1"),
        reservations: ledgers.map(reservation).to_vec(),
        ..BindingSpec::default()
    };
    let mut transaction = client.transaction();
    for ledger in ledgers {
        transaction = transaction.reserve(ledger, format!("default/{name}"), &cpu(amount));
    }
    if with_binding {
        transaction = transaction.create::<Binding>(&Typed::new(name, spec).in_namespace("default"));
    }
    transaction.commit(&WriteOptions::default()).await.map(drop)
}

/// What is shown is the sum of the bindings, and of what was leaked, which is named.
fn converged(state: &State, leaked: i64) -> Result<(), String> {
    let quota = state.one::<Quota>("default", "team").ok_or("there is no quota")?;
    let status = quota.status.unwrap_or_default();
    let bindings = state.all::<Binding>();
    let sum: i64 = bindings.iter().filter_map(|it| it.spec.reservations[0].amounts.get("cpu")).sum();
    let is_leaked = !bindings.is_empty() && bindings.iter().any(|it| it.metadata.name == "second");
    let wanted = sum + if is_leaked { leaked } else { 0 };
    let used = status.used.get("cpu").unwrap_or(0);
    let in_zone = status.zones.first().and_then(|zone| zone.used.get("cpu")).unwrap_or(0);
    if (used, in_zone) != (wanted, wanted) {
        return Err(format!("{used} and {in_zone} are shown, not {wanted}"));
    }
    let shown = ["InForce", "Consistent"].map(|kind| condition(&status.conditions, kind));
    let consistent = if is_leaked { "False Deviation" } else { "True AsBindings" };
    if shown != ["True LedgersFollow", consistent] {
        return Err(format!("shown is {shown:?}"));
    }
    Ok(())
}

#[test]
fn what_a_quota_shows_is_what_is_reserved_and_a_leak_is_named() {
    let scenario = Scenario::new(|client, stop| run(client, stop, &[NAME], Settings::default()))
        .setup(set_up)
        .step("something is bound", |client| reserve(client, "first", 300, true))
        .step("something is bound, and something leaks", |client| async move {
            reserve(client.clone(), "leak", 50, false).await?;
            reserve(client, "second", 100, true).await
        })
        .converged(|state| converged(state, 50))
        .limits(Limits { places_max: 6, drawn: 4, ..Limits::default() });
    sweep(&scenario);
}
