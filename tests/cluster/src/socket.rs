//! Which process a loopback connection comes from. The kernel tells: the connection's inode is in `/proc/net/tcp`, and
//! the owner of that inode has it among its file descriptors.

use std::fs;
use std::net::SocketAddr;

/// The one of `pids` that holds the other end of a connection from `source` to `target`.
pub fn owner(source: SocketAddr, target: SocketAddr, pids: &[Option<u32>]) -> Option<usize> {
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let inode = inode(&table, source, target)?;
    let link = format!("socket:[{inode}]");
    let holds = |pid: u32| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let mut targets = descriptors.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        targets.any(|target| target.to_str() == Some(&link)).then_some(())
    };
    pids.iter().position(|pid| pid.and_then(holds).is_some())
}

/// The inode of the socket whose local address is `local` and whose peer is `remote`.
fn inode(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u64> {
    let (local, remote) = (hexadecimal(local)?, hexadecimal(remote)?);
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields.get(1) == Some(&local.as_str()) && fields.get(2) == Some(&remote.as_str()))
            .then(|| fields.get(9)?.parse().ok())
            .flatten()
    })
}

/// The kernel prints the address as a number of the machine's byte order.
fn hexadecimal(address: SocketAddr) -> Option<String> {
    let SocketAddr::V4(address) = address else { return None };
    Some(format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port()))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn our_own_connection_is_ours() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let target = listener.local_addr().expect("bound");
        let client = TcpStream::connect(target).expect("connected");
        let (_server, source) = listener.accept().expect("accepted");
        assert_eq!(client.local_addr().expect("connected"), source);
        assert_eq!(owner(source, target, &[None, Some(std::process::id())]), Some(1));
        assert_eq!(owner(source, target, &[Some(1)]), None);
    }
}
