//! All replicas at once: how many get a node per second, and what that costs whom.
//!
//! The replicas are there before the scheduler is, so that making them is not measured. Agents hold the leases of their nodes and
//! accept nothing: a real fleet is not on the machine of the store. What is counted are Binding objects, which a server has once a bind is
//! committed, and so durable.

use std::path::Path;
use std::time::{Duration, Instant};

use super::figures::{Asked, Figures};
use super::options::ScaleOptions;
use super::site::{Part, Site, Used};
use super::{ScaleError, fill, made, single};
use crate::connection::connection;
use crate::metric::Unit;

const SCENE: &str = "all at once";
const POLL: Duration = Duration::from_millis(50);
/// Nothing was bound for so long: what is left has no place.
const QUIET: Duration = Duration::from_secs(5);
const LIMIT: Duration = Duration::from_secs(600);

/// How many there were at a moment.
type Sample = (Instant, u64);

pub async fn measure(options: &ScaleOptions, data: &Path, figures: &mut Figures) -> Result<(), ScaleError> {
    let site = Site::start(options, data).await?;
    fill::tenants(&site, single::NAMESPACE).await?;
    eprintln!("scale: registering {} nodes", options.nodes);
    let _agents = site.fleet(options.nodes, &["--simulate-idle"]).await?;
    let mut scheduler = site.scheduler(options)?;
    scheduler.ready("the scheduler's first look").await?;
    eprintln!("scale: {} replicas, one at a time", options.singles);
    single::measure(&site, options, figures).await?;
    let empty = scheduler.used()?;
    scheduler.stop()?;

    eprintln!("scale: making {} replicas", options.replicas);
    let made = made::workloads(options);
    let replicas = made.iter().flat_map(|it| (0..it.replicas).map(|number| it.replica(number))).collect();
    fill::create(&site, "replicas", replicas).await?;
    let before = fill::count(connection(site.addresses()[0]), "Binding").await?;

    eprintln!("scale: binding them");
    let servers = site.cluster.cpu_used()?;
    let scheduler = site.scheduler(options)?;
    let samples = follow(&site, &scheduler, before, options.replicas.into()).await?;
    let after = scheduler.used()?;
    let servers = site.cluster.cpu_used()?.saturating_sub(servers);
    rate(options, &samples, figures);
    let bound = samples.last().map_or(0, |it| it.1).max(1) as f64;
    let each = |cpu: Duration| cpu.as_secs_f64() / bound;
    figures.add(SCENE, "CPU per bind, servers", Unit::Seconds, each(servers), Asked::Nothing);
    figures.add(SCENE, "CPU per bind, scheduler", Unit::Seconds, each(after.cpu), Asked::Nothing);
    idle(&site, &scheduler, options, figures, empty).await
}

/// Counts until everybody has a node, or nobody gets one any more.
async fn follow(site: &Site, scheduler: &Part, before: u64, wanted: u64) -> Result<Vec<Sample>, ScaleError> {
    let service = connection(site.addresses()[0]);
    let started = Instant::now();
    let mut samples: Vec<Sample> = Vec::new();
    let mut ticks = tokio::time::interval(POLL);
    loop {
        ticks.tick().await;
        let found = fill::count(service.clone(), "Binding").await?.saturating_sub(before);
        let (now, last) = (Instant::now(), samples.last().map_or(0, |it| it.1));
        if found > last || samples.is_empty() {
            samples.push((now, found));
        }
        let quiet = samples.last().is_some_and(|it| it.1 > 0 && now - it.0 > QUIET);
        if found >= wanted || quiet {
            return Ok(samples);
        }
        if started.elapsed() > LIMIT {
            let log = scheduler.last_words();
            return Err(ScaleError::TooSlow { what: "binding all replicas", seconds: LIMIT.as_secs(), log });
        }
    }
}

fn rate(options: &ScaleOptions, samples: &[Sample], figures: &mut Figures) {
    // The first sample with somebody bound begins it: what came before was the scheduler's first look.
    let bound: Vec<Sample> = samples.iter().copied().filter(|it| it.1 > 0).collect();
    let (Some(first), Some(last)) = (bound.first(), bound.last()) else { return };
    let whole = (last.1 - first.1) as f64 / (last.0 - first.0).as_secs_f64().max(1e-9);
    let asked = match options.servers {
        1 => Asked::AtLeast(10_000.0),
        3 => Asked::AtLeast(4_000.0),
        _ => Asked::Nothing,
    };
    figures.add(SCENE, "durable binds", Unit::PerSecond, whole, asked);
    if let Some(slowest) = slowest_second(&bound) {
        figures.add(SCENE, "durable binds, slowest second", Unit::PerSecond, slowest, Asked::Nothing);
    }
    let share = last.1 as f64 / f64::from(options.replicas);
    figures.add(SCENE, "share of replicas placed", Unit::Plain, share, Asked::Nothing);
}

/// The least per second over any second that is whole.
fn slowest_second(samples: &[Sample]) -> Option<f64> {
    let rates = samples.iter().enumerate().filter_map(|(index, from)| {
        let to = samples[index..].iter().find(|it| it.0 - from.0 >= Duration::from_secs(1))?;
        Some((to.1 - from.1) as f64 / (to.0 - from.0).as_secs_f64())
    });
    rates.min_by(f64::total_cmp)
}

/// Everybody has a node: what the scheduler does while nothing happens, and what it then has in memory for them.
async fn idle(
    site: &Site,
    scheduler: &Part,
    options: &ScaleOptions,
    figures: &mut Figures,
    empty: Used,
) -> Result<(), ScaleError> {
    // What is still on its way, arrives.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (cpu, entries, started) = (scheduler.used()?.cpu, site.cluster.log_entries().await?, Instant::now());
    tokio::time::sleep(Duration::from_secs(options.idle_seconds)).await;
    let cores = scheduler.used()?.cpu.saturating_sub(cpu).as_secs_f64() / started.elapsed().as_secs_f64();
    let entries = site.cluster.log_entries().await?.saturating_sub(entries);
    figures.add(SCENE, "scheduler's CPU when all are bound", Unit::Cores, cores, Asked::AtMost(0.05));
    figures.add(SCENE, "log entries meanwhile", Unit::Count, entries as f64, Asked::AtMost(0.0));
    // Only now: what was in use while it was busy goes back to the system after a while.
    memory(SCENE, options, figures, empty, scheduler.used()?);
    Ok(())
}

/// What the scheduler has in memory for each replica, beside what it has for nodes alone.
pub fn memory(scene: &'static str, options: &ScaleOptions, figures: &mut Figures, empty: Used, full: Used) {
    let per_replica = full.resident.saturating_sub(empty.resident) as f64 / f64::from(options.replicas);
    let asked = Asked::AtMost(1.5 * 1024.0);
    figures.add(scene, "scheduler's memory per replica", Unit::Bytes, per_replica, asked);
    figures.add(scene, "scheduler's memory, nodes only", Unit::Bytes, empty.resident as f64, Asked::Nothing);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_second_is_found_among_whole_ones() {
        let start = Instant::now();
        let at = |ms: u64, count: u64| (start + Duration::from_millis(ms), count);
        let samples =
            [at(0, 1), at(500, 501), at(1000, 1001), at(1500, 1101), at(2000, 1201), at(2500, 2201)];
        assert_eq!(slowest_second(&samples), Some(200.0));
        assert_eq!(slowest_second(&samples[..2]), None);
    }
}
