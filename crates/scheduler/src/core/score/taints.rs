//! Taints that would rather not have the replica.

use setpoint_types::kinds::{TaintEffect, Toleration};

use crate::core::cluster::node::Attributes;
use crate::core::filter::taints::is_tolerated;

/// One such taint is half as bad as it can get, two are two thirds.
pub fn value(tolerations: &[Toleration], attributes: &Attributes) -> i32 {
    let soft = attributes.taints.iter().filter(|it| it.effect == TaintEffect::PreferNoSchedule);
    let count = soft.filter(|it| !is_tolerated(tolerations, it)).count() as i32;
    -1000 * count / (count + 1)
}
