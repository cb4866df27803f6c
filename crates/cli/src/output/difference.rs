//! What differs between two texts, line by line, as `diff -u` shows it.

use super::colour;

/// Lines around a difference.
const CONTEXT: usize = 3;
/// Cells of the table that a comparison fills. Texts beyond it are shown as one replaced by the other.
const CELLS_MAX: usize = 16_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edit<'t> {
    Same(&'t str),
    Gone(&'t str),
    New(&'t str),
}

/// Empty if they are equal.
pub fn unified(old_name: &str, new_name: &str, old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let edits = edits(&old.lines().collect::<Vec<_>>(), &new.lines().collect::<Vec<_>>());
    let mut text = format!("--- {old_name}\n+++ {new_name}\n");
    let changed: Vec<usize> = (0..edits.len()).filter(|at| !matches!(edits[*at], Edit::Same(_))).collect();
    let mut next = 0;
    while let Some(first) = changed.get(next) {
        let start = first.saturating_sub(CONTEXT);
        let mut end = first + CONTEXT + 1;
        while let Some(at) = changed.get(next).filter(|at| at.saturating_sub(CONTEXT) <= end) {
            end = at + CONTEXT + 1;
            next += 1;
        }
        hunk(&edits, start, end.min(edits.len()), &mut text);
    }
    text
}

fn hunk(edits: &[Edit<'_>], start: usize, end: usize, text: &mut String) {
    let count = |part: &[Edit<'_>], old: bool| {
        part.iter()
            .filter(|edit| !matches!((edit, old), (Edit::New(_), true) | (Edit::Gone(_), false)))
            .count()
    };
    let (before, part) = (&edits[..start], &edits[start..end]);
    let place = |old: bool| {
        let (lines, first) = (count(part, old), count(before, old));
        // As diff has it: a part without lines is named by the line before it.
        format!("{},{lines}", if lines == 0 { first } else { first + 1 })
    };
    text.push_str(&format!("@@ -{} +{} @@\n", place(true), place(false)));
    for edit in part {
        let (mark, line) = match edit {
            Edit::Same(line) => (' ', line),
            Edit::Gone(line) => ('-', line),
            Edit::New(line) => ('+', line),
        };
        text.push(mark);
        text.push_str(line);
        text.push('\n');
    }
}

/// The shortest way from one to the other, by the longest common subsequence.
fn edits<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<Edit<'t>> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, b) = (&old_rest[..old_rest.len() - tail], &new_rest[..new_rest.len() - tail]);
    let mut edits: Vec<Edit<'t>> = old[..head].iter().map(|line| Edit::Same(line)).collect();
    if a.len().saturating_mul(b.len()) > CELLS_MAX {
        edits.extend(a.iter().map(|line| Edit::Gone(line)));
        edits.extend(b.iter().map(|line| Edit::New(line)));
    } else {
        middle(a, b, &mut edits);
    }
    edits.extend(old[old.len() - tail..].iter().map(|line| Edit::Same(line)));
    edits
}

fn middle<'t>(a: &[&'t str], b: &[&'t str], edits: &mut Vec<Edit<'t>>) {
    let width = b.len() + 1;
    // How much of `a[i..]` and `b[j..]` is common.
    let mut common = vec![0u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i * width + j] = match a[i] == b[j] {
                true => common[(i + 1) * width + j + 1] + 1,
                false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            edits.push(Edit::Same(a[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || (i < a.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]) {
            edits.push(Edit::Gone(a[i]));
            i += 1;
        } else {
            edits.push(Edit::New(b[j]));
            j += 1;
        }
    }
}

/// The same for a terminal.
pub fn coloured(text: &str) -> String {
    let line = |line: &str| match line.as_bytes().first() {
        Some(b'-') => colour::red(line),
        Some(b'+') => colour::green(line),
        _ => line.to_owned(),
    };
    text.lines().map(|it| line(it) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_shown_as_diff_shows_them() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n";
        let new = "a\nb\nc\nd\nE\nf\ng\nh\ni\nj\nk\n";
        let expected = "--- x\n+++ y\n@@ -2,9 +2,10 @@\n b\n c\n d\n-e\n+E\n f\n g\n h\n i\n j\n+k\n";
        assert_eq!(unified("x", "y", old, new), expected);
        assert_eq!(unified("x", "y", "", "a\n"), "--- x\n+++ y\n@@ -0,0 +1,1 @@\n+a\n");
        assert_eq!(unified("x", "y", old, old), "");
    }

    #[test]
    fn far_apart_differences_are_parts_of_their_own() {
        let old: String = (0..30).map(|line| format!("{line}\n")).collect();
        let new = old.replace("\n3\n", "\nthree\n").replace("\n25\n", "\n");
        let shown = unified("x", "y", &old, &new);
        assert_eq!(shown.lines().filter(|line| line.starts_with("@@")).count(), 2, "{shown}");
        assert!(shown.contains("@@ -1,7 +1,7 @@") && shown.contains("@@ -23,7 +23,6 @@"), "{shown}");
    }
}
