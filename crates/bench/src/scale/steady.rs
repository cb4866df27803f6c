//! Workloads made by their controllers, all replicas serving, and nothing happens: what that costs, and what is written meanwhile.

use std::path::Path;
use std::time::{Duration, Instant};

use setpoint_api::setpoint::v1 as pb;

use super::figures::{Asked, Figures};
use super::options::ScaleOptions;
use super::site::{Part, Site};
use super::{ScaleError, binds, fill, made, single};
use crate::connection::{connection, objects};
use crate::metric::Unit;

const SCENE: &str = "all serve";
const POLL: Duration = Duration::from_secs(1);
/// The log has not grown for so long: everything was said.
const QUIET: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(1_200);
/// Workloads come in any order, and replicas are spread over nodes: of a fuller cluster the last large ones find no node with that much
/// room left, and wait.
const LOAD_MAX: u32 = 30;

pub async fn measure(options: &ScaleOptions, data: &Path, figures: &mut Figures) -> Result<(), ScaleError> {
    let options = &ScaleOptions { load: options.load.min(LOAD_MAX), ..options.clone() };
    let site = Site::start(options, data).await?;
    fill::tenants(&site, single::NAMESPACE).await?;
    eprintln!("scale: registering {} nodes", options.nodes);
    let _agents = site.fleet(options.nodes, &[]).await?;
    let mut scheduler = site.scheduler(options)?;
    scheduler.ready("the scheduler's first look").await?;
    let empty = scheduler.used()?;
    let mut controllers = site.controllers(None, "all")?;
    controllers.ready("the controllers' first look").await?;
    let made = made::workloads(options);
    eprintln!("scale: {} workloads with {} replicas", made.len(), options.replicas);
    let started = Instant::now();
    fill::create(&site, "workloads", made.iter().map(made::Workload::object).collect()).await?;
    serving(&site, options.replicas.into(), &controllers).await?;
    let took = started.elapsed().as_secs_f64();
    figures.add(SCENE, "until all serve", Unit::Seconds, took, Asked::Nothing);
    settled(&site, &controllers).await?;

    let (entries, begun) = (site.cluster.log_entries().await?, Instant::now());
    let before = [controllers.used()?.cpu, scheduler.used()?.cpu, site.cluster.cpu_used()?];
    tokio::time::sleep(Duration::from_secs(options.idle_seconds)).await;
    let after = [controllers.used()?.cpu, scheduler.used()?.cpu, site.cluster.cpu_used()?];
    let elapsed = begun.elapsed().as_secs_f64();
    let entries = site.cluster.log_entries().await?.saturating_sub(entries);
    figures.add(SCENE, "log entries meanwhile", Unit::Count, entries as f64, Asked::AtMost(0.0));
    let names = [
        ("CPU of all controllers together", Asked::AtMost(0.05)),
        ("CPU of the scheduler", Asked::AtMost(0.05)),
        ("CPU of the servers", Asked::Nothing),
    ];
    for ((name, asked), (before, after)) in names.into_iter().zip(before.into_iter().zip(after)) {
        let cores = after.saturating_sub(before).as_secs_f64() / elapsed;
        figures.add(SCENE, name, Unit::Cores, cores, asked);
    }
    let resident = controllers.used()?.resident as f64;
    figures.add(SCENE, "memory of the controllers", Unit::Bytes, resident, Asked::Nothing);
    binds::memory(SCENE, options, figures, empty, scheduler.used()?);
    Ok(())
}

/// Waits until so many replicas serve, as their workloads say.
pub async fn serving(site: &Site, wanted: u64, part: &Part) -> Result<(), ScaleError> {
    let service = connection(site.addresses()[0]);
    let started = Instant::now();
    while started.elapsed() < LIMIT {
        let request = pb::ListRequest { kind: "Workload".to_owned(), ..pb::ListRequest::default() };
        let mut found = 0;
        let mut next = Some(request);
        while let Some(request) = next.take() {
            let answer = objects(service.clone()).list(request.clone()).await;
            let answer = answer.map_err(ScaleError::request("list workloads"))?.into_inner();
            found += answer.objects.iter().map(|it| serving_of(&it.status)).sum::<u64>();
            if !answer.r#continue.is_empty() {
                next = Some(pb::ListRequest { r#continue: answer.r#continue, ..request });
            }
        }
        if found >= wanted {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
    Err(ScaleError::TooSlow {
        what: "all replicas serving",
        seconds: LIMIT.as_secs(),
        log: part.last_words(),
    })
}

fn serving_of(status: &[u8]) -> u64 {
    let status: serde_json::Value = serde_json::from_slice(status).unwrap_or_default();
    status["replicas"]["serving"].as_u64().unwrap_or(0)
}

/// Waits until nothing is written any more.
async fn settled(site: &Site, part: &Part) -> Result<(), ScaleError> {
    let started = Instant::now();
    let mut last = (site.cluster.log_entries().await?, Instant::now());
    while started.elapsed() < LIMIT {
        tokio::time::sleep(POLL).await;
        let entries = site.cluster.log_entries().await?;
        if entries != last.0 {
            last = (entries, Instant::now());
        } else if last.1.elapsed() > QUIET {
            return Ok(());
        }
        // Somebody writes all the time: that is what is to be shown, not waited for.
        if started.elapsed() > QUIET * 6 {
            return Ok(());
        }
    }
    Err(ScaleError::TooSlow { what: "an end of writing", seconds: LIMIT.as_secs(), log: part.last_words() })
}
