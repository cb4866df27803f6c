//! How much of a decision is written down.
//!
//! All of it for what failed, for namespaces that are named, for everything while an incident is looked into, and for a sample of the
//! rest. Which ones are in the sample follows from the decision itself: who asks again finds the same ones, and every record of one
//! generation of an object is in it or none is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use setpoint_types::kinds::{DecisionSpec, DetailLevel};

use super::decision::is_failure;
use super::settings::RecorderSettings;
use crate::ensure::digest;

/// Out of how many the sample is counted.
const SAMPLE_OF: u32 = 10_000;

/// The policy. Cheap to clone; clones share the switch. **Guarantees** that what was refused or could not be placed is kept in full.
#[derive(Clone, Debug)]
pub struct Detail {
    priority_tenants: Arc<BTreeSet<String>>,
    sampled: u32,
    incident: Arc<AtomicBool>,
    cluster_namespace: Arc<str>,
}

impl Detail {
    pub fn new(settings: &RecorderSettings) -> Self {
        Self {
            priority_tenants: Arc::new(settings.detail.priority_tenants.clone()),
            sampled: settings.detail.sampled_per_10000,
            incident: Arc::new(AtomicBool::new(settings.detail.incident)),
            cluster_namespace: settings.cluster_namespace.as_str().into(),
        }
    }

    /// Everything in full from now on, or as it was.
    pub fn set_incident(&self, incident: bool) {
        self.incident.store(incident, Ordering::Relaxed);
    }

    pub(super) fn cluster_namespace(&self) -> &str {
        &self.cluster_namespace
    }

    pub fn level(&self, spec: &DecisionSpec) -> DetailLevel {
        let full = is_failure(spec.verdict.outcome)
            || self.incident.load(Ordering::Relaxed)
            || self.priority_tenants.contains(&spec.object.namespace)
            || self.is_sampled(spec);
        if full { DetailLevel::Full } else { DetailLevel::Counts }
    }

    fn is_sampled(&self, spec: &DecisionSpec) -> bool {
        let object = &spec.object;
        let identity = [&*object.kind, &object.namespace, &object.name, object.uid.as_str()];
        let generation = spec.generation.to_string();
        let parts: Vec<&str> = identity.into_iter().chain([&*spec.action, &generation]).collect();
        // Four digits of a hash are 65,536 equal parts.
        let drawn = digest(&parts).get(..4).and_then(|it| u32::from_str_radix(it, 16).ok()).unwrap_or(0);
        u64::from(drawn) * u64::from(SAMPLE_OF) < u64::from(self.sampled) << 16
    }

    /// The decision with as much as is to be written of it. Counts, verdict and victims always are.
    pub(super) fn cut_down(&self, spec: DecisionSpec) -> DecisionSpec {
        match self.level(&spec) {
            DetailLevel::Full => DecisionSpec { detail: DetailLevel::Full, ..spec },
            DetailLevel::Counts => DecisionSpec {
                detail: DetailLevel::Counts,
                nearest_misses: Vec::new(),
                scores: Vec::new(),
                topology: Vec::new(),
                evidence: Vec::new(),
                ..spec
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use setpoint_types::Generation;
    use setpoint_types::kinds::{NodeScore, Outcome, Verdict};
    use setpoint_types::object::ObjectReference;

    use super::super::settings::DetailSettings;
    use super::*;

    fn detail(sampled: u32) -> Detail {
        let priority_tenants = ["vip".to_owned()].into();
        let detail = DetailSettings { priority_tenants, sampled_per_10000: sampled, incident: false };
        Detail::new(&RecorderSettings { detail, ..RecorderSettings::default() })
    }

    fn decided(namespace: &str, name: &str, outcome: Outcome) -> DecisionSpec {
        DecisionSpec {
            object: ObjectReference {
                namespace: namespace.into(),
                name: name.into(),
                ..ObjectReference::default()
            },
            generation: Generation::FIRST,
            scores: vec![NodeScore::default()],
            verdict: Verdict { outcome, ..Verdict::default() },
            ..DecisionSpec::default()
        }
    }

    #[test]
    fn failures_priority_tenants_and_incidents_are_written_in_full() {
        let detail = detail(0);
        let check = |namespace, outcome, level| {
            let spec = detail.cut_down(decided(namespace, "web", outcome));
            assert_eq!((spec.detail, spec.scores.len()), (level, usize::from(level == DetailLevel::Full)));
        };
        check("team", Outcome::Accepted, DetailLevel::Counts);
        check("team", Outcome::Limited, DetailLevel::Full);
        check("vip", Outcome::Accepted, DetailLevel::Full);
        detail.clone().set_incident(true);
        check("team", Outcome::Accepted, DetailLevel::Full);
    }

    #[test]
    fn the_sample_is_as_large_as_it_should_be_and_always_the_same() {
        let sampled = |detail: &Detail| -> Vec<bool> {
            let spec = |number: u32| decided("team", &number.to_string(), Outcome::Accepted);
            (0..10_000).map(|it| detail.level(&spec(it)) == DetailLevel::Full).collect()
        };
        let tenth = sampled(&detail(1000));
        let count = tenth.iter().filter(|it| **it).count();
        assert!((850..1150).contains(&count), "{count}");
        assert_eq!(tenth, sampled(&detail(1000)));
        assert!(sampled(&detail(10_000)).into_iter().all(|it| it));
        assert!(!sampled(&detail(0)).into_iter().any(|it| it));
    }
}
