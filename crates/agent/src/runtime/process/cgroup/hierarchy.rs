//! How control groups are mounted on this machine, and which groups a run gets there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Cgroup, Folder, Limits};

/// The kinds of machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hierarchy {
    /// One tree for everything.
    V2 { parent: PathBuf },
    /// A tree per controller; `unified` is a version 2 tree without controllers, which is there to kill by.
    V1 { memory: Option<PathBuf>, cpu: Option<PathBuf>, pids: Option<PathBuf>, unified: Option<PathBuf> },
    /// Nothing that this process may write.
    None,
}

const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];

/// How long a slice of processor time is, in microseconds: the kernel's default.
const PERIOD_US: u64 = 100_000;

impl Hierarchy {
    /// What is below `mount` (`/sys/fs/cgroup`), as far as a group `parent` can be made there.
    pub fn detect(mount: &Path, parent: &Path) -> Self {
        let at = |tree: &str| {
            let folder = mount.join(tree).join(parent);
            // A folder of no control group has no such file.
            let made = mount.join(tree).join("cgroup.procs").exists() && fs::create_dir_all(&folder).is_ok();
            (made && is_writable(&folder)).then_some(folder)
        };
        if mount.join("cgroup.controllers").exists() {
            return match at("") {
                Some(folder) => {
                    delegate(mount, parent);
                    Self::V2 { parent: folder }
                }
                None => Self::None,
            };
        }
        let (memory, cpu, pids) = (at("memory"), at("cpu"), at("pids"));
        let unified = at("unified").filter(|_| mount.join("unified/cgroup.controllers").exists());
        if memory.is_none() && cpu.is_none() && pids.is_none() && unified.is_none() {
            return Self::None;
        }
        Self::V1 { memory, cpu, pids, unified }
    }

    /// What it is called in logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::V2 { .. } => "v2",
            Self::V1 { unified: Some(_), .. } => "hybrid",
            Self::V1 { unified: None, .. } => "v1",
            Self::None => "none",
        }
    }

    /// The groups of a run. Not made yet.
    pub fn group(&self, run: &str, limits: &Limits) -> Cgroup {
        match self {
            Self::V2 { parent } => v2(&parent.join(run), limits),
            Self::V1 { memory, cpu, pids, unified } => {
                let in_run = |tree: &Option<PathBuf>| tree.as_ref().map(|tree| tree.join(run));
                v1([in_run(memory), in_run(cpu), in_run(pids), in_run(unified)], limits)
            }
            Self::None => Cgroup::default(),
        }
    }

    /// The runs that have a group here, whether anything is in it or not.
    pub fn runs(&self) -> io::Result<Vec<String>> {
        let trees: Vec<&PathBuf> = match self {
            Self::V2 { parent } => vec![parent],
            Self::V1 { memory, cpu, pids, unified } => {
                [unified, memory, cpu, pids].into_iter().flatten().collect()
            }
            Self::None => Vec::new(),
        };
        let mut runs = Vec::new();
        for tree in trees {
            for entry in fs::read_dir(tree)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    runs.extend(entry.file_name().into_string().ok());
                }
            }
        }
        runs.sort();
        runs.dedup();
        Ok(runs)
    }
}

