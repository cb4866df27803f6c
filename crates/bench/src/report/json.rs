//! The raw data: every repetition with every figure, in base units (seconds, bytes, per second).

use std::io;

use super::Report;

pub fn render(report: &Report) -> io::Result<String> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::document::samples::report;
    use super::*;

    #[test]
    fn every_repetition_is_there() {
        let text = render(&report()).expect("a report can be written as JSON");
        let value: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
        let row = &value["rows"][0];
        assert_eq!(row["attempts"]["row"], "put-1");
        assert_eq!(row["attempts"]["subject"][2]["values"]["latency_p50"][0], 0.003);
        assert_eq!(row["figures"][0]["ratio"], 0.5);
        assert_eq!(row["figures"][0]["verdict"], "pass");
        assert_eq!(row["figures"][0]["target"], "≤ 0.8×");
        assert_eq!(value["environment"]["date"].as_str().map(str::len), Some(10));
        assert_eq!(value["rows"][1]["attempts"]["subject"][0]["failure"], "it broke");
    }
}
