//! A replica may be for nodes with certain labels only.

use super::{Miss, zone};
use crate::core::cluster::node::Attributes;
use crate::core::site::SiteKey;

pub fn check(key: &SiteKey, attributes: &Attributes) -> Option<Miss> {
    (!key.node_selector.matches(&attributes.labels)).then_some(Miss::Selector)
}

/// Whether a place with this node counts for rules of spreading: by zone and labels the replica could be there, whatever else is
/// the matter with the node now.
pub fn could_be_on(key: &SiteKey, attributes: &Attributes) -> bool {
    zone::check(key, attributes).is_none() && check(key, attributes).is_none()
}
