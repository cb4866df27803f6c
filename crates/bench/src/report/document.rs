//! The Markdown document: where and how it was measured, the table, the plot, and what went wrong.

use std::fmt::Write as _;

use super::figure::{ERROR_SHARE_MAX, error_share};
use super::{Report, table};
use crate::load::STATE_ROUNDS;
use crate::metric::Unit;
use crate::run::Attempt;

pub fn render(report: &Report, file_name: &str) -> String {
    let environment = &report.environment;
    let (subject, baseline) = (report.subject, report.baseline);
    let mut text = format!("# {subject} against {baseline}, {}\n\n", environment.date);
    if report.plan.quick {
        text.push_str("A quick run: it shows that everything works, its figures are rough.\n\n");
    }
    if subject == baseline {
        text.push_str(
            "Two equal systems: the ratios show how far figures differ by chance on this machine.\n\n",
        );
    }
    text.push_str(&table::render(report));
    let _ = write!(text, "\n![ratios]({file_name}.svg)\n\n{}", where_measured(report));
    text.push_str(&how_measured(report));
    text.push_str(&what_went_wrong(report));
    text
}

fn where_measured(report: &Report) -> String {
    let environment = &report.environment;
    format!(
        "## Where\n\n\
         | | |\n|---|---|\n\
         | date (UTC) | {date} |\n\
         | CPU | {cpu}, {cores} cores, shared by the client and all nodes |\n\
         | memory | {memory} |\n\
         | kernel | {kernel} |\n\
         | file system | {file_system} |\n\
         | load average before the run | {load:.2} |\n\
         | etcd | {etcd} |\n\
         | setpoint | {commit} |\n\n",
        date = environment.date,
        cpu = environment.cpu,
        cores = environment.cores,
        memory = Unit::Bytes.show(environment.memory_bytes as f64),
        kernel = environment.kernel,
        file_system = environment.file_system,
        load = environment.load_average,
        etcd = environment.etcd_version,
        commit = environment.setpoint_commit,
    )
}

fn how_measured(report: &Report) -> String {
    let plan = &report.plan;
    format!(
        "## How\n\n\
         - Both systems run as three nodes on the loopback interface with default settings, fsync on. Each row was \
         measured {repetitions} on each, in turn, every time on a fresh cluster, while the other system does not run; the load average says what else the machine did. \
         Windows last {window} s after {warm_up} s of warm-up.\n\
         - Shown are medians; ± is half of the range of the repetitions. The ratio is ours divided by theirs. The \
         JSON file beside this one has every repetition.\n\
         - One client process drives both alike through the etcd API, in closed loops: a client sends its next \
         operation when the last one is answered. Ten clients share a connection; every node has equally many. \
         The lone client of `put, 1 client` goes round all nodes.\n\
         - Keys are like `/registry/pods/ns-12/web-1b2c3d4e-0000123` (41 B), chosen at random among 10,000. Values \
         have 256 B unless said otherwise: text shaped like API objects, half recurring field names and half random \
         hex digits, from a fixed seed. In blocks of 16 KiB it compresses 1.6 to 1.8 times with LZ4 and 3 times with \
         zstd.\n\
         - Server CPU per op is user plus system time of all three nodes over the window, divided by the operations \
         completed in it.\n\
         - Watch lag is from sending the put to receiving its event; CPU and rate of that row count puts. Every \
         watcher checks that it sees each revision once and in order.\n\
         - Resident memory includes file-mapped pages: etcd maps its database, so its part of the page cache counts; \
         the anonymous part is shown for comparison. Disk is what the data folder occupies, preallocated files \
         included. A restarted node serves when it answers a linearizable read; one node is restarted by SIGTERM, \
         another after kill -9. Seven eighths of the keys are written a hundred per transaction, the rest by puts of \
         their own, so that both systems cut their logs as in real use.\n\
         - Share of the rate kept: rate of puts while the history is compacted over and over, divided by the mean of \
         the rates before and after.\n\
         - Leader killed: from the kill to the first success of a newly sent put on another node; {kills} kills per \
         repetition.\n\
         - Objects are Workloads; their size is that of the stored object, with defaults and owners of fields, and what they are \
         compared with are values of that size. Writes of objects are compared with puts to Setpoint itself through its etcd \
         API, on a cluster of their own; an update changes the image and one variable of a whole object that is sent.\n\
         - Whole state: in Setpoint one watch that begins with the state, up to the bookmark that ends it; in etcd one range over \
         all keys. Both are read {rounds} times after one round that warms caches, and are not decoded. The first object of a range comes \
         with its last. Memory is the serving node's peak beyond what it had before. A selected list is compared with a range \
         over a prefix with as many keys.\n\
         - Watchers of objects: lag is measured at 100 writes a second, from sending a write to receiving its event. Events \
         delivered are measured at saturation, where writers wait while more than a few dozen writes are on their way, and \
         are counted without being decoded.\n\
         - Leases are held through Coordination, in etcd granted; each is kept alive once every 10 s over one of 100 streams. Server \
         CPU is that of all three nodes; log entries are all that the cluster writes in one round.\n\
         - The floor is a server with the same gRPC stack that answers at once without doing anything, measured \
         once.\n\n",
        repetitions = times(plan.repetitions),
        window = plan.window.as_secs_f64(),
        warm_up = plan.warm_up.as_secs_f64(),
        kills = plan.kills,
        rounds = STATE_ROUNDS,
    )
}

