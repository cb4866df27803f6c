//! What somebody may have meant: the known word that differs least from the one they wrote.

/// The word nearest to `written`, if it is near enough to be worth a question.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase();
    // A third of the letters may be wrong. Of a word of two any other could be meant.
    let most = written.chars().count() / 3;
    let distances = known.into_iter().map(|word| (distance(&written, &word.to_lowercase()), word));
    distances.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance).map(|it| it.1)
}

/// "; did you mean X?", or nothing.
pub fn hint<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(written, known).map_or_else(String::new, |word| format!("; did you mean {word}?"))
}

/// Letters to insert, remove, change, or swap with their neighbour (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, other) in b.iter().enumerate() {
            let mut least = (last[j] + usize::from(letter != other)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *letter == b[j - 1] && a[i - 1] == *other {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_and_a_far_one_is_not() {
        let words = ["workload", "workloads", "node", "replica", "wl"];
        assert_eq!(nearest("Worklaod", words), Some("workload"));
        assert_eq!(nearest("nodw", words), Some("node"));
        assert_eq!(nearest("wk", words), None);
        assert_eq!(nearest("pods", words), None);
        assert_eq!(nearest("", words), None);
        assert_eq!(hint("replcia", words), "; did you mean replica?");
    }
}
