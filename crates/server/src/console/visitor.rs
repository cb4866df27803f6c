//! Where a request of the HTTP port comes from, as services know it from the client port.

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tonic::transport::server::{Connected as _, TcpConnectInfo};

use crate::door::Door;

#[derive(Clone, Debug)]
pub struct Visitor(pub TcpConnectInfo);

impl Connected<IncomingStream<'_, Door>> for Visitor {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        Self(stream.io().connect_info())
    }
}
