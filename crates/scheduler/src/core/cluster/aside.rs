//! Thinking somebody away: its room and its ports are free as if it had left. What it counts for, in rules and quotas, stays.
//!
//! For trying something out: whoever was set aside is put back before anybody else looks.

use super::Cluster;
use super::node::{NodeIx, Resident};

/// Somebody who was thought away.
#[derive(Clone, Debug)]
pub struct Aside {
    pub node: NodeIx,
    pub resident: Resident,
}

impl Cluster {
    /// None if nobody of this name is there.
    pub fn set_aside(&mut self, node: NodeIx, key: &str) -> Option<Aside> {
        let residents = &mut self.nodes.residents[node.index()];
        let at = residents.iter().position(|it| *it.key == *key)?;
        let resident = residents.swap_remove(at);
        for (dim, amount) in resident.demand.iter() {
            self.give(node, *dim, *amount, 0);
        }
        Some(Aside { node, resident })
    }

    pub fn put_back(&mut self, aside: Aside) {
        for (dim, amount) in aside.resident.demand.iter() {
            self.give(aside.node, *dim, -amount, 0);
        }
        self.nodes.residents[aside.node.index()].push(aside.resident);
    }
}
