//! One run: a world of its own, a clock that is held, a plan.

use std::time::Duration;

use setpoint_types::{Revision, Timestamp};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::compare::{self, End};
use super::outcome::{Outcome, Problem, told};
use super::scenario::{Program, Scenario, Violation};
use crate::fault::{Faults, Plan};
use crate::history::{Change, History};
use crate::world::World;

/// Who makes the steps.
const AUTHOR: &str = "author";
const CONTROLLER: &str = "controller";
/// Between two looks at whether everything is as wanted.
const LOOK: Duration = Duration::from_millis(500);
/// A process that ended is started again after this.
const RESTART: Duration = Duration::from_secs(1);
/// A controller that was asked to stop has so long.
const STOPPING: Duration = Duration::from_secs(60);
/// Between two steps that nothing may be seen between.
const HURRY: Duration = Duration::from_secs(1);

/// Runs a scenario with a plan, in a runtime of its own. `wanted` is what it should come to.
pub fn run(scenario: &Scenario, plan: &Plan, wanted: Option<&End>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.expect("a runtime of one thread can be had");
    runtime.block_on(async {
        let world = World::seeded(scenario.limits.seed);
        let faults = Faults::new(&world, plan);
        let began = world.now();
        let mut run =
            Run { scenario, world, faults, stop: CancellationToken::new(), replicas: Vec::new(), began };
        let mut problem = run.play().await.err();
        let history = run.world.history();
        // What must always hold tells more than what came of its being broken.
        problem = broken(scenario, &history).or(problem);
        if let (None, Some(wanted)) = (&problem, wanted) {
            let differences = compare::differences(wanted, &compare::end(&history, &scenario.forgets));
            problem = (!differences.is_empty()).then_some(Problem::Different { differences });
        }
        Outcome { plan: plan.clone(), counts: run.faults.counts(), history, problem, began }
    })
}

struct Run<'s> {
    scenario: &'s Scenario,
    world: World,
    faults: Faults,
    stop: CancellationToken,
    replicas: Vec<JoinHandle<Result<(), Problem>>>,
    began: Timestamp,
}

