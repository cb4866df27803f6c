//! What a replica runs. A workload has it, its replica sets keep it by revision, its replicas are made from it.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::artifact::Artifact;
use super::placement::Placement;
use super::probe::{ExecAction, Probe};
use crate::Problems;
use crate::quantity::{Amounts, Unit};

/// Everything about a replica that does not depend on which one it is. A change of it is a new revision and is rolled
/// out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaTemplate {
    /// Labels of the replicas.
    #[schemars(extend(
        "propertyNames" = {"format": "label-key"},
        "additionalProperties" = {"type": "string", "format": "label-value"}
    ))]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the replicas.
    #[schemars(extend("propertyNames" = {"format": "label-key"}))]
    pub annotations: BTreeMap<String, String>,

    /// The container image. Left out: the command runs as a process of the node.
    #[schemars(length(min = 1, max = 1024))]
    pub image: Option<String>,
    /// The program and its first arguments. Left out: what the image says.
    pub command: Vec<String>,
    /// Further arguments.
    pub args: Vec<String>,
    /// Where it runs. Left out: what the image says, or a folder of its own.
    pub working_dir: Option<String>,
    /// Files that are fetched before it is started, each to a path in its own folder.
    #[schemars(
        length(max = 64),
        extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["target"])
    )]
    pub artifacts: Vec<Artifact>,
    /// Environment variables.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["name"]))]
    pub env: Vec<EnvVar>,
    /// Ports it listens on.
    #[schemars(
        length(max = 64),
        extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["name"])
    )]
    pub ports: Vec<Port>,

    /// What is reserved for it on its node, and counts against the quota: `cpu`, `memory`, `storage`, and named resources such
    /// as `gpu`.
    pub resources: Amounts,
    /// The most it may use, where that is more than what is reserved. Memory is limited to what is reserved if nothing
    /// is said here; processors are not limited then.
    pub limits: Amounts,
    /// Where it may run.
    pub placement: Placement,
    /// The name of a PriorityClass. Left out: the default class, or priority 0 if there is none.
    #[schemars(extend("format" = "dns-subdomain"))]
    pub priority_class: Option<String>,

    /// Until it succeeds once, the other probes are not asked.
    pub startup_probe: Option<Probe>,
    /// If it fails, the replica is restarted.
    pub liveness_probe: Option<Probe>,
    /// While it fails, the replica is not ready and does not serve.
    pub readiness_probe: Option<Probe>,
    /// Whether it is started again on its node when it ends.
    pub restart_policy: RestartPolicy,
    /// How long it is waited before it is started again.
    pub restart_backoff: RestartBackoff,
    /// Run before it is told to stop.
    pub pre_stop: Option<ExecAction>,
    /// How long it may take to stop, `preStop` included, before it is killed.
    #[schemars(range(max = 86400))]
    pub termination_grace_seconds: u32,

    /// What becomes of it when its node loses the control plane.
    pub on_disconnect: OnDisconnect,
    /// How long a replica on a node that is out of reach is only called unknown, before its release is asked for.
    #[schemars(range(max = 86400))]
    pub unknown_grace_seconds: u32,
}

impl Default for ReplicaTemplate {
    fn default() -> Self {
        Self {
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            image: None,
            command: Vec::new(),
            args: Vec::new(),
            working_dir: None,
            artifacts: Vec::new(),
            env: Vec::new(),
            ports: Vec::new(),
            resources: Amounts::default(),
            limits: Amounts::default(),
            placement: Placement::default(),
            priority_class: None,
            startup_probe: None,
            liveness_probe: None,
            readiness_probe: None,
            restart_policy: RestartPolicy::default(),
            restart_backoff: RestartBackoff::default(),
            pre_stop: None,
            termination_grace_seconds: 30,
            on_disconnect: OnDisconnect::default(),
            unknown_grace_seconds: 300,
        }
    }
}

/// An environment variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvVar {
    /// Its name.
    #[schemars(extend("format" = "env-name"))]
    pub name: String,
    /// Its value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
}

/// A port a replica listens on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    /// Probes name it by this.
    #[schemars(extend("format" = "dns-label"))]
    pub name: String,
    /// Its number; 0 for one that the agent chooses.
    #[serde(default)]
    pub port: u16,
    /// How it is spoken to.
    #[serde(default)]
    pub protocol: Protocol,
}

/// How a port is spoken to.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Protocol {
    /// By connections.
    #[default]
    #[serde(rename = "TCP")]
    Tcp,
    /// By datagrams.
    #[serde(rename = "UDP")]
    Udp,
}

/// Whether a replica is started again on its node when it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RestartPolicy {
    /// Always. Not for batch workloads.
    #[default]
    Always,
    /// Only if it failed.
    OnFailure,
    /// Never: another replica may take its place.
    Never,
}

/// How long it is waited before a replica is started again: doubled each time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct RestartBackoff {
    /// The first time.
    pub initial_seconds: u32,
    /// At most.
    pub max_seconds: u32,
    /// After so long without an end, the next wait is the first one again.
    pub reset_seconds: u32,
}

impl Default for RestartBackoff {
    fn default() -> Self {
        Self { initial_seconds: 10, max_seconds: 300, reset_seconds: 600 }
    }
}

/// What becomes of a replica when its node loses the control plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnDisconnect {
    /// It goes on. Its replacement may run at the same time.
    #[default]
    Keep,
    /// Its own agent stops it before the control plane may replace it: there are never two.
    Exclusive,
}

impl ReplicaTemplate {
    pub(super) fn check(&self, problems: &mut Problems) {
        if self.image.is_none() && self.command.is_empty() {
            problems.report_at("command", "is required, or an image");
        }
        problems.each("artifacts", &self.artifacts, |problems, artifact| artifact.check(problems));
        self.check_ports(problems);
        self.check_limits(problems);
        self.check_probes(problems);
        problems.field("placement", |problems| self.placement.check(problems));
        if self.restart_backoff.initial_seconds > self.restart_backoff.max_seconds {
            problems.field("restartBackoff", |problems| {
                problems.report_at("initialSeconds", "must not be more than maxSeconds");
            });
        }
    }

    fn check_ports(&self, problems: &mut Problems) {
        let mut seen = BTreeSet::new();
        problems.each("ports", &self.ports, |problems, port| {
            if port.port != 0 && !seen.insert((port.port, port.protocol)) {
                problems.report_at("port", "is that of another port of the same protocol");
            }
        });
    }

    fn check_limits(&self, problems: &mut Problems) {
        problems.field("limits", |problems| {
            for (dimension, limit) in self.limits.iter() {
                let reserved = self.resources.get(dimension).unwrap_or(0);
                if Unit::of_dimension(dimension) == Unit::Count {
                    problems
                        .report_at(dimension, "is counted in whole things: what is reserved is the limit");
                } else if limit < reserved {
                    problems.report_at(dimension, "must not be less than what is reserved in resources");
                }
            }
        });
    }

    fn check_probes(&self, problems: &mut Problems) {
        let ports: Vec<&str> = self.ports.iter().map(|port| port.name.as_str()).collect();
        let probes = [
            ("startupProbe", &self.startup_probe),
            ("livenessProbe", &self.liveness_probe),
            ("readinessProbe", &self.readiness_probe),
        ];
        for (name, probe) in probes {
            let Some(probe) = probe else { continue };
            problems.field(name, |problems| {
                probe.check(&ports, problems);
                if name != "readinessProbe" && probe.success_threshold != 1 {
                    problems.report_at("successThreshold", "must be 1: only readiness comes and goes");
                }
            });
        }
    }
}
