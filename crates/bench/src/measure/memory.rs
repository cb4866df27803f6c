//! Resident memory of a process, with file-mapped pages apart.
//!
//! A store that maps its database file has the mapped pages counted as resident although the kernel may drop them
//! at any time; a store that reads its files has the same pages in the page cache, counted nowhere. The parts are
//! therefore kept, and reports show the total and the anonymous part.

use std::io;
use std::ops::{Add, AddAssign};

use serde::Serialize;

/// Resident memory in bytes. `total` also holds shared memory, which neither part names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Resident {
    pub total: u64,
    pub anonymous: u64,
    pub file_mapped: u64,
}

/// Resident memory of a process now.
pub fn resident(pid: u32) -> io::Result<Resident> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    parse_status(&status)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no resident memory in /proc/PID/status"))
}

/// The most memory that was resident since the last [`reset_peak`].
pub fn peak(pid: u32) -> io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    field(&status, "VmHWM:")
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no peak of memory in /proc/PID/status"))
}

/// Lets the kernel count the peak of a process from now on.
pub fn reset_peak(pid: u32) -> io::Result<()> {
    // 5 stands for the peak; see proc(5).
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5")
}

fn parse_status(status: &str) -> Option<Resident> {
    Some(Resident {
        total: field(status, "VmRSS:")?,
        anonymous: field(status, "RssAnon:")?,
        file_mapped: field(status, "RssFile:")?,
    })
}

/// The value of a `Name:   123 kB` line, in bytes.
fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

impl Add for Resident {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            total: self.total + other.total,
            anonymous: self.anonymous + other.anonymous,
            file_mapped: self.file_mapped + other.file_mapped,
        }
    }
}

impl AddAssign for Resident {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tetcd\nVmPeak:\t 900 kB\nVmRSS:\t   520 kB\nRssAnon:\t     152 kB\n\
                          RssFile:\t    368 kB\nRssShmem:\t       0 kB\n";

    #[test]
    fn parts_are_read_in_bytes() {
        let expected = Resident { total: 520 * 1024, anonymous: 152 * 1024, file_mapped: 368 * 1024 };
        assert_eq!(parse_status(STATUS), Some(expected));
    }

    #[test]
    fn a_process_without_memory_is_refused() {
        // A zombie has no Vm lines.
        assert_eq!(parse_status("Name:\tetcd\nState:\tZ (zombie)\n"), None);
    }

    #[test]
    fn nodes_add_up() {
        let one = Resident { total: 3, anonymous: 1, file_mapped: 2 };
        let mut sum = one;
        sum += one;
        assert_eq!(sum, Resident { total: 6, anonymous: 2, file_mapped: 4 });
    }

    #[test]
    fn a_peak_is_forgotten_when_it_is_reset() {
        const LARGE: usize = 256 << 20;
        let own = std::process::id();
        let large = vec![1_u8; LARGE];
        std::hint::black_box(&large);
        let high = peak(own).expect("own status is readable");
        drop(large);
        reset_peak(own).expect("own peak can be reset");
        let low = peak(own).expect("own status is readable");
        assert!(low + LARGE as u64 / 2 < high, "{low} {high}");
    }

    #[test]
    fn the_own_process_is_resident() {
        let own = resident(std::process::id()).expect("own status is readable");
        assert!(own.total >= own.anonymous + own.file_mapped && own.anonymous > 0);
    }
}
