//! The controller of pools as it is written with the runtime.

use serde::Serialize;
use setpoint_client::{Client, Typed};
use setpoint_runtime::cache::{Cache, Index};
use setpoint_runtime::ensure::{
    Adopt, Deletion, Owner, ensure_child, ensure_deleted, ensure_status, name_for,
};
use setpoint_runtime::finalizer::{Finalizer, Guarded};
use setpoint_runtime::informer::{JointOf, Selection};
use setpoint_runtime::{
    Action, Controller, Manager, ManagerSettings, ReconcileError, Reconciler, Run, WallClock,
};
use tokio_util::sync::CancellationToken;

use super::stage::{Part, Pool, PoolStatus, part};

struct Pools {
    joint: JointOf,
    pools: Cache<Pool>,
    parts: Cache<Part>,
    finalizer: Finalizer,
}

struct Observed {
    pool: Typed<Pool>,
    parts: Vec<Typed<Part>>,
}

#[derive(Serialize)]
struct Plan {
    missing: Vec<u32>,
    surplus: Vec<usize>,
    ready: u32,
}

impl Reconciler for Pools {
    type Observed = Observed;
    type Plan = Plan;

    async fn observe(&self, run: &Run) -> Result<Option<Observed>, ReconcileError> {
        let moment = run.snapshot(&self.joint).await?;
        let (Some(pools), Some(parts)) = (moment.of(&self.pools), moment.of(&self.parts)) else {
            return Ok(None);
        };
        let Some(pool) = pools.get(run.key()) else { return Ok(None) };
        let pool = pool.read()?;
        let parts = parts.find("owner", pool.metadata.uid.as_str()).into_iter();
        let parts = parts.map(|part| part.read()).collect::<Result<_, _>>()?;
        Ok(Some(Observed { pool, parts }))
    }

    fn plan(&self, Observed { pool, parts }: &Observed) -> Plan {
        let wanted = 0..pool.spec.size;
        let missing =
            wanted.clone().filter(|slot| !parts.iter().any(|part| part.spec.slot == *slot)).collect();
        let surplus = (0..parts.len()).filter(|place| !wanted.contains(&parts[*place].spec.slot)).collect();
        let ready = pool.spec.size;
        Plan { missing, surplus, ready }
    }

    async fn execute(&self, run: &Run, seen: &Observed, plan: Plan) -> Result<Action, ReconcileError> {
        let (pools, parts) = (run.client().api::<Pool>(), run.client().api::<Part>());
        let clean_up = async {
            for part in &seen.parts {
                ensure_deleted(&parts, part, Deletion::default()).await?;
            }
            Ok::<(), ReconcileError>(())
        };
        let mut pool = match self.finalizer.guard(&pools, &seen.pool, clean_up).await? {
            Guarded::Held { added } => added.object.unwrap_or(seen.pool.clone()),
            Guarded::Cleaned { .. } | Guarded::Going => return Ok(Action::Done),
        };
        let owner = Owner::of(&pool);
        for slot in &plan.missing {
            let wanted = part(name_for(&owner, &[&slot.to_string()]), &pool, *slot);
            ensure_child(&parts, &owner, None, wanted, &Adopt::Never).await?;
        }
        for place in &plan.surplus {
            ensure_deleted(&parts, &seen.parts[*place], Deletion::default()).await?;
        }
        let guarded = pool.clone();
        let before = pool.status.take().unwrap_or_default();
        pool.status = Some(PoolStatus { ready: plan.ready, ..before });
        ensure_status(&pools, &guarded, pool).await?;
        Ok(Action::Done)
    }
}

pub async fn ours(client: Client, stop: CancellationToken) {
    run(client, stop, ManagerSettings::named("pools").without_election()).await;
}

pub async fn run(client: Client, stop: CancellationToken, settings: ManagerSettings) {
    let manager = Manager::new(client, settings).expect("good settings");
    let manager = manager.with_clock(WallClock::new(setpoint_testkit::now));
    let informers = manager.informers().clone();
    let pools = informers.cache::<Pool>(Selection::everywhere());
    let parts = informers.cache::<Part>(Selection::everywhere());
    parts.add_index(Index::owner());
    let finalizer = Finalizer::new("example.com/parts").expect("a good name");
    let joint = informers.joint().with(&pools).with(&parts);
    let reconciler = Pools { joint, pools: pools.clone(), parts: parts.clone(), finalizer };
    let controller = Controller::new("pools", reconciler).for_kind(&pools).owns(&parts);
    manager.add(controller).expect("a good controller");
    manager.run(stop.cancelled_owned()).await.expect("it runs until it is stopped");
}
