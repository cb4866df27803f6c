//! What was measured: figures with what is asked of them, as a table and as JSON.

use serde::Serialize;

use crate::metric::Unit;

/// What is asked of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    AtLeast(f64),
    AtMost(f64),
    /// Shown without being judged.
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Figure {
    scene: &'static str,
    name: String,
    value: f64,
    #[serde(skip)]
    unit: Unit,
    asked: Asked,
    is_met: Option<bool>,
}

/// All figures of a run, in the order they were taken.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    figures: Vec<Figure>,
}

impl Figures {
    pub fn add(
        &mut self,
        scene: &'static str,
        name: impl Into<String>,
        unit: Unit,
        value: f64,
        asked: Asked,
    ) {
        let is_met = match asked {
            Asked::AtLeast(limit) => Some(value >= limit),
            Asked::AtMost(limit) => Some(value <= limit),
            Asked::Nothing => None,
        };
        self.figures.push(Figure { scene, name: name.into(), value, unit, asked, is_met });
    }

    pub fn table(&self) -> String {
        let mut table = "| scene | figure | value | asked | |\n|---|---|--:|---|---|\n".to_owned();
        let mut last = "";
        for figure in &self.figures {
            let scene = if figure.scene == last { "" } else { figure.scene };
            last = figure.scene;
            let asked = match figure.asked {
                Asked::AtLeast(limit) => format!("≥ {}", figure.unit.show(limit)),
                Asked::AtMost(limit) => format!("≤ {}", figure.unit.show(limit)),
                Asked::Nothing => String::new(),
            };
            let verdict = match figure.is_met {
                Some(true) => "pass",
                Some(false) => "**miss**",
                None => "",
            };
            let value = figure.unit.show(figure.value);
            table.push_str(&format!("| {scene} | {} | {value} | {asked} | {verdict} |\n", figure.name));
        }
        table
    }

    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_judged_by_what_is_asked_of_it() {
        let mut figures = Figures::default();
        figures.add("binds", "binds", Unit::PerSecond, 9_000.0, Asked::AtLeast(10_000.0));
        figures.add("binds", "placed", Unit::Plain, 1.0, Asked::Nothing);
        figures.add("death", "replaced after", Unit::Seconds, 2.0, Asked::AtMost(2.0));
        let table = figures.table();
        assert!(table.contains("| binds | binds | 9.00 k/s | ≥ 10.0 k/s | **miss** |"), "{table}");
        assert!(table.contains("|  | placed | 1.00 |  |  |"), "{table}");
        assert!(table.contains("| death | replaced after | 2.00 s | ≤ 2.00 s | pass |"), "{table}");
    }
}
