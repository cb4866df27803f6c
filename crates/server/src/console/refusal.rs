//! A refusal as pages read it: a status of HTTP, and one sentence.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tonic::{Code, Status};

#[derive(Debug)]
pub struct Refused {
    status: StatusCode,
    sentence: String,
    retry_after_s: Option<u64>,
}

impl Refused {
    pub fn new(status: StatusCode, sentence: impl Into<String>) -> Self {
        Self { status, sentence: sentence.into(), retry_after_s: None }
    }

    pub fn json(&self) -> Value {
        json!({ "error": self.sentence, "status": self.status.as_u16() })
    }
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        let http = match status.code() {
            Code::Unauthenticated => StatusCode::UNAUTHORIZED,
            Code::PermissionDenied => StatusCode::FORBIDDEN,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::InvalidArgument => StatusCode::BAD_REQUEST,
            Code::OutOfRange => StatusCode::GONE,
            Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let wait = setpoint_api::status::retry_after(&status);
        let retry_after_s = wait.map(|wait| wait.as_millis().div_ceil(1000) as u64);
        Self { status: http, sentence: status.message().to_owned(), retry_after_s }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.json())).into_response();
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
