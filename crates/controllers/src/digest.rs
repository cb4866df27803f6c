//! Hashes in names: short, the same in every process and version.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Bytes of a hash that are kept. A name made with it is told apart by its beginning, too: they are unlikely to meet among the parts
/// of one workload, and whoever makes a name looks whether it is taken.
const BYTES: usize = 5;

/// Ten characters that stand for some texts. Which text ends where counts.
pub fn digest(parts: &[&str]) -> String {
    // JSON tells ["a", "b"] from ["ab"], and does so in every version.
    let text = serde_json::json!(parts).to_string();
    Sha256::digest(text).iter().take(BYTES).fold(String::with_capacity(2 * BYTES), |mut hash, byte| {
        // Writing to a string does not fail.
        write!(hash, "{byte:02x}").ok();
        hash
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_never_changes_between_versions_and_every_border_counts() {
        assert_eq!(digest(&["web", "a"]), "1c846c905c");
        assert_ne!(digest(&["web", "a"]), digest(&["weba"]));
    }
}
