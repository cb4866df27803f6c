//! A replica may be for some zones only.

use super::Miss;
use crate::core::cluster::node::Attributes;
use crate::core::site::SiteKey;

pub fn check(key: &SiteKey, attributes: &Attributes) -> Option<Miss> {
    let is_in = key.zones.is_empty() || key.zones.binary_search(&attributes.zone).is_ok();
    (!is_in).then_some(Miss::Zone)
}
