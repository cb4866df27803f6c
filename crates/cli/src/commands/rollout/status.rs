//! `setpoint rollout status`: how far a rollout has come, until its end.

use std::time::Duration;

use clap::Args;
use setpoint_types::kinds::{PendingCount, RolloutPhase, WorkloadSpec, WorkloadStatus};
use setpoint_types::object::Object;
use tokio::time::Instant;

use super::{find, workloads};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::follow::{Ended, Seen, follow};
use crate::session::{Done, Session};

#[derive(Args)]
pub struct Status {
    /// workload NAME or workload/NAME
    #[arg(required = true, value_name = "KIND NAME")]
    targets: Vec<String>,
    /// Wait for the end; --watch=false shows how it is now
    #[arg(short = 'w', long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    watch: bool,
    /// Wait no longer than this; 0 waits for ever
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    timeout: Duration,
    /// End as soon as another revision than this is rolled out
    #[arg(long, value_name = "NUMBER")]
    revision: Option<u64>,
}

/// How a rollout stands.
enum Standing {
    UnderWay(String),
    Done(String),
    Failed(String),
}

impl Status {
    pub async fn run(self, session: &mut Session) -> Done {
        let client = session.client()?;
        let deadline = (!self.timeout.is_zero()).then(|| Instant::now() + self.timeout);
        for target in workloads(&self.targets, &client).await? {
            let (api, object) = find(&target, &client).await?;
            let label = target.label();
            if !self.watch {
                match self.standing(&label, &object)? {
                    Standing::UnderWay(text) | Standing::Done(text) => session.say(text)?,
                    Standing::Failed(text) => return Err(Failure::new(Exit::No, text)),
                }
                continue;
            }
            let (mut told, mut waits_for) = (String::new(), String::new());
            let ended = follow(&api, &object.metadata.name, deadline, |seen| {
                let Seen::There(object) = seen else {
                    return Err(Failure::new(Exit::NotFound, format!("{label} was deleted")));
                };
                waits_for = waits(&object.status().unwrap_or_default());
                match self.standing(&label, object)? {
                    Standing::UnderWay(text) if text == told => Ok(None),
                    Standing::UnderWay(text) => {
                        session.say(&text)?;
                        session.flush()?;
                        told = text;
                        Ok(None)
                    }
                    Standing::Done(text) => Ok(Some(Ok(text))),
                    Standing::Failed(text) => Ok(Some(Err(text))),
                }
            });
            match ended.await? {
                Ended::Enough(Ok(text)) => session.say(text)?,
                Ended::Enough(Err(text)) => return Err(Failure::new(Exit::No, text)),
                Ended::Late => {
                    let waited = humantime::format_duration(self.timeout);
                    let text = format!(
                        "{label} is not rolled out after {waited}{waits_for}; `setpoint describe {label}` shows more"
                    );
                    return Err(Failure::new(Exit::Timeout, text));
                }
            }
        }
        Ok(Exit::Done)
    }

    fn standing(&self, label: &str, object: &Object) -> Result<Standing, Failure> {
        let status: WorkloadStatus = object.status().unwrap_or_default();
        let spec: WorkloadSpec = object.spec().unwrap_or_default();
        let generation = object.metadata.generation;
        if status.observed_generation < generation {
            let text = format!(
                "Waiting for the workload controller to see generation {} of {label} …",
                generation.0
            );
            return Ok(Standing::UnderWay(text));
        }
        let rollout = &status.rollout;
        if let Some(wanted) = self.revision.filter(|wanted| rollout.revision != *wanted) {
            let text = format!(
                "{label}: revision {wanted} is no longer the one that is rolled out, {} is",
                rollout.revision
            );
            return Err(Failure::new(Exit::No, text));
        }
        let why = if rollout.message.is_empty() { String::new() } else { format!(": {}", rollout.message) };
        let counts = &status.replicas;
        let desired = spec.replicas;
        Ok(match rollout.phase {
            RolloutPhase::Stuck => Standing::Failed(format!(
                "{label}: the rollout of revision {} is stuck{why}. `setpoint describe {label}` shows why, `setpoint rollout undo {label}` goes back",
                rollout.revision
            )),
            RolloutPhase::RolledBack | RolloutPhase::RollingBack => Standing::Failed(format!(
                "{label}: revision {} was given up, and {} is there again{why}",
                rollout.failed_revision, rollout.stable_revision
            )),
            RolloutPhase::Paused => Standing::UnderWay(format!(
                "{label} is paused: {} of {desired} replicas are updated; `setpoint rollout resume {label}` goes on",
                counts.updated
            )),
            RolloutPhase::Complete if counts.updated >= desired && counts.available >= desired => {
                Standing::Done(format!("{label} successfully rolled out (revision {})", rollout.revision))
            }
            _ => Standing::UnderWay(format!(
                "Waiting for {label}: {} of {desired} replicas are updated, {} are available{why}{} …",
                counts.updated,
                counts.available,
                waits(&status)
            )),
        })
    }
}

/// What replicas wait for, if any do: a workload that cannot run says why.
fn waits(status: &WorkloadStatus) -> String {
    let reason = |it: &PendingCount| {
        let message = if it.message.is_empty() { String::new() } else { format!(" ({})", it.message) };
        format!("{} waiting for {:?}{message}", it.count, it.reason)
    };
    let reasons: Vec<String> = status.pending_reasons.iter().filter(|it| it.count > 0).map(reason).collect();
    if reasons.is_empty() { String::new() } else { format!(", {}", reasons.join(", ")) }
}
