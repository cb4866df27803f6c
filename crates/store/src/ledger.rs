//! Ledgers: how much there is of something, how much of it is taken, and by whom.
//!
//! `/setpoint.ledger/NAME` has the limits and what is used of them, `/setpoint.ledger/NAME/OWNER` what one owner has
//! reserved; what is used is the sum of the reservations at every revision (invariant S19). Both are keys like any other,
//! so they have history and watches. Changed by commits alone (`machine/plan.rs`).
//!
//! A dimension without a limit has none to give: a node that names no GPUs has none. Where unnamed dimensions shall be free,
//! as in a quota for CPUs alone, the limit of `*` says how much there is of each of them.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes};
use setpoint_types::KeyRange;

use crate::codec::{put_bytes, read_byte, read_string};
use crate::commit::Evenness;
use crate::encoding::{Damaged, FORMAT, LEDGERS, escape_name, split_name};
use crate::varint::{get_varint, put_varint};

/// An amount per dimension: `cpu`, `memory`. In what is stored as reserved or used, none is zero.
pub type Amounts = BTreeMap<String, u64>;

/// In limits: every dimension that is not named.
pub const EVERY_OTHER: &str = "*";

/// Limits and use. The default is a ledger that does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    pub limits: Amounts,
    pub used: Amounts,
}

/// What a key of [`LEDGERS`] is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerKey {
    Ledger(String),
    Reservation { ledger: String, owner: String },
}

impl Ledger {
    pub fn key(name: &str) -> Bytes {
        let mut key = room_for(name, "");
        key.put_slice(LEDGERS);
        escape_name(&mut key, name);
        key.into()
    }

    pub fn reservation_key(ledger: &str, owner: &str) -> Bytes {
        let mut key = room_for(ledger, owner);
        key.put_slice(LEDGERS);
        escape_name(&mut key, ledger);
        key.put_u8(b'/');
        key.put_slice(owner.as_bytes());
        key.into()
    }

    /// The keys of all ledgers whose names begin so, with their reservations.
    pub fn with_prefix(prefix: &str) -> KeyRange {
        let start = Self::key(prefix);
        let mut end = start.to_vec();
        // Text has no byte that is the largest.
        end.last_mut().into_iter().for_each(|last| *last += 1);
        KeyRange::Span { start, end: end.into() }
    }

    /// The keys of all reservations in a ledger.
    pub fn reservations(name: &str) -> KeyRange {
        let start = Self::reservation_key(name, "");
        let mut end = start[..start.len() - 1].to_vec();
        end.push(b'/' + 1);
        KeyRange::Span { start, end: end.into() }
    }

    pub fn limit(&self, dimension: &str) -> u64 {
        let limit = self.limits.get(dimension).or_else(|| self.limits.get(EVERY_OTHER));
        limit.copied().unwrap_or(0)
    }

    /// What stands against reserving `amounts` in place of `before`: of each dimension that does not suffice, what is left
    /// for them. To take no more than before is always possible, also where limits were lowered below what is used.
    pub fn shortage(&self, before: &Amounts, amounts: &Amounts) -> Amounts {
        self.shortage_within(|dimension| self.limit(dimension), before, amounts)
    }

    /// The same where a ledger without any limits has room for everything: it only counts.
    pub fn shortage_counting(&self, before: &Amounts, amounts: &Amounts) -> Amounts {
        let limit = |dimension: &str| if self.limits.is_empty() { u64::MAX } else { self.limit(dimension) };
        self.shortage_within(limit, before, amounts)
    }

    fn shortage_within(&self, limit: impl Fn(&str) -> u64, before: &Amounts, amounts: &Amounts) -> Amounts {
        let mut shortage = Amounts::new();
        for (dimension, amount) in amounts {
            let had = before.get(dimension).copied().unwrap_or(0);
            let others = self.used.get(dimension).copied().unwrap_or(0).saturating_sub(had);
            let limit = limit(dimension);
            let fits = others.checked_add(*amount).is_some_and(|used| used <= limit);
            if *amount > had && !fits {
                shortage.insert(dimension.clone(), limit.saturating_sub(others));
            }
        }
        shortage
    }

    /// Books a reservation in place of another, after [`Self::shortage`] found nothing against it.
    pub(crate) fn book(&mut self, before: &Amounts, amounts: &Amounts) {
        for (dimension, amount) in before {
            let used = self.used.entry(dimension.clone()).or_default();
            // S19: what is used is the sum of the reservations, so none of them can be larger.
            *used = used.checked_sub(*amount).expect("S19: a ledger uses less than one of its reservations");
        }
        for (dimension, amount) in amounts {
            let used = self.used.entry(dimension.clone()).or_default();
            *used = used.checked_add(*amount).expect("S19: a sum was checked before it was booked");
        }
        self.used.retain(|_, used| *used > 0);
    }

