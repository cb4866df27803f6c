//! Every controller of this program by name, and how it is added to a manager.
//!
//! A new one adds its module to `lib.rs` and a line here.

use setpoint_runtime::{Controller, Manager};

use crate::settings::Settings;
use crate::{
    autoscaler, batch, binding, garbage_collector, node_monitor, policy_rollout, quota, replica,
    reservations, workload,
};

/// One controller of this program.
pub struct Entry {
    /// Of its lease, its field manager, its section of the settings file, and on the command line.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// Asks for its caches, and puts it together.
    pub build: fn(&Manager, &Settings) -> Result<Controller, BuildError>,
}

/// Why a controller could not be put together: its knobs make no sense.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct BuildError {
    pub problem: String,
}

/// All of them.
pub const CONTROLLERS: &[Entry] = &[
    Entry {
        name: workload::NAME,
        about: "revisions of workloads and their rollouts",
        build: workload::build,
    },
    Entry {
        name: replica::NAME,
        about: "the number of replicas, and losses made good",
        build: replica::build,
    },
    Entry { name: binding::NAME, about: "nodes out of reach are taken back", build: binding::build },
    Entry { name: batch::NAME, about: "workloads with an end", build: batch::build },
    Entry { name: garbage_collector::NAME, about: "what nobody owns goes", build: garbage_collector::build },
    Entry {
        name: node_monitor::NAME,
        about: "what is heard of nodes, taints and drains",
        build: node_monitor::controller,
    },
    Entry { name: quota::NAME, about: "the use of quotas", build: quota::controller },
    Entry {
        name: reservations::NAME,
        about: "what is reserved for nobody is given back",
        build: reservations::build,
    },
    Entry {
        name: autoscaler::NAME,
        about: "how many replicas workloads have, by what is reported",
        build: autoscaler::controller,
    },
    Entry {
        name: policy_rollout::NAME,
        about: "placement policies, version by version",
        build: policy_rollout::controller,
    },
];

/// The one of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    CONTROLLERS.iter().find(|entry| entry.name == name)
}
