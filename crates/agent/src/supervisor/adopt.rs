//! Taking up what an agent before this one left, and finding what runs that no record tells of.
//!
//! A runtime that does not tell what became of a run, an engine that is not there, holds up that replica and no other: nothing is
//! begun, ended or told of it until it is known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use setpoint_types::Uid;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::ward::{self, Ward};
use super::{Event, Parts, Stray, Supervisor, TRY_AGAIN, chain};
use crate::lifecycle::{Grant, Input, Life, Rules, Want};
use crate::machine::BootTime;
use crate::node::hold::Held;
use crate::record::Record;
use crate::runtime::{Found, RunId, Runtime};

/// How long a runtime may take to tell what became of a run before the others are taken up without it.
const FIND_PATIENCE: Duration = Duration::from_secs(5);

impl Supervisor {
    /// Takes up what an agent before this one left.
    pub async fn resume(
        parts: Parts,
        lease: watch::Receiver<Option<Held>>,
        registered: watch::Receiver<Option<Uid>>,
        good_until: BootTime,
    ) -> std::io::Result<Self> {
        let (records, damaged) = parts.records.load()?;
        for damaged in damaged {
            tracing::error!(error = %damaged, cause = %damaged.source, "a record is left alone");
        }
        let runs = parts.runtimes.runs().await;
        let mut supervisor = Self {
            wards: BTreeMap::new(),
            tasks: JoinSet::new(),
            lease,
            registered,
            moved: Arc::default(),
            unsettled: BTreeMap::new(),
            strays: BTreeMap::new(),
            clearing: BTreeSet::new(),
            forgetting: BTreeSet::new(),
            counting: false,
            good_until,
            looked: None,
            ending: false,
            parts,
        };
        for record in records {
            supervisor.adopt(record).await;
        }
        supervisor.counted(runs);
        supervisor.follow();
        Ok(supervisor)
    }

    /// One replica of before: what became of its newest run decides how it goes on.
    async fn adopt(&mut self, record: Record) {
        let run = RunId { replica: record.uid.clone(), number: record.memory.number };
        // Of what was over, or never begun, nothing is left that could run.
        if record.memory.number == 0 || record.memory.over.is_some() {
            return self.take_up(record, Found::Never);
        }
        let Some(runtime) = self.parts.runtimes.of(record.spec.template.image.is_some()) else {
            tracing::error!(
                %run,
                "this replica is a container, and there is no engine to ask: give the agent its --docker-socket again"
            );
            self.unsettled.insert(record.uid.clone(), record);
            return;
        };
        match timeout(FIND_PATIENCE, runtime.find(&run)).await {
            Ok(Ok(found)) => return self.take_up(record, found),
            Ok(Err(error)) => {
                tracing::error!(%run, error = %chain(&error), "it is not known what became of a run: trying again");
            }
            Err(_) => tracing::error!(%run, "it is not known what became of a run: no answer. Trying again"),
        }
        self.unsettled.insert(record.uid.clone(), record);
        self.tasks.spawn(find_out(runtime, run));
    }

    /// It is known at last what became of a run of before.
    pub(super) fn settled(&mut self, uid: &Uid, found: Found) {
        let Some(record) = self.unsettled.remove(uid) else { return };
        self.take_up(record, found);
        if self.ending {
            self.step(uid, Input::Want(Want::Stop));
        }
        self.sync();
    }

    fn take_up(&mut self, record: Record, found: Found) {
        let run = RunId { replica: record.uid.clone(), number: record.memory.number };
        tracing::info!(namespace = record.namespace, replica = record.name, %run, ?found, "taken up");
        let now = self.parts.clock.now();
        let rules = Rules::of(&record.spec);
        let is_running = matches!(found, Found::Running { .. });
        let held = self.lease.borrow().clone();
        let grant = held.map_or(Grant::Until(self.good_until), |held| ward::grant(&record, &held));
        let life = Life::resume(rules, record.memory.clone(), found, grant, now);
        let mut ward = Ward::new(record, life);
        ward.told.released = ward.record.released.is_some();
        ward.told.accepted = ward.record.memory.accepted;
        let uid = ward.uid().clone();
        self.wards.insert(uid.clone(), ward);
        if is_running {
            self.parts.metrics.adopted.inc();
            self.watch_over(&uid, run.number);
        }
        self.step(&uid, Input::Tick);
    }

    /// Asks what there is: an engine that was gone may have something that nobody knows of.
    pub(super) fn count(&mut self) {
        if !std::mem::replace(&mut self.counting, true) {
            let runtimes = self.parts.runtimes.clone();
            self.tasks.spawn(async move { Event::Runs(runtimes.runs().await) });
        }
    }

    pub(super) fn counted(&mut self, runs: Vec<Stray>) {
        self.counting = false;
        for (runtime, run) in runs {
            let uid = &run.replica;
            let has_record = self.wards.get(uid).is_some_and(|ward| !ward.refused);
            if has_record || self.unsettled.contains_key(uid) || self.forgetting.contains(uid) {
                continue;
            }
            let strays = self.strays.entry(uid.clone()).or_default();
            if !self.clearing.contains(uid) && strays.iter().all(|(_, known)| *known != run) {
                strays.push((runtime, run));
            }
        }
        // They are ended once it is known what the server wants.
        if !self.strays.is_empty() {
            self.sync();
        }
    }
}

/// Asks until it is known.
async fn find_out(runtime: Arc<dyn Runtime>, run: RunId) -> Event {
    loop {
        sleep(TRY_AGAIN).await;
        if let Ok(found) = runtime.find(&run).await {
            return Event::Settled { uid: run.replica, found };
        }
    }
}