    /// What a domain has, and the least that any of the domains has which count, if that is too far below.
    pub fn unevenness(&self, domain: &str, evenness: &Evenness) -> Option<(u64, u64)> {
        let used = |domain: &str| self.used.get(domain).copied().unwrap_or(0);
        let has = used(domain);
        let least = evenness.among.iter().map(|it| used(it)).min().unwrap_or(0);
        (has.saturating_sub(least) > evenness.max_skew).then_some((has, least))
    }

    /// Nobody would miss it.
    pub fn is_empty(&self) -> bool {
        self.limits.is_empty() && self.used.is_empty()
    }

    pub fn encode(&self) -> Bytes {
        let mut row = Vec::with_capacity(1 + size(&self.limits) + size(&self.used));
        row.put_u8(FORMAT);
        put_amounts(&mut row, &self.limits);
        put_amounts(&mut row, &self.used);
        row.into()
    }

    pub fn decode(mut row: Bytes) -> Result<Self, Damaged> {
        let mut read = || {
            (read_byte(&mut row)? == FORMAT).then_some(())?;
            let ledger = Self { limits: read_amounts(&mut row)?, used: read_amounts(&mut row)? };
            row.is_empty().then_some(ledger)
        };
        read().ok_or(Damaged { what: "ledger" })
    }
}

impl LedgerKey {
    /// None for any other key.
    pub fn parse(key: &[u8]) -> Option<Self> {
        Some(match split_name(key.strip_prefix(LEDGERS)?)? {
            (ledger, Some(owner)) => Self::Reservation { ledger, owner },
            (name, None) => Self::Ledger(name),
        })
    }
}

/// The value of a reservation's key, of amounts none of which is zero.
pub fn encode_reservation(amounts: &Amounts) -> Bytes {
    let mut row = Vec::with_capacity(1 + size(amounts));
    row.put_u8(FORMAT);
    put_amounts(&mut row, amounts);
    row.into()
}

/// Undoes [`encode_reservation`].
pub fn decode_reservation(mut row: Bytes) -> Result<Amounts, Damaged> {
    let mut read = || {
        (read_byte(&mut row)? == FORMAT).then_some(())?;
        read_amounts(&mut row).filter(|_| row.is_empty())
    };
    read().ok_or(Damaged { what: "reservation" })
}

/// A key that need not grow, with a slash or two in the name.
fn room_for(name: &str, owner: &str) -> Vec<u8> {
    const ESCAPES: usize = 8;
    Vec::with_capacity(LEDGERS.len() + name.len() + ESCAPES + owner.len())
}

/// At least what the amounts take in a row, of dimensions with short names.
fn size(amounts: &Amounts) -> usize {
    const NUMBERS: usize = 12;
    1 + amounts.keys().map(|name| name.len() + NUMBERS).sum::<usize>()
}

pub(crate) fn put_amounts(out: &mut impl BufMut, amounts: &Amounts) {
    put_varint(out, amounts.len() as u64);
    for (dimension, amount) in amounts {
        put_bytes(out, dimension.as_bytes());
        put_varint(out, *amount);
    }
}

pub(crate) fn read_amounts(input: &mut Bytes) -> Option<Amounts> {
    let count = get_varint(input)?;
    (0..count).map(|_| Some((read_string(input)?, get_varint(input)?))).collect()
}

