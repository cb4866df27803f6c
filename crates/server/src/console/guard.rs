//! Who may ask the console: not other sites by way of an operator's browser.
//!
//! A page of another site can make the browser send requests here. It must not read the answers. Two things see to it: a `Host` that is an
//! address or a name we know to be ours, so that no foreign name can be pointed at us (DNS rebinding); and a header that a browser
//! sends to another site only if that site agrees first, which this one never does. Not here: what the asker may see, which roles say.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::exposure::Exposure;
use super::refusal::Refused;
use super::visitor::Visitor;

/// What every question for data carries. Only a page of ours, or a program, can send it.
pub const MARK: HeaderName = HeaderName::from_static("x-setpoint-console");

/// Everything a page needs comes from here, nothing runs that is not a file of ours, and nobody may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub struct Guard {
    /// Names that are ours, beside addresses and `localhost`.
    pub names: Vec<String>,
    pub exposure: Exposure,
}

impl Guard {
    fn knows(&self, headers: &HeaderMap) -> bool {
        let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return false };
        let name = without_port(host).trim_end_matches('.');
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        bare.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.names.iter().any(|ours| ours.eq_ignore_ascii_case(name))
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn is_foreign(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
    !headers.contains_key(MARK) || matches!(site, Some("cross-site" | "same-site"))
}

/// Before everything of the console.
pub async fn host(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    if guard.knows(request.headers()) {
        return next.run(request).await;
    }
    let sentence = "this node does not know that name; use its address, or name it with --console-hosts\n";
    (StatusCode::MISDIRECTED_REQUEST, sentence).into_response()
}

/// Before data.
pub async fn data(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    if is_foreign(request.headers()) {
        let sentence = "data is for the console's own pages; programs use the client port, or send X-Setpoint-Console: 1";
        return Refused::new(StatusCode::FORBIDDEN, sentence).into_response();
    }
    let visitor = request.extensions().get::<ConnectInfo<Visitor>>();
    let from = visitor.and_then(|ConnectInfo(Visitor(info))| info.remote_addr()).map(|address| address.ip());
    match guard.exposure.refuses(from) {
        Some(sentence) => Refused::new(StatusCode::FORBIDDEN, sentence).into_response(),
        None => next.run(request).await,
    }
}

/// After everything of the console.
pub async fn headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knows(host: &str) -> bool {
        let guard =
            Guard { names: vec!["n1".to_owned(), "box.example".to_owned()], exposure: Exposure::Everybody };
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().expect("a value"));
        guard.knows(&headers)
    }

    #[test]
    fn a_name_that_is_not_ours_is_not_answered() {
        for ours in [
            "127.0.0.1:7402",
            "127.0.0.1",
            "[::1]:7402",
            "localhost:7402",
            "LOCALHOST",
            "n1:7402",
            "Box.Example.",
        ] {
            assert!(knows(ours), "{ours}");
        }
        for foreign in
            ["evil.example:7402", "127.0.0.1.evil.example", "localhost.evil.example", "", "n1.evil:7402"]
        {
            assert!(!knows(foreign), "{foreign}");
        }
        assert!(!Guard { names: Vec::new(), exposure: Exposure::Everybody }.knows(&HeaderMap::new()));
    }

    #[test]
    fn data_is_not_for_pages_of_other_sites() {
        let foreign = |mark: bool, site: Option<&str>| {
            let mut headers = HeaderMap::new();
            if mark {
                headers.insert(MARK, HeaderValue::from_static("1"));
            }
            if let Some(site) = site {
                headers.insert("sec-fetch-site", site.parse().expect("a value"));
            }
            is_foreign(&headers)
        };
        assert!(!foreign(true, Some("same-origin")) && !foreign(true, None));
        assert!(foreign(false, None) && foreign(false, Some("same-origin")));
        assert!(foreign(true, Some("cross-site")) && foreign(true, Some("same-site")));
    }
}
