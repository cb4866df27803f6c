//! The step between the shim and the program: the new process prepares itself and becomes the program.
//!
//! It is a process of its own so that nothing has to happen between fork and exec, where little is allowed.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{
    Resource, Rlimit, Signal, getppid, set_parent_process_death_signal, setrlimit, setsid,
};
use rustix::thread::set_no_new_privs;

use super::run_folder::{Plan, RunFolder};

/// Becomes the program of the plan in the current folder, as a child of the shim. Returns only if that failed, having said
/// why in `problem`.
pub fn run(shim: u32) -> io::Result<()> {
    let folder = RunFolder::new(".");
    let Some(plan) = folder.plan()? else { return Err(io::ErrorKind::NotFound.into()) };
    let problem = std::path::absolute(folder.file("problem"))?;
    let prepared = prepare(&plan).and_then(|()| die_with(shim)).and_then(|()| enter(&plan));
    let error = prepared.err().unwrap_or_else(|| become_program(&plan));
    std::fs::write(problem, format!("{}: {error}", plan.program.first().map_or("", String::as_str)))
}

/// Becomes the program of a plan that comes by the standard input: a command beside a run, with the same limits.
pub fn beside() -> io::Result<()> {
    let plan: Plan = serde_json::from_reader(io::stdin())?;
    prepare(&plan).and_then(|()| enter(&plan))?;
    Err(become_program(&plan))
}

pub(super) fn prepare(plan: &Plan) -> io::Result<()> {
    // Whoever is in the groups is found and limited; everything after this is the replica's own.
    plan.cgroup.join()?;
    setsid()?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    if let Some(files) = plan.open_files {
        setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum: Some(files) })?;
    }
    set_no_new_privs(true)?;
    Ok(())
}

/// If the shim dies nobody would read what the program writes, or tell how it ended.
fn die_with(shim: u32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let parent = getppid().map(|pid| pid.as_raw_nonzero().get());
    match parent.and_then(|parent| u32::try_from(parent).ok()) == Some(shim) {
        true => Ok(()),
        false => Err(io::Error::other("the shim has ended")),
    }
}

pub(super) fn enter(plan: &Plan) -> io::Result<()> {
    std::env::set_current_dir(&plan.folder).map_err(|error| {
        io::Error::new(error.kind(), format!("the folder {}: {error}", plan.folder.display()))
    })
}

fn become_program(plan: &Plan) -> io::Error {
    let Some((program, arguments)) = plan.program.split_first() else {
        return io::Error::other("there is no command");
    };
    let variables = plan.env.iter().map(|(name, value)| (name, value));
    Command::new(program).args(arguments).env_clear().envs(variables).exec()
}
