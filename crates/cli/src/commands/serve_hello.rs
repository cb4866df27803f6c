//! `setpoint serve-hello`: a small HTTP server, so that there is something to run on a machine that has nothing else.
//!
//! It answers every request with one line: which replica it is, on which node.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::failure::Failure;
use crate::session::Done;

/// How long a client may take to ask and to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Of a request's head.
const BYTES_MAX: u64 = 16 << 10;
/// Clients at a time; further ones are closed at once.
const CLIENTS_MAX: usize = 64;
/// While the system can open nothing.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Args)]
pub struct ServeHello {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// Port to listen on
    #[arg(long, env = "PORT")]
    port: u16,
    /// What it says it is
    #[arg(long, env = "SETPOINT_REPLICA", default_value = "nobody's replica")]
    replica: String,
    /// Where it says it runs
    #[arg(long, env = "SETPOINT_NODE", default_value = "no node")]
    node: String,
}

impl ServeHello {
    /// Until the process is told to end.
    pub async fn run(self) -> Done {
        let listener = TcpListener::bind((self.host, self.port)).await.map_err(|error| {
            Failure::failed(format!(
                "cannot listen on {}:{}: {error}; choose another --port",
                self.host, self.port
            ))
        })?;
        serve(&listener, &format!("Hello from {} on {}\n", self.replica, self.node)).await
    }
}

async fn serve(listener: &TcpListener, line: &str) -> ! {
    let line: Arc<str> = line.into();
    let places = Arc::new(Semaphore::new(CLIENTS_MAX));
    loop {
        let Ok((connection, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        if let Ok(place) = places.clone().try_acquire_owned() {
            let line = line.clone();
            tokio::spawn(async move {
                // A client that went away, or is too slow, is no concern of the others.
                let _ = timeout(PATIENCE, answer(connection, &line)).await;
                drop(place);
            });
        }
    }
}

/// One request, one answer.
async fn answer(mut connection: TcpStream, line: &str) -> io::Result<()> {
    let (reading, mut writing) = connection.split();
    let mut head = BufReader::new(reading.take(BYTES_MAX));
    let mut read = String::new();
    while head.read_line(&mut read).await? > 0 && !read.ends_with("\r\n\r\n") {}
    let kind = "content-type: text/plain; charset=utf-8";
    let length = line.len();
    let answer =
        format!("HTTP/1.1 200 OK\r\n{kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{line}");
    writing.write_all(answer.as_bytes()).await?;
    writing.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_request_is_answered_with_the_line_also_while_others_hold_on() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        tokio::spawn(async move { serve(&listener, "Hello from r on n\n").await });
        let _silent = TcpStream::connect(address).await.expect("connects, and says nothing");
        for _ in 0..3 {
            let mut client = TcpStream::connect(address).await.expect("connects");
            client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("asked");
            let mut answer = String::new();
            timeout(PATIENCE, client.read_to_string(&mut answer)).await.expect("in time").expect("answered");
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.ends_with("\r\n\r\nHello from r on n\n"), "{answer}");
        }
    }
}
