//! CPU time of a process, all threads, user and system together.
//!
//! The kernel keeps the run time exactly and only prints it in ticks of 10 ms, so a window of some seconds is
//! exact to well under one percent. Threads that have ended stay counted, which a sum over live threads
//! (`/proc/PID/task/*/schedstat`) would lose.

use std::io;
use std::time::Duration;

/// Linux prints times in `/proc` at 100 ticks per second on every architecture, whatever the kernel's own rate.
const TICK: Duration = Duration::from_millis(10);

/// CPU time the process has used since it started.
pub fn used(pid: u32) -> io::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    parse_stat(&stat).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "malformed /proc/PID/stat"))
}

/// CPU time this program itself has used since it started.
pub fn used_by_self() -> io::Result<Duration> {
    used(std::process::id())
}

fn parse_stat(stat: &str) -> Option<Duration> {
    // The second field is the program's name in parentheses and may hold spaces and parentheses itself.
    let after_name = stat.rsplit_once(')')?.1;
    let mut fields = after_name.split_ascii_whitespace();
    // Fields count from 1 and the state is the third, so utime (14) is the twelfth after the name.
    let utime: u32 = fields.nth(11)?.parse().ok()?;
    let stime: u32 = fields.next()?.parse().ok()?;
    Some(TICK * (utime + stime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_added() {
        let stat = "917 (etcd) S 1 917 917 0 -1 4194560 20 0 3 0 250 130 7 9 20 0 11 0 131055 3133440 381";
        assert_eq!(parse_stat(stat), Some(Duration::from_millis(3_800)));
    }

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat = "917 (a (b) c) S 1 917 917 0 -1 4194560 20 0 3 0 1 2 7 9 20 0 11 0 131055";
        assert_eq!(parse_stat(stat), Some(Duration::from_millis(30)));
    }

    #[test]
    fn a_short_line_is_refused() {
        assert_eq!(parse_stat("917 (etcd) S 1 917"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn the_own_process_uses_cpu() {
        let before = used_by_self().expect("own stat is readable");
        let started = std::time::Instant::now();
        while started.elapsed() < Duration::from_millis(300) {
            std::hint::black_box(started.elapsed());
        }
        assert!(used_by_self().expect("own stat is readable") > before);
    }
}
