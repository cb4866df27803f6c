//! The table: one line per figure, aligned so that it reads well as Markdown source and in a terminal.

use super::{Figure, Report, Verdict};
use crate::metric::Unit;
use crate::statistics::Spread;

const COLUMNS: usize = 8;

pub fn render(report: &Report) -> String {
    let with_floor = report.rows.iter().any(|row| !row.attempts.floor.is_empty());
    let columns = if with_floor { COLUMNS } else { COLUMNS - 1 };
    let (ours, theirs) = if report.subject == report.baseline {
        (format!("{} A", report.subject), format!("{} B", report.baseline))
    } else {
        (report.subject.to_owned(), report.baseline.to_owned())
    };
    let head = ["load", "figure", &ours, &theirs, "ratio", "target", "", "floor"];
    let mut lines = vec![head.map(str::to_owned)];
    for row in &report.rows {
        for (position, figure) in row.figures.iter().enumerate() {
            let load = if position == 0 { row.title.clone() } else { String::new() };
            lines.push(line(load, figure));
        }
    }
    align(&lines, columns)
}

fn line(load: String, figure: &Figure) -> [String; COLUMNS] {
    let unit = figure.metric.unit();
    [
        load,
        figure.metric.title().to_owned(),
        with_spread(unit, figure.subject),
        with_spread(unit, figure.baseline),
        figure.ratio.map(|ratio| format!("{ratio:.2}×")).unwrap_or_else(|| "–".to_owned()),
        figure.target_shown.clone(),
        mark(figure.verdict).to_owned(),
        figure.floor.map(|floor| unit.show(floor.median)).unwrap_or_default(),
    ]
}

/// The median, and how far the repetitions lie apart: half of the range, as a share of the median.
fn with_spread(unit: Unit, spread: Option<Spread>) -> String {
    let Some(Spread { median, min, max }) = spread else { return "–".to_owned() };
    let shown = unit.show(median);
    if min == max || median == 0.0 {
        return shown;
    }
    let percent = (max - min) / 2.0 / median.abs() * 100.0;
    format!("{shown} ±{percent:.0} %")
}

fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Miss => "**miss**",
        Verdict::Unmeasured => "**failed**",
        Verdict::Errors => "**errors**",
        Verdict::Shown => "",
    }
}

fn align(lines: &[[String; COLUMNS]], columns: usize) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (cell, width) in line.iter().zip(&widths) {
            text.push_str(&format!("| {cell:<width$} "));
        }
        text.push_str("|\n");
        if number == 0 {
            for width in &widths {
                text.push_str(&format!("|{}", "-".repeat(width + 2)));
            }
            text.push_str("|\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::document::samples::report;
    use super::*;

    #[test]
    fn a_line_per_figure() {
        let expected = "\
| load                                         | figure      | setpoint      | etcd     | ratio | target |            |
|----------------------------------------------|-------------|---------------|----------|-------|--------|------------|
| put, 1 client                                | latency p50 | 2.00 ms ±50 % | 4.00 ms  | 0.50× | ≤ 0.8× | pass       |
| lease keep-alive, 10,000 leases, 100 streams | rate        | –             | 20.0 k/s | –     | ≥ 3×   | **failed** |
";
        assert_eq!(render(&report()), expected);
    }

    #[test]
    fn a_spread_of_nothing_is_not_shown() {
        let one = Spread { median: 2.0, min: 2.0, max: 2.0 };
        assert_eq!(with_spread(Unit::Seconds, Some(one)), "2.00 s");
        assert_eq!(with_spread(Unit::Seconds, None), "–");
        let wide = Spread { median: -2.0, min: -3.0, max: -1.0 };
        assert_eq!(with_spread(Unit::Plain, Some(wide)), "-2.00 ±50 %");
    }
}