fn is_writable(folder: &Path) -> bool {
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Asks every group above for the controllers. A machine that does not give one limits less; the files of that
/// controller are then not there, and are left out.
fn delegate(mount: &Path, parent: &Path) {
    let mut folder = mount.to_owned();
    let below = parent.components();
    for step in std::iter::once(None).chain(below.map(Some)) {
        folder.extend(step);
        for controller in CONTROLLERS {
            fs::write(folder.join("cgroup.subtree_control"), format!("+{controller}")).ok();
        }
    }
}

fn v2(folder: &Path, limits: &Limits) -> Cgroup {
    let available = folder.parent().map(|parent| parent.join("cgroup.subtree_control"));
    let available = available.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    let has = |controller: &str| available.split_ascii_whitespace().any(|it| it == controller);
    let mut settings = Vec::new();
    let mut set = |file: &str, content: String| settings.push((file.to_owned(), content));
    if has("memory")
        && let Some(bytes) = limits.memory_bytes
    {
        set("memory.max", bytes.to_string());
        set("memory.oom.group", "1".to_owned());
    }
    if has("cpu") {
        if let Some(milli) = limits.cpu_milli {
            set("cpu.max", format!("{} {PERIOD_US}", quota(milli)));
        }
        if let Some(milli) = limits.cpu_reserved_milli {
            // One processor is the weight that a group has by default.
            set("cpu.weight", (milli / 10).clamp(1, 10_000).to_string());
        }
    }
    if has("pids")
        && let Some(pids) = limits.pids
    {
        set("pids.max", pids.to_string());
    }
    Cgroup {
        folders: vec![Folder { path: folder.to_owned(), settings }],
        kill: Some(folder.to_owned()),
        oom: has("memory").then(|| folder.join("memory.events")),
    }
}

fn v1([memory, cpu, pids, unified]: [Option<PathBuf>; 4], limits: &Limits) -> Cgroup {
    let mut group = Cgroup::default();
    let setting = |file: &str, value: Option<String>| value.map(|value| (file.to_owned(), value));
    if let Some(path) = memory {
        let limit = setting("memory.limit_in_bytes", limits.memory_bytes.map(|it| it.to_string()));
        group.oom = Some(path.join("memory.oom_control"));
        group.folders.push(Folder { path, settings: limit.into_iter().collect() });
    }
    if let Some(path) = cpu {
        let quota = setting("cpu.cfs_quota_us", limits.cpu_milli.map(|milli| quota(milli).to_string()));
        let shares = limits.cpu_reserved_milli.map(|milli| (milli * 1024 / 1000).max(2).to_string());
        let settings = quota.into_iter().chain(setting("cpu.shares", shares)).collect();
        group.folders.push(Folder { path, settings });
    }
    if let Some(path) = pids {
        let max = setting("pids.max", limits.pids.map(|it| it.to_string()));
        group.folders.push(Folder { path, settings: max.into_iter().collect() });
    }
    if let Some(path) = unified {
        group.kill = Some(path.clone());
        group.folders.push(Folder { path, settings: Vec::new() });
    }
    group
}

/// Microseconds of processor time per period; the kernel takes no less than one millisecond.
fn quota(milli: u64) -> u64 {
    (milli * PERIOD_US / 1000).max(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        memory_bytes: Some(64 << 20),
        cpu_milli: Some(1500),
        cpu_reserved_milli: Some(500),
        pids: Some(99),
    };

    /// A folder that looks like a mount of control groups.
    fn mount(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            fs::write(path, "").expect("a file");
        }
        folder
    }

    fn shown(mount: &Path, group: &Cgroup) -> Vec<String> {
        let name = |path: &Path| path.strip_prefix(mount).expect("below the mount").display().to_string();
        let settings = group.folders.iter().flat_map(|folder| {
            let settings = folder.settings.iter().map(|(file, content)| format!("{file}={content}"));
            std::iter::once(format!("{}:", name(&folder.path))).chain(settings).collect::<Vec<_>>()
        });
        settings.collect()
    }

    #[test]
    fn one_tree_has_all_limits_that_its_parent_passes_on() {
        let mount = mount(&["cgroup.controllers", "cgroup.procs"]);
        let hierarchy = Hierarchy::detect(mount.path(), Path::new("setpoint/n1"));
        assert_eq!(hierarchy.name(), "v2");
        fs::write(mount.path().join("setpoint/n1/cgroup.subtree_control"), "cpu memory pids\n")
            .expect("a file");
        let group = hierarchy.group("r-1", &LIMITS);
        assert_eq!(
            shown(mount.path(), &group),
            [
                "setpoint/n1/r-1:",
                "memory.max=67108864",
                "memory.oom.group=1",
                "cpu.max=150000 100000",
                "cpu.weight=50",
                "pids.max=99"
            ]
        );
        fs::write(mount.path().join("setpoint/n1/cgroup.subtree_control"), "pids\n").expect("a file");
        let group = hierarchy.group("r-1", &LIMITS);
        assert_eq!(shown(mount.path(), &group), ["setpoint/n1/r-1:", "pids.max=99"]);
    }

    #[test]
    fn separate_trees_limit_and_the_unified_one_kills() {
        let files =
            ["memory/cgroup.procs", "cpu/cgroup.procs", "unified/cgroup.procs", "unified/cgroup.controllers"];
        let mount = mount(&files);
        let hierarchy = Hierarchy::detect(mount.path(), Path::new("setpoint"));
        assert_eq!(hierarchy.name(), "hybrid");
        let group = hierarchy.group("r-1", &LIMITS);
        assert_eq!(
            shown(mount.path(), &group),
            [
                "memory/setpoint/r-1:",
                "memory.limit_in_bytes=67108864",
                "cpu/setpoint/r-1:",
                "cpu.cfs_quota_us=150000",
                "cpu.shares=512",
                "unified/setpoint/r-1:"
            ]
        );
        assert_eq!(group.kill, Some(mount.path().join("unified/setpoint/r-1")));
    }

    #[test]
    fn a_machine_without_them_limits_nothing() {
        let mount = mount(&["something"]);
        let hierarchy = Hierarchy::detect(mount.path(), Path::new("setpoint"));
        assert_eq!((hierarchy.name(), hierarchy.group("r-1", &LIMITS)), ("none", Cgroup::default()));
    }
}
