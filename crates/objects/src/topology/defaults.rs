//! Fills the defaults inside defaults, once, when a schema is compiled.
//!
//! Afterwards a default is only copied. A default that contains itself (`default: {}` on a recursive field) would never end:
//! it is refused here, with the field.

use serde_json::Value;

use super::{NodeId, Topology};
use crate::default::{Bounds, fill_within};
use crate::refusal::FieldProblem;
use crate::{DEFAULTED_BYTES_MAX, DEPTH_MAX};

/// All values in all defaults of a kind.
const VALUES_MAX: usize = 100_000;

pub(super) fn settle(topology: &mut Topology, problems: &mut Vec<FieldProblem>) {
    let mut bounds = Bounds { depth: DEPTH_MAX, values: VALUES_MAX, bytes: DEFAULTED_BYTES_MAX };
    let mut settled = Vec::new();
    for index in 0..topology.nodes.len() {
        let node = NodeId(index);
        let Some(mut value) = topology.default(node).cloned() else { continue };
        if fill_within(&mut value, topology, node, &mut bounds).is_err() {
            let short: String =
                topology.default(node).map(Value::to_string).unwrap_or_default().chars().take(80).collect();
            let message = format!(
                "the default {short} contains itself, or is too large once its own defaults are filled in"
            );
            return problems.push(FieldProblem::new(".", message));
        }
        settled.push((node, value));
    }
    for (node, value) in settled {
        topology.nodes[node.0].default = Some(value);
    }
}
