//! Free loopback ports for server processes.
//!
//! Ports are taken below the range from which the kernel serves outgoing connections and port 0: a server that is killed
//! and restarted must find its port still free. Several test processes run at once, so each starts its search at its own
//! place, and a port counts as free only if it can be bound.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::HarnessError;

const FIRST: u16 = 20_000;
const LAST: u16 = 31_999;

static TAKEN: AtomicU32 = AtomicU32::new(0);

/// `count` different ports that nothing listens on at the moment.
pub fn free_ports(count: usize) -> Result<Vec<u16>, HarnessError> {
    let span = u32::from(LAST - FIRST) + 1;
    let mut held = Vec::with_capacity(count);
    let mut ports = Vec::with_capacity(count);
    for _ in 0..span {
        if ports.len() == count {
            break;
        }
        let offset =
            std::process::id().wrapping_mul(97).wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed)) % span;
        let port = FIRST + u16::try_from(offset).unwrap_or(0);
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            held.push(listener);
            ports.push(port);
        }
    }
    if ports.len() < count {
        return Err(HarnessError::NoPort { first: FIRST, last: LAST });
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::free_ports;

    #[test]
    fn ports_are_distinct_and_bindable() {
        let mut ports = free_ports(20).expect("some ports are free");
        for port in &ports {
            std::net::TcpListener::bind(("127.0.0.1", *port)).expect("a free port can be bound");
        }
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 20);
    }
}
