//! A latency histogram that many tasks write at once, without locks or allocation.
//!
//! Buckets are logarithmic with 128 steps per power of two, so a percentile is off by less than 0.4 %. One shared
//! histogram instead of one per client keeps the client's memory small at a thousand clients.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const STEP_BITS: u32 = 7;
const STEPS: u64 = 1 << STEP_BITS;
/// Longer durations, from 2^41 ns (36 minutes) on, are counted in the last bucket.
const EXPONENT_MAX: u32 = 40;
const BUCKETS: usize = ((EXPONENT_MAX - STEP_BITS + 2) as usize) << STEP_BITS;

/// Durations, counted as they come in.
#[derive(Debug)]
pub struct Histogram {
    counts: Box<[AtomicU64]>,
}

/// The durations a histogram held at one moment.
#[derive(Clone, Debug)]
pub struct Distribution {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    pub fn new() -> Self {
        Self { counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect() }
    }

    pub fn record(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket_of(nanos)].fetch_add(1, Ordering::Relaxed);
    }

    /// Forgets everything. Durations recorded meanwhile may or may not be kept.
    pub fn reset(&self) {
        for count in &self.counts {
            count.store(0, Ordering::Relaxed);
        }
    }

    pub fn distribution(&self) -> Distribution {
        let counts: Vec<u64> = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let total = counts.iter().sum();
        Distribution { counts, total }
    }
}

impl Distribution {
    /// How many durations were recorded.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The smallest duration that at least `percent` of all durations do not exceed; `None` if there are none.
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        if self.total == 0 {
            return None;
        }
        let rank = ((percent / 100.0 * self.total as f64).ceil() as u64).clamp(1, self.total);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(Duration::from_nanos(middle_of(bucket)));
            }
        }
        None
    }
}

fn bucket_of(nanos: u64) -> usize {
    if nanos < STEPS {
        return nanos as usize;
    }
    let exponent = nanos.ilog2();
    if exponent > EXPONENT_MAX {
        return BUCKETS - 1;
    }
    let shift = exponent - STEP_BITS;
    let step = (nanos >> shift) - STEPS;
    (((shift as usize) + 1) << STEP_BITS) + step as usize
}

fn middle_of(bucket: usize) -> u64 {
    let row = (bucket >> STEP_BITS) as u64;
    let step = bucket as u64 & (STEPS - 1);
    if row == 0 {
        return step;
    }
    let shift = row - 1;
    ((STEPS + step) << shift) + ((1 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_holds_its_own_middle() {
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(middle_of(bucket)), bucket);
        }
    }

    #[test]
    fn buckets_never_go_back() {
        let mut last = 0;
        for exponent in 0..44 {
            for part in 0..16_u64 {
                let bucket = bucket_of((1 << exponent) + part * ((1 << exponent) / 16));
                assert!(bucket >= last);
                last = bucket;
            }
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_of_a_known_series() {
        let histogram = Histogram::new();
        for millis in 1..=1_000 {
            histogram.record(Duration::from_millis(millis));
        }
        let distribution = histogram.distribution();
        assert_eq!(distribution.count(), 1_000);
        for (percent, millis) in [(50.0, 500.0), (99.0, 990.0), (100.0, 1_000.0), (0.0, 1.0)] {
            let found = distribution.percentile(percent).expect("not empty").as_secs_f64() * 1e3;
            assert!((found / millis - 1.0).abs() < 0.005, "p{percent}: {found} ms");
        }
    }

    #[test]
    fn an_empty_histogram_has_no_percentile() {
        let histogram = Histogram::new();
        histogram.record(Duration::from_micros(3));
        histogram.reset();
        assert_eq!(histogram.distribution().percentile(50.0), None);
    }
}
