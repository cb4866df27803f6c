//! Resources as numbers: which dimension, and how much of it.

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

/// The dimensions by name.
#[derive(Clone, Debug)]
pub struct Dimensions {
    names: Interner,
}

impl Default for Dimensions {
    fn default() -> Self {
        Self { names: Interner::with(&["cpu", "memory", "storage", "replicas"]) }
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
        self.all(amounts).into_iter().filter(|(_, amount)| *amount > 0).collect()
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
