//! A node's metrics, as `/metrics` shows them.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(10);

/// Values by name and labels, like `setpoint_keys` or `setpoint_requests_total{method="...",code="0"}`.
#[derive(Clone, Debug, Default)]
pub struct Scrape(BTreeMap<String, f64>);

impl Scrape {
    /// Asks the node at this HTTP address; none if it does not answer.
    pub async fn of(address: &str) -> Option<Self> {
        let exchange = async {
            let mut stream = TcpStream::connect(address).await.ok()?;
            let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.ok()?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.ok()?;
            String::from_utf8(answer).ok()
        };
        let answer = tokio::time::timeout(PATIENCE, exchange).await.ok().flatten()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.starts_with("HTTP/1.1 200").then(|| Self::parse(body))
    }

    fn parse(text: &str) -> Self {
        let values = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Self(values.collect())
    }

    /// The value of one series; none if it is not there.
    pub fn get(&self, series: &str) -> Option<f64> {
        self.0.get(series).copied()
    }

    /// Every series there is, with its value.
    pub fn all(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(series, value)| (series.as_str(), *value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_found_by_name_and_labels() {
        let text = "# TYPE a gauge\na 3\nb_total{method=\"/x y\",code=\"0\"} 12\n# EOF\n";
        let scrape = Scrape::parse(text);
        assert_eq!(scrape.get("a"), Some(3.0));
        assert_eq!(scrape.get("b_total{method=\"/x y\",code=\"0\"}"), Some(12.0));
        assert_eq!(scrape.get("c"), None);
        assert_eq!(scrape.all().count(), 2);
    }
}
