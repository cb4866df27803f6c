//! Free ports on the loopback interface.
//!
//! They are taken from below the range the kernel gives to outgoing connections: a node that is restarted must
//! find its port free again, and a port from that range might meanwhile belong to one of the client's connections.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use super::SystemError;

const FIRST: u16 = 21_000;
const LAST: u16 = 31_999;

/// Where to look next, so that a cluster does not get the ports of the one just stopped.
static NEXT: AtomicU16 = AtomicU16::new(FIRST);

/// As many addresses as asked for, each free a moment ago.
pub fn free(count: usize) -> Result<Vec<SocketAddr>, SystemError> {
    let mut found = Vec::with_capacity(count);
    for _ in FIRST..=LAST {
        if found.len() == count {
            break;
        }
        let port = NEXT.fetch_add(1, Ordering::Relaxed);
        if port >= LAST {
            NEXT.store(FIRST, Ordering::Relaxed);
        }
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            found.push(address);
        }
    }
    if found.len() < count { Err(SystemError::Ports(count)) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_passed_over() {
        let first = free(1).expect("a free port")[0];
        let taken: Vec<TcpListener> = (1..=3)
            .filter_map(|step| TcpListener::bind((Ipv4Addr::LOCALHOST, first.port() + step)).ok())
            .collect();
        let taken: Vec<u16> = taken.iter().filter_map(|held| Some(held.local_addr().ok()?.port())).collect();
        let next = free(9).expect("free ports");
        assert_eq!(next.len(), 9);
        assert!(next.iter().all(|address| !taken.contains(&address.port()) || taken.is_empty()));
    }
}
