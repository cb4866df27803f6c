//! Quotas, and what the replicas of each namespace use of them.
//!
//! What is used is the sum of what is bound. The server's ledgers have the last word; this says beforehand what they will say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use setpoint_types::Revision;

use super::resource::{Demand, Dim};
use super::topology::Domain;

/// The limits of one Quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub everywhere: Demand,
    pub zones: BTreeMap<Domain, Demand>,
    pub revision: Revision,
}

/// A limit that would be exceeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaMiss {
    pub quota: String,
    /// None: that over all zones.
    pub zone: Option<Domain>,
    pub dim: Dim,
    pub used: i64,
    pub limit: i64,
    pub requested: i64,
    pub revision: Revision,
}

impl QuotaMiss {
    /// Not even alone in the namespace does the replica fit.
    pub fn is_hopeless(&self) -> bool {
        self.requested > self.limit
    }
}

#[derive(Clone, Debug, Default)]
struct Tenant {
    quotas: BTreeMap<String, Limits>,
    used: BTreeMap<Dim, i64>,
    used_in: BTreeMap<(Domain, Dim), i64>,
}

/// All namespaces that have quotas or replicas.
#[derive(Clone, Debug, Default)]
pub struct Quotas {
    tenants: BTreeMap<Arc<str>, Tenant>,
}

impl Quotas {
    /// Sets or removes a quota. Tells what it allows more of than before.
    pub fn set(&mut self, namespace: &str, name: &str, limits: Option<Limits>) -> BTreeSet<Dim> {
        let quotas = &mut self.tenant(namespace).quotas;
        let Some(before) = quotas.remove(name) else {
            quotas.extend(limits.map(|limits| (name.to_owned(), limits)));
            return BTreeSet::new();
        };
        let zones = before.zones.iter().map(|(zone, old)| {
            (&**old, limits.as_ref().and_then(|it| it.zones.get(zone)).map_or(&[][..], |it| &**it))
        });
        let everywhere = (&*before.everywhere, limits.as_ref().map_or(&[][..], |it| &*it.everywhere));
        let raised = zones.chain([everywhere]).flat_map(|(old, new)| {
            let allows = |dim: Dim| new.iter().find(|it| it.0 == dim).map_or(i64::MAX, |it| it.1);
            old.iter().filter(move |(dim, limit)| allows(*dim) > *limit).map(|it| it.0)
        });
        let raised = raised.collect();
        quotas.extend(limits.map(|limits| (name.to_owned(), limits)));
        raised
    }

    fn tenant(&mut self, namespace: &str) -> &mut Tenant {
        if !self.tenants.contains_key(namespace) {
            self.tenants.insert(namespace.into(), Tenant::default());
        }
        self.tenants.get_mut(namespace).expect("it was just put there")
    }

    /// What somebody uses in a zone, or gives back.
    pub fn charge(&mut self, namespace: &str, zone: Option<Domain>, demand: &[(Dim, i64)], is_more: bool) {
        let tenant = self.tenant(namespace);
        let sign = if is_more { 1 } else { -1 };
        for (dim, amount) in demand.iter().copied().chain([(Dim::REPLICAS, 1)]) {
            *tenant.used.entry(dim).or_default() += sign * amount;
            if let Some(zone) = zone {
                *tenant.used_in.entry((zone, dim)).or_default() += sign * amount;
            }
        }
    }

    pub fn used(&self, namespace: &str, dim: Dim) -> i64 {
        self.tenants.get(namespace).and_then(|it| it.used.get(&dim)).copied().unwrap_or(0)
    }

    pub fn used_in(&self, namespace: &str, zone: Domain, dim: Dim) -> i64 {
        self.tenants.get(namespace).and_then(|it| it.used_in.get(&(zone, dim))).copied().unwrap_or(0)
    }

    pub fn has_zones(&self, namespace: &str) -> bool {
        self.tenants.get(namespace).is_some_and(|it| it.quotas.values().any(|it| !it.zones.is_empty()))
    }

    /// The first limit that `count` more of a demand would exceed: over all zones, or in one.
    pub fn miss(
        &self,
        namespace: &str,
        zone: Option<Domain>,
        demand: &[(Dim, i64)],
        count: i64,
    ) -> Option<QuotaMiss> {
        let tenant = self.tenants.get(namespace)?;
        let wanted = |dim: Dim| match dim {
            Dim::REPLICAS => count,
            _ => {
                demand.iter().find(|(it, _)| *it == dim).map_or(0, |(_, amount)| amount.saturating_mul(count))
            }
        };
        tenant.quotas.iter().find_map(|(name, quota)| {
            let limits = match zone {
                None => &quota.everywhere,
                Some(zone) => quota.zones.get(&zone)?,
            };
            limits.iter().find_map(|(dim, limit)| {
                let used = match zone {
                    None => tenant.used.get(dim),
                    Some(zone) => tenant.used_in.get(&(zone, *dim)),
                };
                let (used, requested) = (used.copied().unwrap_or(0), wanted(*dim));
                let exceeds = requested > 0 && used.saturating_add(requested) > *limit;
                exceeds.then(|| QuotaMiss {
                    quota: name.clone(),
                    zone,
                    dim: *dim,
                    used,
                    limit: *limit,
                    requested,
                    revision: quota.revision,
                })
            })
        })
    }
}