/// Without what is zero.
pub(crate) fn nonzero(amounts: &Amounts) -> Amounts {
    amounts.iter().filter(|(_, amount)| **amount > 0).map(|(name, amount)| (name.clone(), *amount)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amounts(of: &[(&str, u64)]) -> Amounts {
        of.iter().map(|(name, amount)| (name.to_string(), *amount)).collect()
    }

    proptest! {
        #[test]
        fn rows_and_keys_survive(
            name in "[a%/]{0,4}", owner in "[a%/]{0,4}", other in "[a%/]{0,4}",
            limits in prop::collection::btree_map("[a-c]", any::<u64>(), 0..3),
            used in prop::collection::btree_map("[a-c]", any::<u64>(), 0..3),
        ) {
            let key = Ledger::reservation_key(&name, &owner);
            prop_assert_eq!(LedgerKey::parse(&Ledger::key(&name)), Some(LedgerKey::Ledger(name.clone())));
            prop_assert!(Ledger::reservations(&name).contains(&key));
            prop_assert_eq!(Ledger::reservations(&other).contains(&key), name == other);
            prop_assert!(!Ledger::reservations(&name).contains(&Ledger::key(&other)));
            prop_assert_eq!(LedgerKey::parse(&key), Some(LedgerKey::Reservation { ledger: name, owner }));
            prop_assert_eq!(decode_reservation(encode_reservation(&used)), Ok(used.clone()));
            let ledger = Ledger { limits, used };
            let row = ledger.encode();
            prop_assert!(Ledger::decode(row.slice(..row.len() - 1)).is_err());
            prop_assert_eq!(Ledger::decode(row), Ok(ledger));
        }
    }

    #[test]
    fn a_dimension_has_room_up_to_its_limit_and_without_a_limit_none() {
        let ledger = Ledger { limits: amounts(&[("cpu", 10)]), used: amounts(&[("cpu", 7)]) };
        let none = Amounts::new();
        for (before, wanted, shortage) in [
            (&none, amounts(&[("cpu", 3)]), none.clone()),
            (&none, amounts(&[("cpu", 4)]), amounts(&[("cpu", 3)])),
            (&none, amounts(&[("gpu", 1)]), amounts(&[("gpu", 0)])),
            (&none, amounts(&[("gpu", 0)]), none.clone()),
            (&none, amounts(&[("cpu", u64::MAX)]), amounts(&[("cpu", 3)])),
            (&amounts(&[("cpu", 2)]), amounts(&[("cpu", 5)]), none.clone()),
            (&amounts(&[("cpu", 2)]), amounts(&[("cpu", 6)]), amounts(&[("cpu", 5)])),
        ] {
            assert_eq!(ledger.shortage(before, &wanted), shortage, "{wanted:?} in place of {before:?}");
        }
        let free = Ledger { limits: amounts(&[("cpu", 1), (EVERY_OTHER, 5)]), ..Ledger::default() };
        assert_eq!(free.shortage(&none, &amounts(&[("cpu", 2), ("gpu", 5)])), amounts(&[("cpu", 1)]));
    }

    #[test]
    fn a_domain_is_at_most_so_far_above_the_emptiest_that_counts() {
        let ledger = Ledger { used: amounts(&[("a", 3), ("b", 2)]), ..Ledger::default() };
        let uneven = |domain: &str, max_skew: u64, among: &[&str]| {
            let among = among.iter().map(|it| it.to_string()).collect();
            ledger.unevenness(domain, &Evenness { max_skew, among })
        };
        assert_eq!(uneven("a", 1, &["a", "b"]), None);
        assert_eq!(uneven("a", 1, &["a", "b", "c"]), Some((3, 0)));
        assert_eq!(uneven("a", 3, &["a", "b", "c"]), None);
        assert_eq!(uneven("b", 1, &["a"]), None, "below the others is not too far above");
        assert_eq!(uneven("b", 1, &[]), Some((2, 0)));
    }

    #[test]
    fn a_ledger_without_limits_has_room_for_what_is_only_counted_until_numbers_end() {
        let mut ledger = Ledger { used: amounts(&[("a", u64::MAX)]), ..Ledger::default() };
        let one = amounts(&[("b", 1)]);
        assert!(ledger.shortage_counting(&Amounts::new(), &one).is_empty());
        assert_eq!(ledger.shortage_counting(&Amounts::new(), &amounts(&[("a", 1)])), amounts(&[("a", 0)]));
        ledger.limits = amounts(&[("a", 5)]);
        assert_eq!(ledger.shortage_counting(&Amounts::new(), &one), amounts(&[("b", 0)]));
    }

    #[test]
    fn under_lowered_limits_less_may_be_taken_and_more_may_not() {
        let ledger = Ledger { limits: amounts(&[("cpu", 1)]), used: amounts(&[("cpu", 7)]) };
        let before = amounts(&[("cpu", 4)]);
        assert!(ledger.shortage(&before, &amounts(&[("cpu", 3)])).is_empty());
        assert!(ledger.shortage(&before, &amounts(&[("cpu", 4)])).is_empty());
        assert_eq!(ledger.shortage(&before, &amounts(&[("cpu", 5)])), amounts(&[("cpu", 0)]));
    }

    #[test]
    #[should_panic(expected = "S19")]
    fn a_reservation_larger_than_the_sum_stops_the_replica() {
        Ledger::default().book(&amounts(&[("cpu", 1)]), &Amounts::new());
    }
}
