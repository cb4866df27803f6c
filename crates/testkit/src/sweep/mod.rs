//! The sweep: a controller is run with every fault at every place, and has to come to the same end.
//!
//! - [`scenario`]: what it is run through
//! - [`run`]: one run
//! - [`compare`]: whether two runs came to the same end
//! - [`outcome`]: what came of a run

mod compare;
mod outcome;
mod run;
mod scenario;

use std::fmt;

use setpoint_client::Entropy;

use crate::fault::{At, Counts, Fault, Injection, Plan};

pub use outcome::{Outcome, Problem};
pub use scenario::{Limits, Scenario, Violation};

/// Runs a controller with every fault at every write it makes, every change it is told of and every step of the scenario, and
/// with some of them together. Panics with the smallest plan that shows something wrong, and how to run it again.
///
/// **Guarantees**: every run is in a world of its own and repeats: the same plan, the same run, in so far as the controller takes time and
/// randomness from tokio's clock and its client.
///
/// **Does not promise** to find everything: only what a plan of [`Fault`]s at the boundary brings about, in at most
/// [`Limits::places_max`] places.
pub fn sweep(scenario: &Scenario) {
    let report = examine(scenario);
    assert!(report.failures.is_empty(), "{report}");
}

/// The same, and tells what it found instead of panicking.
pub fn examine(scenario: &Scenario) -> Report {
    let first = run::run(scenario, &Plan::default(), None);
    let mut report = Report { runs: 1, places: first.counts, failures: Vec::new(), left_out: 0 };
    let wanted = compare::end(&first.history, &scenario.forgets);
    if first.problem.is_some() {
        report.failures.push(first);
        return report;
    }
    let (plans, left_out) = plans(scenario, first.counts);
    report.left_out = left_out;
    for plan in plans {
        if report.failures.len() >= scenario.limits.failures_max {
            break;
        }
        report.runs += 1;
        let outcome = run::run(scenario, &plan, Some(&wanted));
        if outcome.problem.is_some() {
            let smallest = shrunk(scenario, outcome, &wanted, &mut report.runs);
            report.failures.push(smallest);
        }
    }
    report.failures.sort_by_key(|it| (it.plan.0.len(), report_order(&it.plan)));
    report
}

/// Runs one plan, as a report names it.
pub fn replay(scenario: &Scenario, plan: &str) -> Outcome {
    let plan: Plan = plan.parse().unwrap_or_else(|error| panic!("{error}"));
    let first = run::run(scenario, &Plan::default(), None);
    let wanted = compare::end(&first.history, &scenario.forgets);
    run::run(scenario, &plan, Some(&wanted))
}

/// Single faults, those at early places first, then several at once; and at how many places nothing is tried.
fn plans(scenario: &Scenario, counts: Counts) -> (Vec<Plan>, u64) {
    let most = scenario.limits.places_max;
    let steps = scenario.steps.len() as u64;
    let mut single = Vec::new();
    for number in 1..=most {
        let writes = Fault::OF_WRITES.map(|fault| Injection { fault, at: At::Write(number) });
        let events = Fault::OF_WATCHES.map(|fault| Injection { fault, at: At::Event(number) });
        let of_steps = Fault::OF_WATCHES.map(|fault| Injection { fault, at: At::Step(number) });
        single.extend(writes.into_iter().filter(|_| number <= counts.writes));
        single.extend(events.into_iter().filter(|_| number <= counts.events));
        single.extend(of_steps.into_iter().filter(|_| number <= steps));
    }
    single.retain(|it| !scenario.without.contains(&it.fault));
    let mut plans: Vec<Plan> = single.iter().map(|it| Plan(vec![*it])).collect();
    let entropy = Entropy::seeded(scenario.limits.seed);
    for _ in 0..scenario.limits.drawn {
        if single.is_empty() {
            break;
        }
        let several = 2 + entropy.draw() % 2;
        let draw = |_| single[(entropy.draw() % single.len() as u64) as usize];
        plans.push(Plan((0..several).map(draw).collect()));
    }
    let left_out = [counts.writes, counts.events, steps].map(|count| count.saturating_sub(most)).iter().sum();
    (plans, left_out)
}

/// Leaves out of a failing plan what it fails without.
fn shrunk(scenario: &Scenario, failing: Outcome, wanted: &compare::End, runs: &mut u64) -> Outcome {
    let mut smallest = failing;
    loop {
        let found = smallest.plan.smaller().filter(|plan| !plan.is_empty()).find_map(|plan| {
            *runs += 1;
            Some(run::run(scenario, &plan, Some(wanted))).filter(|outcome| outcome.problem.is_some())
        });
        match found {
            Some(smaller) => smallest = smaller,
            None => return smallest,
        }
    }
}

fn report_order(plan: &Plan) -> Option<u64> {
    let number = |at: At| match at {
        At::Write(number) | At::Event(number) | At::Step(number) => number,
    };
    plan.0.iter().map(|it| number(it.at)).min()
}

/// What a sweep found.
#[derive(Clone, Debug)]
pub struct Report {
    pub runs: u64,
    /// What there was in the run without faults.
    pub places: Counts,
    /// Places beyond the limit, where nothing was tried.
    pub left_out: u64,
    /// The smallest plan first.
    pub failures: Vec<Outcome>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { writes, events, .. } = self.places;
        writeln!(
            f,
            "{} runs over {writes} writes and {events} events, {} failed",
            self.runs,
            self.failures.len()
        )?;
        if self.left_out > 0 {
            writeln!(f, "{} places were left out", self.left_out)?;
        }
        let Some(smallest) = self.failures.first() else { return Ok(()) };
        writeln!(f, "\n  {}\n", smallest.plan)?;
        if let Some(problem) = &smallest.problem {
            writeln!(f, "  {problem}\n")?;
        }
        writeln!(f, "  what happened last:\n{}", smallest.tale())?;
        writeln!(f, "  to run it alone: replay(&scenario, \"{}\")", smallest.plan)?;
        for other in &self.failures[1..] {
            let problem = other.problem.as_ref().map(ToString::to_string).unwrap_or_default();
            writeln!(f, "  also: {} — {}", other.plan, problem.lines().next().unwrap_or_default())?;
        }
        Ok(())
    }
}
