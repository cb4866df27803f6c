//! The least of HTTP: one GET on loopback, with a bound on time and size.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(2);
const BYTES_MAX: u64 = 64 << 10;

/// Status and body, or nothing if nobody answers properly.
pub async fn get(address: &str, path: &str) -> Option<(u16, String)> {
    let exchange = async {
        let mut connection = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        connection.take(BYTES_MAX).read_to_end(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let answer = timeout(PATIENCE, exchange).await.ok()?.ok()?;
    parse(&String::from_utf8_lossy(&answer))
}

fn parse(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_its_status_and_its_body() {
        let ready = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n";
        assert_eq!(parse(ready), Some((200, "ok".to_owned())));
        assert_eq!(parse("HTTP/1.1 503 Unavailable\r\n\r\nno"), Some((503, "no".to_owned())));
        assert_eq!(parse("SSH-2.0-OpenSSH\r\n\r\n"), None);
        assert_eq!(parse(""), None);
    }
}
