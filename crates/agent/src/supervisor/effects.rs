//! Doing what a life says. Each of these takes time and is a task; what came of it goes back to the loop as an input.

use std::sync::Arc;
use std::time::Duration;

use setpoint_types::Uid;
use setpoint_types::kinds::Artifact;
use tokio::time::{sleep, timeout};

use super::{Event, Stray, Supervisor, TRY_AGAIN, chain};
use crate::artifact::Fetcher;
use crate::lifecycle::{Effect, Input, ProbeKind};
use crate::prober::{self, Answer};
use crate::record::Records;
use crate::runtime::{Order, RunId, Runtime, RuntimeError, Task};

/// How long what was killed may take to go before it is killed again.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// Between attempts to take away what nobody waits for.
const FORGET_AGAIN: Duration = Duration::from_secs(10);

pub(super) fn perform(supervisor: &mut Supervisor, uid: &Uid, effect: Effect) {
    let Some(ward) = supervisor.wards.get(uid) else { return };
    let parts = &supervisor.parts;
    let number = ward.life.memory().number;
    let task = ward.task(number, &parts.node, parts.records.work(uid), parts.pids);
    let template = &ward.record.spec.template;
    let uid = uid.clone();
    let Some(runtime) = parts.runtimes.of(task.image.is_some()) else {
        // It comes no further than this: nothing of it can be there to be ended.
        if effect == Effect::Fetch {
            let result = Err(RuntimeError::Missing("there is no Docker engine on this node").to_string());
            supervisor.tasks.spawn(async move { Event::Happened { uid, input: Input::Fetched(result) } });
        }
        return;
    };
    match effect {
        // Told to the server with everything else.
        Effect::Accept => {}
        Effect::Fetch => {
            let (fetcher, artifacts) = (parts.fetcher.clone(), template.artifacts.clone());
            supervisor.tasks.spawn(fetch(runtime, fetcher, uid, task, artifacts));
        }
        Effect::Start(number) => {
            parts.metrics.starts.inc();
            supervisor.tasks.spawn(start(runtime, uid, task, number));
        }
        Effect::Probe(kind) => {
            if let Some(probe) = ward.probe(kind) {
                let metrics = parts.metrics.clone();
                supervisor.tasks.spawn(async move {
                    let answer = prober::ask(&probe, &task, &*runtime).await;
                    if matches!(answer, Answer::Bad(_)) {
                        metrics.probe_failures.inc();
                    }
                    probed(uid, number, kind, answer)
                });
            }
        }
        Effect::PreStop => {
            let command = template.pre_stop.clone().map(|exec| exec.command).unwrap_or_default();
            let limit = Duration::from_secs(template.termination_grace_seconds.into());
            supervisor.tasks.spawn(async move {
                if let Err(error) = runtime.exec(&task, &command, limit).await {
                    tracing::warn!(run = %task.run, error = %chain(&error), "preStop could not be run");
                }
                Event::Happened { uid, input: Input::PreStopped { number } }
            });
        }
        Effect::Terminate => order(supervisor, runtime, task.run, Order::Terminate),
        Effect::Kill => order(supervisor, runtime, task.run, Order::Kill),
    }
}

async fn fetch(
    runtime: Arc<dyn Runtime>,
    fetcher: Fetcher,
    uid: Uid,
    task: Task,
    artifacts: Vec<Artifact>,
) -> Event {
    let result = async {
        fetcher.fetch(&artifacts, &task.folder).await.map_err(|error| error.sentence())?;
        runtime.prepare(&task).await.map_err(|error| chain(&error))
    };
    Event::Happened { uid, input: Input::Fetched(result.await) }
}

async fn start(runtime: Arc<dyn Runtime>, uid: Uid, task: Task, number: u32) -> Event {
    // The one before is kept for what it wrote.
    if let Some(older) = number.checked_sub(2).filter(|older| *older > 0) {
        runtime.remove(&RunId { replica: uid.clone(), number: older }).await.ok();
    }
    let result = runtime.start(&task).await.map_err(|error| chain(&error));
    Event::Happened { uid, input: Input::Started { number, result } }
}

fn probed(uid: Uid, number: u32, kind: ProbeKind, answer: Answer) -> Event {
    let input = match answer {
        Answer::Well => Input::Probed { number, kind, ok: true, message: String::new() },
        Answer::Bad(message) => Input::Probed { number, kind, ok: false, message },
        Answer::Unasked(message) => Input::Unasked { number, kind, message },
    };
    Event::Happened { uid, input }
}

fn order(supervisor: &mut Supervisor, runtime: Arc<dyn Runtime>, run: RunId, order: Order) {
    supervisor.tasks.spawn(async move {
        if let Err(error) = runtime.order(&run, order).await {
            tracing::warn!(%run, ?order, error = %chain(&error), "a run could not be told to end");
        }
        Event::Nothing
    });
}

impl Supervisor {
    /// Waits for the end of a run, however often that fails.
    pub(super) fn watch_over(&mut self, uid: &Uid, number: u32) {
        let Some(ward) = self.wards.get(uid) else { return };
        let run = ward.run_id(number);
        let Some(runtime) = self.parts.runtimes.of(ward.record.spec.template.image.is_some()) else { return };
        let uid = uid.clone();
        self.tasks.spawn(async move {
            let mut said = false;
            loop {
                match runtime.wait(&run).await {
                    Ok(ended) => return Event::Happened { uid, input: Input::Ended { number, ended } },
                    Err(error) => {
                        // Once: an engine may be gone for long.
                        if !std::mem::replace(&mut said, true) {
                            tracing::error!(%run, error = %chain(&error), "a run cannot be watched over: trying again");
                        }
                        sleep(TRY_AGAIN).await;
                    }
                }
            }
        });
    }
}

/// Ends runs that no record tells of, and takes away what is left of them. Not done before that is done: nobody may be started in
/// their place.
pub(super) async fn clear(uid: Uid, strays: Vec<Stray>) -> Event {
    for (runtime, run) in strays {
        tracing::warn!(%run, "something runs that nobody knows of, and that the server does not want: ending it");
        let mut said = false;
        loop {
            // Whether it hears is seen from whether it ends.
            runtime.order(&run, Order::Kill).await.ok();
            let ended = timeout(KILL_PATIENCE, async {
                runtime.wait(&run).await?;
                runtime.remove(&run).await
            });
            match ended.await {
                Ok(Ok(())) => break,
                Ok(Err(error)) if !said => {
                    tracing::error!(%run, error = %chain(&error), "what is left of a run cannot be removed: trying again");
                    said = true;
                }
                _ => {}
            }
            sleep(TRY_AGAIN).await;
        }
    }
    Event::Cleared { uid }
}

/// Takes away what an ended replica left.
pub(super) async fn forget(
    records: Records,
    runtime: Option<Arc<dyn Runtime>>,
    uid: Uid,
    runs: Vec<RunId>,
) -> Event {
    let mut said = false;
    for run in runs {
        while let Some(Err(error)) = match &runtime {
            Some(runtime) => Some(runtime.remove(&run).await),
            None => None,
        } {
            if !std::mem::replace(&mut said, true) {
                tracing::warn!(%run, error = %chain(&error), "what is left of a run cannot be removed: trying again");
            }
            sleep(FORGET_AGAIN).await;
        }
    }
    // The record goes last: while it is there, the rest is found.
    if let Err(error) = records.remove(&uid) {
        tracing::warn!(%uid, %error, "a record cannot be removed");
    }
    Event::Forgotten { uid }
}
