//! No file speaks of the machine it was written on: an absolute path into somebody's home or checkout is wrong
//! everywhere else.

use super::source::SourceFile;
use super::violation::Violation;

const RULE: &str = "workplace";
const FOLDERS: &[&str] = &["/root/", "/work/"];

pub fn check(file: &SourceFile, violations: &mut Vec<Violation>) {
    for (index, line) in file.text.lines().enumerate() {
        for folder in FOLDERS.iter().filter(|folder| names_absolute(line, folder)) {
            let advice =
                format!("`{folder}` exists on one machine only; use a path relative to the repository");
            violations.push(file.violation(index + 1, RULE, advice));
        }
    }
}

/// Whether `folder` begins a path in `line`, rather than continuing one as in `docs/work/`.
fn names_absolute(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before
            .is_some_and(|letter| letter.is_alphanumeric() || matches!(letter, '/' | '_' | '-' | '.' | '}'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines_of(text: &str) -> Vec<usize> {
        let mut violations = Vec::new();
        check(&SourceFile::new("docs/a.md", text.into()), &mut violations);
        violations.iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn absolute_paths_of_a_workplace_are_found() {
        assert_eq!(lines_of("See\n/work/main/notes.\n"), [2]);
        assert_eq!(lines_of("path = \"/root/.cargo\"\n"), [1]);
        assert_eq!(lines_of("DIR=/root/x; cd (/work/y)\n"), [1, 1]);
    }

    #[test]
    fn other_paths_are_fine() {
        assert_eq!(lines_of("docs/work/plan.md\n../root/a\n${HOME}/work/a\n/var/lib/setpoint\n"), NONE);
    }
}
