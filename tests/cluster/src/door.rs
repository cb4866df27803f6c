//! A client's way to one node, with a switch for what it sends and one for what it is sent: so an answer can be lost that
//! the node has given.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::mesh::{Link, connection};

pub struct Door {
    address: SocketAddr,
    requests: Arc<watch::Sender<Link>>,
    answers: Arc<watch::Sender<Link>>,
    _proxy: JoinSet<()>,
}

impl Door {
    /// To a node's address for clients.
    pub async fn to(node: &str) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (requests, answers) =
            (Arc::new(watch::Sender::new(Link::Pass)), Arc::new(watch::Sender::new(Link::Pass)));
        let mut proxy = JoinSet::new();
        let (there, back, node) = (requests.clone(), answers.clone(), node.to_owned());
        proxy.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((inbound, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                let (there, back, node) = (there.subscribe(), back.subscribe(), node.clone());
                connections.spawn(async move { connection(inbound, &node, there, back).await });
            }
        });
        Ok(Self { address, requests, answers, _proxy: proxy })
    }

    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// What the node is asked no longer arrives.
    pub fn hold_requests(&self) {
        self.requests.send_replace(Link::Hold);
    }

    /// The node is asked, and its answers no longer arrive.
    pub fn hold_answers(&self) {
        self.answers.send_replace(Link::Hold);
    }

    /// Breaks every connection, with all that was held back.
    pub fn slam(&self) {
        self.requests.send_replace(Link::Reset);
        self.answers.send_replace(Link::Reset);
    }

    pub fn open(&self) {
        self.requests.send_replace(Link::Pass);
        self.answers.send_replace(Link::Pass);
    }
}
