//! A node must be ready, within reach, without pressure, and open for new replicas.

use super::Miss;
use crate::core::cluster::node::{Attributes, Readiness};

pub fn check(attributes: &Attributes) -> Option<Miss> {
    if attributes.unschedulable {
        return Some(Miss::Cordoned);
    }
    (attributes.readiness != Readiness::Ready).then_some(Miss::Condition(attributes.readiness))
}

/// For people, about some nodes.
pub fn describe(readiness: Readiness) -> &'static str {
    match readiness {
        Readiness::Ready => "ready",
        Readiness::NotReady => "not ready",
        Readiness::Unreachable => "out of reach",
        Readiness::DiskPressure => "short of disk space",
        Readiness::MemoryPressure => "short of memory",
    }
}
