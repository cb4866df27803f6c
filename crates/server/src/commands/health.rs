//! `setpointd health`: asks `/readyz` of a node, or of any other of our programs: all have it. Meant for container health
//! checks, so it needs nothing but the address.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::options::HealthArgs;

const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    #[error("nothing answers at {endpoint}; is it running, and is that its --listen-http address?")]
    Unreachable {
        endpoint: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{answer}")]
    NotReady { answer: String },
}

pub fn run(args: &HealthArgs) -> Result<String, HealthError> {
    let answer = ask(without_scheme(&args.endpoint))
        .map_err(|source| HealthError::Unreachable { endpoint: args.endpoint.clone(), source })?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    if head.split(' ').nth(1) == Some("200") {
        Ok(body.trim().to_owned())
    } else {
        Err(HealthError::NotReady { answer: body.trim().to_owned() })
    }
}

/// Copied from a browser or a scraper, an address has a scheme and a slash.
fn without_scheme(endpoint: &str) -> &str {
    endpoint.strip_prefix("http://").unwrap_or(endpoint).trim_end_matches('/')
}

fn ask(endpoint: &str) -> std::io::Result<String> {
    let address = endpoint.to_socket_addrs()?.next().ok_or(std::io::ErrorKind::AddrNotAvailable)?;
    let mut connection = TcpStream::connect_timeout(&address, PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    write!(connection, "GET /readyz HTTP/1.1\r\nHost: {endpoint}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    connection.take(64 << 10).read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_a_url() {
        assert_eq!(without_scheme("http://127.0.0.1:7402/"), "127.0.0.1:7402");
        assert_eq!(without_scheme("127.0.0.1:7402"), "127.0.0.1:7402");
    }
}
