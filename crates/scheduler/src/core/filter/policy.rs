//! Policies may ask for labels of nodes, or close zones.

use super::Miss;
use crate::core::cluster::node::Attributes;
use crate::core::site::SiteKey;

pub fn check(key: &SiteKey, attributes: &Attributes) -> Option<Miss> {
    let mut policies = key.policies.iter().enumerate();
    policies.find_map(|(index, policy)| {
        let is_for_it = policy.zones.is_empty() || policy.zones.contains(&attributes.zone);
        let is_against = is_for_it && (policy.is_paused || !policy.labels.matches(&attributes.labels));
        is_against.then_some(Miss::Policy { index, is_paused: policy.is_paused })
    })
}
