//! Named places where a test can make the process crash or wait.
//!
//! `hit("log.before-sync")` does nothing, unless the environment says otherwise:
//!
//! ```text
//! SETPOINT_FAILPOINTS="log.before-sync=crash@3;apply.after-write=sleep:500@1.."
//! ```
//!
//! crashes the process the third time it comes to the first place, and makes it wait half a second whenever it comes to
//! the second. Without `@` every time counts. A crash is the end of the process and of nothing else: no destructor runs
//! and no buffer is flushed, as with `kill -9`.
//!
//! In builds without debug assertions all of this is compiled to nothing. The places are listed in `docs/INVARIANTS.md`.

/// What the environment variable is called.
pub const VARIABLE: &str = "SETPOINT_FAILPOINTS";

/// Nothing, in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn hit(_name: &'static str) {}

#[cfg(debug_assertions)]
pub use active::hit;

#[cfg(debug_assertions)]
mod active {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::VARIABLE;

    /// Does what the environment asks for at this place, if anything.
    pub fn hit(name: &'static str) {
        static POINTS: OnceLock<Vec<Point>> = OnceLock::new();
        for point in POINTS.get_or_init(from_environment).iter().filter(|point| point.name == name) {
            if point.is_due() {
                point.act();
            }
        }
    }

    #[derive(Debug)]
    pub(super) struct Point {
        name: String,
        action: Action,
        first: u64,
        last: u64,
        hits: AtomicU64,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Action {
        Crash,
        Sleep(Duration),
    }

    impl Point {
        pub(super) fn is_due(&self) -> bool {
            let hit = self.hits.fetch_add(1, Ordering::Relaxed) + 1;
            (self.first..=self.last).contains(&hit)
        }

        #[expect(clippy::print_stderr, reason = "the last words of a process that a test ends")]
        fn act(&self) {
            match self.action {
                Action::Crash => {
                    eprintln!("crash at {}, as {VARIABLE} asks", self.name);
                    std::process::abort();
                }
                Action::Sleep(time) => std::thread::sleep(time),
            }
        }
    }

    #[expect(clippy::print_stderr, reason = "a test that asked for nonsense must not pass")]
    fn from_environment() -> Vec<Point> {
        let Ok(text) = std::env::var(VARIABLE) else { return Vec::new() };
        parse(&text).unwrap_or_else(|problem| {
            eprintln!("{VARIABLE}: {problem}");
            std::process::abort();
        })
    }

    pub(super) fn parse(text: &str) -> Result<Vec<Point>, String> {
        text.split(';').map(str::trim).filter(|part| !part.is_empty()).map(point).collect()
    }

    fn point(text: &str) -> Result<Point, String> {
        let wrong = || {
            format!(
                "{text:?} is not name=crash or name=sleep:MILLISECONDS, with @3, @3.. or nothing after it"
            )
        };
        let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
        let (action, when) = rest.split_once('@').unwrap_or((rest, "1.."));
        let action = match action.split_once(':') {
            None if action == "crash" => Action::Crash,
            Some(("sleep", time)) => Action::Sleep(Duration::from_millis(time.parse().map_err(|_| wrong())?)),
            _ => return Err(wrong()),
        };
        let (first, last) = match when.strip_suffix("..") {
            Some(first) => (first.parse().map_err(|_| wrong())?, u64::MAX),
            None => {
                let only = when.parse().map_err(|_| wrong())?;
                (only, only)
            }
        };
        Ok(Point { name: name.to_owned(), action, first, last, hits: AtomicU64::new(0) })
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::active::parse;

    fn due(text: &str, hits: usize) -> Vec<bool> {
        let points = parse(text).expect("understood");
        (0..hits).map(|_| points[0].is_due()).collect()
    }

    #[test]
    fn a_point_acts_when_it_was_told_to() {
        assert_eq!(due("a=crash@3", 5), [false, false, true, false, false]);
        assert_eq!(due("a=sleep:1@2..", 4), [false, true, true, true]);
        assert_eq!(due(" b.c=crash ;d=crash@7", 2), [true, true]);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["a", "a=explode", "a=sleep", "a=sleep:soon", "a=crash@", "a=crash@x", "a=crash@1..3"] {
            assert!(parse(text).is_err(), "{text} was understood");
        }
        assert!(parse("").is_ok_and(|points| points.is_empty()));
    }

    #[test]
    fn nothing_happens_unasked() {
        super::hit("tests.nowhere");
    }
}
