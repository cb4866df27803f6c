//! What the host has: processors, memory, disk. Each can be overruled.

use std::fs;
use std::path::Path;

use setpoint_types::quantity::Amounts;

/// What can be counted here, with what the settings say instead.
pub fn measure(state: &Path, overruled: &Amounts) -> Amounts {
    let mut capacity = Amounts::default();
    let processors = std::thread::available_parallelism().map_or(1, |number| number.get());
    capacity.insert("cpu", i64::try_from(processors).unwrap_or(1) * 1000);
    if let Some(bytes) = fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo(&text, "MemTotal"))
    {
        capacity.insert("memory", bytes);
    }
    if let Some((size, _)) = disk(state) {
        capacity.insert("storage", size);
    }
    for (dimension, amount) in overruled.iter() {
        capacity.insert(dimension, amount);
    }
    capacity
}

/// Size of the file system that a folder is on, and what is free of it for everybody, in bytes.
pub fn disk(folder: &Path) -> Option<(i64, i64)> {
    let about = rustix::fs::statvfs(folder).ok()?;
    let bytes = |blocks: u64| i64::try_from(blocks.saturating_mul(about.f_frsize)).ok();
    Some((bytes(about.f_blocks)?, bytes(about.f_bavail)?))
}

/// A line of `/proc/meminfo`, in bytes.
pub fn meminfo(text: &str, name: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let number: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    number.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_overruled_is_not_measured() {
        let overruled = [("cpu".to_owned(), 500), ("gpu".to_owned(), 2)].into_iter().collect();
        let capacity = measure(Path::new("/"), &overruled);
        assert_eq!((capacity.get("cpu"), capacity.get("gpu")), (Some(500), Some(2)));
        assert!(capacity.get("memory") > Some(1 << 20) && capacity.get("storage") > Some(1 << 20));
    }

    #[test]
    fn a_line_is_read_by_its_whole_name() {
        let text = "MemTotal:        2048 kB\nMemFree:          100 kB\nMemAvailable:    1024 kB\n";
        assert_eq!(meminfo(text, "MemAvailable"), Some(1024 << 10));
        assert_eq!(meminfo(text, "Mem"), None);
    }
}
