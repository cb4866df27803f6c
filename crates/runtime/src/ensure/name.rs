//! Names that follow from what they are for: whoever makes a part again calls it the same, and finds it there.

use std::fmt::Write;

use setpoint_types::object::to_json;
use sha2::{Digest, Sha256};

use super::Owner;

/// So long that it also fits where a name has to be a label: a namespace, a label's value.
pub const NAME_CHARS_MAX: usize = 63;

/// Bytes of the hash that are kept: a name is unique by them alone, among as many objects as a store holds.
const HASH_BYTES: usize = 10;

/// The name of a part: the owner's name, so that people recognise it, and a hash of the owner and whatever tells its parts apart.
///
/// **Guarantees**: the same for the same owner and discriminators, in every process and version; a good name for every kind; another
/// one for a later owner of the same name, whose parts therefore never meet those of the earlier one.
/// **Does not promise** that two different parts never share a name; it takes 2⁴⁰ of them before that is likely.
pub fn name_for(owner: &Owner, discriminators: &[&str]) -> String {
    let of = [&*owner.key.kind, &owner.key.namespace, &owner.key.name, owner.uid.as_str()];
    let all: Vec<&str> = of.into_iter().chain(discriminators.iter().copied()).collect();
    readable(&owner.key.name, &all)
}

/// A readable beginning, and a hash of the parts.
fn readable(prefix: &str, parts: &[&str]) -> String {
    let hash = digest(parts);
    let room = NAME_CHARS_MAX - hash.len() - 1;
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let begin: String = prefix.chars().map(plain).take(room).collect();
    match begin.trim_matches('-') {
        "" => format!("x-{hash}"),
        begin => format!("{begin}-{hash}"),
    }
}

/// A hash of texts, as a part of a name. Which text ends where counts.
pub(crate) fn digest(parts: &[&str]) -> String {
    // JSON tells ["a", "b"] from ["ab"], and does so in every version.
    let hash = Sha256::digest(to_json(&parts).to_string());
    hash.iter().take(HASH_BYTES).fold(String::with_capacity(2 * HASH_BYTES), |mut name, byte| {
        // Writing to a string does not fail.
        write!(name, "{byte:02x}").ok();
        name
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use setpoint_types::names::check_dns_label;
    use setpoint_types::{ObjectKey, Revision, Uid};

    use super::*;

    fn owner(name: &str, uid: &str) -> Owner {
        let key = ObjectKey::new("Workload", "default", name);
        Owner { key, uid: Uid::new(uid), revision: Revision::new(1) }
    }

    #[test]
    fn a_name_never_changes_between_versions() {
        assert_eq!(name_for(&owner("web", "u1"), &["slot", "3"]), "web-b532dc60bab87581ebc8");
    }

    #[test]
    fn owners_uids_and_every_discriminator_count() {
        let names = [
            name_for(&owner("web", "u1"), &["a", "b"]),
            name_for(&owner("web", "u1"), &["ab"]),
            name_for(&owner("web", "u1"), &["a", "b", ""]),
            name_for(&owner("web", "u2"), &["a", "b"]),
            name_for(&owner("api", "u1"), &["a", "b"]),
        ];
        let mut distinct = names.to_vec();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }

    proptest! {
        #[test]
        fn every_name_is_good_and_begins_readably(name in "[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?", slot: u32) {
            let made = name_for(&owner(&name, "u"), &[&slot.to_string()]);
            prop_assert_eq!(check_dns_label(&made), Ok(()), "{}", made);
            prop_assert_eq!(made.chars().next(), name.chars().next());
        }

        #[test]
        fn nonsense_makes_a_good_name_too(name in "\\PC{0,100}") {
            prop_assert_eq!(check_dns_label(&name_for(&owner(&name, ""), &[])), Ok(()));
        }
    }
}
