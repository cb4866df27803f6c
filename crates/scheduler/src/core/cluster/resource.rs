//! Resources as numbers: which dimension, and how much of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use setpoint_types::quantity::{Amounts, Unit};

use crate::core::interner::Interner;

/// A dimension of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dim(pub u32);

impl Dim {
    pub const CPU: Self = Self(0);
    pub const MEMORY: Self = Self(1);
    pub const STORAGE: Self = Self(2);
    /// How many there are: only quotas limit it.
    pub const REPLICAS: Self = Self(3);
    /// Those above are known from the start; what follows has a name that people gave it.
    pub const FIRST_NAMED: u32 = 4;

    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// How much of which dimensions: ordered, without zeros. Cheap to clone.
pub type Demand = Arc<[(Dim, i64)]>;

/// The dimensions by name, and which demands there are.
#[derive(Clone, Debug)]
pub struct Dimensions {
    names: Interner,
    shared: SharedDemands,
}

impl Default for Dimensions {
    fn default() -> Self {
        let names = Interner::with(&["cpu", "memory", "storage", "replicas"]);
        Self { names, shared: SharedDemands::default() }
    }
}

/// Equal demands are one: a hundred thousand replicas ask for a few hundred different ones. What nobody asks for any more goes
/// whenever they have doubled.
#[derive(Clone, Debug, Default)]
struct SharedDemands {
    known: BTreeSet<Demand>,
    looked_at: usize,
}

impl SharedDemands {
    const FEW: usize = 64;

    fn share(&mut self, demand: Vec<(Dim, i64)>) -> Demand {
        if let Some(known) = self.known.get(demand.as_slice()) {
            return known.clone();
        }
        if self.known.len() >= 2 * self.looked_at.max(Self::FEW) {
            self.known.retain(|it| Arc::strong_count(it) > 1);
            self.looked_at = self.known.len();
        }
        let demand: Demand = demand.into();
        self.known.insert(demand.clone());
        demand
    }
}

impl Dimensions {
    pub fn intern(&mut self, name: &str) -> Dim {
        Dim(self.names.intern(name))
    }

    pub fn name(&self, dim: Dim) -> &str {
        self.names.name(dim.0)
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// What is asked for; what is asked for as zero is not asked for.
    pub fn demand(&mut self, amounts: &Amounts) -> Demand {
        let mut demand = self.all(amounts);
        demand.retain(|(_, amount)| *amount > 0);
        self.shared.share(demand)
    }

    /// What is limited; a limit of zero is one.
    pub fn limits(&mut self, amounts: &Amounts) -> Demand {
        self.all(amounts).into()
    }

    fn all(&mut self, amounts: &Amounts) -> Vec<(Dim, i64)> {
        let mut demand: Vec<(Dim, i64)> =
            amounts.iter().map(|(name, amount)| (self.intern(name), amount)).collect();
        demand.sort_unstable();
        demand
    }

    /// As people write it: "500m".
    pub fn format(&self, dim: Dim, amount: i64) -> String {
        Unit::of_dimension(self.name(dim)).format(amount.max(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_demands_are_one_and_those_of_nobody_are_forgotten() {
        let mut dimensions = Dimensions::default();
        let mut ask = |cpu: i64| dimensions.demand(&Amounts::from_iter([("cpu".to_owned(), cpu)]));
        let kept = ask(7);
        assert!(Arc::ptr_eq(&kept, &ask(7)));
        (1000..2000).for_each(|cpu| drop(ask(cpu)));
        assert!(Arc::ptr_eq(&kept, &ask(7)), "what somebody has is not forgotten");
        assert!(dimensions.shared.known.len() <= 2 * SharedDemands::FEW, "of a thousand, few are left");
    }
}
