//! What `setpoint dev` starts: which programs, with which arguments, on which ports, in which order. Pure.
//!
//! All ports are offsets from one number, so that a second cluster on the machine is one option away. Not here: starting
//! anything (`cluster.rs`), and what a folder holds already (`record.rs`).

use std::path::{Path, PathBuf};

/// The ports of the documentation begin here.
pub const PORT_BASE: u16 = 7400;
/// Each has three ports, from the base on.
pub const NODES_MAX: u8 = 3;
pub const AGENTS_MAX: u8 = 16;
/// Above those that the documentation uses for clusters made by hand, so that both can run.
const CONTROLLERS: u16 = 60;
const SCHEDULER: u16 = 61;
const AGENTS: u16 = 62;
/// So many ports from the base on may be used.
const SPAN: u16 = AGENTS + AGENTS_MAX as u16;

/// How many of what, where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Of all data, logs and the client's config.
    pub folder: PathBuf,
    pub port_base: u16,
    pub nodes: u8,
    pub agents: u8,
}

/// Programs are started in this order, each when those before it are ready, and stopped in that of [`Stage::STOPPED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Nodes,
    Deciders,
    Agents,
}

impl Stage {
    pub const STARTED: [Self; 3] = [Self::Nodes, Self::Deciders, Self::Agents];
    /// Those who would replace what the agents stop go first, the store last: agents tell it what they have stopped.
    pub const STOPPED: [Self; 3] = [Self::Deciders, Self::Agents, Self::Nodes];
}

