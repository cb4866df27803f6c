//! Whether the ports are free, before anything is started: a program that finds its port taken would only say so in its log.

use std::net::{Ipv4Addr, TcpListener};

use super::layout::{Layout, Program};

/// A port that another program has.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("port {port} ({of} of {program}) is taken by another program; {way_out}")]
pub struct TakenPort {
    pub port: u16,
    pub of: &'static str,
    pub program: String,
    pub way_out: String,
}

/// Tries each of them. `may_move` says whether the cluster can be started on other ports.
pub fn check(layout: &Layout, programs: &[Program], may_move: bool) -> Result<(), TakenPort> {
    check_with(layout, programs, may_move, is_free)
}

fn check_with(
    layout: &Layout,
    programs: &[Program],
    may_move: bool,
    is_free: impl Fn(u16) -> bool,
) -> Result<(), TakenPort> {
    let of_programs = programs.iter().flat_map(|it| it.ports.iter().map(move |port| (it, *port)));
    let Some((program, (port, of))) = of_programs.into_iter().find(|(_, (port, _))| !is_free(*port)) else {
        return Ok(());
    };
    let find = format!("`ss -ltnp 'sport = :{port}'` shows which");
    let way_out = match free_base(layout, &is_free) {
        Some(base) if may_move => format!("{find}. Stop it, or take other ports: --port-base {base}"),
        _ => format!("{find}. Stop it, or begin another cluster: --data-dir OTHER --port-base OTHER"),
    };
    Err(TakenPort { port, of, program: program.name.clone(), way_out })
}

/// The next base, by hundreds, from which on all ports are free.
fn free_base(layout: &Layout, is_free: &impl Fn(u16) -> bool) -> Option<u16> {
    let bases = (1..=50).filter_map(|step: u16| layout.port_base.checked_add(100 * step));
    bases.filter(|base| Layout::is_port_base(*base)).find(|base| {
        let moved = Layout { port_base: *base, ..layout.clone() };
        moved.programs().iter().flat_map(|it| &it.ports).all(|(port, _)| is_free(*port))
    })
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout { folder: ".setpoint".into(), port_base: 7400, nodes: 1, agents: 3 }
    }

    #[test]
    fn a_taken_port_is_named_with_its_use_and_the_way_out() {
        let layout = layout();
        let taken = [7460, 7560];
        let check = |may_move| {
            check_with(&layout, &layout.programs(), may_move, |port| !taken.contains(&port))
                .expect_err("taken")
                .to_string()
        };
        let said = check(true);
        assert!(said.contains("port 7460 (health and metrics of controllers)"), "{said}");
        assert!(said.ends_with("--port-base 7600"), "the next hundred is not free either: {said}");
        assert!(check(false).contains("--data-dir"), "nodes that know each other cannot move");
    }

    #[test]
    fn free_ports_are_no_problem_and_a_listener_is() {
        let layout = layout();
        assert_eq!(check_with(&layout, &layout.programs(), true, |_| true), Ok(()));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        assert!(!is_free(listener.local_addr().expect("its address").port()));
    }
}
