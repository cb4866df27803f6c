//! Colours, for words that say how something is. Only on a terminal.

const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const RED: &str = "\x1b[31m";
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

const GOOD: [&str; 6] = ["serving", "ready", "succeeded", "Complete", "Active", "Accepted"];
const UNDER_WAY: [&str; 12] = [
    "admitted",
    "queued",
    "scheduled",
    "bound",
    "starting",
    "stopping",
    "Progressing",
    "Paused",
    "Held",
    "RollingBack",
    "Terminating",
    "Unknown",
];
const BAD: [&str; 6] = ["failed", "Stuck", "RolledBack", "Warning", "Unschedulable", "Rejected"];

/// The escape that colours a cell with this text, if it is a word that says how something is.
pub fn of_word(text: &str) -> Option<&'static str> {
    let is_in = |words: &[&str]| words.contains(&text);
    if is_in(&GOOD) {
        Some(GREEN)
    } else if is_in(&UNDER_WAY) {
        Some(YELLOW)
    } else if is_in(&BAD) {
        Some(RED)
    } else {
        None
    }
}

/// A text between an escape and its end.
pub fn paint(escape: &str, text: &str) -> String {
    format!("{escape}{text}{PLAIN}")
}

pub fn bold(text: &str) -> String {
    paint(BOLD, text)
}

pub fn red(text: &str) -> String {
    paint(RED, text)
}

pub fn green(text: &str) -> String {
    paint(GREEN, text)
}
