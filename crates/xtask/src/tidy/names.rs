//! No file or folder is called `utils`, `common`, `helpers` or `misc`: such a name says nothing about what is inside, so
//! everything ends up there.

use super::source::SourceFile;
use super::violation::Violation;

const RULE: &str = "names";
const MEANINGLESS: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc"];

pub fn check(file: &SourceFile, violations: &mut Vec<Violation>) {
    for part in file.path.split('/') {
        let stem = part.split('.').next().unwrap_or_default();
        if MEANINGLESS.contains(&stem) {
            let advice = format!("`{part}` could hold anything; name it after the one thing it holds");
            violations.push(file.violation(1, RULE, advice));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_broken(path: &str) -> bool {
        let mut violations = Vec::new();
        check(&SourceFile::new(path, String::new()), &mut violations);
        !violations.is_empty()
    }

    #[test]
    fn files_and_folders_need_a_name_that_says_something() {
        assert!(is_broken("crates/a/src/utils.rs"));
        assert!(is_broken("crates/a/tests/common/mod.rs"));
        assert!(is_broken("scripts/helpers"));
        assert!(is_broken("docs/misc.md"));
        assert!(!is_broken("crates/a/src/common_name.rs"));
        assert!(!is_broken("crates/a/src/range.rs"));
    }
}
