//! The node monitor: what is heard of nodes, what follows from it for the replicas they have, and drains.
//!
//! | file | what |
//! |---|---|
//! | `signals` | which signal may decide what: a table |
//! | `evidence` | what is heard of a node, and how old it is |
//! | `fleet` | who may be given up next, so that a broken network does not cost all replicas |
//! | `eviction`, `drain` | who leaves a node because of its taints; who may, of one that is drained |
//! | `plan` | all of it together; pure, as the files above |
//! | `observe`, `pulse`, `execute` | caches and the leader's word; carrying it out |
//!
//! Not here: asking for the release of what is unknown for too long, and replacing it (the replica controller); stopping processes
//! (agents). docs/controllers/node-monitor.md is the page for people.

pub mod drain;
pub mod eviction;
pub mod evidence;
mod execute;
pub mod fleet;
mod observe;
pub mod plan;
mod pulse;
pub mod settings;
pub mod signals;

pub use execute::NodeMonitor;
use observe::Views;
use pulse::Pulses;
use setpoint_runtime::cache::{Cause, Delta, Index, Key};
use setpoint_runtime::informer::Selection;
use setpoint_runtime::recorder::Detail;
use setpoint_runtime::{Controller, Manager};
use setpoint_types::kinds::{Binding, Lease, Node, Replica, Workload};
use tokio::sync::Mutex;

use crate::registry::BuildError;
use crate::settings::Settings;

/// The controller's name: that of its lease, and of the manager of every field it writes.
pub const NAME: &str = "node-monitor";
/// Where the leases of nodes are.
pub const SYSTEM: &str = "setpoint-system";
/// The taint that keeps new replicas from a node which is not heard.
pub const UNREACHABLE: &str = "setpoint/unreachable";
/// The taint by which an administrator says that a node is gone, and that nothing runs there.
pub const OUT_OF_SERVICE: &str = "setpoint/out-of-service";
/// Conditions of nodes that are this controller's.
const REACHABLE: &str = "Reachable";
const LOST: &str = "Lost";
const EVICTING: &str = "Evicting";
const DRAINED: &str = "Drained";
/// How the lease of a node begins.
const LEASE: &str = "node-";

/// The lease of a node.
pub fn lease_of(node: &str) -> String {
    format!("{LEASE}{node}")
}

/// What it looks at, and what wakes which node.
pub fn controller(manager: &Manager, settings: &Settings) -> Result<Controller, BuildError> {
    let knobs = settings.node_monitor.clone();
    if let Some(problem) = knobs.problems().into_iter().next() {
        return Err(BuildError { problem });
    }
    let informers = manager.informers();
    let nodes = informers.cache::<Node>(Selection::everywhere());
    let leases = informers.cache::<Lease>(Selection::namespace(SYSTEM));
    let bindings = informers.cache::<Binding>(Selection::everywhere());
    let replicas = informers.cache::<Replica>(Selection::everywhere());
    let workloads = informers.cache::<Workload>(Selection::everywhere());
    bindings.add_index(observe::by_node());
    replicas.add_index(Index::spec(observe::BY_WORKLOAD, "/workload"));
    let pulses = Pulses::new(manager.client().clone(), knobs.period());
    let views = Views {
        nodes: nodes.clone(),
        leases: leases.clone(),
        bindings: bindings.clone(),
        replicas,
        workloads,
        pulses,
        fleet: Mutex::default(),
    };
    let detail = Detail::new(&settings.recorder);
    let monitor = NodeMonitor { views, settings: knobs, detail, turnstile: Mutex::default() };
    Ok(Controller::new(NAME, monitor)
        .for_kind(&nodes)
        .watches(&leases, |delta: &Delta, wake| {
            if let Some(node) = delta.key.name().strip_prefix(LEASE) {
                wake(Key::new("", node));
            }
        })
        // What was left by a node that went while nobody looked. What changes is of no interest: a node that is not well is looked at
        // again and again, and one that is well has nothing to do with its bindings.
        .watches(&bindings, |delta: &Delta, wake| {
            for binding in delta.states().filter_map(|entry| entry.read::<Binding>().ok()) {
                wake(Key::new("", &binding.spec.node));
            }
        })
        .only_if(|delta: &Delta| delta.cause != Cause::Event))
}
