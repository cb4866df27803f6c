//! What is made up: nodes of four shapes in five zones, workloads of mixed shapes and sizes, some spread evenly over zones, some for
//! certain nodes only, all under quotas. The same numbers as those of the scheduler's own measurement of quality.

use setpoint_api::setpoint::v1 as pb;

use super::options::ScaleOptions;
use crate::workload::Random;

pub const ZONES: u32 = 5;
pub const NAMESPACES: usize = 20;

/// Nodes of one shape: each has a label of its own, which selectors ask for.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub class: &'static str,
    pub cpu_milli: u64,
    pub memory_mib: u64,
}

pub const SHAPES: [Shape; 4] = [
    Shape { class: "c0", cpu_milli: 16_000, memory_mib: 64 << 10 },
    Shape { class: "c1", cpu_milli: 32_000, memory_mib: 128 << 10 },
    Shape { class: "c2", cpu_milli: 64_000, memory_mib: 256 << 10 },
    Shape { class: "c3", cpu_milli: 48_000, memory_mib: 384 << 10 },
];

/// Replicas that are alike.
#[derive(Clone, Debug)]
pub struct Workload {
    pub namespace: String,
    pub name: String,
    pub replicas: u32,
    cpu_milli: u64,
    memory_mib: u64,
    is_spread: bool,
    class: Option<&'static str>,
}

pub fn namespace(number: usize) -> String {
    format!("t{:02}", number % NAMESPACES)
}

/// As many workloads as have that many replicas together. Three in ten are spread, two in ten are for nodes of one shape.
pub fn workloads(options: &ScaleOptions) -> Vec<Workload> {
    let mut random = Random::new(42);
    let (mut made, mut left) = (Vec::new(), options.replicas);
    while left > 0 {
        let cpu_milli = [100, 250, 500, 1000, 2000, 4000][random.below(6)];
        let per_cpu = [1, 2, 4, 8][random.below(4)];
        let replicas = (1 + random.below(2 * options.workload as usize) as u32).min(left);
        left -= replicas;
        let number = made.len();
        made.push(Workload {
            namespace: namespace(number),
            name: format!("w{number:05}"),
            replicas,
            cpu_milli,
            memory_mib: cpu_milli * per_cpu * 1024 / 1000,
            is_spread: random.below(10) < 3,
            class: (random.below(10) < 2).then(|| SHAPES[random.below(SHAPES.len())].class),
        });
    }
    scale(&mut made, options);
    made
}

/// Makes what is asked for such a share of what the nodes have.
fn scale(made: &mut [Workload], options: &ScaleOptions) {
    let nodes = u128::from(options.nodes / SHAPES.len() as u32);
    let share = |offered: u64, asked: u128| {
        u128::from(offered) * nodes * u128::from(options.load) / 100 * 1000 / asked.max(1)
    };
    let sum =
        |of: fn(&Workload) -> u64| made.iter().map(|it| u128::from(it.replicas) * u128::from(of(it))).sum();
    let cpu = share(SHAPES.iter().map(|it| it.cpu_milli).sum(), sum(|it| it.cpu_milli));
    let memory = share(SHAPES.iter().map(|it| it.memory_mib).sum(), sum(|it| it.memory_mib));
    for workload in made {
        let scaled = |amount: u64, factor: u128| (u128::from(amount) * factor / 1000) as u64;
        workload.cpu_milli = scaled(workload.cpu_milli, cpu).clamp(10, SHAPES[0].cpu_milli);
        workload.memory_mib = scaled(workload.memory_mib, memory).clamp(1, SHAPES[0].memory_mib);
    }
}

impl Workload {
    /// The replica with that number, as the replica controller makes it.
    pub fn replica(&self, number: u32) -> pb::Object {
        let spec = format!("{{\"workload\":\"{}\",\"template\":{}}}", self.name, self.template());
        object("Replica", &self.namespace, &format!("{}-{number}", self.name), Some(&self.name), spec)
    }

    /// The workload itself.
    pub fn object(&self) -> pb::Object {
        let spec = format!("{{\"replicas\":{},\"template\":{}}}", self.replicas, self.template());
        object("Workload", &self.namespace, &self.name, Some(&self.name), spec)
    }

    fn template(&self) -> String {
        let mut placement = Vec::new();
        if self.is_spread {
            placement.push("\"spread\":[{\"topologyKey\":\"zone\",\"maxSkew\":1}]".to_owned());
        }
        if let Some(class) = self.class {
            placement.push(format!("\"nodeSelector\":\"class={class}\""));
        }
        format!(
            "{{\"labels\":{{\"app\":\"{}\"}},\"command\":[\"/bin/serve\"],\
             \"resources\":{{\"cpu\":\"{}m\",\"memory\":\"{}Mi\"}},\"placement\":{{{}}}}}",
            self.name,
            self.cpu_milli,
            self.memory_mib,
            placement.join(",")
        )
    }
}

/// One that fits everywhere.
pub fn small(namespace: &str, name: &str) -> pb::Object {
    let template = "{\"command\":[\"/bin/serve\"],\"resources\":{\"cpu\":\"100m\",\"memory\":\"128Mi\"}}";
    let spec = format!("{{\"workload\":\"{name}\",\"template\":{template}}}");
    object("Replica", namespace, name, Some(name), spec)
}

pub fn namespace_object(name: &str) -> pb::Object {
    object("Namespace", "", name, None, "{}".to_owned())
}

/// More than anybody uses, so that what is measured is that it is counted.
pub fn quota(namespace: &str) -> pb::Object {
    let limits = "{\"limits\":{\"replicas\":\"1000000\",\"cpu\":\"10000000\",\"memory\":\"8000000Gi\"}}";
    object("Quota", namespace, "main", None, limits.to_owned())
}

pub fn object(kind: &str, namespace: &str, name: &str, app: Option<&str>, spec: String) -> pb::Object {
    let labels = app.map(|app| ("app".to_owned(), app.to_owned())).into_iter().collect();
    let metadata = pb::Metadata {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        labels,
        ..pb::Metadata::default()
    };
    pb::Object { kind: kind.to_owned(), metadata: Some(metadata), spec: spec.into(), ..pb::Object::default() }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: ScaleOptions,
    }

    #[test]
    fn as_much_is_asked_for_as_is_said() {
        let options = Line::parse_from(["scale", "--nodes", "1000", "--replicas", "10000"]).options;
        let made = workloads(&options);
        assert_eq!(made.iter().map(|it| it.replicas).sum::<u32>(), 10_000);
        let asked: u64 = made.iter().map(|it| u64::from(it.replicas) * it.cpu_milli).sum();
        let offered: u64 = SHAPES.iter().map(|it| it.cpu_milli * 250).sum();
        let percent = asked as f64 * 100.0 / offered as f64;
        assert!((60.0..=67.1).contains(&percent), "{percent}");
        let spread = made.iter().filter(|it| it.is_spread).count() as f64 / made.len() as f64;
        assert!((0.1..0.5).contains(&spread), "{spread}");
    }
}
