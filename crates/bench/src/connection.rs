//! Client connections: how one is made, and how clients share them.
//!
//! One connection per ten clients, the same number to each node, so that no system gains from where its leader
//! happens to be. A client stays on its connection; with fewer clients than nodes each goes round all nodes.

use std::net::SocketAddr;
use std::time::Duration;

use setpoint_api::etcdserverpb::kv_client::KvClient;
use setpoint_api::setpoint::v1::objects_client::ObjectsClient;
use tonic::transport::{Channel, Endpoint};

const CLIENTS_PER_CONNECTION: usize = 10;
/// A list of 500 objects is half a mebibyte; the margin is for larger `--keys` experiments.
const ANSWER_BYTES_MAX: usize = 64 << 20;
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;

/// A connection that is made on first use and made again when it breaks.
pub fn connection(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}"))
        .expect("a socket address makes a valid URI")
        .tcp_nodelay(true)
        .connect_timeout(Duration::from_secs(2))
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .connect_lazy()
}

/// The key-value service behind a connection.
pub fn kv(connection: Channel) -> KvClient<Channel> {
    KvClient::new(connection).max_decoding_message_size(ANSWER_BYTES_MAX)
}

/// The objects behind a connection.
pub fn objects(connection: Channel) -> ObjectsClient<Channel> {
    ObjectsClient::new(connection).max_decoding_message_size(ANSWER_BYTES_MAX)
}

/// The connections a number of clients share.
#[derive(Clone, Debug)]
pub struct Connections {
    all: Vec<Channel>,
    nodes: usize,
    clients: usize,
}

impl Connections {
    /// Connections to the nodes at these addresses for that many clients.
    pub fn new(addresses: &[SocketAddr], clients: usize) -> Self {
        let all = (0..connections_for(clients, addresses.len()))
            .map(|index| connection(addresses[index % addresses.len()]))
            .collect();
        Self { all, nodes: addresses.len(), clients }
    }

    /// The connection a client stays on.
    pub fn of_client(&self, client: usize) -> Channel {
        self.all[client % self.all.len()].clone()
    }

    /// The key-value services a client uses in turn.
    pub fn lanes(&self, client: usize) -> Lanes {
        let count = if self.clients < self.nodes { self.nodes } else { 1 };
        Lanes { services: (0..count).map(|step| kv(self.of_client(client + step))).collect(), next: 0 }
    }
}

/// The key-value services one client uses, one call after the other.
#[derive(Clone, Debug)]
pub struct Lanes {
    services: Vec<KvClient<Channel>>,
    next: usize,
}

impl Lanes {
    pub fn next(&mut self) -> &mut KvClient<Channel> {
        self.next = (self.next + 1) % self.services.len();
        &mut self.services[self.next]
    }
}

/// One per ten clients, rounded up so that every node has equally many.
fn connections_for(clients: usize, nodes: usize) -> usize {
    clients.div_ceil(CLIENTS_PER_CONNECTION).next_multiple_of(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_equally_many_connections() {
        for (clients, expected) in [(1, 3), (10, 3), (50, 6), (100, 12), (1_000, 102)] {
            assert_eq!(connections_for(clients, 3), expected);
        }
    }

    #[tokio::test]
    async fn a_lone_client_goes_round_all_nodes() {
        let addresses: Vec<SocketAddr> =
            (1..=3).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
        assert_eq!(Connections::new(&addresses, 1).lanes(0).services.len(), 3);
        assert_eq!(Connections::new(&addresses, 100).lanes(0).services.len(), 1);
    }
}