fn times(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn what_went_wrong(report: &Report) -> String {
    let mut lines = String::new();
    for row in &report.rows {
        let sides = [
            (report.subject, &row.attempts.subject),
            (report.baseline, &row.attempts.baseline),
            ("floor", &row.attempts.floor),
        ];
        for (system, attempts) in sides {
            for failure in attempts.iter().filter_map(Attempt::failure) {
                let _ = writeln!(lines, "- {}, {system}: failed: {failure}", row.title);
            }
            let share = error_share(attempts).unwrap_or(0.0);
            if share > 0.0 {
                let weight = if share > ERROR_SHARE_MAX { ", too many for the row to count" } else { "" };
                let example = attempts
                    .iter()
                    .filter_map(Attempt::sample)
                    .find_map(|sample| sample.first_error.as_ref());
                let example = example.map(|text| format!("; for example: {text}")).unwrap_or_default();
                let percent = share * 100.0;
                let _ = writeln!(lines, "- {}, {system}: {percent:.3} % errors{weight}{example}", row.title);
            }
        }
    }
    if lines.is_empty() {
        return "No operation failed.\n".to_owned();
    }
    format!("## Errors\n\n{lines}")
}

#[cfg(test)]
pub mod samples {
    //! A made-up report: one row that passes and one that failed on our side.

    use super::super::figure::samples::{measured, put_1};
    use super::*;
    use crate::environment::Environment;
    use crate::metric::Metric;
    use crate::rows::Row;
    use crate::run::{Attempts, Contest};
    use crate::system::{Binaries, System};

    pub fn report() -> Report {
        use clap::Parser as _;
        let options = crate::options::CommandLine::parse_from(["setpoint-bench"]).options;
        let nowhere = std::path::PathBuf::from("/nonexistent");
        let binaries = Binaries { setpointd: nowhere.clone(), etcd: nowhere.clone(), bench: nowhere };
        let failed = Attempts {
            row: Row::KeepAlive,
            subject: vec![Attempt::Failed { failure: "it broke".into() }],
            baseline: vec![measured(&[(Metric::Rate, 20_000.0)], 5)],
            floor: Vec::new(),
        };
        Report::new(
            Environment::observe(std::path::Path::new("/"), &binaries),
            options.plan(),
            Contest { subject: System::Setpoint, baseline: System::Etcd },
            vec![put_1(&[0.001, 0.002, 0.003], &[0.004, 0.004, 0.004]), failed],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_says_where_how_and_what_went_wrong() {
        let text = render(&samples::report(), "2026-01-01");
        for part in [
            "# setpoint against etcd, ",
            "![ratios](2026-01-01.svg)",
            "## Where",
            "measured 3 times on each",
            "- lease keep-alive, 10,000 leases, 100 streams, setpoint: failed: it broke\n",
            "etcd: 0.498 % errors, too many for the row to count",
        ] {
            assert!(text.contains(part), "{part:?} is missing in:\n{text}");
        }
    }
}
