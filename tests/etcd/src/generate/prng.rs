//! A small random number generator (SplitMix64) of our own: seeds in reports and in the corpus must mean the same
//! thing in every release of every library.

#[derive(Clone, Debug)]
pub struct Prng(u64);

impl Prng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is small enough for the bias of a remainder not to matter.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + i64::try_from(self.below(low.abs_diff(high) + 1)).unwrap_or(0)
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(u64::try_from(len).unwrap_or(1))).unwrap_or(0)
    }

    /// An index, each as likely as its weight says.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if left < *weight {
                return index;
            }
            left -= weight;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::Prng;

    #[test]
    fn seeds_mean_the_same_for_ever() {
        let mut rng = Prng::new(42);
        assert_eq!([rng.next(), rng.next()], [13_679_457_532_755_275_413, 2_949_826_092_126_892_291]);
    }

    #[test]
    fn weights_of_zero_never_come_up() {
        let mut rng = Prng::new(1);
        assert!((0..1000).all(|_| rng.weighted(&[0, 3, 0, 1]) % 2 == 1));
    }
}
