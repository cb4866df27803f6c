//! Whether the host runs short of disk or memory: shown in the Node's conditions. With a gap between coming and going, so that
//! a host at the edge is not written about every time it is looked at.

use std::fs;
use std::path::Path;

use super::capacity::{disk, meminfo};

/// Short from this share of free space down, in percent.
const SHORT_PERCENT: i64 = 5;
/// No longer short from here up.
const ENOUGH_PERCENT: i64 = 10;

/// What the host is short of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    pub disk: bool,
    pub memory: bool,
}

impl Pressure {
    /// How it is now, given how it was.
    pub fn look(self, state: &Path) -> Self {
        let memory = fs::read_to_string("/proc/meminfo")
            .ok()
            .and_then(|text| Some((meminfo(&text, "MemTotal")?, meminfo(&text, "MemAvailable")?)));
        Self { disk: short(self.disk, disk(state)), memory: short(self.memory, memory) }
    }
}

/// What cannot be measured stays as it was.
fn short(before: bool, size_and_free: Option<(i64, i64)>) -> bool {
    let Some((size, free)) = size_and_free.filter(|(size, _)| *size > 0) else { return before };
    let line = if before { ENOUGH_PERCENT } else { SHORT_PERCENT };
    i128::from(free) * 100 < i128::from(size) * i128::from(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_late_and_goes_later() {
        let at = |before, free| short(before, Some((100, free)));
        assert!(!at(false, 5) && at(false, 4));
        assert!(at(true, 9) && !at(true, 10));
        assert!(short(true, None) && !short(false, Some((0, 0))));
    }
}
