//! The processes of a run: servers, simulated agents, schedulers, controllers. All of them are gone when it is dropped.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::ScaleError;
use super::made::{SHAPES, Shape, ZONES};
use super::options::ScaleOptions;
use crate::measure::{cpu, memory};
use crate::system::{Binaries, Cluster, Process, System, SystemError, free_ports};

/// Registering ten thousand nodes takes a while on a busy machine.
const READY_LIMIT: Duration = Duration::from_secs(180);
const STOP_PATIENCE: Duration = Duration::from_secs(30);
/// Longer than a machine may be too busy to renew ten thousand leases.
const LEASE_SECONDS: u32 = 120;

/// Servers, and whatever was started beside them.
pub struct Site {
    programs: PathBuf,
    /// Names the servers to those who read a config file.
    config: PathBuf,
    pub cluster: Cluster,
}

/// A process beside the servers.
pub struct Part {
    process: Process,
    http: SocketAddr,
}

/// What a process has used.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    pub cpu: Duration,
    pub resident: u64,
}

impl Site {
    pub async fn start(options: &ScaleOptions, data: &Path) -> Result<Self, ScaleError> {
        let own = std::env::current_exe()?;
        let programs = match &options.programs {
            Some(folder) => folder.clone(),
            None => own.parent().map(Path::to_owned).unwrap_or_default(),
        };
        for name in ["setpointd", "setpoint-scheduler", "setpoint-controllers", "setpoint-agent"] {
            let path = programs.join(name);
            if !path.is_file() {
                return Err(ScaleError::Program { name, path });
            }
        }
        let binaries = Binaries { setpointd: programs.join("setpointd"), etcd: PathBuf::new(), bench: own };
        let cluster = Cluster::start_of(System::Setpoint, &binaries, data, options.servers.into()).await?;
        let config = cluster.folder().join("config.yaml");
        let endpoints: Vec<String> = cluster.addresses().iter().map(|it| format!("http://{it}")).collect();
        let text = format!(
            "current-context: bench\nclusters:\n  - name: bench\n    endpoints: [{}]\n\
             contexts:\n  - name: bench\n    cluster: bench\n",
            endpoints.iter().map(|it| format!("'{it}'")).collect::<Vec<_>>().join(", ")
        );
        std::fs::write(&config, text)?;
        Ok(Self { programs, config, cluster })
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.cluster.addresses()
    }

    fn start_part(&self, program: &str, name: &str, arguments: &[String]) -> Result<Part, ScaleError> {
        let path = self.programs.join(program);
        let http = free_ports(1)?[0];
        let mut command = Command::new(&path);
        command.args(arguments).args(["--listen-http", &http.to_string()]);
        // Settings from the environment would silently make it another process than the one described.
        for (key, _) in std::env::vars_os().filter(|(key, _)| key.to_string_lossy().starts_with("SETPOINT_"))
        {
            command.env_remove(key);
        }
        command.env("SETPOINT_CONFIG", &self.config);
        let log = self.cluster.folder().join(format!("{name}.log"));
        let process = Process::start(command, &log)
            .map_err(|source| SystemError::Spawn { program: path.clone(), source })?;
        Ok(Part { process, http })
    }

    /// A process that simulates nodes: `count` of one shape, named after `prefix`.
    pub fn agents(&self, prefix: &str, shape: Shape, count: u32, more: &[&str]) -> Result<Part, ScaleError> {
        let endpoints: Vec<String> = self.addresses().iter().map(ToString::to_string).collect();
        let folder = self.cluster.folder().join(format!("agents-{prefix}"));
        let Shape { class, cpu_milli, memory_mib } = shape;
        let mut arguments: Vec<String> = [
            ("--simulate", count.to_string()),
            ("--simulate-prefix", prefix.to_owned()),
            ("--simulate-zones", ZONES.to_string()),
            ("--endpoints", endpoints.join(",")),
            ("--label", format!("class={class}")),
            ("--capacity", format!("cpu={cpu_milli}m,memory={memory_mib}Mi")),
            ("--state-dir", folder.display().to_string()),
            ("--log", "warn".to_owned()),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect();
        arguments.extend(more.iter().map(|it| (*it).to_owned()));
        if !more.contains(&"--lease-ttl-seconds") {
            arguments.extend(["--lease-ttl-seconds".to_owned(), LEASE_SECONDS.to_string()]);
        }
        self.start_part("setpoint-agent", prefix, &arguments)
    }

    /// Nodes of all shapes, and waits until they are registered.
    pub async fn fleet(&self, nodes: u32, more: &[&str]) -> Result<Vec<Part>, ScaleError> {
        let share = nodes / SHAPES.len() as u32;
        let mut parts = Vec::new();
        for shape in SHAPES {
            parts.push(self.agents(shape.class, shape, share, more)?);
        }
        for part in &mut parts {
            part.ready("registering nodes").await?;
        }
        Ok(parts)
    }

    /// A scheduler that has seen everything there is.
    pub fn scheduler(&self, options: &ScaleOptions) -> Result<Part, ScaleError> {
        let more: Vec<String> = options.scheduler.split_whitespace().map(str::to_owned).collect();
        self.start_part("setpoint-scheduler", "scheduler", &more)
    }

    pub fn controllers(&self, file: Option<&Path>, names: &str) -> Result<Part, ScaleError> {
        let mut arguments = vec!["--log".to_owned(), "warn".to_owned(), format!("--controllers={names}")];
        if let Some(file) = file {
            arguments.extend(["--file".to_owned(), file.display().to_string()]);
        }
        self.start_part("setpoint-controllers", &format!("controllers-{names}"), &arguments)
    }
}

impl Part {
    /// Waits until it says that it is ready.
    pub async fn ready(&mut self, what: &'static str) -> Result<(), ScaleError> {
        let started = Instant::now();
        while started.elapsed() < READY_LIMIT {
            if is_ready(self.http).await.unwrap_or(false) {
                return Ok(());
            }
            if let Some(status) = self.process.ended()? {
                let name = what.to_owned();
                let log = self.process.last_words();
                return Err(SystemError::Ended { name, status: status.to_string(), log }.into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(ScaleError::TooSlow { what, seconds: READY_LIMIT.as_secs(), log: self.process.last_words() })
    }

    pub fn used(&self) -> Result<Used, ScaleError> {
        let pid = self.process.pid();
        Ok(Used { cpu: cpu::used(pid)?, resident: memory::resident(pid)?.total })
    }

    pub fn last_words(&self) -> String {
        self.process.last_words()
    }

    /// As an upgrade would.
    pub fn stop(mut self) -> Result<(), ScaleError> {
        Ok(self.process.terminate(STOP_PATIENCE)?)
    }

    /// As a crash would.
    pub fn kill(mut self) -> Result<(), ScaleError> {
        Ok(self.process.kill()?)
    }
}

async fn is_ready(http: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect(http).await?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n").await?;
    let mut answer = Vec::new();
    stream.take(4096).read_to_end(&mut answer).await?;
    Ok(answer.starts_with(b"HTTP/1.1 200"))
}
