//! One host: what it is, what is wrong with it, and what runs there. Survives its agent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_types::Uid;
use setpoint_types::quantity::Amounts;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What a host is.
#[derive(Clone, Debug)]
pub struct Shape {
    pub name: String,
    pub zone: String,
    pub capacity: Amounts,
}

impl Shape {
    /// So many processors, in thousandths.
    pub fn new(name: &str, zone: &str, cpu: i64) -> Self {
        let capacity = [("cpu".to_owned(), cpu)].into_iter().collect();
        Self { name: name.to_owned(), zone: zone.to_owned(), capacity }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Well,
    Isolated,
}

/// A replica that runs.
#[derive(Clone, Debug)]
pub struct Running {
    /// When it is ready, if it ever is.
    pub ready_at: Option<Instant>,
    /// The server was told.
    pub is_told: bool,
    pub stops_at: Option<Instant>,
    pub is_exclusive: bool,
}

pub struct Host {
    pub shape: Shape,
    pub mode: Mode,
    pub boot: u32,
    /// Ends the agent. None: the host is down.
    pub agent: Option<CancellationToken>,
    pub stalled_until: Option<Instant>,
    pub fetch: Duration,
    /// By the uid of the replica.
    pub runs: BTreeMap<Uid, Running>,
    /// Exclusive ones that were stopped because the lease could not be kept.
    pub fenced: BTreeSet<Uid>,
}

impl Host {
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            mode: Mode::Well,
            boot: 1,
            agent: None,
            stalled_until: None,
            fetch: Duration::ZERO,
            runs: BTreeMap::new(),
            fenced: BTreeSet::new(),
        }
    }
}
