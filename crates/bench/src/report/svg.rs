//! The plot: a bar per figure, to the right where ours is better, on a logarithmic axis.
//!
//! Plain SVG with its own colours for light and dark, so that it needs neither fonts nor scripts.

use std::fmt::Write as _;

use super::{Figure, Report, Verdict};
use crate::rows::Target;

const WIDTH: f64 = 1_000.0;
const LABEL_WIDTH: f64 = 480.0;
const VALUE_WIDTH: f64 = 70.0;
const LINE: f64 = 24.0;
const BAR: f64 = 14.0;
const TOP: f64 = 64.0;
/// The axis shows at least from half as good to twice as good, and at most this many doublings either way.
const DOUBLINGS_MAX: f64 = 6.0;

const STYLE: &str = "\
text{font-family:system-ui,sans-serif;font-size:13px;fill:#1f2328}.muted{fill:#59636e}.back{fill:#ffffff}\
.grid{stroke:#d1d9e0}.one{stroke:#59636e;stroke-width:1.5}.target{stroke:#1f2328;stroke-width:2}\
.pass{fill:#2da44e}.miss{fill:#e16f24}.shown{fill:#6e7781}\
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.muted{fill:#9198a1}.back{fill:#0d1117}\
.grid{stroke:#3d444d}.one{stroke:#9198a1}.target{stroke:#f0f6fc}\
.pass{fill:#3fb950}.miss{fill:#f0883e}.shown{fill:#8b949e}}";

pub fn render(report: &Report) -> String {
    let bars = bars(report);
    let axis = Axis::over(&bars);
    let height = TOP + LINE * bars.len() as f64 + 24.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\">\n<title>{subject} compared with {baseline}</title>\n\
         <style>{STYLE}</style>\n<rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text x=\"16\" y=\"26\" font-weight=\"600\">{subject} compared with {baseline}, {date}</text>\n\
         <text x=\"16\" y=\"46\" class=\"muted\">right of 1×: {subject} is better · | target · ratio at the right</text>\n",
        subject = escape(report.subject),
        baseline = escape(report.baseline),
        date = report.environment.date,
    );
    axis.draw(&mut text, height - 24.0);
    for (position, bar) in bars.iter().enumerate() {
        bar.draw(&mut text, &axis, TOP + LINE * position as f64);
    }
    text.push_str("</svg>\n");
    text
}

struct Bar {
    label: String,
    ratio: f64,
    /// How many times better ours is; below 1 it is worse.
    advantage: f64,
    target: Option<f64>,
    verdict: Verdict,
}

fn bars(report: &Report) -> Vec<Bar> {
    let mut bars = Vec::new();
    for row in &report.rows {
        for figure in &row.figures {
            bars.extend(bar(&row.title, figure));
        }
    }
    bars
}

fn bar(title: &str, figure: &Figure) -> Option<Bar> {
    let target = match figure.target {
        Target::RatioAtMost(limit) => Some(1.0 / limit),
        Target::RatioAtLeast(limit) => Some(limit),
        // Not a comparison of the two, or not a claim: the table has it.
        Target::OwnAtLeast(_) | Target::OwnAtMost(_) | Target::None => return None,
    };
    let ratio = figure.ratio?;
    let advantage = if figure.metric.more_is_better() { ratio } else { 1.0 / ratio };
    let label = format!("{title}: {}", figure.metric.title());
    (advantage.is_finite() && advantage > 0.0).then_some(Bar {
        label,
        ratio,
        advantage,
        target,
        verdict: figure.verdict,
    })
}

