//! Makes sequences from seeds. The same seed makes the same sequence on every machine and in every release.
//!
//! Each family of requests has a file (`kv`, `txn`, `lease`, `watch`, `maintenance`); a profile decides how often each
//! family occurs. Values are drawn from small sets, so that requests meet each other's effects, and every option also
//! takes the values a careful client would never send. `scenario` holds what chance would hardly put together.
//!
//! The generator knows nothing about answers. What depends on the store's state is symbolic (`step::Rev`).

mod keys;
mod kv;
mod lease;
mod maintenance;
mod prng;
mod scenario;
mod txn;
mod watch;

use std::collections::BTreeSet;

use prng::Prng;
pub use scenario::{FIRST_SEED, scenarios};

use crate::step::{DeleteStep, LeaseRef, Rev, Sequence, Step, StreamSlot};

/// What a sequence is mostly about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    Kv,
    Txn,
    Lease,
    Watch,
    Mixed,
}

impl Profile {
    pub const ALL: [Profile; 5] = [Profile::Kv, Profile::Txn, Profile::Lease, Profile::Watch, Profile::Mixed];

    pub fn name(self) -> &'static str {
        match self {
            Profile::Kv => "kv",
            Profile::Txn => "txn",
            Profile::Lease => "lease",
            Profile::Watch => "watch",
            Profile::Mixed => "mixed",
        }
    }

    /// How often each family occurs: range, put, delete, txn, compact, lease, watch, maintenance.
    fn weights(self) -> [u64; 8] {
        match self {
            Profile::Kv => [45, 30, 10, 5, 5, 2, 0, 3],
            Profile::Txn => [10, 15, 4, 60, 4, 5, 0, 2],
            Profile::Lease => [10, 25, 5, 10, 2, 45, 0, 3],
            Profile::Watch => [3, 28, 10, 12, 4, 5, 36, 2],
            Profile::Mixed => [20, 22, 8, 16, 4, 12, 12, 6],
        }
    }
}

/// A sequence under construction.
struct Maker {
    rng: Prng,
    steps: Vec<Step>,
    /// Leases granted in this sequence and not revoked, as far as can be told without asking.
    leases: Vec<LeaseRef>,
    next_slot: u32,
    streams: BTreeSet<StreamSlot>,
    /// Watch ids that may be in use, by stream.
    watch_ids: Vec<(StreamSlot, i64)>,
}

/// The sequence of a seed, with a profile picked by the seed. `must_reset` makes it empty the store at its end; if not
/// set, it usually does so anyway.
pub fn sequence(seed: u64, must_reset: bool) -> Sequence {
    let mut rng = Prng::new(seed);
    let profile = *rng.pick(&Profile::ALL);
    sequence_of(profile, seed, must_reset)
}

/// The sequence of a seed and a profile.
pub fn sequence_of(profile: Profile, seed: u64, must_reset: bool) -> Sequence {
    let mut maker = Maker::new(seed);
    let length = maker.rng.between(20, 60);
    while maker.steps.len() < usize::try_from(length).unwrap_or(20) {
        maker.add_step(profile);
    }
    let resets = must_reset || maker.rng.percent(70);
    maker.finish(seed, profile.name(), resets)
}

impl Maker {
    fn new(seed: u64) -> Self {
        Self {
            rng: Prng::new(seed),
            steps: Vec::new(),
            leases: Vec::new(),
            next_slot: 0,
            streams: BTreeSet::new(),
            watch_ids: Vec::new(),
        }
    }

    fn add_step(&mut self, profile: Profile) {
        let step = match self.rng.weighted(&profile.weights()) {
            0 => Step::Range(self.range()),
            1 => Step::Put(self.put()),
            2 => Step::Delete(self.delete()),
            3 => Step::Txn(self.txn()),
            4 => self.compact(),
            5 => self.lease(),
            6 => self.watch(),
            _ => self.maintenance(),
        };
        self.steps.push(step);
    }

    /// Closes and revokes what the sequence opened, and empties the store if asked to.
    fn finish(mut self, seed: u64, profile: &str, resets: bool) -> Sequence {
        for stream in std::mem::take(&mut self.streams) {
            self.steps.push(Step::CloseStream { stream });
        }
        for lease in std::mem::take(&mut self.leases) {
            self.steps.push(Step::Revoke { lease });
        }
        if resets {
            self.steps.push(Step::Delete(DeleteStep {
                key: keys::first(),
                end: keys::first(),
                ..DeleteStep::default()
            }));
            self.steps.push(Step::Compact { revision: Rev::Now(0), physical: false });
        }
        Sequence { seed, profile: profile.to_owned(), resets, steps: self.steps }.settled()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Profile, scenarios, sequence, sequence_of};
    use crate::step::{Sequence, Step};

    #[test]
    fn a_seed_always_makes_the_same_sequence_and_survives_its_text_form() {
        for seed in 0..300 {
            let made = sequence(seed, false);
            assert_eq!(made, sequence(seed, false));
            let text = serde_json::to_string(&made).expect("a sequence has a text form");
            assert_eq!(serde_json::from_str::<Sequence>(&text).expect("and can be read back"), made);
        }
    }

    #[test]
    fn every_kind_of_step_occurs() {
        let mut kinds = BTreeSet::new();
        let generated =
            Profile::ALL.iter().flat_map(|profile| (0..200).map(|seed| sequence_of(*profile, seed, true)));
        for sequence in generated.chain(scenarios()) {
            for step in sequence.steps {
                kinds.insert(format!("{step:?}").split(['(', ' ']).next().unwrap_or_default().to_owned());
            }
        }
        let expected = [
            "Alarm",
            "AlarmGet",
            "AwaitGone",
            "CancelWatch",
            "CloseStream",
            "Compact",
            "Defragment",
            "Delete",
            "EmptyWatchRequest",
            "Grant",
            "GrantBriefly",
            "Hash",
            "HashKv",
            "KeepAlive",
            "Leases",
            "MemberList",
            "Progress",
            "Put",
            "PutMany",
            "Range",
            "Revoke",
            "Settle",
            "Status",
            "Stray",
            "TimeToLive",
            "Txn",
            "Watch",
        ];
        assert_eq!(kinds.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_resetting_sequence_ends_with_a_compaction_of_everything() {
        for seed in 0..50 {
            let made = sequence(seed, true);
            assert!(made.resets);
            assert!(matches!(made.steps.last(), Some(Step::Compact { .. })));
        }
    }
}