/// A program to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Of its log file, and in messages.
    pub name: String,
    pub binary: &'static str,
    pub stage: Stage,
    pub arguments: Vec<String>,
    pub environment: Vec<(&'static str, String)>,
    /// Where it says whether it is ready.
    pub http: u16,
    /// All it listens on, and what for.
    pub ports: Vec<(u16, &'static str)>,
}

impl Layout {
    pub fn is_port_base(base: u16) -> bool {
        base >= 1024 && base.checked_add(SPAN).is_some()
    }

    /// The contexts of a client of this cluster; not `config`, which in a home folder would be the user's own.
    pub fn client_config(&self) -> PathBuf {
        self.folder.join("dev-config")
    }

    pub fn log(&self, program: &str) -> PathBuf {
        self.folder.join("logs").join(format!("{program}.log"))
    }

    /// Addresses for clients, one per node.
    pub fn endpoints(&self) -> Vec<String> {
        (0..self.nodes).map(|node| address(self.node_port(node, 0))).collect()
    }

    /// The HTTP address of the first node.
    pub fn http(&self) -> String {
        address(self.node_port(0, 2))
    }

    /// The port of an agent, counted from 0, for health and logs.
    fn agent_port(&self, agent: u8) -> u16 {
        self.port_base + AGENTS + u16::from(agent)
    }

    fn node_port(&self, node: u8, which: u16) -> u16 {
        self.port_base + 3 * u16::from(node) + which
    }

    /// Everything, in the order in which it is started.
    pub fn programs(&self) -> Vec<Program> {
        let nodes = (0..self.nodes).map(|node| self.node(node));
        let agents = (0..self.agents).map(|agent| self.agent(agent));
        nodes.chain([self.controllers(), self.scheduler()]).chain(agents).collect()
    }

    fn node(&self, node: u8) -> Program {
        let name = format!("n{}", node + 1);
        let [client, peer, http] = [0, 1, 2].map(|which| self.node_port(node, which));
        let members =
            (0..self.nodes).map(|node| format!("n{}={}", node + 1, address(self.node_port(node, 1))));
        let arguments = [
            ("--name", name.clone()),
            ("--data-dir", shown(&self.folder.join(&name))),
            ("--listen-client", address(client)),
            ("--listen-peer", address(peer)),
            ("--listen-http", address(http)),
            ("--initial-cluster", members.collect::<Vec<_>>().join(",")),
        ];
        Program {
            binary: "setpointd",
            stage: Stage::Nodes,
            arguments: words(arguments),
            environment: Vec::new(),
            http,
            ports: vec![(client, "clients"), (peer, "the other nodes"), (http, "health and metrics")],
            name,
        }
    }

    fn controllers(&self) -> Program {
        let http = self.port_base + CONTROLLERS;
        Program {
            name: "controllers".to_owned(),
            binary: "setpoint-controllers",
            stage: Stage::Deciders,
            arguments: words([("--listen-http", address(http))]),
            environment: self.reaching_the_cluster(),
            http,
            ports: vec![(http, "health and metrics")],
        }
    }

    fn scheduler(&self) -> Program {
        let http = self.port_base + SCHEDULER;
        Program {
            name: "scheduler".to_owned(),
            binary: "setpoint-scheduler",
            stage: Stage::Deciders,
            arguments: words([("--listen-http", address(http))]),
            environment: self.reaching_the_cluster(),
            http,
            ports: vec![(http, "health and metrics")],
        }
    }

    fn agent(&self, agent: u8) -> Program {
        let name = format!("a{}", agent + 1);
        let http = self.agent_port(agent);
        let arguments = [
            ("--name", name.clone()),
            ("--zone", format!("z{}", agent + 1)),
            ("--state-dir", shown(&self.folder.join(&name))),
            ("--listen-http", address(http)),
            // A host that is gone is noticed while somebody watches.
            ("--lease-ttl-seconds", "10".to_owned()),
            // An agent takes whatever runs below its group, and that it does not know of, for a leftover of its own.
            ("--cgroup-parent", format!("setpoint-dev-{}-{name}", self.port_base)),
            // Nothing runs on when the cluster has ended.
            ("--on-shutdown", "stop".to_owned()),
            ("--shutdown-seconds-max", AGENT_SECONDS.to_string()),
        ];
        Program {
            binary: "setpoint-agent",
            stage: Stage::Agents,
            arguments: words(arguments),
            environment: self.reaching_the_cluster(),
            http,
            ports: vec![(http, "health and logs")],
            name,
        }
    }

    fn reaching_the_cluster(&self) -> Vec<(&'static str, String)> {
        vec![("SETPOINT_CONFIG", shown(&self.client_config()))]
    }
}

/// How long an agent may take to stop its replicas; those of the sample need five at most.
pub const AGENT_SECONDS: u64 = 10;

fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn words<const N: usize>(options: [(&str, String); N]) -> Vec<String> {
    options.into_iter().flat_map(|(option, value)| [option.to_owned(), value]).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn layout(nodes: u8, agents: u8) -> Layout {
        Layout { folder: "/tmp/x".into(), port_base: PORT_BASE, nodes, agents }
    }

    #[test]
    fn the_defaults_are_the_ports_of_the_documentation() {
        let programs = layout(1, 3).programs();
        let ports: Vec<u16> = programs.iter().flat_map(|it| it.ports.iter().map(|(port, _)| *port)).collect();
        assert_eq!(ports, [7400, 7401, 7402, 7460, 7461, 7462, 7463, 7464]);
        assert_eq!(layout(1, 3).endpoints(), ["127.0.0.1:7400"]);
        assert_eq!(layout(1, 3).http(), "127.0.0.1:7402");
    }

    #[test]
    fn no_two_programs_share_a_port_a_name_or_a_folder_even_with_the_most_of_each() {
        let layout = layout(NODES_MAX, AGENTS_MAX);
        let programs = layout.programs();
        let ports: Vec<u16> = programs.iter().flat_map(|it| it.ports.iter().map(|(port, _)| *port)).collect();
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), ports.len());
        assert!(ports.iter().all(|port| (PORT_BASE..PORT_BASE + SPAN).contains(port)));
        let names: BTreeSet<&str> = programs.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names.len(), programs.len());
        assert!(programs.iter().all(|it| it.ports.iter().any(|(port, _)| *port == it.http)));
    }

    #[test]
    fn every_node_is_told_the_same_members() {
        let programs = layout(3, 1).programs();
        let members: BTreeSet<&String> = programs
            .iter()
            .filter(|it| it.stage == Stage::Nodes)
            .map(|it| it.arguments.last().expect("arguments"))
            .collect();
        let all = "n1=127.0.0.1:7401,n2=127.0.0.1:7404,n3=127.0.0.1:7407".to_owned();
        assert_eq!(members, BTreeSet::from([&all]));
    }

    #[test]
    fn programs_come_in_the_order_of_their_stages_and_every_stage_is_stopped() {
        let stages: Vec<Stage> = layout(3, 3).programs().iter().map(|it| it.stage).collect();
        assert!(stages.is_sorted());
        assert_eq!(Stage::STARTED.len(), Stage::STOPPED.len());
        assert!(Stage::STARTED.iter().all(|stage| Stage::STOPPED.contains(stage)));
        assert_eq!(
            Stage::STOPPED.last(),
            Some(&Stage::Nodes),
            "agents tell the store what they have stopped"
        );
    }

    #[test]
    fn the_server_does_not_see_the_clients_config() {
        let programs = layout(1, 1).programs();
        for program in programs {
            let named = program.environment.iter().any(|(name, _)| *name == "SETPOINT_CONFIG");
            assert_eq!(named, program.stage != Stage::Nodes, "{}", program.name);
        }
    }

    #[test]
    fn no_agent_takes_the_replicas_of_another_for_its_own() {
        let groups = |base| {
            let programs = Layout { port_base: base, ..layout(1, 3) }.programs();
            let words = programs.into_iter().flat_map(|it| it.arguments);
            words.filter(|word| word.starts_with("setpoint-dev-")).collect::<BTreeSet<_>>()
        };
        assert_eq!(groups(7400).len(), 3);
        assert!(groups(7400).is_disjoint(&groups(7500)));
    }

    #[test]
    fn a_base_leaves_room_for_all_ports() {
        assert!(Layout::is_port_base(PORT_BASE) && Layout::is_port_base(1024));
        assert!(!Layout::is_port_base(80) && !Layout::is_port_base(65_500));
    }
}
