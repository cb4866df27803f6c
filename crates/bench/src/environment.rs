//! What a figure depends on besides the program: the machine, the day, the versions.

use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::measure::disk::FileSystem;
use crate::system::Binaries;

#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// The day, in UTC.
    pub date: Date,
    pub cpu: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    pub file_system: String,
    /// Processes waiting for a CPU before the run began; much above 0 means that something else was running.
    pub load_average: f64,
    pub etcd_version: String,
    pub setpoint_commit: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Date {
    year: i64,
    month: u32,
    day: u32,
}

impl Environment {
    pub fn observe(data: &Path, binaries: &Binaries) -> Self {
        let unknown = || "unknown".to_owned();
        Self {
            date: Date::today(),
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: field("/proc/meminfo", "MemTotal").and_then(|text| kibibytes(&text)).unwrap_or(0),
            kernel: read("/proc/sys/kernel/osrelease").map_or_else(unknown, |text| text.trim().to_owned()),
            file_system: FileSystem::of(data).map_or_else(|_| unknown(), |found| found.name().to_owned()),
            load_average: read("/proc/loadavg").and_then(|text| first_number(&text)).unwrap_or(0.0),
            etcd_version: binaries.etcd_version().unwrap_or_else(unknown),
            setpoint_commit: commit().unwrap_or_else(unknown),
        }
    }
}

impl Date {
    #[expect(clippy::disallowed_methods, reason = "the day a report is of is that of the wall clock")]
    fn today() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::of_day((since.as_secs() / 86_400) as i64)
    }

    /// The date a number of days after 1970-01-01, counted in 400-year cycles that begin in March, so that the leap
    /// day is the last of its year.
    fn of_day(days: i64) -> Self {
        let shifted = days + 719_468;
        let cycle = shifted.div_euclid(146_097);
        let day_of_cycle = shifted.rem_euclid(146_097);
        let year_of_cycle =
            (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
        let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = cycle * 400 + year_of_cycle + i64::from(month <= 2);
        Self { year, month: month as u32, day: day as u32 }
    }
}

impl std::fmt::Display for Date {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl From<Date> for String {
    fn from(date: Date) -> Self {
        date.to_string()
    }
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The value of the first `name : value` line of a file.
fn field(path: &str, name: &str) -> Option<String> {
    let text = read(path)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

fn kibibytes(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn first_number(text: &str) -> Option<f64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// The commit checked out here, marked if files differ from it.
fn commit() -> Option<String> {
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(if changed { format!("{commit} with local changes") } else { commit })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (day, expected) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_453, "2025-12-31"),
            (20_454, "2026-01-01"),
        ] {
            assert_eq!(Date::of_day(day).to_string(), expected);
        }
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(kibibytes("24662344 kB"), Some(24_662_344 * 1024));
        assert_eq!(kibibytes("12"), None);
    }

    #[test]
    fn fields_are_found_by_name() {
        let total = field("/proc/meminfo", "MemTotal").expect("every kernel has it");
        assert!(total.ends_with("kB"), "{total}");
        assert_eq!(field("/proc/meminfo", "NoSuchField"), None);
    }
}
