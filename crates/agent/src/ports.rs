//! Ports: those that a template leaves to the agent are chosen here, and the process is told by its environment.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use setpoint_types::kinds::{Port, Protocol, ReplicaEndpoint};

/// How often a port is drawn that somebody else of ours has already.
const TRIES: u32 = 64;

/// The endpoints of a replica: each port that is 0 gets one that is free now and that none of `taken` has.
pub fn choose(ports: &[Port], host: &str, taken: &BTreeSet<u16>) -> io::Result<Vec<ReplicaEndpoint>> {
    let mut taken = taken.clone();
    let mut endpoints = Vec::with_capacity(ports.len());
    for port in ports {
        let number = match port.port {
            0 => free(port.protocol, &taken)?,
            number => number,
        };
        taken.insert(number);
        let (name, host, protocol) = (port.name.clone(), host.to_owned(), port.protocol);
        endpoints.push(ReplicaEndpoint { name, host, port: number, protocol });
    }
    Ok(endpoints)
}

fn free(protocol: Protocol, taken: &BTreeSet<u16>) -> io::Result<u16> {
    // Held until the end, so that the next draw is another one.
    let (mut listeners, mut sockets) = (Vec::new(), Vec::new());
    for _ in 0..TRIES {
        let any = (Ipv4Addr::UNSPECIFIED, 0);
        let number = match protocol {
            Protocol::Tcp => {
                listeners.push(TcpListener::bind(any)?);
                listeners.last().map(|it| it.local_addr())
            }
            Protocol::Udp => {
                sockets.push(UdpSocket::bind(any)?);
                sockets.last().map(|it| it.local_addr())
            }
        };
        if let Some(Ok(address)) = number
            && !taken.contains(&address.port())
        {
            return Ok(address.port());
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "no port is free"))
}

/// What a process is told: `PORT` is the first one, `PORT_HTTP` that of the name.
pub fn variables(endpoints: &[ReplicaEndpoint]) -> Vec<(String, String)> {
    let first = endpoints.first().map(|endpoint| ("PORT".to_owned(), endpoint.port.to_string()));
    let named = endpoints.iter().map(|endpoint| {
        let name = endpoint.name.to_uppercase().replace(['-', '.'], "_");
        (format!("PORT_{name}"), endpoint.port.to_string())
    });
    first.into_iter().chain(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_ports_stay_and_others_are_chosen_once_each() {
        let port = |name: &str, port| Port { name: name.into(), port, protocol: Protocol::Tcp };
        let ports = [port("http", 8080), port("admin-api", 0), port("more", 0)];
        let endpoints = choose(&ports, "h", &BTreeSet::new()).expect("free ports");
        assert_eq!(endpoints[0].port, 8080);
        assert!(endpoints[1].port != 0 && endpoints[1].port != endpoints[2].port);
        let told = variables(&endpoints);
        assert_eq!(told[0], ("PORT".to_owned(), "8080".to_owned()));
        assert_eq!(told[2], ("PORT_ADMIN_API".to_owned(), endpoints[1].port.to_string()));
    }
}
