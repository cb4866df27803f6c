//! Keys and values: the same bytes for every system, from a fixed seed.
//!
//! Values are text shaped like API objects: names of fields that recur, and random ids that do not. Half of the
//! bytes are random hex digits, so a block of them compresses about two times. Neither all zeros nor one value
//! repeated, which would flatter a store that compresses.

use bytes::Bytes;

/// Pseudo-random numbers (SplitMix64), written out so that a seed gives the same bytes in every release.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator of its own for each client.
    pub fn for_client(client: usize) -> Self {
        let mut parent = Self(0x5e7_0011 ^ ((client as u64) << 20));
        Self(parent.next())
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; the bias for bounds far below 2^32 does not matter here.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

/// Field names between which the random ids stand.
const FIELDS: [&str; 12] = [
    "\",\"uid\":\"",
    "\",\"nodeName\":\"",
    "\",\"resourceVersion\":\"",
    "\",\"podIP\":\"",
    "\",\"containerID\":\"",
    "\",\"imageID\":\"",
    "\",\"startTime\":\"",
    "\",\"ownerUid\":\"",
    "\",\"lastProbeTime\":\"",
    "\",\"hash\":\"",
    "\",\"secretName\":\"",
    "\",\"traceParent\":\"",
];

/// Appends one object of exactly `length` bytes.
pub fn write_object(random: &mut Random, length: usize, object: &mut Vec<u8>) {
    let end = object.len() + length;
    object.extend_from_slice(b"{\"kind\":\"Pod");
    let mut field = 0;
    while object.len() < end {
        let name = FIELDS[field % FIELDS.len()];
        object.extend_from_slice(name.as_bytes());
        // As many random digits as the name has bytes, so that half of the object is random.
        let mut digits = random.next();
        for position in 0..name.len() {
            if position == 15 {
                digits = random.next();
            }
            object.push(b"0123456789abcdef"[(digits & 15) as usize]);
            digits >>= 4;
        }
        field += 1;
    }
    object.truncate(end - 2);
    object.extend_from_slice(b"\"}");
}

/// Distinct objects of one size to draw from, so that choosing a value allocates nothing.
#[derive(Clone, Debug)]
pub struct Values(Vec<Bytes>);

impl Values {
    const COUNT: usize = 4_096;

    pub fn of_length(length: usize) -> Self {
        let mut random = Random::new(length as u64);
        let mut all = Vec::with_capacity(length * Self::COUNT);
        for _ in 0..Self::COUNT {
            write_object(&mut random, length, &mut all);
        }
        let all = Bytes::from(all);
        Self((0..Self::COUNT).map(|index| all.slice(index * length..(index + 1) * length)).collect())
    }

    pub fn draw(&self, random: &mut Random) -> Bytes {
        self.0[random.below(self.0.len())].clone()
    }
}

/// The key of the pod with that number: 41 bytes.
pub fn pod_key(number: usize) -> Bytes {
    let namespace = number % 100;
    let template = Random::new(number as u64).next() as u32;
    Bytes::from(format!("/registry/pods/ns-{namespace:02}/web-{template:08x}-{number:07}"))
}

/// The keys of the first `count` pods.
pub fn pod_keys(count: usize) -> Vec<Bytes> {
    (0..count).map(pod_key).collect()
}

/// All pods, as a key and the end of its range.
pub fn all_pods() -> (Bytes, Bytes) {
    (Bytes::from_static(b"/registry/pods/"), Bytes::from_static(b"/registry/pods0"))
}

/// The key of one of a namespace's config maps.
pub fn config_map_key(namespace: usize, number: usize) -> Bytes {
    Bytes::from(format!("/registry/configmaps/ns-{namespace:02}/settings-{number:06}"))
}

/// All config maps of a namespace, as a key and the end of its range.
pub fn config_maps_of(namespace: usize) -> (Bytes, Bytes) {
    let prefix = format!("/registry/configmaps/ns-{namespace:02}");
    (Bytes::from(format!("{prefix}/")), Bytes::from(format!("{prefix}0")))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn objects_have_the_length_asked_for() {
        for length in [16, 64, 256, 1_024, 1_025] {
            let mut object = Vec::new();
            write_object(&mut Random::new(1), length, &mut object);
            assert_eq!(object.len(), length);
            assert!(object.starts_with(b"{\"kind\":") && object.ends_with(b"\"}"));
        }
    }

    #[test]
    fn about_half_of_an_object_is_random() {
        let (mut one, mut other) = (Vec::new(), Vec::new());
        write_object(&mut Random::new(1), 1_024, &mut one);
        write_object(&mut Random::new(2), 1_024, &mut other);
        let differing = one.iter().zip(&other).filter(|(a, b)| a != b).count();
        // Two random digits are equal one time in sixteen.
        assert!((420..520).contains(&differing), "{differing}");
    }

    #[test]
    fn values_are_distinct_and_the_same_in_every_run() {
        let values = Values::of_length(256);
        let distinct: HashSet<&Bytes> = values.0.iter().collect();
        assert_eq!(distinct.len(), Values::COUNT);
        assert_eq!(values.0, Values::of_length(256).0);
    }

    #[test]
    fn keys_are_distinct_and_of_one_length() {
        let keys = pod_keys(10_000);
        assert!(keys.iter().all(|key| key.len() == 41));
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
    }

    #[test]
    fn ranges_hold_their_keys_only() {
        let (start, end) = config_maps_of(7);
        assert!((start.clone()..end.clone()).contains(&config_map_key(7, 499)));
        assert!(!(start..end).contains(&config_map_key(8, 0)));
        let (start, end) = all_pods();
        assert!((start..end).contains(&pod_key(999_999)));
    }

    #[test]
    fn clients_draw_different_numbers_within_the_bound() {
        let (mut one, mut other) = (Random::for_client(0), Random::for_client(1));
        assert_ne!(one.next(), other.next());
        let mut seen = [false; 10];
        for _ in 0..1_000 {
            seen[one.below(10)] = true;
        }
        assert_eq!(seen, [true; 10]);
    }
}
