//! A call of the public API on behalf of a page: with its token, from its address.

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::{HeaderValue, header, request::Parts};
use setpoint_api::etcdserverpb::cluster_client::ClusterClient;
use setpoint_api::etcdserverpb::maintenance_client::MaintenanceClient;
use setpoint_api::setpoint::v1::access_client::AccessClient;
use setpoint_api::setpoint::v1::ledgers_client::LedgersClient;
use setpoint_api::setpoint::v1::objects_client::ObjectsClient;
use tonic::Request;
use tonic::transport::server::TcpConnectInfo;

use super::{Console, Visitor};
use crate::listen::Calls;

/// Larger than any page of objects: a page ends at the server's own bound.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Who asks, and the way in.
pub struct Call {
    calls: Calls,
    token: Option<HeaderValue>,
    from: Option<TcpConnectInfo>,
}

impl FromRequestParts<Console> for Call {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Self, Self::Rejection> {
        let from =
            parts.extensions.get::<ConnectInfo<Visitor>>().map(|ConnectInfo(Visitor(info))| info.clone());
        let token = parts.headers.get(header::AUTHORIZATION).cloned();
        Ok(Self { calls: console.calls.clone(), token, from })
    }
}

impl Call {
    pub fn objects(&self) -> ObjectsClient<Calls> {
        ObjectsClient::new(self.calls.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub fn ledgers(&self) -> LedgersClient<Calls> {
        LedgersClient::new(self.calls.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub fn access(&self) -> AccessClient<Calls> {
        AccessClient::new(self.calls.clone())
    }

    pub fn cluster(&self) -> ClusterClient<Calls> {
        ClusterClient::new(self.calls.clone())
    }

    pub fn maintenance(&self) -> MaintenanceClient<Calls> {
        MaintenanceClient::new(self.calls.clone())
    }

    pub fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(from) = &self.from {
            request.extensions_mut().insert(from.clone());
        }
        // A header that is no ASCII is no token of ours; without one the asker is anonymous.
        if let Some(token) = self.token.as_ref().and_then(|token| token.to_str().ok()?.parse().ok()) {
            request.metadata_mut().insert("authorization", token);
        }
        request
    }
}
