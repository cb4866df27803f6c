//! LEB128 integers, as the log and the tables hold them.

use bytes::{Buf, BufMut};

pub(crate) fn put_varint(out: &mut impl BufMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

/// None if the input ends early or the number does not fit 64 bits.
pub(crate) fn get_varint(input: &mut impl Buf) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = input.try_get_u8().ok()?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Maps signed numbers to unsigned ones so that small magnitudes stay short.
pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

pub(crate) const fn unzigzag(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_survive(value in any::<u64>()) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert_eq!(get_varint(&mut &out[..]), Some(value));
            prop_assert_eq!(get_varint(&mut &out[..out.len() - 1]), None);
            prop_assert_eq!(zigzag(unzigzag(value)), value);
        }
    }

    #[test]
    fn a_number_beyond_64_bits_is_refused() {
        assert_eq!(get_varint(&mut &[0xff; 11][..]), None);
        assert_eq!(get_varint(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02][..]), None);
        assert_eq!(
            get_varint(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01][..]),
            Some(u64::MAX)
        );
    }
}
