//! A taint keeps replicas away that do not tolerate it.

use setpoint_types::kinds::{Taint, TaintEffect, Toleration};

use super::Miss;
use crate::core::cluster::node::Attributes;
use crate::core::site::SiteKey;

pub fn check(key: &SiteKey, attributes: &Attributes) -> Option<Miss> {
    let keeps_away = |taint: &Taint| {
        taint.effect != TaintEffect::PreferNoSchedule && !is_tolerated(&key.tolerations, taint)
    };
    attributes.taints.iter().position(keeps_away).map(Miss::Taint)
}

pub fn is_tolerated(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|it| {
        (it.key.is_empty() || it.key == taint.key)
            && it.value.as_ref().is_none_or(|value| *value == taint.value)
            && it.effect.is_none_or(|effect| effect == taint.effect)
    })
}
