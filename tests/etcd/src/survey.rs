//! All the ways in which a server differs, instead of the first one: for when there are many.
//!
//! Differences are grouped by request and by the fields that differ; of each group the shortest way to it is not
//! sought, but one example is kept. After a difference that may have put the servers out of step, a fresh pair is used.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::campaign::{Extent, describe};
use crate::error::HarnessError;
use crate::generate;
use crate::run::Mismatch;
use crate::stage::Stage;
use crate::step::Sequence;

/// Differences of the same kind.
#[derive(Debug)]
struct Group {
    count: usize,
    example: String,
}

/// Compares without stopping, and returns a report of what was found; `None` if nothing was.
pub async fn survey(stage: &Stage, extent: Extent) -> Result<Option<String>, HarnessError> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    let scenarios = generate::scenarios();
    let generated = u64::try_from(extent.sequences.saturating_sub(scenarios.len())).unwrap_or(0);
    let seeds = extent.first_seed..extent.first_seed + generated;
    let sequences = scenarios.into_iter().chain(seeds.map(|seed| generate::sequence(seed, true)));
    let mut session = stage.open().await?;
    for sequence in sequences {
        let (found, in_step) = match session.survey(&sequence).await {
            Ok(outcome) => outcome,
            Err(error) => {
                add(&mut groups, format!("harness: {}", first_line(&error.to_string())), || {
                    error.to_string()
                });
                (Vec::new(), false)
            }
        };
        for mismatch in found {
            add(&mut groups, signature(&sequence, &mismatch), || describe(&sequence, &mismatch));
        }
        if !in_step {
            session = stage.open().await?;
        }
    }
    Ok((!groups.is_empty()).then(|| report(&groups)))
}

/// Counts a difference. One of a new kind is printed at once, since a survey may take long.
#[expect(clippy::print_stderr, reason = "the test runner shows it")]
fn add(groups: &mut BTreeMap<String, Group>, signature: String, example: impl FnOnce() -> String) {
    let group = groups.entry(signature).or_insert_with_key(|signature| {
        let example = example();
        eprintln!("=== {signature}\n{example}");
        Group { count: 0, example }
    });
    group.count += 1;
}

/// The request and the fields that differ, without positions in lists; for scenarios also their name.
fn signature(sequence: &Sequence, mismatch: &Mismatch) -> String {
    let mut fields: Vec<String> =
        mismatch.differences.iter().map(|difference| without_digits(&difference.path)).collect();
    fields.sort();
    fields.dedup();
    fields.truncate(4);
    let origin = if sequence.profile.starts_with("scenario") { &sequence.profile } else { "generated" };
    format!("{} [{}] ({origin})", mismatch.step.name(), fields.join(", "))
}

fn without_digits(path: &str) -> String {
    path.chars().filter(|character| !character.is_ascii_digit()).collect()
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn report(groups: &BTreeMap<String, Group>) -> String {
    let mut ordered: Vec<_> = groups.iter().collect();
    ordered.sort_by_key(|(_, group)| std::cmp::Reverse(group.count));
    let mut out = format!("{} kinds of difference\n", ordered.len());
    for (signature, group) in &ordered {
        let _ = writeln!(out, "{:6} {signature}", group.count);
    }
    for (signature, group) in &ordered {
        let _ = writeln!(out, "\n=== {signature}\n{}", group.example);
    }
    out
}
