//! That nothing was heard is no proof that nothing was said: before something is destroyed, it is asked for.

use std::time::Duration;

use setpoint_client::{Client, DeleteOptions, Error, Patch, PatchOptions, WriteOptions};
use setpoint_runtime::cache::{Cache, Key};
use setpoint_runtime::ensure::{Deletion, ensure_deleted};
use setpoint_runtime::informer::{InformerSettings, Informers, Selection};
use setpoint_runtime::{
    Action, Controller, Manager, ManagerSettings, ReconcileError, Reconciler, Run, WallClock,
};
use setpoint_testkit::{Moment, Scenario};
use setpoint_types::Timestamp;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::stage::{Part, PartStatus, Pool, check_only_by_fault, define, make, part};

/// Without a sign of life for so long, a part is given up.
const GRACE: Duration = Duration::from_secs(15);

fn is_silent(status: Option<&PartStatus>, now: Timestamp) -> bool {
    let beat = status.map_or(0, |status| status.beat_ms);
    beat > 0 && now.0.saturating_sub(beat) > GRACE.as_millis() as u64
}

/// Believes its cache.
async fn weak(client: Client, stop: CancellationToken) {
    let informers = Informers::new(client.clone(), InformerSettings::default());
    let parts = informers.cache::<Part>(Selection::everywhere());
    let forever = async {
        loop {
            for part in parts.snapshot().iter().filter_map(|part| part.read().ok()) {
                if is_silent(part.status.as_ref(), setpoint_testkit::now()) {
                    client.api::<Part>().delete(&part.metadata.name, &DeleteOptions::default()).await.ok();
                }
            }
            sleep(Duration::from_secs(5)).await;
        }
    };
    stop.run_until_cancelled(forever).await;
}

/// Suspects by its cache, and destroys by what the server says, as the object was then.
struct Reaper {
    parts: Cache<Part>,
}

impl Reconciler for Reaper {
    type Observed = (setpoint_client::Typed<Part>, Timestamp);
    type Plan = bool;

    async fn observe(&self, run: &Run) -> Result<Option<Self::Observed>, ReconcileError> {
        Ok(self.parts.read(run.key())?.map(|part| (part, run.now())))
    }

    fn plan(&self, (part, now): &Self::Observed) -> bool {
        is_silent(part.status.as_ref(), *now)
    }

    async fn execute(
        &self,
        run: &Run,
        _: &Self::Observed,
        suspected: bool,
    ) -> Result<Action, ReconcileError> {
        let api = run.client().api::<Part>();
        if suspected
            && let Some(part) = api.find(run.key().name()).await?
            && is_silent(part.status.as_ref(), run.now())
        {
            ensure_deleted(&api, &part, Deletion { unchanged: true, ..Deletion::default() }).await?;
        }
        Ok(Action::RequeueAfter(Duration::from_secs(5)))
    }
}

async fn ours(client: Client, stop: CancellationToken) {
    let manager =
        Manager::new(client, ManagerSettings::named("reaper").without_election()).expect("good settings");
    let manager = manager.with_clock(WallClock::new(setpoint_testkit::now));
    let parts = manager.informers().cache::<Part>(Selection::everywhere());
    let controller = Controller::new("reaper", Reaper { parts: parts.clone() }).for_kind(&parts);
    manager.add(controller).expect("a good controller");
    manager.run(stop.cancelled_owned()).await.expect("it runs until it is stopped");
}

/// One that was destroyed says nothing.
async fn beat(client: &Client, name: &str, at_ms: u64) -> Result<(), Error> {
    let status = serde_json::json!({"status": {"beatMs": at_ms}});
    let options = PatchOptions { status: true, ..PatchOptions::default() };
    match client.api::<Part>().patch(name, &Patch::Merge(status), &options).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

async fn beat_for_long(client: &Client) -> Result<(), Error> {
    for _ in 0..30 {
        beat(client, "lives", setpoint_testkit::now().0).await?;
        sleep(Duration::from_secs(2)).await;
    }
    Ok(())
}

/// One part lives, and says so all the time; another falls silent.
fn scenario<F, Run>(program: F) -> Scenario
where
    F: Fn(Client, CancellationToken) -> Run + Send + Sync + 'static,
    Run: Future<Output = ()> + Send + 'static,
{
    Scenario::new(program)
        .setup(define)
        .setup(|client| async move {
            make(client.clone(), "web", 0).await?;
            let pool = client.api::<Pool>().get("web").await?;
            for (slot, name) in [(0, "lives"), (1, "dies")] {
                client.api::<Part>().create(&part(name, &pool, slot), &WriteOptions::default()).await?;
            }
            beat(&client, "dies", setpoint_testkit::now().0).await
        })
        .step("signs of life", |client| async move { beat_for_long(&client).await })
        .step("more of them", |client| async move {
            beat_for_long(&client).await?;
            // It need not be watched any longer.
            beat(&client, "lives", 0).await
        })
        .converged(|state| match state.one::<Part>("default", "dies") {
            Some(part) if part.status.as_ref().is_some_and(|status| status.beat_ms > 0) => {
                Err("the dead one is kept".into())
            }
            _ => Ok(()),
        })
        .invariant("who says that he lives is not destroyed", |moment: &Moment| {
            let gone = moment.changes.iter().find(|it| it.after.is_none() && it.key.name == "lives");
            gone.map_or(Ok(()), |change| Err(format!("{} was", Key::from(&change.key))))
        })
}

#[test]
fn a_silent_watch_kills_nobody() {
    check_only_by_fault("hold(60s)@step:2", &scenario(weak), &scenario(ours));
}