impl Bar {
    fn draw(&self, text: &mut String, axis: &Axis, top: f64) {
        let (one, end) = (axis.at(1.0), axis.at(self.advantage));
        let (left, width) = (one.min(end), (end - one).abs().max(1.0));
        let class = match self.verdict {
            Verdict::Pass => "pass",
            Verdict::Miss => "miss",
            Verdict::Unmeasured | Verdict::Errors | Verdict::Shown => "shown",
        };
        let (baseline, bar_top) = (top + 15.0, top + (LINE - BAR) / 2.0);
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{baseline:.1}\" text-anchor=\"end\">{}</text>\
             <rect class=\"{class}\" x=\"{left:.1}\" y=\"{bar_top:.1}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"2\"/>\
             <text x=\"{:.1}\" y=\"{baseline:.1}\" text-anchor=\"end\">{:.2}×</text>",
            LABEL_WIDTH - 12.0,
            escape(&self.label),
            WIDTH - 16.0,
            self.ratio,
        );
        if let Some(target) = self.target {
            let at = axis.at(target);
            let (from, to) = (top + 2.0, top + LINE - 2.0);
            let _ = writeln!(
                text,
                "<line class=\"target\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{from:.1}\" y2=\"{to:.1}\"/>"
            );
        }
    }
}

/// Doublings from the left to the right end.
struct Axis {
    from: f64,
    to: f64,
}

impl Axis {
    fn over(bars: &[Bar]) -> Self {
        let mut axis = Self { from: -1.0, to: 1.0 };
        for value in bars.iter().flat_map(|bar| [Some(bar.advantage), bar.target]).flatten() {
            axis.from = axis.from.min(value.log2().floor()).max(-DOUBLINGS_MAX);
            axis.to = axis.to.max(value.log2().ceil()).min(DOUBLINGS_MAX);
        }
        axis
    }

    /// Where a factor lies; factors beyond the axis lie at its end.
    fn at(&self, factor: f64) -> f64 {
        let part = (factor.log2().clamp(self.from, self.to) - self.from) / (self.to - self.from);
        LABEL_WIDTH + part * (WIDTH - LABEL_WIDTH - VALUE_WIDTH - 16.0)
    }

    fn draw(&self, text: &mut String, bottom: f64) {
        let mut doublings = self.from;
        while doublings <= self.to {
            let factor = doublings.exp2();
            let at = self.at(factor);
            let class = if doublings == 0.0 { "one" } else { "grid" };
            let label = if factor < 1.0 { format!("1/{}×", 1.0 / factor) } else { format!("{factor}×") };
            let (top, below) = (TOP - 4.0, bottom + 16.0);
            let _ = writeln!(
                text,
                "<line class=\"{class}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\"/>\
                 <text class=\"muted\" x=\"{at:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{label}</text>"
            );
            doublings += 1.0;
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::document::samples::report;
    use super::*;

    #[test]
    fn a_bar_per_ratio_and_none_for_what_failed() {
        let report = report();
        let bars = bars(&report);
        assert_eq!(bars.len(), 1);
        // Half the latency is twice as good; a target of 0.8× is passed at 1.25 times as good.
        assert_eq!((bars[0].ratio, bars[0].advantage, bars[0].target), (0.5, 2.0, Some(1.25)));
        let text = render(&report);
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
        assert_eq!(text.matches("class=\"pass\"").count(), 1);
        assert_eq!(text.matches("class=\"target\"").count(), 1);
        assert_eq!(text.matches('<').count(), text.matches('>').count());
    }

    #[test]
    fn the_axis_holds_every_bar() {
        let bar = |advantage| Bar {
            label: String::new(),
            ratio: advantage,
            advantage,
            target: None,
            verdict: Verdict::Pass,
        };
        let axis = Axis::over(&[bar(0.2), bar(5.0)]);
        assert_eq!((axis.from, axis.to), (-3.0, 3.0));
        assert_eq!(axis.at(1_000.0), axis.at(8.0));
        assert!(axis.at(0.2) > LABEL_WIDTH && axis.at(5.0) < WIDTH - VALUE_WIDTH);
        let narrow = Axis::over(&[]);
        assert_eq!((narrow.from, narrow.to), (-1.0, 1.0));
    }
}