impl Run<'_> {
    async fn play(&mut self) -> Result<(), Problem> {
        let author = self.world.client_as(AUTHOR);
        for deed in &self.scenario.setup {
            deed(author.clone()).await.unwrap_or_else(|error| panic!("the setup failed: {error}"));
        }
        self.start();
        let mut reached = self.reach("the setup").await;
        for (number, (name, deed)) in (1..).zip(&self.scenario.steps) {
            reached?;
            let hurried = self.faults.reach_step(number);
            deed(author.clone()).await.unwrap_or_else(|error| panic!("step `{name}` failed: {error}"));
            if hurried && number < self.scenario.steps.len() as u64 {
                sleep(HURRY).await;
                reached = Ok(());
            } else {
                reached = self.reach(&format!("step `{name}`")).await;
            }
        }
        reached?;
        self.rest().await?;
        self.end().await
    }

    fn start(&mut self) {
        for number in 0..self.scenario.replicas {
            let name = if number == 0 { CONTROLLER.to_owned() } else { format!("standby-{number}") };
            let faults = match number == self.scenario.faulty {
                true => self.faults.clone(),
                false => Faults::new(&self.world, &Plan::default()),
            };
            let program = self.scenario.program.clone();
            self.replicas.push(tokio::spawn(keep_running(program, faults, name, self.stop.clone())));
        }
    }

    /// Waits until everything is as it is wanted.
    async fn reach(&mut self, after: &str) -> Result<(), Problem> {
        let deadline = Instant::now() + self.scenario.limits.patience;
        let mut looked_at = None;
        let mut why = String::new();
        while Instant::now() < deadline {
            self.check_running().await?;
            if looked_at != Some(self.world.revision()) {
                looked_at = Some(self.world.revision());
                match (self.scenario.converged)(&self.world.state()) {
                    Ok(()) => return Ok(()),
                    Err(amiss) => why = amiss,
                }
            }
            sleep(LOOK).await;
        }
        Err(Problem::NotConverged { after: after.to_owned(), why })
    }

    async fn check_running(&mut self) -> Result<(), Problem> {
        match self.replicas.iter().position(JoinHandle::is_finished) {
            Some(place) => joined(self.replicas.remove(place).await),
            None => Ok(()),
        }
    }

    /// What is still on its way arrives, then nothing happens any more.
    async fn rest(&mut self) -> Result<(), Problem> {
        let limits = self.scenario.limits;
        sleep(limits.settling).await;
        self.reach("everything").await?;
        // What it put right may take a moment to be seen by itself.
        sleep(limits.settling).await;
        let (from, asked) = (self.world.revision(), self.faults.counts().requests);
        sleep(limits.quiet).await;
        self.check_running().await?;
        let history = self.world.history();
        let written: Vec<&Change> = history
            .changes()
            .filter(|(revision, change)| *revision > from && !self.is_allowed(change))
            .map(|(_, change)| change)
            .collect();
        if let Some(first) = written.first() {
            let (writes, first) = (written.len(), told(first, self.began));
            return Err(Problem::NotQuiet { writes, first });
        }
        let minutes = (limits.quiet.as_secs() / 60).max(1);
        let requests_per_minute = (self.faults.counts().requests - asked) / minutes;
        if requests_per_minute > limits.requests_per_minute_max {
            return Err(Problem::Busy { requests_per_minute });
        }
        (self.scenario.converged)(&self.world.state()).map_err(|why| Problem::Undone { why })
    }

    fn is_allowed(&self, change: &Change) -> bool {
        self.scenario.allowed.iter().any(|allowed| allowed(change))
    }

    async fn end(&mut self) -> Result<(), Problem> {
        self.stop.cancel();
        for replica in self.replicas.drain(..) {
            match timeout(STOPPING, replica).await {
                Ok(ended) => joined(ended)?,
                Err(_) => return Err(Problem::Ended { how: "does not stop when it is asked to".to_owned() }),
            }
        }
        Ok(())
    }
}

/// A controller in all its lives.
async fn keep_running(
    program: Program,
    faults: Faults,
    name: String,
    stop: CancellationToken,
) -> Result<(), Problem> {
    loop {
        let process = faults.process(&name);
        let life = stop.child_token();
        let mut running = tokio::spawn(program(process.client(), life.clone()));
        tokio::select! {
            biased;
            () = process.ended() => {
                running.abort();
                // What it left behind in other tasks has no connection any more; it is told all the same.
                life.cancel();
                if stop.run_until_cancelled(sleep(RESTART)).await.is_none() {
                    return Ok(());
                }
            }
            ended = &mut running => {
                return match ended {
                    Ok(()) if stop.is_cancelled() => Ok(()),
                    Ok(()) => Err(Problem::Ended { how: "ended although nobody asked it to".to_owned() }),
                    Err(error) => Err(panicked(error)),
                };
            }
        }
    }
}

fn joined(ended: Result<Result<(), Problem>, JoinError>) -> Result<(), Problem> {
    ended.unwrap_or_else(|error| Err(panicked(error)))
}

fn panicked(error: JoinError) -> Problem {
    let how = match error.try_into_panic() {
        Ok(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            format!("panicked: {}", text.unwrap_or_default())
        }
        Err(_) => "was aborted".to_owned(),
    };
    Problem::Ended { how }
}

fn broken(scenario: &Scenario, history: &History) -> Option<Problem> {
    let violation = scenario.audits.iter().find_map(|audit| audit(history).err());
    if let Some(Violation { invariant, revision, why }) = violation {
        return Some(Problem::Broken { invariant, revision, why });
    }
    for moment in history.moments() {
        for (invariant, check) in &scenario.invariants {
            if let Err(why) = check(&moment) {
                let (invariant, revision): (_, Revision) = (invariant.clone(), moment.state.revision);
                return Some(Problem::Broken { invariant, revision, why });
            }
        }
    }
    None
}
