//! Nodes whose labels the replica would rather have.

use setpoint_types::kinds::NodePreference;

use crate::core::cluster::node::Attributes;

/// The share of what it would like that the node has.
pub fn value(preferences: &[NodePreference], attributes: &Attributes) -> i32 {
    let whole: u32 = preferences.iter().map(|it| it.weight).sum();
    if whole == 0 {
        return 0;
    }
    let has = preferences.iter().filter(|it| it.selector.matches(&attributes.labels));
    (has.map(|it| it.weight).sum::<u32>() * 1000 / whole) as i32
}
