//! The report of a run: figures judged once, then written as a table, as JSON and as a plot.

mod document;
mod figure;
mod json;
mod svg;
mod table;

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use figure::{Figure, Verdict};

use crate::environment::Environment;
use crate::options::Plan;
use crate::rows::Row;
use crate::run::{Attempts, Contest};

/// Everything a run has found.
#[derive(Debug, Serialize)]
pub struct Report {
    pub environment: Environment,
    pub plan: Plan,
    pub subject: &'static str,
    pub baseline: &'static str,
    pub rows: Vec<RowReport>,
}

/// A row's repetitions and what they come to.
#[derive(Debug, Serialize)]
pub struct RowReport {
    pub title: String,
    pub figures: Vec<Figure>,
    pub attempts: Attempts,
}

impl Report {
    pub fn new(environment: Environment, plan: Plan, contest: Contest, attempts: Vec<Attempts>) -> Self {
        // Equal systems have nothing to prove: their ratios only show the noise.
        let judged = contest.subject != contest.baseline;
        let rows = attempts.into_iter().map(|attempts| RowReport {
            title: title(&attempts, &plan),
            figures: figure::figures(&attempts, judged),
            attempts,
        });
        let rows = rows.collect();
        Self { environment, subject: contest.subject.name(), baseline: contest.baseline.name(), rows, plan }
    }

    /// The table alone, for the terminal.
    pub fn table(&self) -> String {
        table::render(self)
    }

    /// Whether some repetition failed outright.
    pub fn has_failures(&self) -> bool {
        let attempts = |row: &RowReport| {
            let all = row.attempts.subject.iter().chain(&row.attempts.baseline).chain(&row.attempts.floor);
            all.filter(|attempt| attempt.failure().is_some()).count()
        };
        self.rows.iter().map(attempts).sum::<usize>() > 0
    }

    /// Writes the three files and returns the path of the document.
    pub fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        std::fs::create_dir_all(folder)?;
        let name = self.file_name();
        std::fs::write(folder.join(format!("{name}.json")), json::render(self)?)?;
        std::fs::write(folder.join(format!("{name}.svg")), svg::render(self))?;
        let document = folder.join(format!("{name}.md"));
        std::fs::write(&document, document::render(self, &name))?;
        Ok(document)
    }

    /// A run that does not cover everything must not replace the day's full report.
    fn file_name(&self) -> String {
        let date = &self.environment.date;
        let kind = match (self.plan.is_complete(), self.plan.quick) {
            (true, _) => "",
            (false, true) => "-quick",
            (false, false) => "-partial",
        };
        let contest = if self.subject == self.baseline { "-self" } else { "" };
        format!("{date}{kind}{contest}")
    }
}

fn title(attempts: &Attempts, plan: &Plan) -> String {
    match attempts.row {
        Row::ManyKeys => format!("{} keys of 256 B", grouped(plan.keys)),
        Row::ManyObjects => format!("{} objects of 2 KiB", grouped(plan.objects)),
        Row::LeaseObjects => format!("{} leases, each kept alive every 10 s", grouped(plan.leases)),
        row => row.title().to_owned(),
    }
}

/// A number with its thousands set apart.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        for (number, expected) in [(7, "7"), (100, "100"), (1_000, "1,000"), (1_000_000, "1,000,000")] {
            assert_eq!(grouped(number), expected);
        }
    }
}
