//! One HTTP request to one replica.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(5);

/// What a replica says of itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Page {
    pub version: String,
    pub replica: String,
    pub node: String,
    pub pid: u64,
}

/// Asks at an address; why not, if there is no good answer.
pub async fn get(address: &str) -> Result<Page, String> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let answer = tokio::time::timeout(PATIENCE, exchange).await.map_err(|_| "no answer".to_owned())?;
    let answer = answer.map_err(|error| format!("{address}: {error}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(format!("{address}: it broke off"))?;
    if !head.starts_with("HTTP/1.1 200") {
        return Err(format!("{address}: {head}"));
    }
    let said: Value = serde_json::from_str(body).map_err(|error| format!("{address}: {error}"))?;
    let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
    let pid = said["pid"].as_u64().unwrap_or_default();
    Ok(Page { version: text("version"), replica: text("replica"), node: text("node"), pid })
}
