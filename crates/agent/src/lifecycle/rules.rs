//! What a replica's template says about its life, as the machine needs it.

use std::time::Duration;

use setpoint_types::Timestamp;
use setpoint_types::kinds::{OnDisconnect, Probe, ReplicaSpec, RestartBackoff, RestartPolicy};

/// The rules of one life. Nothing of it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// There is something to fetch before the start.
    pub fetch: bool,
    pub startup: Option<Rhythm>,
    pub liveness: Option<Rhythm>,
    pub readiness: Option<Rhythm>,
    pub restart: RestartPolicy,
    pub backoff: RestartBackoff,
    pub pre_stop: bool,
    pub grace: Duration,
    /// May not outlive its node's lease.
    pub exclusive: bool,
    /// Not to run after this.
    pub deadline: Option<Timestamp>,
}

/// When a probe is asked, and how its answers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rhythm {
    pub delay: Duration,
    pub period: Duration,
    pub successes: u32,
    pub failures: u32,
}

impl Rules {
    pub fn of(spec: &ReplicaSpec) -> Self {
        let template = &spec.template;
        Self {
            fetch: !template.artifacts.is_empty() || template.image.is_some(),
            startup: template.startup_probe.as_ref().map(Rhythm::of),
            liveness: template.liveness_probe.as_ref().map(Rhythm::of),
            readiness: template.readiness_probe.as_ref().map(Rhythm::of),
            restart: template.restart_policy,
            backoff: template.restart_backoff.clone(),
            pre_stop: template.pre_stop.is_some(),
            grace: seconds(template.termination_grace_seconds),
            exclusive: template.on_disconnect == OnDisconnect::Exclusive,
            deadline: spec.deadline,
        }
    }

    /// How long it is waited before the start that follows so many in a row.
    pub fn wait(&self, in_a_row: u32) -> Duration {
        let RestartBackoff { initial_seconds, max_seconds, .. } = self.backoff;
        let doubled = u64::from(initial_seconds) << in_a_row.min(20);
        Duration::from_secs(doubled.min(u64::from(max_seconds)))
    }
}

impl Rhythm {
    fn of(probe: &Probe) -> Self {
        Self {
            delay: seconds(probe.initial_delay_seconds),
            period: seconds(probe.period_seconds.max(1)),
            successes: probe.success_threshold.max(1),
            failures: probe.failure_threshold.max(1),
        }
    }
}

fn seconds(number: u32) -> Duration {
    Duration::from_secs(number.into())
}
