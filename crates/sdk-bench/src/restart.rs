//! A controller that starts over many objects: how long something new waits behind them.
//!
//! All objects are in the queue when the new one comes, and each takes its run a little while, as a write would. What is measured is
//! time on the clock from when the caches are synced, and how many of the others had their turn before it.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use setpoint_api::setpoint::v1::watch_event::Type;
use setpoint_client::Dynamic;
use setpoint_runtime::cache::Cache;
use setpoint_runtime::informer::Selection;
use setpoint_runtime::{Action, Controller, Manager, ManagerSettings, ReconcileError, Reconciler, Run};
use setpoint_types::Object;
use tokio::sync::watch;

use crate::measure::Figures;
use crate::objects::OBJECTS;
use crate::ours::{STATE, event, frames, initial, serving};

/// What a run takes: a write on a good network.
const WORK: Duration = Duration::from_millis(2);
/// After which the new object comes: by then the others are all in the queue.
const LATER: Duration = Duration::from_millis(250);

/// Notes when the new object runs, and how many ran before.
struct Worker {
    objects: Cache<Dynamic>,
    new: String,
    ran: Arc<AtomicUsize>,
    first: watch::Sender<Option<(Instant, usize)>>,
}

impl Reconciler for Worker {
    type Observed = Object;
    type Plan = ();

    async fn observe(&self, run: &Run) -> Result<Option<Object>, ReconcileError> {
        if run.key().name() == self.new {
            self.first.send_replace(Some((Instant::now(), self.ran.load(Ordering::Relaxed))));
        }
        Ok(self.objects.read(run.key())?)
    }

    fn plan(&self, _: &Object) {}

    async fn execute(&self, _: &Run, _: &Object, (): ()) -> Result<Action, ReconcileError> {
        tokio::time::sleep(WORK).await;
        self.ran.fetch_add(1, Ordering::Relaxed);
        Ok(Action::Done)
    }
}

/// From sync to the first run of an object that came after it.
pub async fn restart() -> Result<Figures, Box<dyn Error>> {
    let (client, later) = serving(initial())?;
    let manager = Manager::new(client, ManagerSettings::named("bench").without_election())?;
    let objects = manager.informers().dynamic("Replica", true, Selection::everywhere());
    let new = event(Type::Added, OBJECTS, STATE + 1);
    let name = new.object.as_ref().and_then(|it| it.metadata.as_ref()).map(|it| it.name.clone());
    let (first, mut ran_first) = watch::channel(None);
    let ran = Arc::<AtomicUsize>::default();
    let worker = Worker { objects: objects.clone(), new: name.unwrap_or_default(), ran, first };
    manager.add(Controller::new("bench", worker).for_kind(&objects))?;
    let mut ready = manager.ready();
    let measured = async {
        ready.wait_for(|ready| *ready).await?;
        let synced = Instant::now();
        tokio::time::sleep(LATER).await;
        for frame in frames([new].into_iter()) {
            later.unbounded_send(frame)?;
        }
        let (at, before) = ran_first.wait_for(Option::is_some).await?.unwrap_or((synced, 0));
        Ok::<_, Box<dyn Error>>((at - synced, before))
    };
    let (waited, before) = tokio::select! {
        measured = measured => measured?,
        ended = manager.run(std::future::pending()) => return Err(format!("the manager ended: {ended:?}").into()),
    };
    let figures = [("restart", waited.as_secs_f64()), ("before", before as f64)];
    Ok(figures.map(|(name, value)| (name.to_owned(), value)).into())
}
