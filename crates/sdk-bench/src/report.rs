//! The table: medians of each side, their ratio, and whether what is asked is met.

use std::fmt::Write as _;

use crate::measure::Figures;
use crate::rows::{Asked, Row};

/// As Markdown, and whether everything asked is met.
pub fn table(results: &[(Row, [Vec<Figures>; 2])]) -> (String, bool) {
    let mut table =
        String::from("| what | ours | kube-rs | ratio | asked | met |\n|---|--:|--:|--:|---|---|\n");
    let mut all_met = true;
    for (row, [ours, kube]) in results {
        for figure in row.figures() {
            let (ours, kube) = (median(ours, figure.name), median(kube, figure.name));
            let Some(ours) = ours else { continue };
            let met = figure.asked.is_met(ours);
            all_met &= met != Some(false);
            let ratio = kube.map_or_else(String::new, |kube| format!("{:.2}×", ours / kube));
            let asked = match figure.asked {
                Asked::AtLeast(least) => format!("≥ {}", show(least)),
                Asked::AtMost(most) => format!("≤ {}", show(most)),
                Asked::Nothing => String::new(),
            };
            let met = met.map_or("", |met| if met { "yes" } else { "**no**" });
            let kube = kube.map_or_else(String::new, show);
            let _ =
                writeln!(table, "| {} | {} | {kube} | {ratio} | {asked} | {met} |", figure.title, show(ours));
        }
    }
    (table, all_met)
}

fn median(repetitions: &[Figures], name: &str) -> Option<f64> {
    let mut values: Vec<f64> = repetitions.iter().filter_map(|figures| figures.get(name).copied()).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Large numbers as whole ones with groups of three, small ones with two digits after the point.
fn show(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let mut shown = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_medians_and_what_is_missed() {
        let figures = |value: f64| -> Figures { [("cycles".to_owned(), value)].into() };
        let ours = vec![figures(900_000.0), figures(800_000.0), figures(1_500_000.0)];
        let (table, all_met) = table(&[(Row::Queue, [ours, vec![figures(450_000.0)]])]);
        let last = table.lines().last().expect("a row");
        assert!(last.ends_with("| 900,000 | 450,000 | 2.00× | ≥ 1,000,000 | **no** |"), "{last}");
        assert!(!all_met);
    }
}
