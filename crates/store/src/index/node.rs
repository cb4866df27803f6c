//! A node of the index: a leaf, or children with their first keys and sizes.

use std::ops::ControlFlow;

use super::KeyState;
use super::leaf::{self, Leaf};

const FANOUT: usize = 64;

pub(super) enum Node {
    Leaf(Leaf),
    Inner(Vec<Child>),
}

pub(super) struct Child {
    /// A lower bound of the keys below, and an upper bound of those below the previous child.
    first: Box<[u8]>,
    len: usize,
    node: Node,
}

impl Default for Node {
    fn default() -> Self {
        Self::Leaf(Leaf::default())
    }
}

impl Child {
    fn new(node: Node) -> Self {
        Self { first: node.first().into(), len: node.len(), node }
    }
}

impl Node {
    /// A root over two halves.
    pub fn parent(left: Node, right: Node) -> Node {
        Node::Inner(vec![Child::new(left), Child::new(right)])
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.len(),
            Self::Inner(children) => children.iter().map(|child| child.len).sum(),
        }
    }

    /// How full the node itself is, whatever is below.
    fn width(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.len(),
            Self::Inner(children) => children.len(),
        }
    }

    fn first(&self) -> &[u8] {
        match self {
            Self::Leaf(leaf) if leaf.len() > 0 => leaf.key(0),
            Self::Leaf(_) => &[],
            Self::Inner(children) => &children[0].first,
        }
    }

    pub fn get(&self, key: &[u8]) -> Option<&KeyState> {
        match self {
            Self::Leaf(leaf) => leaf.get(key),
            Self::Inner(children) => children[route(children, key)].node.get(key),
        }
    }

    /// Sets a key; if that overfills the node, its upper half comes back.
    pub fn update(
        &mut self,
        key: &[u8],
        next: impl FnOnce(Option<KeyState>) -> KeyState,
    ) -> (Option<KeyState>, Option<Node>) {
        let children = match self {
            Self::Leaf(leaf) => {
                let (previous, split) = leaf.update(key, next);
                return (previous, split.map(Node::Leaf));
            }
            Self::Inner(children) => children,
        };
        let at = route(children, key);
        let (previous, split) = children[at].node.update(key, next);
        match split {
            None => children[at].len += usize::from(previous.is_none()),
            Some(right) => {
                children[at].len = children[at].node.len();
                children.insert(at + 1, Child::new(right));
            }
        }
        if children.len() <= FANOUT {
            return (previous, None);
        }
        let appended = at + 2 == children.len();
        let right = children.split_off(if appended { FANOUT } else { FANOUT / 2 });
        (previous, Some(Node::Inner(right)))
    }

    pub fn remove(&mut self, key: &[u8]) -> Option<KeyState> {
        let children = match self {
            Self::Leaf(leaf) => return leaf.remove(key),
            Self::Inner(children) => children,
        };
        let at = route(children, key);
        let removed = children[at].node.remove(key)?;
        children[at].len -= 1;
        if children[at].len == 0 && children.len() > 1 {
            children.remove(at);
        } else {
            merge_around(children, at);
        }
        Some(removed)
    }

    /// Drops levels that no longer branch.
    pub fn shrink_root(&mut self) {
        while let Self::Inner(children) = self {
            if children.len() > 1 {
                return;
            }
            let only = children.pop().map(|child| child.node).unwrap_or_default();
            *self = only;
        }
    }

    /// How many keys are smaller than this one.
    pub fn rank(&self, key: &[u8]) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.search(key).unwrap_or_else(|at| at),
            Self::Inner(children) => {
                let at = route(children, key);
                children[..at].iter().map(|child| child.len).sum::<usize>() + children[at].node.rank(key)
            }
        }
    }

    pub fn visit(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
        visit: &mut impl FnMut(&[u8], &KeyState) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match self {
            Self::Leaf(leaf) => leaf.visit(start, end, visit),
            Self::Inner(children) => children[route(children, start)..]
                .iter()
                .try_for_each(|child| child.node.visit(start, end, visit)),
        }
    }

    #[cfg(test)]
    pub fn leaves(&self) -> usize {
        match self {
            Self::Leaf(_) => 1,
            Self::Inner(children) => children.iter().map(|child| child.node.leaves()).sum(),
        }
    }
}

/// The child that holds the key if any does: the last whose first key is not above it.
fn route(children: &[Child], key: &[u8]) -> usize {
    children.partition_point(|child| *child.first <= *key).saturating_sub(1)
}

/// Joins a child that has become small with a neighbour, if both fit with room to spare (so that the next insert does
/// not split them again).
fn merge_around(children: &mut Vec<Child>, at: usize) {
    let capacity = match &children[at].node {
        Node::Leaf(_) => leaf::CAPACITY,
        Node::Inner(_) => FANOUT,
    };
    if children[at].node.width() > capacity / 4 {
        return;
    }
    let fits = |left: usize| {
        children
            .get(left + 1)
            .is_some_and(|right| children[left].node.width() + right.node.width() <= capacity * 3 / 4)
    };
    let left = match at {
        at if fits(at) => at,
        at if at > 0 && fits(at - 1) => at - 1,
        _ => return,
    };
    let right = children.remove(left + 1);
    let merged = &mut children[left];
    merged.len += right.len;
    match (&mut merged.node, right.node) {
        (Node::Leaf(leaf), Node::Leaf(right)) => leaf.absorb(right),
        (Node::Inner(inner), Node::Inner(mut moved)) => {
            // The first child took every smaller key whatever its own bound. Now it has a left neighbour, and the bound
            // that counts is the one that brought those keys here.
            moved[0].first = right.first;
            inner.extend(moved);
        }
        _ => unreachable!("siblings have the same height"),
    }
}
