//! One hash that is the same in every process and every build: for ties, for shares of a policy, for finding equal classes.
//!
//! Not for keys that an attacker could choose to make a table slow: what is found by it is compared as a whole afterwards.

use std::hash::Hasher;

/// FNV-1a with a last round that spreads its weak high bits.
#[derive(Clone, Copy, Debug)]
pub struct StableHasher(u64);

impl Default for StableHasher {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for StableHasher {
    fn finish(&self) -> u64 {
        mix(self.0)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// Spreads a number over all bits.
pub fn mix(value: u64) -> u64 {
    let mut value = value ^ (value >> 32);
    value = value.wrapping_mul(0xd6e8_feb8_6659_fd93);
    value ^= value >> 32;
    value = value.wrapping_mul(0xd6e8_feb8_6659_fd93);
    value ^ (value >> 32)
}

pub fn of_text(text: &str) -> u64 {
    let mut hasher = StableHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}
