//! Nodes as they were last read, from one request to the next: a bind to each of ten thousand nodes would otherwise read all of them
//! again and again. What is here counts only as long as the node is at the revision it was read at.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_types::Revision;

use super::seen::NodeSeen;

/// So many are kept; about 1 KB each. Beyond it they are read anew.
const KEPT_MAX: usize = 16_384;

#[derive(Default)]
pub struct Nodes {
    kept: Mutex<HashMap<String, Arc<NodeSeen>>>,
}

impl Nodes {
    /// The node as it was read at this revision, if it was.
    pub fn get(&self, name: &str, at: Revision) -> Option<Arc<NodeSeen>> {
        self.kept.lock().get(name).filter(|it| it.at == at).cloned()
    }

    pub fn keep(&self, node: &Arc<NodeSeen>) {
        let mut kept = self.kept.lock();
        if kept.len() >= KEPT_MAX && !kept.contains_key(&node.name) {
            kept.clear();
        }
        kept.insert(node.name.clone(), node.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, at: u64) -> Arc<NodeSeen> {
        Arc::new(NodeSeen {
            at: Revision::new(at),
            name: name.to_owned(),
            uid: String::new(),
            labels: Default::default(),
            deleting: false,
            ready: true,
            unschedulable: false,
            zone: String::new(),
            taints: Vec::new(),
            boot_id: String::new(),
            epoch: 1,
        })
    }

    #[test]
    fn a_node_counts_only_at_the_revision_it_was_read_at() {
        let nodes = Nodes::default();
        nodes.keep(&node("a", 5));
        assert!(nodes.get("a", Revision::new(5)).is_some());
        assert!(nodes.get("a", Revision::new(6)).is_none() && nodes.get("b", Revision::new(5)).is_none());
        nodes.keep(&node("a", 6));
        assert!(nodes.get("a", Revision::new(6)).is_some() && nodes.get("a", Revision::new(5)).is_none());
    }

    #[test]
    fn there_are_never_too_many() {
        let nodes = Nodes::default();
        (0..2 * KEPT_MAX).for_each(|number| nodes.keep(&node(&number.to_string(), 1)));
        assert!(nodes.kept.lock().len() <= KEPT_MAX);
        assert!(nodes.get(&(2 * KEPT_MAX - 1).to_string(), Revision::new(1)).is_some());
    }
}
