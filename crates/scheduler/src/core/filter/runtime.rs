//! What runs in a container needs a node that has containers.

use super::Miss;
use crate::core::cluster::node::Attributes;
use crate::core::site::SiteKey;

/// What a replica with an image, or without one, is run with.
pub fn needed(key: &SiteKey) -> &'static str {
    if key.needs_docker { "docker" } else { "process" }
}

/// A node that says nothing about it is taken to have both: it may be of an older version.
pub fn check(key: &SiteKey, attributes: &Attributes) -> Option<Miss> {
    let has = attributes.runtimes.is_empty() || attributes.runtimes.iter().any(|it| it == needed(key));
    (!has).then_some(Miss::Runtime)
}
