//! The key space: twelve keys that include the awkward ones, and ranges over them.
//!
//! Twelve on purpose: etcd sorts range results with an algorithm that keeps the order of equal elements only up to
//! that many, so with more keys the order of ties would be an accident of its implementation.

use super::prng::Prng;
use crate::blob::Blob;

const KEYS: [&[u8]; 12] =
    [b"\0", b"a", b"a\0", b"aa", b"ab", b"b", b"b/1", b"b/2", b"b/\xff", b"c", b"\xff", b"\xff\xff"];

/// Values: few, so that they are equal often.
const VALUES: [&[u8]; 8] = [b"", b"0", b"1", b"2", b"x", b"xy", b"\0", b"\xff\xfe"];

/// The first possible key; as the end of a range it means that there is none.
pub fn first() -> Blob {
    Blob::fixed(b"\0")
}

pub fn key(rng: &mut Prng) -> Blob {
    Blob::fixed(KEYS[rng.index(KEYS.len())])
}

/// A key, or once in a while none.
pub fn key_or_none(rng: &mut Prng) -> Blob {
    if rng.percent(3) { Blob::default() } else { key(rng) }
}

pub fn value(rng: &mut Prng) -> Blob {
    Blob::fixed(VALUES[rng.index(VALUES.len())])
}

/// Key and end of a range, as requests carry them.
pub fn range(rng: &mut Prng) -> (Blob, Blob) {
    match rng.weighted(&[30, 25, 15, 12, 8, 4, 3, 3]) {
        0 => (key_or_none(rng), Blob::default()),
        1 => {
            let (one, other) = (key(rng), key(rng));
            if one <= other { (one, other) } else { (other, one) }
        }
        2 => {
            let prefix = key(rng);
            let end = prefix_end(&prefix);
            (prefix, end)
        }
        3 => (first(), first()),
        4 => (key(rng), first()),
        // Nothing lies between these, in either order.
        5 => {
            let (one, other) = (key(rng), key(rng));
            if one >= other { (one, other) } else { (other, one) }
        }
        6 => {
            let same = key(rng);
            (same.clone(), same)
        }
        _ => (Blob::default(), if rng.percent(50) { first() } else { key(rng) }),
    }
}

/// The end of the range of all keys with that prefix: the prefix with its last byte raised.
fn prefix_end(prefix: &Blob) -> Blob {
    let mut end = prefix.as_slice().to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return Blob::from(end);
        }
    }
    first()
}

#[cfg(test)]
mod tests {
    use super::prefix_end;
    use crate::blob::Blob;

    #[test]
    fn prefix_ends() {
        let cases: [(&'static [u8], &'static [u8]); 3] =
            [(b"ab", b"ac"), (b"b/\xff", b"b0"), (b"\xff\xff", b"\0")];
        for (prefix, end) in cases {
            assert_eq!(prefix_end(&Blob::fixed(prefix)), Blob::fixed(end));
        }
    }
}
